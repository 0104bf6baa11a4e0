//! A mailbox for one reply, for callers who await: the command line, scenarios, tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::collect::Collector;
use toolbus_proto::tool::{Failure, Outcome};

use super::{Asker, BYTES_WAITING_MAX, ITEMS_WAITING_MAX, Pressure, ReplyTo, RunningCall};

/// A mailbox for one reply. One task at a time may wait at it.
#[derive(Default)]
pub struct Inbox {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Down>,
    bytes: usize,
    /// The sender was told that there is no room.
    full: bool,
    /// The way up has room again, or the call has ended and takes whatever is sent to it.
    may_send: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// An empty mailbox, and where the reply goes that fills it.
    pub fn new() -> (Rc<Inbox>, ReplyTo) {
        let inbox = Rc::new(Inbox::default());
        let reply_to = ReplyTo::new(inbox.clone(), Ticket(0));
        (inbox, reply_to)
    }

    /// The next of the reply.
    pub async fn next(&self, running: &RunningCall) -> Down {
        let (down, was_full) = poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            let Some(down) = state.waiting.pop_front() else {
                return state.wait(context);
            };
            state.bytes -= down.weight();
            let was_full = state.waiting.is_empty() && std::mem::take(&mut state.full);
            Poll::Ready((down, was_full))
        })
        .await;
        if was_full {
            running.resume();
        }
        down
    }

    /// How many items wait to be taken.
    pub fn waiting(&self) -> usize {
        self.state.borrow().waiting.len()
    }

    /// Waits until the way up has room again, after [`Pressure::Full`].
    pub async fn room(&self) {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match std::mem::take(&mut state.may_send) {
                true => Poll::Ready(()),
                false => state.wait(context),
            }
        })
        .await;
    }

    /// The whole reply, collected into one outcome.
    pub async fn whole(&self, running: RunningCall) -> Result<Outcome, Failure> {
        let mut collector = Collector::new();
        loop {
            let down = self.next(&running).await;
            let is_done = matches!(down, Down::Done(_));
            if let Some(outcome) = collector.take(down) {
                if is_done {
                    running.forget();
                }
                return outcome;
            }
        }
    }
}

impl State {
    fn wait<T>(&mut self, context: &Context<'_>) -> Poll<T> {
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Asker for Inbox {
    fn receive(&self, _ticket: Ticket, down: Down) -> Pressure {
        let mut state = self.state.borrow_mut();
        state.wake();
        state.bytes += down.weight();
        state.may_send |= matches!(down, Down::Done(_));
        match (down, state.waiting.back_mut()) {
            (Down::Progress(later), Some(Down::Progress(waiting))) => {
                let weights = waiting.as_bytes().len() + later.as_bytes().len();
                *waiting = Down::latest_progress(waiting, later);
                let weight = waiting.as_bytes().len();
                state.bytes = state.bytes - weights + weight;
            }
            (down, _) => state.waiting.push_back(down),
        }
        if state.waiting.len() < ITEMS_WAITING_MAX && state.bytes < BYTES_WAITING_MAX {
            return Pressure::Ready;
        }
        state.full = true;
        Pressure::Full
    }

    fn resume(&self, _ticket: Ticket) {
        let mut state = self.state.borrow_mut();
        state.may_send = true;
        state.wake();
    }
}
