//! When a program that is run to its end is through, and when it is waited for no longer.
//!
//! Nothing here reads, signals or looks at a clock: the hands are [`Running::read_to_end`] on the
//! reactor and [`shell`](crate::child::shell) on a thread that waits.
//!
//! [`Running::read_to_end`]: super::Running::read_to_end

use std::time::{Duration, Instant};

use super::Stream;
use crate::child::Exit;

/// How often it is looked whether the rest of a session has gone.
const LOOK: Duration = Duration::from_millis(20);

/// How far a program that is run to its end may go.
#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// What is kept of either of its streams.
    pub bytes_max: usize,
    /// When it has run long enough.
    pub give_up_at: Option<Instant>,
    /// From its exit until the end of what it wrote: another process may hold its pipes.
    pub last_words: Duration,
    /// What becomes of the processes that it has left behind.
    pub survivors: Survivors,
}

/// What becomes, at the exit of a program, of the processes that it has left behind in its session.
/// Those that are left in the end are killed when it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    /// Nothing.
    Ignored,
    /// SIGTERM.
    Terminated,
    /// SIGTERM, and their end is waited for, as long as for last words.
    Awaited,
}

/// Why a program was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It still runs.
    TooLate,
    /// It has written too much to its standard output.
    TooMuchOutput,
    /// It has written too much to its standard error.
    TooMuchErrors,
}

/// One run of a program to its end.
#[derive(Debug)]
pub(in crate::child) struct ToEnd {
    limits: RunLimits,
    stage: EndingState,
}

#[derive(Debug)]
enum EndingState {
    Running,
    /// It has exited: what it wrote is read, until then.
    Leaving {
        exit: Exit,
        until: Instant,
        /// When to look again whether its session has gone, if that is waited for.
        look_at: Option<Instant>,
    },
    Over(Result<Exit, Stopped>),
}

impl ToEnd {
    pub(in crate::child) fn new(limits: RunLimits) -> ToEnd {
        ToEnd { limits, stage: EndingState::Running }
    }

    /// Has it not exited yet?
    pub(in crate::child) fn awaits_exit(&self) -> bool {
        matches!(self.stage, EndingState::Running)
    }

    /// Is it to be looked, when time has passed, whether its session has gone?
    pub(in crate::child) fn awaits_session(&self) -> bool {
        matches!(self.stage, EndingState::Leaving { look_at: Some(_), .. })
    }

    /// It has exited; `is_session_left` says whether others are to be waited for.
    pub(in crate::child) fn handle_exit(
        &mut self,
        now: Instant,
        exit: Exit,
        is_session_left: bool,
    ) {
        let look_at = is_session_left.then_some(now + LOOK);
        self.stage = EndingState::Leaving { exit, until: now + self.limits.last_words, look_at };
    }

    pub(in crate::child) fn handle_timeout(&mut self, now: Instant, is_session_left: bool) {
        match &mut self.stage {
            EndingState::Running
                if self.limits.give_up_at.is_some_and(|give_up| give_up <= now) =>
            {
                self.stage = EndingState::Over(Err(Stopped::TooLate));
            }
            EndingState::Leaving { exit, until, .. } if *until <= now => {
                self.stage = EndingState::Over(Ok(*exit));
            }
            EndingState::Leaving { look_at, .. } => {
                *look_at = is_session_left.then_some(now + LOOK);
            }
            EndingState::Running | EndingState::Over(_) => {}
        }
    }

    pub(in crate::child) fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            EndingState::Running => self.limits.give_up_at,
            EndingState::Leaving { until, look_at, .. } => {
                Some(look_at.unwrap_or(until).min(until))
            }
            EndingState::Over(_) => None,
        }
    }

    /// What has come of it, if there is nothing more to wait for.
    pub(in crate::child) fn outcome<I>(
        &self,
        stdout: &Stream<I>,
        stderr: &Stream<I>,
    ) -> Option<Result<Exit, Stopped>> {
        let is_too_much = |stream: &Stream<I>| self.limits.bytes_max < stream.bytes.len();
        match self.stage {
            _ if is_too_much(stdout) => Some(Err(Stopped::TooMuchOutput)),
            _ if is_too_much(stderr) => Some(Err(Stopped::TooMuchErrors)),
            EndingState::Leaving { exit, look_at: None, .. }
                if !stdout.is_open() && !stderr.is_open() =>
            {
                Some(Ok(exit))
            }
            EndingState::Over(outcome) => Some(outcome),
            EndingState::Running | EndingState::Leaving { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RunLimits = RunLimits {
        bytes_max: 4,
        give_up_at: None,
        last_words: Duration::from_secs(2),
        survivors: Survivors::Awaited,
    };

    fn stream(bytes: &str, is_open: bool) -> Stream<()> {
        let mut stream = Stream::new(is_open.then_some(()));
        stream.bytes = bytes.into();
        stream
    }

    #[test]
    fn it_is_over_when_it_has_exited_and_both_its_streams_have_ended() {
        let (now, exit) = (Instant::now(), Exit::Code(3));
        let mut course = ToEnd::new(LIMITS);
        assert_eq!(course.outcome(&stream("", false), &stream("", false)), None);
        assert_eq!(course.poll_timeout(), None);
        course.handle_exit(now, exit, false);
        assert_eq!(course.outcome(&stream("", true), &stream("", false)), None);
        assert_eq!(course.outcome(&stream("", false), &stream("", true)), None);
        assert_eq!(course.outcome(&stream("1234", false), &stream("", false)), Some(Ok(exit)));
    }

    #[test]
    fn streams_that_others_hold_are_not_waited_for_for_ever() {
        let (now, exit) = (Instant::now(), Exit::Signal(9));
        let mut course = ToEnd::new(LIMITS);
        course.handle_exit(now, exit, false);
        let until = now + LIMITS.last_words;
        assert_eq!(course.poll_timeout(), Some(until));
        course.handle_timeout(until, false);
        assert_eq!(course.outcome(&stream("", true), &stream("", true)), Some(Ok(exit)));
    }

    #[test]
    fn a_session_that_is_left_is_looked_at_until_it_has_gone() {
        let (now, exit) = (Instant::now(), Exit::Code(0));
        let mut course = ToEnd::new(LIMITS);
        course.handle_exit(now, exit, true);
        let seen = |course: &ToEnd| course.outcome(&stream("", false), &stream("", false));
        assert!(course.awaits_session() && seen(&course).is_none());
        assert_eq!(course.poll_timeout(), Some(now + LOOK));
        course.handle_timeout(now + LOOK, true);
        assert_eq!(course.poll_timeout(), Some(now + 2 * LOOK));
        course.handle_timeout(now + 2 * LOOK, false);
        assert_eq!(seen(&course), Some(Ok(exit)));
    }

    #[test]
    fn one_that_writes_too_much_or_runs_too_long_is_left() {
        let now = Instant::now();
        let mut course = ToEnd::new(RunLimits { give_up_at: Some(now), ..LIMITS });
        let outcome =
            |course: &ToEnd, out, errors| course.outcome(&stream(out, true), &stream(errors, true));
        assert_eq!(outcome(&course, "12345", ""), Some(Err(Stopped::TooMuchOutput)));
        assert_eq!(outcome(&course, "", "12345"), Some(Err(Stopped::TooMuchErrors)));
        assert_eq!(course.poll_timeout(), Some(now));
        course.handle_timeout(now - LOOK, false);
        assert_eq!(outcome(&course, "", ""), None);
        course.handle_timeout(now, false);
        assert_eq!(outcome(&course, "", ""), Some(Err(Stopped::TooLate)));
    }
}
