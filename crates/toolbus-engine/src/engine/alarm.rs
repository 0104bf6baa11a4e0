//! The clock of a machine, for those who tell it the time in a task of their own: they wait until
//! the instant that the machine named last, and are woken when it has named an earlier one.

use std::cell::Cell;
use std::time::Instant;

use super::drive::until;
use crate::wake::Wake;

/// When the keeper of a machine looks at the clock. One task may wait for it.
#[derive(Default)]
pub struct Alarm {
    /// What the keeper waits for.
    armed: Cell<Option<Instant>>,
    bell: Wake,
}

/// Why the keeper goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The machine is to be told the time.
    Due,
    /// There is something else to do, or the machine has another timeout.
    Rung,
}

impl Alarm {
    /// The machine wants to be told the time by then. Rings if the keeper would be late.
    pub fn set(&self, timeout: Option<Instant>) {
        if timeout.is_some_and(|timeout| self.armed.get().is_none_or(|armed| timeout < armed)) {
            self.bell.ring();
        }
    }

    /// Wakes the keeper, whatever the time.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// Waits for the timeout of the machine, or to be rung before.
    pub(crate) async fn wait(&self, timeout: Option<Instant>) -> Woken {
        self.armed.set(timeout);
        tokio::select! {
            () = self.bell.rung() => Woken::Rung,
            () = until(timeout) => Woken::Due,
        }
    }

    /// Has the machine told the time whenever it wants to be, for ever.
    pub async fn keep(
        &self,
        poll_timeout: impl Fn() -> Option<Instant>,
        handle_timeout: impl Fn(),
    ) {
        loop {
            if self.wait(poll_timeout()).await == Woken::Due {
                handle_timeout();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_an_earlier_timeout_wakes_the_keeper() {
        let alarm = Alarm::default();
        let at =
            |seconds| Some((tokio::time::Instant::now() + Duration::from_secs(seconds)).into_std());
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = pin!(alarm.wait(at(10)));
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        for later in [None, at(10), at(11)] {
            alarm.set(later);
            assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        }
        alarm.set(at(9));
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Woken::Rung));
        assert_eq!(alarm.wait(at(9)).await, Woken::Due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_told_the_time_when_it_asks() {
        let (alarm, told) = (Alarm::default(), Cell::new(0));
        let begin = tokio::time::Instant::now();
        let timeout =
            || (told.get() < 3).then(|| (begin + Duration::from_secs(told.get())).into_std());
        let keep = alarm.keep(timeout, || told.set(told.get() + 1));
        let _ = tokio::time::timeout(Duration::from_secs(60), keep).await;
        assert_eq!(told.get(), 3);
    }
}
