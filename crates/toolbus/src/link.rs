//! How one call hangs between whoever asked and whoever answers.
//!
//! A front, the command line or a test holds the [`Uplink`]; a back holds the [`Slot`]. Both
//! are plain calls on one thread: what a peer wrote is in the other peer's outbox before the
//! reader reads again. Who is slow says [`Room::Full`], and later that there is room again.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::collect::Collector;
use toolbus_proto::tool::{Failure, Outcome};

/// What may wait for a slow reader before it counts as full.
pub const ITEMS_WAITING_MAX: usize = 16;
/// What may wait for a slow reader, in bytes, before it counts as full.
pub const BYTES_WAITING_MAX: usize = 256 * 1024;

/// Can more be sent right away?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Room {
    /// Go on.
    Enough,
    /// It was taken, but wait until told that there is room again.
    Full,
}

/// The asking side of calls: where replies go.
pub trait Asker {
    /// The next of the reply to `ticket`.
    fn receive(&self, ticket: Ticket, down: Down) -> Room;
    /// The way up has room again, after [`Room::Full`].
    fn resume(&self, ticket: Ticket);
}

/// The answering side of calls: where more of a running call goes.
pub trait Answerer {
    /// More of the call `ticket`.
    fn send(&self, ticket: Ticket, up: Up) -> Room;
    /// The way down has room again, after [`Room::Full`].
    fn resume(&self, ticket: Ticket);
}

/// Where the reply to one call goes. Held by the back.
#[derive(Clone)]
pub struct Slot {
    asker: Rc<dyn Asker>,
    ticket: Ticket,
}

impl Slot {
    /// The reply goes to `asker`, who knows the call as `ticket`.
    pub fn new(asker: Rc<dyn Asker>, ticket: Ticket) -> Slot {
        Slot { asker, ticket }
    }

    /// The next of the reply.
    pub fn send(&self, down: Down) -> Room {
        self.asker.receive(self.ticket, down)
    }

    /// The way up has room again.
    pub fn resume(&self) {
        self.asker.resume(self.ticket);
    }
}

/// The way from one caller to its running call. Dropping it cancels the call.
pub struct Uplink {
    answerer: Option<Rc<dyn Answerer>>,
    ticket: Ticket,
}

impl Uplink {
    /// The call is with `answerer`, who knows it as `ticket`.
    pub fn new(answerer: Rc<dyn Answerer>, ticket: Ticket) -> Uplink {
        Uplink { answerer: Some(answerer), ticket }
    }

    /// The call was over before it began.
    pub fn ended() -> Uplink {
        Uplink { answerer: None, ticket: Ticket(0) }
    }

    /// More of the call.
    pub fn send(&self, up: Up) -> Room {
        self.answerer.as_ref().map_or(Room::Enough, |answerer| answerer.send(self.ticket, up))
    }

    /// The way down has room again.
    pub fn resume(&self) {
        if let Some(answerer) = &self.answerer {
            answerer.resume(self.ticket);
        }
    }

    /// The call has ended: there is nothing left to cancel.
    pub fn forget(mut self) {
        self.answerer = None;
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        if let Some(answerer) = self.answerer.take() {
            let _ = answerer.send(self.ticket, Up::Cancel(None));
        }
    }
}

/// The calls in the hands of one back: which ticket's reply goes where.
#[derive(Default)]
pub(crate) struct Slots {
    by_ticket: RefCell<HashMap<Ticket, Slot>>,
    next: Cell<u64>,
}

impl Slots {
    /// Gives a new call its ticket.
    pub(crate) fn insert(&self, slot: Slot) -> Ticket {
        let ticket = Ticket(self.next.get());
        self.next.set(ticket.0 + 1);
        self.by_ticket.borrow_mut().insert(ticket, slot);
        ticket
    }

    /// Passes on what came; the end of a call frees its place.
    pub(crate) fn deliver(&self, ticket: Ticket, down: Down) -> Room {
        let slot = match down {
            Down::Done(_) => self.by_ticket.borrow_mut().remove(&ticket),
            _ => self.by_ticket.borrow().get(&ticket).cloned(),
        };
        // Nothing is borrowed any more: whoever receives it may call right back.
        slot.map_or(Room::Enough, |slot| slot.send(down))
    }

    /// Tells everybody that the way up has room again.
    pub(crate) fn resume_all(&self) {
        let slots: Vec<_> = self.by_ticket.borrow().values().cloned().collect();
        slots.iter().for_each(Slot::resume);
    }
}

/// A mailbox for one reply, for callers who await: the command line, scenarios, tests.
#[derive(Default)]
pub struct Inbox {
    state: RefCell<InboxState>,
}

#[derive(Default)]
struct InboxState {
    waiting: VecDeque<Down>,
    bytes: usize,
    /// The sender was told that there is no room.
    full: bool,
    /// The way up has room again.
    may_send: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// An empty mailbox, and the slot that fills it.
    pub fn new() -> (Rc<Inbox>, Slot) {
        let inbox = Rc::new(Inbox::default());
        let slot = Slot::new(inbox.clone(), Ticket(0));
        (inbox, slot)
    }

    /// The next of the reply.
    pub async fn next(&self, uplink: &Uplink) -> Down {
        let (down, was_full) = poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            let Some(down) = state.waiting.pop_front() else {
                state.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            state.bytes -= down.weight();
            let has_room = state.waiting.is_empty();
            let was_full = has_room && std::mem::take(&mut state.full);
            Poll::Ready((down, was_full))
        })
        .await;
        if was_full {
            uplink.resume();
        }
        down
    }

    /// How many items wait to be taken.
    pub fn waiting(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// Waits until the way up has room again.
    pub async fn room(&self) {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if std::mem::take(&mut state.may_send) {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The whole reply, collected into one outcome.
    pub async fn whole(&self, uplink: Uplink) -> Result<Outcome, Failure> {
        let mut collector = Collector::new();
        loop {
            let down = self.next(&uplink).await;
            let is_done = matches!(down, Down::Done(_));
            if let Some(outcome) = collector.take(down) {
                if is_done {
                    uplink.forget();
                }
                return outcome;
            }
        }
    }
}

impl Asker for Inbox {
    fn receive(&self, _ticket: Ticket, down: Down) -> Room {
        let mut state = self.state.borrow_mut();
        state.bytes += down.weight();
        match (state.waiting.back_mut(), down) {
            // Nobody needs to know how far it was before it is where it is now.
            (Some(Down::Progress(old)), Down::Progress(new)) => {
                let old = std::mem::replace(old, new);
                state.bytes -= old.as_bytes().len();
            }
            (_, down) => state.waiting.push_back(down),
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        let is_full = ITEMS_WAITING_MAX <= state.waiting.len() || BYTES_WAITING_MAX <= state.bytes;
        state.full |= is_full;
        if is_full { Room::Full } else { Room::Enough }
    }

    fn resume(&self, _ticket: Ticket) {
        let mut state = self.state.borrow_mut();
        state.may_send = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}
