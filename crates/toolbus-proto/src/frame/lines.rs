//! Frames that end at a newline: the oracle, MCP, Orchard and godex all speak this way.
//!
//! The bytes stay where the hands read them to; [`Lines::next`] cuts whole lines off their
//! front. Nothing here reads or waits, so a test can cut the bytes wherever it likes.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use thiserror::Error;

use crate::printable::size;

/// Cuts lines, remembering how far it has looked.
#[derive(Debug)]
pub struct Lines {
    /// Bytes already known to hold no newline, so that a slow sender costs no second look.
    searched: usize,
    /// The rest of a line that is too long is being thrown away.
    skipping: bool,
    bytes_max: usize,
    /// The ends of the line that is being thrown away, where the owner asked for them.
    glimpse: Option<Glimpse>,
}

/// The two ends of a line that was too long to be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Its first bytes, at most [`Glimpse::HEAD_BYTES_MAX`].
    pub head: BytesMut,
    /// Its last bytes, at most [`Glimpse::TAIL_BYTES_MAX`].
    pub tail: BytesMut,
}

impl Glimpse {
    /// How much of the beginning is kept.
    pub const HEAD_BYTES_MAX: usize = 64 * 1024;
    /// How much of the end is kept.
    pub const TAIL_BYTES_MAX: usize = 4 * 1024;

    fn see(&mut self, bytes: &[u8]) {
        let room = Glimpse::HEAD_BYTES_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
        let from = bytes.len().saturating_sub(Glimpse::TAIL_BYTES_MAX);
        self.tail.extend_from_slice(&bytes[from..]);
        let surplus = self.tail.len().saturating_sub(Glimpse::TAIL_BYTES_MAX);
        self.tail.advance(surplus);
    }
}

/// A line longer than its limit; it was skipped without being kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("line longer than the limit of {}", size(.bytes_max.to_owned()))]
pub struct TooLong {
    /// The limit.
    pub bytes_max: usize,
}

impl Lines {
    /// Lines of at most `bytes_max` bytes, the newline not counted.
    pub fn new(bytes_max: usize) -> Lines {
        Lines { searched: 0, skipping: false, bytes_max, glimpse: None }
    }

    /// The ends of the last line that was too long, after [`TooLong`].
    pub fn take_glimpse(&mut self) -> Option<Glimpse> {
        self.glimpse.take()
    }

    /// The first bytes of the line that is being thrown away, if one is; for wires that do not
    /// wait for its end.
    pub fn skipped(&self) -> Option<&[u8]> {
        let head = self.glimpse.as_ref().map(|glimpse| &glimpse.head[..]);
        head.filter(|_| self.skipping)
    }

    fn see(&mut self, is_first: bool, bytes: &[u8]) {
        if is_first {
            self.glimpse = None;
        }
        self.glimpse.get_or_insert_default().see(bytes);
    }

    /// The next whole line without its newline, or `None` until the rest of it arrives.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Result<Bytes, TooLong>> {
        let Some(at) = memchr(b'\n', &input[self.searched..]) else {
            let was_skipping = self.skipping;
            self.skipping |= self.bytes_max < input.len();
            if self.skipping {
                self.see(!was_skipping, input);
                // A fresh buffer: a hostile line must not leave its room behind.
                *input = BytesMut::new();
            }
            self.searched = input.len();
            return None;
        };
        let end = self.searched + at;
        self.searched = 0;
        // Shares the buffer: a line is cut out, never copied.
        let mut line = input.split_to(end + 1);
        line.truncate(end);
        let was_skipping = std::mem::take(&mut self.skipping);
        if was_skipping || self.bytes_max < end {
            self.see(!was_skipping, &line);
            return Some(Err(TooLong { bytes_max: self.bytes_max }));
        }
        Some(Ok(line.freeze()))
    }

    /// The end of the stream: an unfinished last line counts as a line.
    pub fn last(&mut self, input: &mut BytesMut) -> Option<Result<Bytes, TooLong>> {
        self.searched = 0;
        let was_skipping = std::mem::take(&mut self.skipping);
        if was_skipping || self.bytes_max < input.len() {
            self.see(!was_skipping, input);
            input.clear();
            return Some(Err(TooLong { bytes_max: self.bytes_max }));
        }
        Some(input.split().freeze()).filter(|line| !line.is_empty()).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All lines of `bytes`, fed in pieces that end at `cuts`.
    fn lines(bytes: &[u8], cuts: &[usize], bytes_max: usize) -> Vec<Result<Bytes, TooLong>> {
        let mut lines = Lines::new(bytes_max);
        let mut input = BytesMut::new();
        let mut out = Vec::new();
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            let cut = cut.clamp(from, bytes.len());
            input.extend_from_slice(&bytes[from..cut]);
            from = cut;
            while let Some(line) = lines.next(&mut input) {
                out.push(line);
                assert_eq!(lines.skipped(), None);
            }
            assert!(input.len() <= bytes_max, "kept more than the limit");
        }
        out.extend(lines.last(&mut input));
        out
    }

    #[test]
    fn lines_end_at_newlines_and_the_last_may_lack_one() {
        let found = lines(b"a\n\nbc\r\nd", &[], 10);
        let expected: [&[u8]; 4] = [b"a", b"", b"bc\r", b"d"];
        assert_eq!(found, expected.map(|line| Ok(Bytes::copy_from_slice(line))));
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_is_fine() {
        let too_long = Err(TooLong { bytes_max: 3 });
        let fine = |line: &'static [u8]| Ok(Bytes::from_static(line));
        assert_eq!(lines(b"abcd\nabc\n", &[], 3), [too_long.clone(), fine(b"abc")]);
        assert_eq!(
            lines(b"abcdefgh\nx\nabcd", &[2, 5], 3),
            [too_long.clone(), fine(b"x"), too_long]
        );
    }

    #[test]
    fn both_ends_of_a_line_over_the_limit_can_be_seen() {
        let whole = [&b"abc"[..], &[b'x'; 100_000], b"yz"].concat();
        for cuts in [&[][..], &[2, 50_000], &[100_003]] {
            let mut lines = Lines::new(10);
            let mut input = BytesMut::new();
            let mut from = 0;
            for &cut in cuts.iter().chain([&whole.len()]) {
                input.extend_from_slice(&whole[from..cut]);
                from = cut;
                assert_eq!(lines.next(&mut input), None);
            }
            input.extend_from_slice(b"\nnext\n");
            assert_eq!(lines.next(&mut input), Some(Err(TooLong { bytes_max: 10 })));
            let Glimpse { head, tail } = lines.take_glimpse().unwrap();
            assert_eq!(head, whole[..Glimpse::HEAD_BYTES_MAX]);
            assert_eq!(tail, whole[whole.len() - Glimpse::TAIL_BYTES_MAX..]);
            assert_eq!(lines.next(&mut input), Some(Ok(Bytes::from_static(b"next"))));
            assert_eq!(lines.take_glimpse(), None);
        }
    }

    proptest! {
        #[test]
        fn any_split_of_the_input_gives_the_same_lines(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            mut cuts in prop::collection::vec(0usize..200, 0..20),
            bytes_max in 0usize..40,
        ) {
            cuts.sort_unstable();
            let whole = lines(&bytes, &[bytes.len()], usize::MAX)
                .into_iter()
                .map(|line| line.and_then(|line| {
                    if bytes_max < line.len() { Err(TooLong { bytes_max }) } else { Ok(line) }
                }))
                .collect::<Vec<_>>();
            prop_assert_eq!(lines(&bytes, &cuts, bytes_max), whole);
        }
    }
}
