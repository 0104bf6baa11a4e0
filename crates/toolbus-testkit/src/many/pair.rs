//! Two ends of one wire over many streams in memory, and what each of them was fed.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Down, Flow, Machine, Outbox, Serving, StreamId, StreamLost, Streams, Ticket,
    Up, Writing,
};
use toolbus_proto::tool::{Call, Failure, FailureKind};

/// What an end over many streams is fed.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Fed {
    Call(Ticket, Call),
    Up(Ticket, Up),
    Down(Ticket, Down),
    Opened(StreamId, String),
    Answered(StreamId, String),
    Bytes(StreamId, Bytes),
    Eof(StreamId),
    Lost(StreamId, StreamLost),
    Closed(StreamId),
}

/// A calling and a serving end that talk to each other.
#[derive(Debug)]
pub struct Pair<C, S> {
    /// The present.
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
    pub to_calling: Vec<Fed>,
    /// What the serving end was fed.
    pub to_serving: Vec<Fed>,
    /// By the number that the calling end has for it.
    streams: BTreeMap<StreamId, Way>,
}

/// What is under way on one stream.
#[derive(Debug, Default)]
struct Way {
    up: Half,
    down: Half,
}

#[derive(Debug, Default)]
struct Half {
    under_way: BytesMut,
    input: BytesMut,
    end: Option<Writing>,
    /// The other side has seen the end.
    is_told: bool,
    /// The reader wants no more.
    is_closed: bool,
}

impl<C, S> Pair<C, S>
where
    C: Calling + Streams<Opening = String, Answer = String>,
    S: Serving + Streams<Opening = String, Answer = String>,
{
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
            streams: BTreeMap::new(),
        }
    }

    /// The caller asks.
    pub fn call(&mut self, ticket: Ticket, call: Call) {
        self.to_calling.push(Fed::Call(ticket, call.clone()));
        self.calling.call(self.now, ticket, call);
    }

    /// The caller goes on.
    pub fn up(&mut self, ticket: Ticket, up: Up) {
        self.to_calling.push(Fed::Up(ticket, up.clone()));
        self.calling.up(self.now, ticket, up);
    }

    /// The tool replies.
    pub fn down(&mut self, ticket: Ticket, down: Down) {
        self.to_serving.push(Fed::Down(ticket, down.clone()));
        self.serving.down(self.now, ticket, down);
    }

    /// Carries everything across until nobody has anything to say.
    pub fn run(&mut self) {
        while self.carry(usize::MAX) {}
    }

    /// Carries at most so many bytes of each stream each way. Tells whether there was anything.
    pub fn carry(&mut self, bytes_max: usize) -> bool {
        let mut did = false;
        let taken = self.asked.len() + self.learned.len();
        while let Some((id, head)) = self.calling.poll_open() {
            did = true;
            self.streams.insert(id, Way::default());
            self.to_serving.push(Fed::Opened(other(id), head.clone()));
            self.serving.handle_opened(self.now, other(id), head);
        }
        while let Some((id, head)) = self.serving.poll_open() {
            did = true;
            self.streams.insert(other(id), Way::default());
            self.to_calling.push(Fed::Opened(other(id), head.clone()));
            self.calling.handle_opened(self.now, other(id), head);
        }
        while self.calling.poll_ready().is_some() {}
        while self.serving.poll_ready().is_some() {}
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            let Some(way) = self.streams.get_mut(&id) else { continue };
            let (calling, serving) = (&mut self.calling, &mut self.serving);
            let (up, down) = (&mut self.to_serving, &mut self.to_calling);
            did |= way.up.carry(self.now, calling, id, serving, other(id), bytes_max, up);
            self.asked.extend(std::iter::from_fn(|| self.serving.poll_up()));
            let (calling, serving) = (&mut self.calling, &mut self.serving);
            did |= way.down.carry(self.now, serving, other(id), calling, id, bytes_max, down);
            self.learned.extend(std::iter::from_fn(|| self.calling.poll_down()));
            if way.up.is_over() && way.down.is_over() {
                did = true;
                self.streams.remove(&id);
                self.to_calling.push(Fed::Closed(id));
                self.to_serving.push(Fed::Closed(other(id)));
                self.calling.handle_closed(self.now, id);
                self.serving.handle_closed(self.now, other(id));
            }
        }
        // A machine that pauses goes on when what it has is taken.
        did || taken < self.asked.len() + self.learned.len()
    }

    /// Loses one stream, with a code; the others go on.
    pub fn lose(&mut self, id: StreamId, code: u64) {
        self.streams.remove(&id);
        let failure = Failure::new(FailureKind::Gone, "reset");
        let why = StreamLost { code: Some(code), failure };
        self.to_calling.extend([Fed::Lost(id, why.clone()), Fed::Closed(id)]);
        self.to_serving.extend([Fed::Lost(other(id), why.clone()), Fed::Closed(other(id))]);
        Streams::handle_lost(&mut self.calling, self.now, id, why.clone());
        self.calling.handle_closed(self.now, id);
        Streams::handle_lost(&mut self.serving, self.now, other(id), why);
        self.serving.handle_closed(self.now, other(id));
        self.learned.extend(std::iter::from_fn(|| self.calling.poll_down()));
        self.asked.extend(std::iter::from_fn(|| self.serving.poll_up()));
    }

    /// The streams that are open, by the number that the calling end has for them.
    pub fn open(&self) -> Vec<StreamId> {
        self.streams.keys().copied().collect()
    }

    /// Lets both ends see that it is later.
    pub fn wait_until(&mut self, now: Instant) {
        self.now = now;
        self.calling.handle_timeout(now);
        self.serving.handle_timeout(now);
    }
}

impl Half {
    /// Moves what `from` wants to write to `to`. Tells whether there was anything to move.
    #[allow(clippy::too_many_arguments)]
    fn carry<F, T>(
        &mut self,
        now: Instant,
        from: &mut F,
        from_id: StreamId,
        to: &mut T,
        to_id: StreamId,
        bytes_max: usize,
        fed: &mut Vec<Fed>,
    ) -> bool
    where
        F: Streams<Answer = String>,
        T: Streams<Answer = String> + Machine,
    {
        let mut did = false;
        if self.end.is_none() {
            let mut out = Outbox::new();
            from.poll_transmit(from_id, &mut out);
            self.under_way.extend_from_slice(&out.take());
            if let Some(head) = from.poll_answer(from_id) {
                did = true;
                fed.push(Fed::Answered(to_id, head.clone()));
                to.handle_answered(now, to_id, head);
            }
            match from.writing(from_id) {
                Writing::Open => {}
                Writing::Reset(code) => {
                    self.under_way.clear();
                    self.end = Some(Writing::Reset(code));
                }
                writing => self.end = Some(writing),
            }
        }
        if self.is_closed {
            self.under_way.clear();
            self.is_told |= self.end.is_some();
            return did;
        }
        let moved = self.under_way.split_to(bytes_max.min(self.under_way.len())).freeze();
        self.input.extend_from_slice(&moved);
        if !moved.is_empty() {
            did = true;
            fed.push(Fed::Bytes(to_id, moved));
        }
        let mut flow = to.handle_bytes(now, to_id, &mut self.input);
        if flow == Flow::More
            && self.under_way.is_empty()
            && let Some(end) = self.end
            && !self.is_told
        {
            did = true;
            self.is_told = true;
            flow = match end {
                Writing::Finish | Writing::Open => {
                    fed.push(Fed::Eof(to_id));
                    to.handle_eof(now, to_id, &mut self.input)
                }
                Writing::BreakOff(code) | Writing::Reset(code) => {
                    let failure = Failure::new(FailureKind::Gone, "reset");
                    let why = StreamLost { code: Some(code), failure };
                    fed.push(Fed::Lost(to_id, why.clone()));
                    to.handle_cut(now, to_id, &mut self.input, why)
                }
            };
        }
        self.is_closed = flow == Flow::Close;
        did
    }

    fn is_over(&self) -> bool {
        self.is_closed && self.end.is_some()
    }
}

/// The same stream, as the other end calls it.
fn other(id: StreamId) -> StreamId {
    match id {
        StreamId::Ours(number) => StreamId::Theirs(number),
        StreamId::Theirs(number) => StreamId::Ours(number),
    }
}
