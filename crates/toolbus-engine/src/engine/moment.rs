//! The present, looked at once for all that is said in it.

use std::cell::Cell;
use std::time::Instant;

/// A moment: what is said between two turns of its handler is said at the same time.
/// A clock costs more than a small message does, and deadlines are not that short.
#[derive(Debug, Default)]
pub(crate) struct Moment(Cell<Option<Instant>>);

impl Moment {
    /// When it began, if it has; else the clock is looked at, and it begins now.
    pub(crate) fn now(&self, clock: impl FnOnce() -> Instant) -> Instant {
        let now = self.seen(clock);
        self.0.set(Some(now));
        now
    }

    /// When it began, if it has; else the time, and it does not begin: no turn is near.
    pub(crate) fn seen(&self, clock: impl FnOnce() -> Instant) -> Instant {
        self.0.get().unwrap_or_else(clock)
    }

    /// The handler of what was said has its turn: what follows is said later.
    pub(crate) fn pass(&self) {
        self.0.set(None);
    }
}
