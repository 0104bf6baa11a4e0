//! A conversation over HTTP: a legacy session with its streams, or one modern exchange.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::kept::Stream;
use crate::channel::StreamId;
use crate::http::Visit;
use crate::mcp::conversation::{Conversation, Place};
use crate::mcp::wire::Revision;

/// How long a session lives without a request or an open stream.
pub(super) const IDLE_FOR: Duration = Duration::from_secs(30 * 60);

/// How many streams of a session are known, most of them in case they are resumed.
const STREAMS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    pub(super) kind: Kind,
    /// Who holds the token by which it was begun: to others it is unknown.
    pub(super) holder: Option<Arc<str>>,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// One request; its exchange and it end together.
    Modern,
    Legacy(Session),
    /// A session of the old pair: all that is said to it goes to one stream, and it ends with it.
    Pair {
        /// By which messages are posted to it.
        name: String,
        stream: StreamId,
        /// The request that came last: what is asked now is a part of it.
        visit: Option<Arc<Visit>>,
    },
}

/// What a legacy client keeps by its `Mcp-Session-Id`.
#[derive(Debug)]
pub(super) struct Session {
    /// Its id, once `initialize` went well.
    pub(super) name: Option<String>,
    pub(super) used: Instant,
    streams: BTreeMap<u64, Stream>,
    next_stream: u64,
    /// The stream of what belongs to no request.
    own: Option<u64>,
    /// The streams of requests.
    by_place: HashMap<Place, u64>,
    /// What is kept of all of them.
    kept_bytes: usize,
}

impl Talk {
    /// Does a client keep it longer than one exchange?
    pub(super) fn is_session(&self) -> bool {
        matches!(self.kind, Kind::Legacy(_) | Kind::Pair { .. })
    }
}

impl Session {
    pub(super) fn new(now: Instant) -> Session {
        Session {
            name: None,
            used: now,
            streams: BTreeMap::new(),
            next_stream: 1,
            own: None,
            by_place: HashMap::new(),
            kept_bytes: 0,
        }
    }

    /// What is kept of its streams.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Says `message` on the stream of `place`: the event, and who reads it.
    pub(super) fn event(
        &mut self,
        place: Place,
        message: &[u8],
    ) -> Option<(Bytes, Option<StreamId>)> {
        let stream = self.stream_of(place)?;
        let before = stream.bytes();
        let said = (stream.event(message), stream.reader);
        let after = stream.bytes();
        self.kept_bytes = self.kept_bytes - before + after;
        Some(said)
    }

    /// Forgets the oldest stream that nobody reads, or else the events of the oldest.
    pub(super) fn forget_oldest(&mut self) {
        let is_unread = |stream: &Stream| stream.reader.is_none() && 0 < stream.bytes();
        let unread = self.streams.iter().find(|(_, stream)| is_unread(stream));
        let oldest = || self.streams.iter().find(|(_, stream)| 0 < stream.bytes());
        let Some(number) = unread.or_else(oldest).map(|(number, _)| *number) else { return };
        if let Some(stream) = self.streams.get_mut(&number) {
            self.kept_bytes -= stream.forget();
        }
    }

    /// Opens a stream for what is said to `place`; gives its number and first bytes.
    pub(super) fn open(
        &mut self,
        place: Place,
        reader: StreamId,
        revision: Option<Revision>,
    ) -> (u64, Bytes) {
        self.make_room();
        let number = self.next_stream;
        self.next_stream += 1;
        let primes = revision >= Some(Revision::V2025_11_25);
        let (stream, first) = Stream::open(number, reader, primes);
        self.streams.insert(number, stream);
        if place == Place::SESSION {
            self.own = Some(number);
        } else {
            self.by_place.insert(place, number);
        }
        (number, first)
    }

    /// Forgets the oldest stream that nobody reads, if there are too many.
    fn make_room(&mut self) {
        let is_unread = |stream: &Stream| stream.reader.is_none();
        if STREAMS_MAX <= self.streams.len()
            && let Some((&oldest, _)) = self.streams.iter().find(|(_, stream)| is_unread(stream))
            && let Some(forgotten) = self.streams.remove(&oldest)
        {
            self.kept_bytes -= forgotten.bytes();
        }
    }

    /// Does the client read what belongs to no request?
    pub(super) fn is_heard(&self) -> bool {
        let own = self.own.and_then(|number| self.streams.get(&number));
        own.is_some_and(|stream| stream.reader.is_some())
    }

    /// The stream of what is said to `place`, if one was opened and is still kept.
    pub(super) fn stream_of(&mut self, place: Place) -> Option<&mut Stream> {
        let number = match place {
            Place::SESSION => self.own?,
            place => *self.by_place.get(&place)?,
        };
        self.streams.get_mut(&number)
    }

    pub(super) fn stream(&mut self, number: u64) -> Option<&mut Stream> {
        self.streams.get_mut(&number)
    }

    /// The answer for `place` is out: nothing more will be said there.
    pub(super) fn close_place(&mut self, place: Place) {
        self.by_place.remove(&place);
    }

    /// Forgets what has been kept long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        self.streams.retain(|_, stream| stream.forget_at().is_none_or(|at| now < at));
        self.kept_bytes = self.streams.values().map(Stream::bytes).sum();
        let streams = &self.streams;
        self.by_place.retain(|_, number| streams.contains_key(number));
        self.own = self.own.filter(|number| streams.contains_key(number));
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let streams = self.streams.values().filter_map(Stream::forget_at);
        streams.chain([self.used + IDLE_FOR]).min()
    }
}
