//! Events that wait for a subscriber that reads slowly, or for a plugin that is told one after the
//! other: so many and so much, then the oldest goes.

use std::collections::VecDeque;

use bytes::Bytes;

use super::FRAME_BYTES_MAX;

/// How many events may wait for one subscriber.
pub const EVENTS_WAITING_MAX: usize = 1024;
/// What they may weigh together. One always may.
pub const EVENTS_BYTES_MAX: usize = FRAME_BYTES_MAX;

/// Events in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    events: VecDeque<Bytes>,
    bytes: usize,
}

impl Waiting {
    /// One more; tells how many of the oldest had to go.
    pub(super) fn push(&mut self, event: Bytes) -> usize {
        self.bytes += event.len();
        self.events.push_back(event);
        let mut dropped = 0;
        while EVENTS_WAITING_MAX < self.events.len()
            || 1 < self.events.len() && EVENTS_BYTES_MAX < self.bytes
        {
            self.pop();
            dropped += 1;
        }
        dropped
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let event = self.events.pop_front()?;
        self.bytes -= event.len();
        Some(event)
    }

    pub(super) fn clear(&mut self) {
        *self = Waiting::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many bytes they have together.
    pub(super) fn weight(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_when_there_are_too_many_or_too_much() {
        let mut waiting = Waiting::default();
        for number in 0..EVENTS_WAITING_MAX {
            assert_eq!(waiting.push(Bytes::from(number.to_string())), 0);
        }
        assert_eq!(waiting.push(Bytes::from_static(b"last")), 1);
        assert_eq!(waiting.pop(), Some(Bytes::from_static(b"1")));
        let large = Bytes::from(vec![0; EVENTS_BYTES_MAX]);
        assert_eq!(waiting.push(large.clone()), EVENTS_WAITING_MAX - 1);
        assert_eq!((waiting.weight(), waiting.pop()), (EVENTS_BYTES_MAX, Some(large)));
        assert!(waiting.is_empty() && waiting.weight() == 0);
    }
}
