//! How much waits to be written to one peer, and who was told to wait because of it.

use std::cell::{Cell, RefCell};

use toolbus_proto::channel::Ticket;

use super::{BYTES_WAITING_MAX, Pressure, Tickets, UNREAD_BYTES_MAX};

/// The bytes that wait for one peer. Kept beside its outbox, which only the pump can see.
#[derive(Default)]
pub(crate) struct Backlog {
    bytes: Cell<usize>,
    /// The calls that were told to wait.
    held_back: RefCell<Tickets>,
}

impl Backlog {
    /// `ticket` added something of this weight.
    pub(crate) fn add(&self, ticket: Ticket, weight: usize) -> Pressure {
        self.bytes.set(self.bytes.get() + weight);
        if !self.is_full() {
            return Pressure::Ready;
        }
        self.held_back.borrow_mut().insert(ticket);
        Pressure::Full
    }

    pub(crate) fn is_full(&self) -> bool {
        BYTES_WAITING_MAX <= self.bytes.get()
    }

    /// Does so much wait that the peer should read before it is read from?
    pub(crate) fn is_unread(&self) -> bool {
        UNREAD_BYTES_MAX <= self.bytes.get()
    }

    /// The call is over: it waits no more.
    pub(crate) fn forget(&self, ticket: Ticket) {
        self.held_back.borrow_mut().remove(&ticket);
    }

    /// So much waits in truth. Gives the calls that may go on: only when half is gone, so that
    /// they do not come one by one.
    pub(crate) fn set(&self, bytes: usize) -> Tickets {
        self.bytes.set(bytes);
        match bytes <= BYTES_WAITING_MAX / 2 && !self.held_back.borrow().is_empty() {
            true => self.held_back.take(),
            false => Tickets::default(),
        }
    }
}
