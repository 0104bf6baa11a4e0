//! How one call hangs between its caller and the back that answers.
//!
//! A front, the command line or a test holds the [`RunningCall`]; a back holds the [`ReplyTo`]. Both
//! are plain calls on one thread: what a peer wrote is in the other peer's outbox before the
//! reader reads again. Who is slow says [`Pressure::Full`], and later that there is room again.

mod backlog;
mod in_flight;
mod inbox;
mod running;
mod slow;
mod switch;
mod tickets;

use std::rc::Rc;

use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::json::Json;

use crate::secrets;

pub use crate::transport::io::{BYTES_WAITING_MAX, Pressure};
pub use inbox::Inbox;

pub(crate) use backlog::Backlog;
pub use in_flight::{Counted, InFlight};
pub(crate) use running::{Answers, Calls};
pub(crate) use slow::Slow;
pub use switch::{RunningCalls, answer};
pub use tickets::{ByTicket, Tickets};

/// What may wait for a slow reader before it counts as full.
pub const ITEMS_WAITING_MAX: usize = 16;

/// What may wait to be written to a client before nothing more is read from it.
pub const UNREAD_BYTES_MAX: usize = 1024 * 1024;

/// What becomes of a connection when one of its callers reads slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It carries one call at a time, so it waits.
    Alone,
    /// Others wait for it too: the slow caller's call fails.
    ///
    /// Of many streams each waits for those whom it has filled, and for no other.
    Shared,
    /// Each call has credit of its own, which its machine keeps: a slow caller is given no more, and
    /// nobody waits for it.
    Credited,
}

/// The asking side of calls: where replies go.
pub trait Asker {
    /// The next of the reply to `ticket`.
    fn receive(&self, ticket: Ticket, down: Down) -> Pressure;
    /// The way up has room again, after [`Pressure::Full`].
    fn resume(&self, ticket: Ticket);
    /// Has whoever asks used up its share of memory? More of the reply would be refused.
    fn is_full(&self, ticket: Ticket) -> bool {
        let _ = ticket;
        false
    }
}

/// The answering side of calls: where more of a running call goes.
pub trait Answerer {
    /// More of the call `ticket`.
    fn send(&self, ticket: Ticket, up: Up) -> Pressure;
    /// The way down has room again, after [`Pressure::Full`].
    fn resume(&self, ticket: Ticket);
}

/// Where the reply to one call goes. Held by the back.
#[derive(Clone)]
pub struct ReplyTo {
    asker: Rc<dyn Asker>,
    ticket: Ticket,
}

impl ReplyTo {
    /// The reply goes to `asker`, who knows the call as `ticket`.
    pub fn new(asker: Rc<dyn Asker>, ticket: Ticket) -> ReplyTo {
        ReplyTo { asker, ticket }
    }

    /// The next of the reply. No secret of ours leaves by it.
    #[inline]
    pub fn send(&self, mut down: Down) -> Pressure {
        secrets::mask_failure(&mut down);
        self.asker.receive(self.ticket, down)
    }

    /// The way up has room again.
    pub fn resume(&self) {
        self.asker.resume(self.ticket);
    }

    /// Has whoever asks used up its share of memory?
    pub fn is_full(&self) -> bool {
        self.asker.is_full(self.ticket)
    }
}

/// The way from one caller to its running call. Dropping it cancels the call.
pub struct RunningCall {
    answerer: Option<Rc<dyn Answerer>>,
    ticket: Ticket,
    /// Counts as under way for as long as this lives.
    counted: Option<Counted>,
}

impl RunningCall {
    /// The call is with `answerer`, who knows it as `ticket`.
    pub fn new(answerer: Rc<dyn Answerer>, ticket: Ticket) -> RunningCall {
        RunningCall { answerer: Some(answerer), ticket, counted: None }
    }

    /// The call was over before it began.
    pub fn ended() -> RunningCall {
        RunningCall { answerer: None, ticket: Ticket(0), counted: None }
    }

    /// The same, counted among those that are under way.
    pub fn counted_by(mut self, in_flight: &Rc<InFlight>) -> RunningCall {
        if self.answerer.is_some() {
            self.counted = Some(in_flight.enter());
        }
        self
    }

    /// More of the call.
    #[inline]
    pub fn send(&self, up: Up) -> Pressure {
        match &self.answerer {
            Some(answerer) => answerer.send(self.ticket, up),
            None => Pressure::Ready,
        }
    }

    /// The way down has room again.
    pub fn resume(&self) {
        if let Some(answerer) = &self.answerer {
            answerer.resume(self.ticket);
        }
    }

    /// The caller changed its mind, and may say why.
    pub fn cancel(self, why: Option<Json>) {
        let _ = self.send(Up::Cancel(why));
        self.forget();
    }

    /// The call has ended: there is nothing left to cancel.
    pub fn forget(mut self) {
        self.answerer = None;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        if let Some(answerer) = self.answerer.take() {
            let _ = answerer.send(self.ticket, Up::Cancel(None));
        }
    }
}
