//! The hands of a machine of many streams, in memory: streams are opened, fed and ended as a
//! test says, and what leaves is told line by line.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{Flow, Outbox, StreamId, StreamLost, Streams, Writing};
use toolbus_proto::tool::{Failure, FailureKind};

/// A machine, and the streams of its conversation.
#[derive(Debug)]
pub struct Hands<M> {
    /// The machine.
    pub machine: M,
    /// The peer lets us open streams.
    pub has_credit: bool,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that the machine wants and that cannot be opened yet.
    waiting: VecDeque<StreamId>,
}

#[derive(Debug, Default)]
struct Stream {
    input: BytesMut,
    /// The peer has ended its side, or we have stopped it.
    is_read: bool,
    /// We have ended ours.
    is_finished: bool,
    /// The machine wants no more of it.
    is_unwanted: bool,
}

/// What leaves on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaves {
    /// These bytes, and the end if that is true.
    Bytes(Bytes, bool),
    /// We read no more.
    Stop(u64),
    /// We give it up.
    Reset(u64),
}

impl<M: Streams<Opening = (), Answer = ()>> Hands<M> {
    /// A conversation without streams.
    pub fn new(machine: M) -> Hands<M> {
        let (streams, waiting) = (BTreeMap::new(), VecDeque::new());
        Hands { machine, has_credit: true, streams, waiting }
    }

    /// Is the stream still known to both sides?
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Bytes arrive; the first on a stream of the peer's open it.
    pub fn bytes(&mut self, now: Instant, stream: StreamId, bytes: &[u8]) {
        self.begin(now, stream);
        let Some(known) = self.streams.get_mut(&stream).filter(|known| !known.is_read) else {
            return;
        };
        known.input.extend_from_slice(bytes);
        self.ask(now, stream);
    }

    /// The peer ends its side; tells whether the stream is over with that.
    pub fn end(&mut self, now: Instant, stream: StreamId) -> bool {
        self.begin(now, stream);
        let Some(known) = self.streams.get_mut(&stream).filter(|known| !known.is_read) else {
            return false;
        };
        known.is_read = true;
        self.machine.handle_eof(now, stream, &mut known.input);
        let is_over = known.is_finished;
        if is_over {
            self.close(now, stream);
        }
        is_over
    }

    /// The peer resets the stream.
    pub fn reset(&mut self, now: Instant, stream: StreamId, code: u64) {
        self.begin(now, stream);
        if self.streams.remove(&stream).is_some() {
            let failure = Failure::new(FailureKind::Gone, "the stream was reset");
            self.machine.handle_lost(now, stream, StreamLost { code: Some(code), failure });
            self.machine.handle_closed(now, stream);
        }
    }

    /// The peer reads no more.
    pub fn stop(&mut self, now: Instant, stream: StreamId, code: u64) {
        self.machine.handle_stopped(now, stream, Some(code));
    }

    fn close(&mut self, now: Instant, stream: StreamId) {
        self.streams.remove(&stream);
        self.machine.handle_closed(now, stream);
    }

    fn begin(&mut self, now: Instant, stream: StreamId) {
        if let StreamId::Theirs(_) = stream
            && !self.streams.contains_key(&stream)
        {
            self.streams.insert(stream, Stream::default());
            self.machine.handle_opened(now, stream, ());
        }
    }

    fn ask(&mut self, now: Instant, stream: StreamId) -> Flow {
        let Some(known) = self.streams.get_mut(&stream).filter(|known| !known.is_read) else {
            return Flow::More;
        };
        let flow = self.machine.handle_bytes(now, stream, &mut known.input);
        known.is_unwanted |= flow == Flow::Close;
        flow
    }

    /// What leaves, stream by stream, until the machine has nothing more to say.
    pub fn leaves(&mut self, now: Instant) -> Vec<(StreamId, Leaves)> {
        let mut left = Vec::new();
        loop {
            let unwanted = self.streams.iter().filter(|(_, known)| known.is_unwanted);
            for stream in unwanted.map(|(stream, _)| *stream).collect::<Vec<_>>() {
                self.settle(now, stream, &mut left);
            }
            while let Some(stream) = self.machine.poll_ready() {
                self.settle(now, stream, &mut left);
            }
            self.waiting.extend(std::iter::from_fn(|| self.machine.poll_open()).map(|open| open.0));
            // Whatever it was for may be over.
            self.waiting
                .retain(|stream| !matches!(self.machine.writing(*stream), Writing::Reset(_)));
            let Some(stream) = self.waiting.front().copied().filter(|_| self.has_credit) else {
                return left;
            };
            self.waiting.pop_front();
            self.streams.insert(stream, Stream::default());
            self.settle(now, stream, &mut left);
        }
    }

    fn settle(&mut self, now: Instant, stream: StreamId, left: &mut Vec<(StreamId, Leaves)>) {
        if !self.streams.contains_key(&stream) {
            return;
        }
        let mut out = Outbox::new();
        self.machine.poll_transmit(stream, &mut out);
        let bytes = out.take();
        let writing = self.machine.writing(stream);
        let Some(known) = self.streams.get_mut(&stream) else { return };
        let finishes = writing == Writing::Finish && !known.is_finished;
        if !known.is_finished && (!bytes.is_empty() || finishes) {
            left.push((stream, Leaves::Bytes(bytes, finishes)));
            known.is_finished = finishes;
            self.machine.handle_sent(now, stream);
        }
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if let Writing::Reset(code) = writing {
            match (known.is_finished, known.is_read) {
                (true, true) => {}
                (true, false) => left.push((stream, Leaves::Stop(code))),
                (false, _) => left.push((stream, Leaves::Reset(code))),
            }
            self.close(now, stream);
            return;
        }
        // Asked again, as after everything that is said to it.
        self.ask(now, stream);
        if let Some(known) = self.streams.get_mut(&stream)
            && std::mem::take(&mut known.is_unwanted)
            && !known.is_read
        {
            known.is_read = true;
            left.push((stream, Leaves::Stop(0)));
        }
        if self.streams.get(&stream).is_some_and(|known| known.is_read && known.is_finished) {
            self.close(now, stream);
        }
    }
}
