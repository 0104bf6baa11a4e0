//! One conversation over many streams: HTTP exchanges, QUIC streams.
//!
//! Either side opens a stream, with a head of its own where the transport has one. A stream
//! gives bytes, ends, or is lost; the machine writes, finishes or resets each. State across
//! streams is the machine's. A [`Channel`] is the simple case: one stream, open from the start.

use std::time::Instant;

use bytes::BytesMut;

use super::{Channel, Flow, Machine, Outbox};

/// Names one stream of a conversation. Each side counts its own, and uses no number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// Opened by us; the machine gives out the number.
    Ours(u64),
    /// Opened by the peer; the hands give out the number.
    Theirs(u64),
}

/// Why a stream is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamLost {
    /// The peer's code, where the transport carries one (QUIC, HTTP/2).
    pub code: Option<u64>,
    /// What to tell the caller: the stream could not be opened, was reset, or was cut short.
    pub failure: crate::tool::Failure,
}

/// What becomes of our writing side of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// More may follow.
    Open,
    /// Nothing follows what was handed out: the stream ends well behind it.
    Finish,
    /// Nothing follows what was handed out, and it is not all there should be: the stream
    /// breaks off behind it, with the wire's code.
    BreakOff(u64),
    /// The stream is given up in both directions, with the wire's code. What was handed out
    /// and is not written yet is thrown away.
    Reset(u64),
}

/// One end of a conversation over many streams. The hands open, read and write; the machine
/// decides.
pub trait Streams: Machine {
    /// What a stream is opened with: the head of an HTTP request; `()` where it is bytes alone.
    type Opening;
    /// What the other side of a stream begins with: the head of an HTTP answer, or `()`.
    type Answer;

    /// There is one stream, open from the start: [`ONLY`].
    const IS_ONE: bool = false;

    /// The peer opened `stream`.
    fn handle_opened(&mut self, now: Instant, stream: StreamId, head: Self::Opening) -> Flow;

    /// The peer answers on a stream that we opened; its bytes follow.
    fn handle_answered(&mut self, now: Instant, stream: StreamId, head: Self::Answer) -> Flow;

    /// Takes the whole frames at the front of `input`, as [`Channel::handle_bytes`] does.
    fn handle_bytes(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow;

    /// The peer has finished writing on `stream`; `input` holds what never became a frame.
    /// Told again after a [`Flow::Pause`], as by [`Streams::handle_bytes`].
    fn handle_eof(&mut self, now: Instant, stream: StreamId, input: &mut BytesMut) -> Flow;

    /// What the peer writes on `stream` broke off: it was reset, or cut short; `input` holds
    /// what never became a frame. What we write may still arrive, so an answer can be given.
    /// Unless the wire knows better, the whole stream is lost.
    fn handle_cut(
        &mut self,
        now: Instant,
        stream: StreamId,
        input: &mut BytesMut,
        why: StreamLost,
    ) -> Flow {
        input.clear();
        self.handle_lost(now, stream, why);
        Flow::Close
    }

    /// The stream is lost: it could not be opened, was reset, or broke off. It is over in both
    /// directions.
    fn handle_lost(&mut self, now: Instant, stream: StreamId, why: StreamLost);

    /// The peer reads no more of what we write on `stream`. What it writes may still come.
    fn handle_stopped(&mut self, now: Instant, stream: StreamId, code: Option<u64>) {
        let _ = (now, stream, code);
    }

    /// All that was handed out for `stream` has been written.
    fn handle_sent(&mut self, now: Instant, stream: StreamId) {
        let _ = (now, stream);
    }

    /// Does something follow from [`Streams::handle_sent`]? Else it is not asked again after that.
    fn heeds_sent(&self) -> bool {
        true
    }

    /// The hands are done with `stream`, however it ended: it has no number any more.
    fn handle_closed(&mut self, now: Instant, stream: StreamId) {
        let _ = (now, stream);
    }

    /// A stream to open. It may have to wait for a free one; if what it was for is over before
    /// it is open, [`Streams::writing`] says [`Writing::Reset`].
    fn poll_open(&mut self) -> Option<(StreamId, Self::Opening)>;

    /// A stream on which something is to be done since it was asked last: an answer to begin,
    /// bytes to write, an end, or reading to go on. The hands ask until there is none, each
    /// time something was said to the machine.
    fn poll_ready(&mut self) -> Option<StreamId>;

    /// The head of our answer on a stream that the peer opened; once, before its first byte.
    fn poll_answer(&mut self, stream: StreamId) -> Option<Self::Answer>;

    /// Appends what is to be written on `stream`.
    fn poll_transmit(&mut self, stream: StreamId, out: &mut Outbox);

    /// What becomes of our writing side of `stream`: [`Writing::Reset`] if there is no such
    /// stream, or none any more.
    ///
    /// [`Flow::Close`] is for one stream here: the hands read no more from it, write what was
    /// handed out and end it as this says. [`Writing::Open`] then counts as
    /// [`Writing::BreakOff`]: what may not be complete must not look as if it were.
    fn writing(&self, stream: StreamId) -> Writing;

    /// Whose `stream` is, where one conversation serves many peers: streams of the same number
    /// belong to one of them. `None` is the peer that opened it.
    fn owner(&self, stream: StreamId) -> Option<u64> {
        let _ = stream;
        None
    }
}

/// The one stream of a [`Channel`].
pub const ONLY: StreamId = StreamId::Ours(0);

impl<C: Channel> Streams for C {
    type Opening = ();
    type Answer = ();

    const IS_ONE: bool = true;

    fn handle_opened(&mut self, _now: Instant, _stream: StreamId, (): ()) -> Flow {
        Flow::More
    }

    fn handle_answered(&mut self, _now: Instant, _stream: StreamId, (): ()) -> Flow {
        Flow::More
    }

    fn handle_bytes(&mut self, now: Instant, _stream: StreamId, input: &mut BytesMut) -> Flow {
        Channel::handle_bytes(self, now, input)
    }

    fn handle_eof(&mut self, now: Instant, _stream: StreamId, input: &mut BytesMut) -> Flow {
        Channel::handle_eof(self, now, input)
    }

    /// A stream that breaks has ended: what came before is all there is.
    fn handle_cut(
        &mut self,
        now: Instant,
        _stream: StreamId,
        input: &mut BytesMut,
        _why: StreamLost,
    ) -> Flow {
        Channel::handle_eof(self, now, input)
    }

    /// A channel learns of its end by [`Channel::handle_eof`], and of what that means for its
    /// calls from the hands, which own it.
    fn handle_lost(&mut self, _now: Instant, _stream: StreamId, _why: StreamLost) {}

    fn handle_sent(&mut self, now: Instant, _stream: StreamId) {
        Channel::handle_sent(self, now);
    }

    fn heeds_sent(&self) -> bool {
        Channel::heeds_sent(self)
    }

    fn poll_open(&mut self) -> Option<(StreamId, ())> {
        None
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        None
    }

    fn poll_answer(&mut self, _stream: StreamId) -> Option<()> {
        None
    }

    fn poll_transmit(&mut self, _stream: StreamId, out: &mut Outbox) {
        Channel::poll_transmit(self, out);
    }

    fn writing(&self, _stream: StreamId) -> Writing {
        match self.is_finished() {
            true => Writing::Finish,
            false => Writing::Open,
        }
    }
}
