//! One request over HTTP that is being answered: at once as JSON, or bit by bit as a stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::entrance::{Answer, Verb};
use crate::channel::{Outbox, StreamId};
use crate::http::{Pace, RequestHead, ResponseHead, Visit};
use crate::mcp::conversation::Place;

/// How long an answer may stay plain JSON; then it becomes a stream.
pub(super) const PLAIN_FOR: Duration = Duration::from_secs(10);
/// How long a stream may be quiet before a comment keeps it open.
pub(super) const QUIET_FOR: Duration = Duration::from_secs(15);

/// How long a client may pause within a body, and how long it may take to get going.
pub(super) const BODY_SILENCE: Duration = Duration::from_secs(30);

/// Where what is said to the request of a stream goes.
pub(super) fn place_of(stream: StreamId) -> Place {
    let (StreamId::Ours(number) | StreamId::Theirs(number)) = stream;
    // The first place is that of the session itself.
    Place(number + 1)
}

/// The stream whose request is answered there; only clients open them.
pub(super) fn stream_of(place: Place) -> StreamId {
    StreamId::Theirs(place.0.saturating_sub(1))
}

/// A request whose body is not all here.
#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) head: RequestHead,
    pub(super) verb: Verb,
    /// So much of the body waits in the hands.
    pub(super) received: usize,
    /// When the client has paused for too long.
    pub(super) silent_at: Instant,
    /// Does it come fast enough?
    pub(super) pace: Pace,
}

impl Arriving {
    pub(super) fn new(now: Instant, head: RequestHead, verb: Verb) -> Arriving {
        let (silent_at, pace) = (now + BODY_SILENCE, Pace::new(now, BODY_SILENCE));
        Arriving { head, verb, received: 0, silent_at, pace }
    }

    /// Notes how much of the body waits now.
    pub(super) fn handle_bytes(&mut self, now: Instant, waiting: usize) {
        if self.received < waiting {
            self.pace.handle_bytes(waiting - self.received);
            self.received = waiting;
            self.silent_at = now + BODY_SILENCE;
        }
    }

    /// When it is not waited for any more.
    pub(super) fn late_at(&self) -> Instant {
        self.silent_at.min(self.pace.late_at())
    }
}

/// What is to be written on a stream and was not handed out yet.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) head: Option<ResponseHead>,
    pub(super) out: Outbox,
    /// Nothing follows.
    pub(super) ends: bool,
}

/// How far an exchange is.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The conversation it belongs to.
    pub(super) talk: u64,
    /// The client takes a stream, too.
    pub(super) takes_stream: bool,
    /// The client waits for an answer, and does not only listen.
    pub(super) is_owed: bool,
    /// Its answer opens a session.
    pub(super) opens: bool,
    pub(super) stage: AnswerState,
    /// The request, where it shows a token of a sign-in server.
    pub(super) visit: Option<Arc<Visit>>,
    /// When its stream ends, which is no longer open than the token holds that has opened it.
    pub(super) ends_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerState {
    /// Nothing has been written; from then on it is a stream.
    Pending { until: Option<Instant> },
    /// A stream, of this number if it can be resumed.
    Streaming { stream: Option<u64>, comment_at: Instant },
}

impl Exchange {
    /// A request of which nothing is said before it is answered.
    pub(super) fn new(talk: u64, head: &RequestHead, stage: AnswerState) -> Exchange {
        let (visit, ends_at) = (head.visit().cloned(), None);
        let (takes_stream, is_owed, opens) = (true, false, false);
        Exchange { talk, takes_stream, is_owed, opens, stage, visit, ends_at }
    }

    /// The same, as a stream that ends with its token.
    pub(super) fn ending_with_its_token(mut self) -> Exchange {
        self.ends_at = self.visit.as_ref().and_then(|visit| visit.grant().ends_at);
        self
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let at = match self.stage {
            AnswerState::Pending { until } => until.filter(|_| self.takes_stream),
            AnswerState::Streaming { comment_at, .. } => Some(comment_at),
        };
        at.into_iter().chain(self.ends_at).min()
    }

    /// Why the request is refused after all, if one of its calls needs more than its token has.
    pub(super) fn lacking(&self) -> Option<Answer> {
        Some(Answer::by_token(self.visit.as_ref()?.lacking()?))
    }
}

/// The head of a stream of events.
pub(super) fn event_stream() -> ResponseHead {
    let mut head = ResponseHead::new(200);
    head.headers.push("Content-Type", "text/event-stream");
    head.headers.push("Cache-Control", "no-cache, no-transform");
    head.headers.push("X-Accel-Buffering", "no");
    head
}
