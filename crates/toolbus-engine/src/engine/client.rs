//! The joint between a calling machine and the bus: over one connection that is never restarted,
//! or over as many streams as its opener gives.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolbus_proto::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Notice, ONLY, Readiness, Streams, Ticket, Up,
};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::calls::{Answerer, Answers, ByTicket, Calls, Pressure, ReplyTo, RunningCall};
use super::drive::{Closing, Forwarded, ReadNext, drive};
use super::joint::{Direction, Joint, Lanes, Stream};
use super::lane::Lane;
use crate::account::{Account, CutOff};
use crate::task::spawn_local;
use crate::transport::io::{Opener, Sink, Source, Writer};
use crate::wake::Wake;

pub use super::calls::Sharing;

/// Our asking end of one conversation. Dropping it ends whatever calls it has.
pub struct Client<C: Calling + Streams + 'static> {
    inner: Rc<Inner<C>>,
    /// Drives the one stream, or looks at the clock for many.
    task: JoinHandle<()>,
}

struct Inner<C: Calling + Streams + 'static> {
    machine: RefCell<C>,
    calls: Calls,
    lanes: Lanes<Inner<C>>,
    /// Calls that another conversation has taken over: what is said behind them goes there.
    handed_over: RefCell<ByTicket<RunningCall>>,
    /// Rung when a call has ended, all is written, time has passed, or the conversation is over.
    changed: Wake,
    /// Why no call can be taken any more.
    ended: RefCell<Option<Failure>>,
    /// Nothing more will come either.
    is_over: Cell<bool>,
    over: Notify,
}

impl<C: Calling + Channel + 'static> Client<C> {
    /// Drives `machine` over two streams; `name` is what the log calls the peer. Must be
    /// called inside a `LocalSet`.
    pub fn new(
        name: &str,
        machine: C,
        sharing: Sharing,
        source: impl Source + 'static,
        sink: impl Sink + 'static,
    ) -> Client<C> {
        let inner = Inner::new(name, machine, sharing, Lanes::new);
        let driven = inner.clone();
        let task = spawn_local(async move {
            let stream = Stream { joint: &*driven, id: ONLY, lane: &driven.lanes.only };
            drive(&stream, source, sink).await;
            driven.end("the connection ended");
        });
        Client { inner, task }
    }
}

impl<C: Calling + Streams + 'static> Client<C> {
    /// Drives `machine` over the streams that `opener` opens for it. Must be called inside a
    /// `LocalSet`.
    pub fn over(name: &str, machine: C, opener: impl Opener<C> + 'static) -> Client<C> {
        let lanes = |this, account| Lanes::with_opener(this, account, opener);
        // A stream waits for whom it fills: others have streams of their own.
        let inner = Inner::new(name, machine, Sharing::Alone, lanes);
        let task = spawn_local(Lanes::keep(Rc::downgrade(&inner)));
        inner.settle();
        Client { inner, task }
    }

    /// The peer opened a stream.
    pub fn welcome(
        &self,
        head: C::Opening,
        source: impl Source + 'static,
        writer: impl Writer<Head = C::Answer> + 'static,
    ) {
        self.inner.lanes.welcome(head, source, writer);
    }

    /// Asks, at once.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let ended = self.inner.ended.borrow().clone();
        let account = &self.inner.lanes.account;
        if let Some(failure) = ended.or_else(|| account.is_full().then(|| account.refusal())) {
            let _ = down.send(Down::Done(Err(failure)));
            return RunningCall::ended();
        }
        let ticket = self.inner.calls.insert(down);
        self.inner.machine.borrow_mut().call(Instant::now(), ticket, call);
        self.inner.lanes.weigh(&self.inner.machine);
        self.inner.settle();
        RunningCall::new(self.inner.clone(), ticket)
    }

    /// Calls this whenever the peer says that its tools have changed.
    pub fn watch(&self, changed: Rc<dyn Fn()>) {
        self.inner.calls.watch(changed);
    }

    /// Hands calls of which nothing has been written to another conversation, where `start`
    /// asks. Their callers notice nothing.
    pub fn hand_over(&self, start: impl Fn(Call, ReplyTo) -> RunningCall) {
        let unsent = self.inner.machine.borrow_mut().take_unsent();
        for (ticket, call) in unsent {
            if let Some(down) = self.inner.calls.remove(ticket) {
                let running = start(call, down);
                self.inner.handed_over.borrow_mut().insert(ticket, running);
            }
        }
        self.inner.settle();
    }

    /// Waits until the machine says so after a call has ended, all is written or time has
    /// passed, and tells whether it did: the conversation may be over before. One task at a time
    /// may wait.
    pub async fn until(&self, is_so: impl Fn(&C) -> bool) -> bool {
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

    /// Waits until the conversation is over. One task at a time may wait, here or above.
    pub async fn ended(&self) {
        self.until(|_| false).await;
    }

    /// Would a call still go out?
    pub fn takes_calls(&self) -> bool {
        self.inner.ended.borrow().is_none()
    }

    /// How many streams it has, open or about to be.
    pub fn streams(&self) -> usize {
        self.inner.lanes.count()
    }

    /// What the machine has to say about itself.
    pub fn ask<T>(&self, question: impl FnOnce(&C) -> T) -> T {
        question(&self.inner.machine.borrow())
    }

    /// Ends the conversation, and all its calls with `failure`.
    pub fn fail(&self, failure: Failure) {
        self.inner.fail(failure);
    }

    /// Says the wire's goodbye and waits until the other side has closed, for ever if it does
    /// not: its owner closes by dropping the client.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.machine.borrow_mut().close(Instant::now(), Duration::MAX);
        inner.lanes.only.closing.set(Closing::AfterWriting);
        inner.settle();
        if !C::IS_ONE {
            return inner.lanes.all_over().await;
        }
        loop {
            let over = inner.over.notified();
            if inner.is_over.get() {
                return;
            }
            over.await;
        }
    }
}

impl<C: Calling + Streams + 'static> Drop for Client<C> {
    fn drop(&mut self) {
        self.task.abort();
        self.inner.end("the connection was closed");
        self.inner.lanes.abort();
    }
}

impl<C: Calling + Streams> Inner<C> {
    fn new(
        name: &str,
        machine: C,
        sharing: Sharing,
        lanes: impl FnOnce(Weak<Inner<C>>, Account) -> Lanes<Inner<C>>,
    ) -> Rc<Inner<C>> {
        let account = Account::new(format!("`{name}`"));
        let inner = Rc::new_cyclic(|this| Inner {
            machine: RefCell::new(machine),
            calls: Calls::new(name.to_owned(), sharing),
            lanes: lanes(this.clone(), account.clone()),
            handed_over: RefCell::default(),
            changed: Wake::default(),
            ended: RefCell::default(),
            is_over: Cell::new(false),
            over: Notify::new(),
        });
        let end: Weak<Inner<C>> = Rc::downgrade(&inner);
        account.on_cut(end);
        inner
    }

    /// Something was said to the machine from this side.
    fn settle(&self) {
        match C::IS_ONE {
            true => {
                self.calls.deliver(self, Some(&self.lanes.only));
                self.lanes.only.wake.ring();
            }
            false => {
                self.pass_on(None);
                self.lanes.apply_stream_requests(&self.machine, |_| {});
            }
        }
    }

    /// Nothing more will come: ends whatever is left.
    fn end(&self, why: &str) {
        let failure = match self.machine.borrow().readiness() {
            Readiness::Broken(fault) => fault.failure.clone(),
            _ => Failure::new(FailureKind::Gone, why),
        };
        self.fail(failure);
    }

    fn fail(&self, failure: Failure) {
        if self.is_over.replace(true) {
            return;
        }
        let failure = self.ended.borrow_mut().get_or_insert(failure).clone();
        Calling::handle_lost(&mut *self.machine.borrow_mut(), Instant::now(), &failure);
        while self.calls.deliver(self, None) != Forwarded::Nothing {}
        self.calls.end_all(&failure);
        // Streams that are left end as the machine says.
        self.lanes.apply_stream_requests(&self.machine, |_| {});
        self.lanes.wake_all();
        self.changed.ring();
        self.over.notify_waiters();
    }
}

impl<C: Calling + Streams> Answers for Inner<C> {
    fn poll_down(&self) -> Option<(Ticket, Down)> {
        self.machine.borrow_mut().poll_down()
    }

    fn poll_notice(&self) -> Option<Notice> {
        self.machine.borrow_mut().poll_notice()
    }

    fn up(&self, ticket: Ticket, up: Up) {
        self.machine.borrow_mut().up(Instant::now(), ticket, up);
    }

    fn call_ended(&self) {
        self.changed.ring();
    }

    fn hold(&self, ticket: Ticket, is_held: bool) {
        self.machine.borrow_mut().hold(Instant::now(), ticket, is_held);
    }

    fn poll_room(&self) -> Option<Ticket> {
        self.machine.borrow_mut().poll_room()
    }
}

impl<C: Calling + Streams> Joint for Inner<C> {
    type Machine = C;

    fn machine(&self) -> &RefCell<C> {
        &self.machine
    }

    fn lanes(&self) -> &Lanes<Inner<C>> {
        &self.lanes
    }

    fn pass_on(&self, lane: Option<&Rc<Lane>>) -> Forwarded {
        let passed = self.calls.deliver(self, lane);
        // One stream is read to its end first.
        if !C::IS_ONE && matches!(self.machine.borrow().readiness(), Readiness::Broken(_)) {
            self.end("");
        }
        passed
    }

    /// What cannot be said on the wire is refused in its turn.
    fn handed_out(&self, lane: &Rc<Lane>) -> Forwarded {
        self.pass_on(Some(lane))
    }

    fn is_paused(&self, lane: &Lane) -> bool {
        lane.is_held() || self.calls.are_all_full()
    }

    /// It was cut off: what still comes is not wanted.
    fn is_over(&self) -> bool {
        self.is_over.get() && self.lanes.only.closing.get() == Closing::Now
    }

    /// A conversation that cannot go on is ended as the machine says.
    fn part(&self, lane: &Lane) -> Option<ReadNext> {
        let Readiness::Broken(Fault { farewell, .. }) = *self.machine.borrow().readiness() else {
            return None;
        };
        if farewell == Farewell::Abrupt {
            lane.closing.set(Closing::Now);
        }
        Some(ReadNext::Close)
    }

    /// What was not answered by now never will be.
    fn ended(&self, _flow: Flow) -> Option<ReadNext> {
        self.lanes.only.closing.set(Closing::Now);
        Some(ReadNext::Close)
    }

    fn report_unwritten(&self, lane: &Lane, bytes: usize) {
        self.calls.report_unwritten(lane, bytes);
        self.calls.make_room(self);
    }

    fn sent(&self) {
        self.changed.ring();
    }

    fn time_passed(&self) {
        self.changed.ring();
    }

    /// No call can follow, but the answer to an earlier one may be under way: it comes before
    /// the end, which is near.
    fn broke(&self, direction: Direction, error: &io::Error) {
        if direction == Direction::Writing {
            let message = format!("the connection broke: {error}");
            self.ended.borrow_mut().get_or_insert(Failure::new(FailureKind::Gone, message));
        }
    }
}

/// The peer takes too much, and takes none of it: nothing more is expected of it.
impl<C: Calling + Streams> CutOff for Inner<C> {
    fn cut_off(&self, why: &Failure) {
        self.lanes.only.closing.set(Closing::Now);
        self.fail(why.clone());
    }
}

impl<C: Calling + Streams> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Some(elsewhere) = self.handed_over.borrow().get(&ticket) {
            return elsewhere.send(up);
        }
        if let Up::Cancel(_) = up {
            self.calls.cancelled(ticket);
        }
        let (weight, is_part) = (up.weight(), matches!(up, Up::Part(_)));
        if !C::IS_ONE {
            self.machine.borrow_mut().up(self.lanes.moment.now(Instant::now), ticket, up);
            let mut room = Pressure::Ready;
            self.lanes.apply_stream_requests(&self.machine, |lane| {
                room = room.max(self.calls.sent(ticket, weight, lane));
            });
            if !is_part {
                self.settle();
            }
            return room;
        }
        let mut room = self.calls.sent(ticket, weight, &self.lanes.only);
        self.machine.borrow_mut().up(self.lanes.moment.now(Instant::now), ticket, up);
        if self.calls.are_credited() && self.machine.borrow_mut().is_full(ticket) {
            room = Pressure::Full;
        }
        // Parts are many, and what comes of one has time until the loop has its turn.
        match is_part {
            true => self.lanes.only.wake.ring(),
            false => self.settle(),
        }
        room
    }

    fn resume(&self, ticket: Ticket) {
        if let Some(elsewhere) = self.handed_over.borrow().get(&ticket) {
            return elsewhere.resume();
        }
        self.calls.go_on(ticket);
        if self.calls.are_credited() {
            Answers::hold(self, ticket, false);
        }
        self.lanes.only.wake.ring();
    }
}
