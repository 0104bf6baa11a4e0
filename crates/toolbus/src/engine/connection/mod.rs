//! A calling end over one connection that nobody restarts: a socket, or memory in tests.

#[cfg(feature = "http")]
mod exchange;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use tokio::task::{JoinHandle, spawn_local};
use toolbus_proto::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Notice, Outbox, Readiness, Ticket, Up,
};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::engine::calls::{Answerer, Delivery, Pressure, Replies, ReplyTo, RunningCall};
use crate::engine::drive::{Closing, Drivable, Forwarded, ReadNext, Sink, Source, drive};
use crate::engine::moment::Moment;
use crate::engine::wake::Wake;

pub use crate::engine::calls::Sharing;
#[cfg(feature = "http")]
pub(crate) use exchange::{Exchanging, exchange};

/// Our asking end of one connection. Dropping it ends whatever calls it has.
pub struct Connection<C: Calling + Channel + 'static> {
    inner: Rc<Inner<C>>,
    pump: JoinHandle<()>,
}

struct Inner<C> {
    machine: RefCell<C>,
    slots: Replies,
    wake: Wake,
    /// Rung when the caller has taken all it was given, where no other waits.
    taken: Wake,
    /// When something was said that the pump has not heard yet.
    moment: Moment,
    /// Rung when a call has ended, all is written, or the connection is over.
    changed: Wake,
    closing: Cell<Closing>,
    /// Why no call can be taken any more.
    ended: RefCell<Option<Failure>>,
    /// Nothing more will come either.
    is_over: Cell<bool>,
}

impl<C: Calling + Channel + 'static> Connection<C> {
    /// Drives `machine` over two streams. Must be called inside a `LocalSet`.
    pub fn new(
        machine: C,
        sharing: Sharing,
        source: impl Source + 'static,
        sink: impl Sink + 'static,
    ) -> Connection<C> {
        let inner = Inner::new(machine, sharing);
        let driven = inner.clone();
        let pump = spawn_local(async move {
            drive(&*driven, source, sink).await;
            driven.end("the connection ended");
        });
        Connection { inner, pump }
    }

    /// Asks, at once.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let ended = self.inner.ended.borrow().clone();
        if let Some(failure) = ended {
            let _ = down.send(Down::Done(Err(failure)));
            return RunningCall::ended();
        }
        let ticket = self.inner.slots.insert(down);
        self.inner.machine.borrow_mut().call(Instant::now(), ticket, call);
        self.inner.settle();
        RunningCall::new(self.inner.clone(), ticket)
    }

    /// Waits until the machine says so after a call has ended or all is written, and tells
    /// whether it did: the connection may be over before. One task at a time may wait.
    pub(crate) async fn until(&self, is_so: impl Fn(&C) -> bool) -> bool {
        loop {
            if self.inner.is_over.get() {
                return false;
            }
            if is_so(&self.inner.machine.borrow()) {
                return true;
            }
            self.inner.changed.rung().await;
        }
    }

    /// Waits until the connection is over. One task at a time may wait, here or above.
    pub(crate) async fn over(&self) {
        self.until(|_| false).await;
    }

    /// Would a call still go out?
    pub(crate) fn takes_calls(&self) -> bool {
        self.inner.ended.borrow().is_none()
    }

    /// What the machine has to say about itself.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&C) -> T) -> T {
        question(&self.inner.machine.borrow())
    }

    /// Says the wire's goodbye and waits until the other side has closed, for ever if it does
    /// not: whoever drops this future closes.
    pub async fn close(mut self) {
        self.inner.machine.borrow_mut().close(Instant::now());
        self.inner.closing.set(Closing::AfterWriting);
        self.inner.settle();
        let _ = (&mut self.pump).await;
    }
}

impl<C: Calling + Channel + 'static> Drop for Connection<C> {
    fn drop(&mut self) {
        self.pump.abort();
        self.inner.end("the connection was closed");
    }
}

impl<C: Calling + Channel> Inner<C> {
    fn new(machine: C, sharing: Sharing) -> Rc<Inner<C>> {
        Rc::new(Inner {
            machine: RefCell::new(machine),
            slots: Replies::new(sharing),
            wake: Wake::default(),
            taken: Wake::default(),
            moment: Moment::default(),
            changed: Wake::default(),
            closing: Cell::new(Closing::No),
            ended: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    /// Something was said to the machine from this side.
    fn settle(&self) {
        self.deliver();
        self.wake.ring();
    }

    /// Hands out what came back. Nothing stays borrowed meanwhile.
    fn deliver(&self) -> Forwarded {
        let mut passed = Forwarded::Nothing;
        loop {
            if self.slots.needs_turn() {
                return Forwarded::EnoughForNow;
            }
            let down = self.machine.borrow_mut().poll_down();
            let Some((ticket, down)) = down else { break };
            passed = Forwarded::Something;
            if let Down::Done(_) = down {
                self.changed.ring();
            }
            match self.slots.deliver(ticket, down) {
                Delivery::Taken | Delivery::Filled => {}
                Delivery::Overflowed => {
                    self.machine.borrow_mut().up(Instant::now(), ticket, Up::Cancel(None));
                }
            }
        }
        loop {
            let notice = self.machine.borrow_mut().poll_notice();
            // Whoever asked is told of what ends a call; nobody else minds.
            match notice {
                Some(Notice::Noted(rule)) => tracing::info!("note: {rule}"),
                Some(notice) => tracing::debug!("{notice:?}"),
                None => return passed,
            }
        }
    }

    /// Nothing more will come: ends whatever is left.
    fn end(&self, why: &str) {
        let failure = match self.machine.borrow().readiness() {
            Readiness::Broken(fault) => fault.failure.clone(),
            _ => Failure::new(FailureKind::Gone, why),
        };
        let failure = self.ended.borrow_mut().get_or_insert(failure).clone();
        self.machine.borrow_mut().handle_lost(Instant::now(), &failure);
        while self.deliver() != Forwarded::Nothing {
            self.slots.turn_passed();
        }
        self.slots.end_all(&failure);
        self.is_over.set(true);
        self.changed.ring();
    }

    /// A conversation that cannot go on is ended as the machine says.
    fn part(&self) -> Option<ReadNext> {
        let Readiness::Broken(Fault { farewell, .. }) = *self.machine.borrow().readiness() else {
            return None;
        };
        if farewell == Farewell::Abrupt {
            self.closing.set(Closing::Now);
        }
        Some(ReadNext::Close)
    }
}

impl<C: Calling + Channel> Drivable for Inner<C> {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        self.slots.turn_passed();
        loop {
            let flow = match self.slots.is_paused() {
                true => Flow::Pause,
                false => self.machine.borrow_mut().handle_bytes(now, input),
            };
            match ReadNext::after(flow, self.deliver()) {
                Some(ReadNext::Turn) => return ReadNext::Turn,
                Some(next) => return self.part().unwrap_or(next),
                None => {}
            }
        }
    }

    /// What was not answered by now never will be.
    fn eof(&self, now: Instant, input: &mut BytesMut) -> ReadNext {
        self.machine.borrow_mut().handle_eof(now, input);
        self.closing.set(Closing::Now);
        ReadNext::Close
    }

    fn timeout(&self, now: Instant) {
        self.machine.borrow_mut().handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.borrow().poll_timeout()
    }

    fn transmit(&self, out: &mut Outbox) -> Forwarded {
        self.moment.pass();
        self.machine.borrow_mut().poll_transmit(out);
        self.deliver()
    }

    fn left(&self, bytes: usize) {
        self.slots.left(bytes);
    }

    fn sent(&self, now: Instant) {
        self.machine.borrow_mut().handle_sent(now);
        self.changed.ring();
    }

    /// No call can follow, but the answer to an earlier one may be under way: it comes before
    /// the end, which is near.
    fn write_failed(&self, _now: Instant, error: io::Error) {
        let message = format!("the connection broke: {error}");
        self.ended.borrow_mut().get_or_insert(Failure::new(FailureKind::Gone, message));
    }

    fn closing(&self) -> Closing {
        match self.closing.get() {
            Closing::No if self.machine.borrow().is_finished() => Closing::AfterWriting,
            closing => closing,
        }
    }

    fn has_ended(&self, _now: Instant) -> bool {
        false
    }

    fn wake(&self) -> &Wake {
        &self.wake
    }

    fn taken(&self) -> Option<&Wake> {
        Some(&self.taken)
    }
}

impl<C: Calling + Channel> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.slots.go_on(ticket);
        }
        let room = self.slots.sent(ticket, up.weight());
        let is_part = matches!(up, Up::Part(_));
        self.machine.borrow_mut().up(self.moment.now(Instant::now), ticket, up);
        // Parts are many, and what comes of one has time until the pump has its turn.
        match is_part {
            true => self.wake.ring(),
            false => self.settle(),
        }
        room
    }

    fn resume(&self, ticket: Ticket) {
        if self.slots.go_on(ticket) {
            self.taken.ring();
        }
        self.wake.ring();
    }
}
