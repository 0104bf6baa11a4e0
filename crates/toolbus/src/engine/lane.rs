//! What the hands know of one stream beside its bytes: who waits for it, and for whom it waits.

use std::cell::{Cell, RefCell};

use toolbus_proto::channel::{Down, StreamLost, Ticket};

use super::calls::{Backlog, ByTicket};
use super::drive::Closing;
use super::wake::Wake;

/// One stream, as its joint sees it.
pub(crate) struct Lane {
    /// Rung when something changed from another side: a call, a reply, room.
    pub(super) wake: Wake,
    /// Rung when the one for whom the stream waited has taken what it was given.
    pub(super) taken: Wake,
    /// What waits to be written, and whose calls wait for that.
    pub(super) backlog: Backlog,
    /// The latest progress of calls, where the peer does not even read the earlier.
    progress: RefCell<ByTicket<Down>>,
    /// How many calls it waits for.
    waits_for: Cell<usize>,
    /// One of them was just filled, and has not had its turn to read.
    needs_turn: Cell<bool>,
    /// Why there will be no more to read, if it did not end well.
    pub(super) cut: RefCell<Option<StreamLost>>,
    /// What becomes of our writing side, whatever the machine says.
    pub(super) closing: Cell<Closing>,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            wake: Wake::default(),
            taken: Wake::default(),
            backlog: Backlog::default(),
            progress: RefCell::default(),
            waits_for: Cell::new(0),
            needs_turn: Cell::new(false),
            cut: RefCell::default(),
            closing: Cell::new(Closing::No),
        }
    }
}

impl Lane {
    /// It is not read until a call goes on.
    pub(super) fn hold(&self) {
        self.waits_for.set(self.waits_for.get() + 1);
    }

    pub(super) fn release(&self) {
        self.waits_for.set(self.waits_for.get() - 1);
    }

    pub(super) fn is_held(&self) -> bool {
        0 < self.waits_for.get()
    }

    /// Must the rest wait until a call had its turn to take what it was given?
    pub(super) fn needs_turn(&self) -> bool {
        self.needs_turn.get()
    }

    pub(super) fn need_turn(&self) {
        self.needs_turn.set(true);
    }

    /// All had their turn: who is still full is slow.
    pub(super) fn turn_passed(&self) {
        self.needs_turn.set(false);
    }

    /// Keeps the progress of a call until the peer reads on. Only the latest counts, but texts
    /// are joined.
    pub(super) fn put_off(&self, ticket: Ticket, progress: Down) {
        let mut waiting = self.progress.borrow_mut();
        let progress = match (waiting.remove(&ticket), progress) {
            (Some(Down::Progress(earlier)), Down::Progress(later)) => {
                Down::Progress(Down::latest_progress(&earlier, later))
            }
            (_, progress) => progress,
        };
        waiting.insert(ticket, progress);
    }

    /// The call is over: nothing of it waits any more.
    pub(super) fn forget(&self, ticket: Ticket) {
        self.progress.borrow_mut().remove(&ticket);
        self.backlog.forget(ticket);
    }

    pub(super) fn take_progress(&self) -> ByTicket<Down> {
        match self.backlog.is_full() || self.progress.borrow().is_empty() {
            true => ByTicket::default(),
            false => self.progress.take(),
        }
    }
}
