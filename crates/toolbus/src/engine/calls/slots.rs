//! The calls in the hands of one back: which ticket's reply goes where, and who is slow.

use std::cell::{Cell, RefCell};

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::tool::{Failure, FailureKind};

use super::{Backlog, ByTicket, Pressure, ReplyTo, Sharing, Tickets};

/// The calls in the hands of one back.
pub(crate) struct Replies {
    sharing: Sharing,
    by_ticket: RefCell<ByTicket<ReplyTo>>,
    next: Cell<u64>,
    /// Callers who were given all that they can take for now.
    slow: RefCell<Tickets>,
    /// One of them has not yet had its turn to read.
    needs_turn: Cell<bool>,
    /// What waits to be written on the way up.
    backlog: Backlog,
}

/// What became of something that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Delivery {
    /// Its caller has it.
    Taken,
    /// Its caller has it and can take no more before it had its turn.
    Filled,
    /// Its caller had been full already: the call has failed and is to be cancelled.
    Overflowed,
}

impl Replies {
    pub(crate) fn new(sharing: Sharing) -> Replies {
        Replies {
            sharing,
            by_ticket: RefCell::default(),
            next: Cell::new(0),
            slow: RefCell::default(),
            needs_turn: Cell::new(false),
            backlog: Backlog::default(),
        }
    }

    /// Gives a new call its ticket.
    pub(crate) fn insert(&self, slot: ReplyTo) -> Ticket {
        let ticket = Ticket(self.next.get());
        self.next.set(ticket.0 + 1);
        self.by_ticket.borrow_mut().insert(ticket, slot);
        ticket
    }

    /// Passes on what came; the end of a call frees its place.
    pub(crate) fn deliver(&self, ticket: Ticket, down: Down) -> Delivery {
        match &down {
            Down::Done(_) => {
                self.end(ticket, down);
                return Delivery::Taken;
            }
            // The caller keeps only the latest: there is always room for that.
            Down::Progress(_) => {}
            _ if self.sharing == Sharing::Shared && self.slow.borrow().contains(&ticket) => {
                let message = "the reply was not read in time, and others wait behind it";
                let failure = Failure::new(FailureKind::TooLarge, message);
                self.end(ticket, Down::Done(Err(failure)));
                return Delivery::Overflowed;
            }
            _ => {}
        }
        let slot = self.by_ticket.borrow().get(&ticket).cloned();
        // Nothing is borrowed any more: whoever receives it may call right back.
        match slot.map(|slot| slot.send(down)) {
            Some(Pressure::Full) if self.slow.borrow_mut().insert(ticket) => {
                self.needs_turn.set(true);
                Delivery::Filled
            }
            _ => Delivery::Taken,
        }
    }

    /// Must the rest wait until a caller had its turn to read?
    pub(crate) fn needs_turn(&self) -> bool {
        self.needs_turn.get()
    }

    /// Everybody had its turn: who is still full is slow.
    pub(crate) fn turn_passed(&self) {
        self.needs_turn.set(false);
    }

    /// Ends whatever calls are left.
    pub(crate) fn end_all(&self, failure: &Failure) {
        let mut tickets: Vec<_> = self.by_ticket.borrow().keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            self.end(ticket, Down::Done(Err(failure.clone())));
        }
    }

    fn end(&self, ticket: Ticket, done: Down) {
        self.go_on(ticket);
        self.backlog.forget(ticket);
        let slot = self.by_ticket.borrow_mut().remove(&ticket);
        if let Some(slot) = slot {
            let _ = slot.send(done);
        }
    }

    /// Is somebody slow for whom everything waits?
    pub(crate) fn is_paused(&self) -> bool {
        self.sharing == Sharing::Alone && !self.slow.borrow().is_empty()
    }

    /// The caller has read what it was given, or wants no more. Tells whether all waited for it.
    pub(crate) fn go_on(&self, ticket: Ticket) -> bool {
        self.slow.borrow_mut().remove(&ticket) && self.sharing == Sharing::Alone
    }

    /// A caller sent something of this weight.
    pub(crate) fn sent(&self, ticket: Ticket, weight: usize) -> Pressure {
        match self.by_ticket.borrow().contains_key(&ticket) {
            true => self.backlog.add(ticket, weight),
            false => Pressure::Ready,
        }
    }

    /// So many bytes wait to be written on the way up.
    pub(crate) fn left(&self, bytes: usize) {
        for ticket in self.backlog.set(bytes) {
            let slot = self.by_ticket.borrow().get(&ticket).cloned();
            if let Some(slot) = slot {
                slot.resume();
            }
        }
    }
}
