//! Calls that wait for their turn: nothing of them has been written.

use std::collections::VecDeque;
use std::time::Instant;

use crate::channel::{Ticket, Up};
use crate::tool::{Call, Failure, FailureKind};

const CALLS_MAX: usize = 1024;
/// What may be said behind one of them meanwhile.
const UPS_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) call: Call,
    /// What was said behind it meanwhile.
    pub(super) ups: Vec<Up>,
    ups_bytes: usize,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One more, or why not.
    pub(super) fn push(&mut self, ticket: Ticket, call: Call) -> Result<(), Failure> {
        if CALLS_MAX <= self.waiting.len() {
            let message = format!("more than {CALLS_MAX} calls wait for this connection");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        self.waiting.push_back(Waiting { ticket, call, ups: Vec::new(), ups_bytes: 0 });
        Ok(())
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// More of one that waits; gives why it waits no longer, if so.
    pub(super) fn up(&mut self, ticket: Ticket, up: Up) -> Option<Failure> {
        let at = self.waiting.iter().position(|waiting| waiting.ticket == ticket)?;
        let waiting = &mut self.waiting[at];
        let failure = match up {
            Up::Cancel(_) => cancelled(),
            up => {
                // Many empty ones must not be free.
                waiting.ups_bytes += up.weight() + size_of::<Up>();
                waiting.ups.push(up);
                if waiting.ups_bytes <= UPS_BYTES_MAX {
                    return None;
                }
                let message = format!("more than {UPS_BYTES_MAX} bytes before its turn came");
                Failure::new(FailureKind::TooLarge, message)
            }
        };
        self.waiting.remove(at);
        Some(failure)
    }

    /// When the next of them has waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(Waiting::give_up_at).min()
    }

    /// Those who have waited long enough.
    pub(super) fn take_late(&mut self, now: Instant) -> VecDeque<Waiting> {
        self.take(|waiting| waiting.give_up_at().is_some_and(|at| at <= now))
    }

    /// Those behind whom nothing was said: whoever has gone on would have to begin anew.
    pub(super) fn take_unfollowed(&mut self) -> VecDeque<Waiting> {
        self.take(|waiting| waiting.ups.is_empty())
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    fn take(&mut self, which: impl FnMut(&Waiting) -> bool) -> VecDeque<Waiting> {
        let (taken, left) = self.take_all().into_iter().partition(which);
        self.waiting = left;
        taken
    }
}

impl Waiting {
    fn give_up_at(&self) -> Option<Instant> {
        self.call.deadline.instant(self.call.deadline.asked)
    }
}

pub(super) fn cancelled() -> Failure {
    Failure::new(FailureKind::Cancelled, "cancelled")
}
