//! How long a wire waits for its peers: one const a wire, in the wire's own folder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When the user of a program that shows nothing yet is told what is waited for.
static WAIT_IS_TOLD_MS: AtomicU64 = AtomicU64::new(1800);

/// From now on the user is told so soon what is waited for. For tests, which are not to depend on
/// how fast a machine is.
#[doc(hidden)]
pub fn tell_waits_after(time: Duration) {
    const MAX: Duration = Duration::from_hours(24);
    let time = u64::try_from(time.min(MAX).as_millis()).expect("a day has fewer milliseconds");
    WAIT_IS_TOLD_MS.store(time, Ordering::Relaxed);
}

/// How long a program may show nothing before the user is told what is waited for.
pub fn wait_is_told() -> Duration {
    Duration::from_millis(WAIT_IS_TOLD_MS.load(Ordering::Relaxed))
}

/// How long to wait for a peer at each turn of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the spawn until it is ready.
    pub start: Duration,
    /// What is waited for until then, where a user who has named the wrong wire would wait long.
    pub waits_for: Option<&'static str>,
    /// From the goodbye until SIGTERM; where the peer answers its goodbye, until its input is
    /// closed without that.
    pub stop: Duration,
    /// From SIGTERM until SIGKILL, and from SIGKILL until we look away.
    pub signal: Duration,
    /// From the end of its output until its exit, so that the status told is its own.
    pub exit: Duration,
    /// From its exit until the end of what it wrote, so that last words are in the report.
    pub last_words: Duration,
    /// What the second failed start in a row costs the next one; doubled by each further.
    pub back_off: Duration,
    /// What a failed start costs at most.
    pub back_off_max: Duration,
    /// What a peer gets that has lost the right to a goodbye.
    pub abrupt: Abrupt,
    /// What becomes of calls while a start is put off.
    pub meanwhile: Meanwhile,
    /// From the goodbye to a peer elsewhere until we leave it.
    pub goodbye: Duration,
    /// What each step of a goodbye takes at most once we were told to end.
    pub hurry: Duration,
    /// What calls that we answer have left when we are to stop.
    pub last_calls: Duration,
}

/// How a peer is made to end that has lost the right to a goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abrupt {
    /// By SIGTERM, and by SIGKILL if that does not help.
    Terminate,
    /// By SIGKILL.
    Kill,
}

/// What becomes of calls while a start is put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meanwhile {
    /// They wait for it.
    Wait,
    /// They fail at once and are told when to come again: one list of many backs must not
    /// wait for the one that is broken.
    Refuse,
}

impl Patience {
    /// What a wire gets that says nothing else.
    pub const USUAL: Patience = Patience {
        start: Duration::from_secs(20),
        waits_for: None,
        stop: Duration::from_secs(5),
        signal: Duration::from_secs(2),
        exit: Duration::from_millis(300),
        last_words: Duration::from_secs(1),
        back_off: Duration::from_millis(100),
        back_off_max: Duration::from_secs(5),
        abrupt: Abrupt::Terminate,
        meanwhile: Meanwhile::Wait,
        goodbye: Duration::from_secs(1),
        hurry: Duration::from_secs(1),
        last_calls: Duration::from_secs(5),
    };

    /// The same, but no step of a goodbye takes longer than `limit`.
    pub(crate) fn at_most(self, limit: Duration) -> Patience {
        Patience { stop: self.stop.min(limit), signal: self.signal.min(limit), ..self }
    }

    /// How long the start after `failures` failed ones in a row is put off. The first retry
    /// never is.
    pub fn back_off(&self, failures: u32) -> Duration {
        match failures.checked_sub(2) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                self.back_off.saturating_mul(factor).min(self.back_off_max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_retry_is_free_and_the_last_is_bounded() {
        let waits = [0, 1, 2, 3, 4, 7, 8, 40]
            .map(|failures| Patience::USUAL.back_off(failures).as_millis());
        assert_eq!(waits, [0, 0, 100, 200, 400, 3200, 5000, 5000]);
    }
}
