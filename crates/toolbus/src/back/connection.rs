//! A calling end over one connection that nobody restarts: a socket, or memory in tests.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use tokio::task::{JoinHandle, spawn_local};
use toolbus_proto::channel::{Calling, Flow, Outbox, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::link::{Answerer, BYTES_WAITING_MAX, Room, Slot, Slots, Uplink};
use crate::pump::reactor::{Closing, Driven, Sink, Source, drive};
use crate::pump::wake::Wake;

/// What becomes of a connection when one of its callers reads slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// It carries one call at a time, so it waits.
    Alone,
    /// Others wait for it too: the slow caller's call fails.
    Shared,
}

/// Our asking end of one connection.
pub struct Connection<C: Calling + 'static> {
    inner: Rc<Inner<C>>,
    pump: JoinHandle<()>,
}

struct Inner<C> {
    machine: RefCell<C>,
    slots: Slots,
    sharing: Sharing,
    wake: Wake,
    /// A caller reads slowly, and we wait for it.
    is_paused: Cell<bool>,
    /// Bytes that wait to be written, as far as the pump has told.
    waiting: Cell<usize>,
    /// Somebody was told that there is no room.
    told_full: Cell<bool>,
    closing: Cell<Closing>,
}

impl<C: Calling + 'static> Connection<C> {
    /// Drives `machine` over two streams. Must be called inside a `LocalSet`.
    pub fn new(
        machine: C,
        sharing: Sharing,
        source: impl Source + 'static,
        sink: impl Sink + 'static,
    ) -> Connection<C> {
        let inner = Rc::new(Inner {
            machine: RefCell::new(machine),
            slots: Slots::default(),
            sharing,
            wake: Wake::default(),
            is_paused: Cell::new(false),
            waiting: Cell::new(0),
            told_full: Cell::new(false),
            closing: Cell::new(Closing::No),
        });
        let driven = inner.clone();
        let pump = spawn_local(async move {
            drive(&*driven, source, sink).await;
            driven.lost(Instant::now(), "the connection ended");
        });
        Connection { inner, pump }
    }

    /// Asks, at once.
    pub fn start(&self, call: Call, down: Slot) -> Uplink {
        let ticket = self.inner.slots.insert(down);
        self.inner.machine.borrow_mut().call(Instant::now(), ticket, call);
        self.inner.deliver();
        self.inner.wake.ring();
        Uplink::new(self.inner.clone(), ticket)
    }

    /// Says goodbye; what is under way is cancelled.
    pub async fn close(mut self) {
        self.inner.machine.borrow_mut().close(Instant::now());
        self.inner.closing.set(Closing::AfterWriting);
        self.inner.deliver();
        self.inner.wake.ring();
        // Ends when the other side has seen our end and closed its own.
        let _ = (&mut self.pump).await;
    }
}

impl<C: Calling + 'static> Drop for Connection<C> {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl<C: Calling> Inner<C> {
    /// Hands out what came back. Nothing stays borrowed meanwhile.
    fn deliver(&self) {
        loop {
            let down = self.machine.borrow_mut().poll_down();
            let Some((ticket, down)) = down else { break };
            if self.slots.deliver(ticket, down) == Room::Full {
                self.handle_slow(ticket);
            }
        }
        while self.machine.borrow_mut().poll_notice().is_some() {}
    }

    fn handle_slow(&self, ticket: Ticket) {
        match self.sharing {
            Sharing::Alone => self.is_paused.set(true),
            Sharing::Shared => {
                let message = "the reply was not read in time, and others wait behind it";
                let failure = Failure::new(FailureKind::TooLarge, message);
                use toolbus_proto::channel::Down;
                let _ = self.slots.deliver(ticket, Down::Done(Err(failure)));
                self.machine.borrow_mut().up(Instant::now(), ticket, Up::Cancel(None));
            }
        }
    }

    fn lost(&self, now: Instant, why: &str) {
        let failure = Failure::new(FailureKind::Gone, why);
        self.machine.borrow_mut().handle_lost(now, &failure);
        self.deliver();
    }

    fn flow(&self, flow: Flow) -> Flow {
        if flow == Flow::More && self.is_paused.get() { Flow::Pause } else { flow }
    }
}

impl<C: Calling> Driven for Inner<C> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> Flow {
        if self.is_paused.get() {
            return Flow::Pause;
        }
        let flow = self.machine.borrow_mut().handle_bytes(now, input);
        self.deliver();
        self.flow(flow)
    }

    fn eof(&self, now: Instant, input: &mut BytesMut) -> Flow {
        let flow = self.machine.borrow_mut().handle_eof(now, input);
        self.deliver();
        self.closing.set(Closing::Now);
        flow
    }

    fn timeout(&self, now: Instant) {
        self.machine.borrow_mut().handle_timeout(now);
        self.deliver();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.borrow().poll_timeout()
    }

    fn transmit(&self, out: &mut Outbox) {
        self.machine.borrow_mut().poll_transmit(out);
        self.waiting.set(out.len());
        self.deliver();
    }

    fn wrote(&self, left: usize) {
        self.waiting.set(left);
        if left < BYTES_WAITING_MAX / 2 && self.told_full.take() {
            self.slots.resume_all();
        }
    }

    fn write_failed(&self, now: Instant, error: io::Error) -> Flow {
        self.lost(now, &format!("the connection broke: {error}"));
        Flow::Close
    }

    fn closing(&self) -> Closing {
        self.closing.get()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }
}

impl<C: Calling> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Room {
        self.waiting.set(self.waiting.get() + up.weight());
        self.machine.borrow_mut().up(Instant::now(), ticket, up);
        self.deliver();
        self.wake.ring();
        if self.waiting.get() < BYTES_WAITING_MAX {
            return Room::Enough;
        }
        self.told_full.set(true);
        Room::Full
    }

    fn resume(&self, _ticket: Ticket) {
        self.is_paused.set(false);
        self.wake.ring();
    }
}
