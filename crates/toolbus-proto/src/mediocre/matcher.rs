//! Where a frame ends a run of bytes that arrives in pieces (`docs/protocols/mediocre.md` 12).
//!
//! Each byte is looked at a bounded number of times, whatever the pieces. The end of a piece
//! that may be the beginning of the frame is held back, and needs no buffer: those bytes are
//! the beginning of the frame.

use bytes::Bytes;
use memchr::memmem::Finder;

use super::grams::Grams;

/// The longest frame.
pub(super) const FRAME_BYTES_MAX: usize = 256;

/// Looks for one frame in one run of bytes.
#[derive(Debug)]
pub(super) struct Matcher {
    frame: Bytes,
    finder: Finder<'static>,
    /// For frames that the finder alone could be slow with.
    grams: Option<Box<Grams>>,
    /// For each beginning of the frame, the longest beginning that it ends with, too.
    borders: [u8; FRAME_BYTES_MAX],
    /// So many bytes before the next piece are held back: the first ones of the frame.
    held: usize,
}

/// What a piece turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// So many bytes that were held back are data after all.
    pub(super) released: usize,
    /// So many bytes of the piece are data.
    pub(super) data: usize,
    /// The frame stands behind them, and ends so far into the piece.
    pub(super) end: Option<usize>,
}

impl Matcher {
    /// The frame has between 1 and [`FRAME_BYTES_MAX`] bytes.
    pub(super) fn new(frame: Bytes) -> Matcher {
        let mut borders = [0; FRAME_BYTES_MAX];
        let mut border = 0;
        for at in 1..frame.len() {
            while border > 0 && frame[border] != frame[at] {
                border = usize::from(borders[border - 1]);
            }
            border += usize::from(frame[border] == frame[at]);
            borders[at] = u8::try_from(border).expect("shorter than the frame");
        }
        let finder = Finder::new(&frame).into_owned();
        let grams = Grams::of(&frame, border);
        Matcher { frame, finder, grams, borders, held: 0 }
    }

    pub(super) fn frame(&self) -> &Bytes {
        &self.frame
    }

    /// Looks at the next piece. Unless the frame ends in it, all of it has been taken.
    pub(super) fn look(&mut self, piece: &[u8]) -> Look {
        let held = std::mem::take(&mut self.held);
        if held > 0 {
            let mut state = held;
            let mut taken = 0;
            // For as long as a frame may begin among the bytes that are held back.
            while taken < state && taken < piece.len() {
                state = self.after(state, piece[taken]);
                taken += 1;
                if state == self.frame.len() {
                    return Look { released: held + taken - state, data: 0, end: Some(taken) };
                }
            }
            if taken < state {
                self.held = state;
                return Look { released: held + taken - state, data: 0, end: None };
            }
        }
        if let Some(at) = self.find(piece) {
            let end = at + self.frame.len();
            return Look { released: held, data: at, end: Some(end) };
        }
        let last = piece.len().min(self.frame.len() - 1);
        let state =
            piece[piece.len() - last..].iter().fold(0, |state, &byte| self.after(state, byte));
        self.held = state;
        Look { released: held, data: piece.len() - state, end: None }
    }

    fn find(&self, piece: &[u8]) -> Option<usize> {
        match &self.grams {
            Some(grams) => grams.find(self.frame.len(), &self.finder, piece),
            None => self.finder.find(piece),
        }
    }

    /// How much of the frame's beginning stands before here, if `state` of it did one byte ago.
    fn after(&self, mut state: usize, byte: u8) -> usize {
        while state > 0 && self.frame[state] != byte {
            state = usize::from(self.borders[state - 1]);
        }
        state + usize::from(self.frame[state] == byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The data before the frame, and how many bytes follow it.
    fn found(frame: &[u8], bytes: &[u8], piece_len: usize) -> (Vec<u8>, Option<usize>) {
        let mut matcher = Matcher::new(Bytes::copy_from_slice(frame));
        let mut data = Vec::new();
        for (index, piece) in bytes.chunks(piece_len).enumerate() {
            let look = matcher.look(piece);
            data.extend_from_slice(&frame[..look.released]);
            data.extend_from_slice(&piece[..look.data]);
            if let Some(end) = look.end {
                return (data, Some(bytes.len() - index * piece_len - end));
            }
        }
        data.extend_from_slice(&frame[..matcher.held]);
        (data, None)
    }

    proptest! {
        #[test]
        fn the_first_frame_ends_the_data_however_it_is_cut(
            frame in prop::collection::vec(b'a'..b'c', 1..6),
            bytes in prop::collection::vec(b'a'..b'c', 0..60),
            piece_len in 1usize..20,
        ) {
            let at = bytes.windows(frame.len()).position(|window| window == frame);
            let expected = match at {
                Some(at) => (bytes[..at].to_vec(), Some(bytes.len() - at - frame.len())),
                None => (bytes.clone(), None),
            };
            prop_assert_eq!(found(&frame, &bytes, piece_len), expected);
        }
    }

    proptest! {
        /// Frames that repeat themselves, in data made of their own beginnings.
        #[test]
        fn so_it_does_where_the_search_is_hard(
            period in prop::collection::vec(b'a'..b'd', 1..40),
            frame_len in 16usize..=FRAME_BYTES_MAX,
            beginnings in prop::collection::vec((0usize..300, b'a'..b'e'), 0..60),
            piece_len in prop::sample::select(vec![1usize, 7, 100, 5000, 20_000]),
        ) {
            let frame: Vec<u8> = period.iter().copied().cycle().take(frame_len).collect();
            let mut bytes = Vec::new();
            for (len, byte) in beginnings {
                bytes.extend_from_slice(&frame[..len.min(frame_len)]);
                bytes.push(byte);
            }
            let at = bytes.windows(frame_len).position(|window| window == frame);
            let expected = match at {
                Some(at) => (bytes[..at].to_vec(), Some(bytes.len() - at - frame_len)),
                None => (bytes.clone(), None),
            };
            prop_assert_eq!(found(&frame, &bytes, piece_len), expected);
        }
    }

    #[test]
    fn the_longest_frame() {
        let frame = [b'x'; FRAME_BYTES_MAX];
        let mut bytes = vec![b'x'; FRAME_BYTES_MAX - 1];
        bytes.push(b'y');
        bytes.extend_from_slice(&frame);
        for piece_len in [1, 7, 255, 256, 257, 1000] {
            let (data, rest) = found(&frame, &bytes, piece_len);
            assert_eq!((data.len(), rest), (FRAME_BYTES_MAX, Some(0)));
        }
    }
}
