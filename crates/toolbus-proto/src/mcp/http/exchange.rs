//! One request over HTTP that is being answered: at once as JSON, or bit by bit as a stream.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::gate::Answer;

/// How long an answer may stay plain JSON; then it becomes a stream.
pub(super) const PLAIN_FOR: Duration = Duration::from_secs(10);
/// How long a stream may be quiet before a comment keeps it open.
pub(super) const QUIET_FOR: Duration = Duration::from_secs(15);

/// Names one request and its answer. Given out by the hands, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(pub u64);

/// What to write to one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// The whole answer.
    Whole(Answer),
    /// A stream begins: its status and headers.
    Begin(Answer),
    /// A piece of the stream.
    Piece(Bytes),
    /// The stream is over.
    End,
}

/// How far an exchange is.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The conversation it belongs to.
    pub(super) talk: u64,
    /// The client takes a stream, too.
    pub(super) takes_stream: bool,
    /// Its answer opens a session.
    pub(super) opens: bool,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing has been written; from then on it is a stream.
    Pending { until: Option<Instant> },
    /// A stream, of this number if it can be resumed.
    Streaming { stream: Option<u64>, comment_at: Instant },
}

impl Exchange {
    pub(super) fn wake_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Pending { until } => until.filter(|_| self.takes_stream),
            Stage::Streaming { comment_at, .. } => Some(comment_at),
        }
    }
}

/// The head of a stream.
pub(super) fn begin() -> Write {
    let headers = vec![
        ("Content-Type", "text/event-stream".to_owned()),
        ("Cache-Control", "no-cache, no-transform".to_owned()),
        ("X-Accel-Buffering", "no".to_owned()),
    ];
    Write::Begin(Answer { status: 200, headers, body: Bytes::new() })
}
