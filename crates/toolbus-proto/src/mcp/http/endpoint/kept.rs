//! One stream of events, and what is kept of it for a client whose connection broke.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::channel::StreamId;
use crate::frame::sse;

/// How many events are kept, how many bytes of them, and for how long.
const EVENTS_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;
const KEPT: Duration = Duration::from_secs(300);

/// A stream of a legacy session.
#[derive(Debug)]
pub(super) struct Stream {
    number: u64,
    next: u64,
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The exchange that reads it, if one does.
    pub(super) reader: Option<StreamId>,
    pub(super) has_ended: bool,
    forget_at: Option<Instant>,
}

impl Stream {
    /// A stream that `reader` has just opened. `primes` tells whether it begins with an event
    /// that only has an id; gives the first bytes of it.
    pub(super) fn open(number: u64, reader: StreamId, primes: bool) -> (Stream, Bytes) {
        let mut first = Vec::new();
        if primes {
            sse::write_id(&mut first, &format!("{number}.0"));
        }
        let stream = Stream {
            number,
            next: 1,
            events: VecDeque::new(),
            bytes: 0,
            reader: Some(reader),
            has_ended: false,
            forget_at: None,
        };
        (stream, first.into())
    }

    /// The message as an event, which is kept for a while.
    pub(super) fn event(&mut self, message: &[u8]) -> Bytes {
        let mut event = Vec::with_capacity(message.len() + 48);
        sse::write_event(&mut event, Some(&format!("{}.{}", self.number, self.next)), message);
        let event = Bytes::from(event);
        self.bytes += event.len();
        self.events.push_back((self.next, event.clone()));
        self.next += 1;
        while EVENTS_MAX < self.events.len() || BYTES_MAX < self.bytes {
            let Some((_, old)) = self.events.pop_front() else { break };
            self.bytes -= old.len();
        }
        event
    }

    /// What is kept of it, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps nothing of what was said. Gives how much that was.
    pub(super) fn forget(&mut self) -> usize {
        self.events = VecDeque::new();
        std::mem::take(&mut self.bytes)
    }

    /// The events behind the one a client saw last, or `None` if some of them are lost.
    pub(super) fn since(&self, seen: u64) -> Option<Vec<Bytes>> {
        let oldest = self.events.front().map_or(self.next, |(number, _)| *number);
        if self.next <= seen || seen + 1 < oldest {
            return None;
        }
        let later = self.events.iter().filter(|(number, _)| seen < *number);
        Some(later.map(|(_, event)| event.clone()).collect())
    }

    /// The client reads it no more, or nothing more will come.
    pub(super) fn leave(&mut self, now: Instant) {
        self.reader = None;
        self.forget_at = Some(now + KEPT);
    }

    pub(super) fn resume(&mut self, reader: StreamId) {
        self.reader = Some(reader);
        self.forget_at = None;
    }

    pub(super) fn forget_at(&self) -> Option<Instant> {
        self.forget_at
    }
}

/// `<stream>.<n>`
pub(super) fn read_event_id(text: &str) -> Option<(u64, u64)> {
    let (stream, seen) = text.split_once('.')?;
    Some((stream.parse().ok()?, seen.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_its_last_events_within_its_limits() {
        let (mut stream, first) = Stream::open(3, StreamId::Theirs(1), true);
        assert_eq!(first, "id: 3.0\ndata:\n\n");
        for _ in 0..EVENTS_MAX {
            stream.event(b"{}");
        }
        assert_eq!(stream.since(0).unwrap().len(), EVENTS_MAX);
        assert_eq!(stream.since(EVENTS_MAX as u64), Some(vec![]));
        assert_eq!(stream.since(EVENTS_MAX as u64 + 1), None);
        let last = stream.event(b"[]");
        assert_eq!(stream.since(0), None, "the first is no longer there");
        assert_eq!(stream.since(EVENTS_MAX as u64), Some(vec![last]));
        stream.event(&vec![b' '; BYTES_MAX]);
        assert_eq!(stream.since(EVENTS_MAX as u64 + 1), None, "larger than all that is kept");
        assert!(stream.bytes <= BYTES_MAX);
    }
}
