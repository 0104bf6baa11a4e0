//! Two ends of one wire in memory, shovelling bytes to each other in pieces of any size.
//!
//! A pair writes down what it feeds to each end. Such a recording is what [`faults`] spoils
//! byte by byte.
//!
//! [`faults`]: crate::faults

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Outbox, Readiness, Serving, Ticket, Up,
};
use toolbus_proto::tool::{Call, Failure, FailureKind};

/// What a calling end is fed.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum ToCalling {
    Call(Ticket, Call),
    Up(Ticket, Up),
    Close,
    Bytes(Bytes),
}

/// What a serving end is fed.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum ToServing {
    Down(Ticket, Down),
    Bytes(Bytes),
}

/// A calling and a serving end that talk to each other.
#[derive(Debug)]
pub struct Pair<C, S> {
    /// The present; a test lets time pass by setting it and calling [`Pair::wait_until`].
    pub now: Instant,
    /// The asking end.
    pub calling: C,
    /// The answering end.
    pub serving: S,
    /// All that the calling side has learned.
    pub learned: Vec<(Ticket, Down)>,
    /// All that the serving side was asked.
    pub asked: Vec<(Ticket, Asked)>,
    /// What the calling end was fed.
    pub to_calling: Vec<ToCalling>,
    /// What the serving end was fed.
    pub to_serving: Vec<ToServing>,
    upwards: Pipe,
    downwards: Pipe,
}

/// One direction: what is written and not yet read, and what is read and not yet a frame.
#[derive(Debug, Default)]
struct Pipe {
    written: Outbox,
    under_way: BytesMut,
    input: BytesMut,
}

impl<C: Calling + Channel, S: Serving + Channel> Pair<C, S> {
    /// Two ends that have not said anything to each other.
    pub fn new(now: Instant, calling: C, serving: S) -> Pair<C, S> {
        Pair {
            now,
            calling,
            serving,
            learned: Vec::new(),
            asked: Vec::new(),
            to_calling: Vec::new(),
            to_serving: Vec::new(),
            upwards: Pipe::default(),
            downwards: Pipe::default(),
        }
    }

    /// The caller asks.
    pub fn call(&mut self, ticket: Ticket, call: Call) {
        self.to_calling.push(ToCalling::Call(ticket, call.clone()));
        self.calling.call(self.now, ticket, call);
    }

    /// The caller goes on.
    pub fn up(&mut self, ticket: Ticket, up: Up) {
        self.to_calling.push(ToCalling::Up(ticket, up.clone()));
        self.calling.up(self.now, ticket, up);
    }

    /// The caller says goodbye.
    pub fn close(&mut self) {
        self.to_calling.push(ToCalling::Close);
        self.calling.close(self.now, Duration::ZERO);
    }

    /// The tool replies.
    pub fn down(&mut self, ticket: Ticket, down: Down) {
        self.to_serving.push(ToServing::Down(ticket, down.clone()));
        self.serving.down(self.now, ticket, down);
    }

    /// Carries everything across until neither end has anything to say.
    pub fn run(&mut self) {
        while self.carry(usize::MAX, usize::MAX) {}
    }

    /// Carries at most so many bytes each way. Tells whether there was anything to carry.
    pub fn carry(&mut self, up_bytes_max: usize, down_bytes_max: usize) -> bool {
        let up = self.upwards.carry(self.now, &mut self.calling, up_bytes_max);
        if !up.is_empty() {
            self.to_serving.push(ToServing::Bytes(up.clone()));
        }
        self.upwards.feed(self.now, &mut self.serving, |serving| {
            let before = self.asked.len();
            self.asked.extend(std::iter::from_fn(|| serving.poll_up()));
            before < self.asked.len()
        });
        let down = self.downwards.carry(self.now, &mut self.serving, down_bytes_max);
        if !down.is_empty() {
            self.to_calling.push(ToCalling::Bytes(down.clone()));
        }
        self.downwards.feed(self.now, &mut self.calling, |calling| {
            let before = self.learned.len();
            self.learned.extend(std::iter::from_fn(|| calling.poll_down()));
            before < self.learned.len()
        });
        !up.is_empty() || !down.is_empty()
    }

    /// Lets the calling end see that it is later.
    pub fn wait_until(&mut self, now: Instant) {
        self.now = now;
        self.calling.handle_timeout(now);
        self.serving.handle_timeout(now);
    }

    /// Cuts the wire: what is under way is lost, both ends see the end, and the calling end
    /// is told that its conversation is lost.
    pub fn cut(&mut self) {
        self.serving.handle_eof(self.now, &mut self.upwards.input);
        self.asked.extend(std::iter::from_fn(|| self.serving.poll_up()));
        self.calling.handle_eof(self.now, &mut self.downwards.input);
        let why = match self.calling.readiness() {
            Readiness::Broken(fault) => fault.failure.clone(),
            _ => Failure::new(FailureKind::Gone, "the wire was cut"),
        };
        self.calling.handle_lost(self.now, &why);
        self.learned.extend(std::iter::from_fn(|| self.calling.poll_down()));
    }
}

impl Pipe {
    /// Takes what `from` wants to write and moves at most `bytes_max` of it to the other end.
    fn carry(&mut self, now: Instant, from: &mut impl Channel, bytes_max: usize) -> Bytes {
        from.poll_transmit(&mut self.written);
        self.under_way.extend_from_slice(&self.written.take());
        let count = bytes_max.min(self.under_way.len());
        let moved = self.under_way.split_to(count).freeze();
        self.input.extend_from_slice(&moved);
        if self.under_way.is_empty() {
            from.handle_sent(now);
        }
        moved
    }

    /// Gives what has arrived to `to`. A channel that pauses is asked again for as long as
    /// `taken` says that something was taken out of it.
    fn feed<T: Channel>(
        &mut self,
        now: Instant,
        to: &mut T,
        mut taken: impl FnMut(&mut T) -> bool,
    ) {
        loop {
            let flow = to.handle_bytes(now, &mut self.input);
            let was_taken = taken(to);
            while to.poll_notice().is_some() {}
            if flow != Flow::Pause || !was_taken {
                return;
            }
        }
    }
}
