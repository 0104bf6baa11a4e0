//! What waits to be written to one channel.
//!
//! Small pieces are joined, large ones stay as they are and share their buffer, so that one
//! vectored write carries a message whatever its size.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

use crate::json::write_string;

/// From this size on a payload is not copied into the joined bytes.
const WHOLE_FROM: usize = 16 * 1024;

/// With so much waiting, a call had better wait where it can still be taken back or moved on.
const ROOM_BYTES: usize = 64 * 1024;

/// Bytes waiting to be written, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Pieces before `tail`; large payloads, and the joined bytes in front of them.
    pieces: VecDeque<Bytes>,
    /// Small pieces are joined here.
    tail: BytesMut,
    len: usize,
    /// How many bytes have left it, ever.
    left: u64,
    /// The frames that can be taken back, as long as none of their bytes has left.
    frames: VecDeque<Frame>,
}

/// Where a frame is among all bytes that were ever put in.
#[derive(Debug, Clone, Copy)]
struct Frame {
    number: u64,
    from: u64,
    to: u64,
}

impl Outbox {
    /// Nothing to write.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Is so little waiting that the next call may join it?
    pub fn has_room(&self) -> bool {
        self.len < ROOM_BYTES
    }

    /// Appends a frame by `put`, which [`Outbox::withdraw`] knows by this number. A machine that uses
    /// it gives each frame another one.
    pub fn put_frame(&mut self, number: u64, put: impl FnOnce(&mut Outbox)) {
        while self.frames.front().is_some_and(|frame| frame.from < self.left) {
            self.frames.pop_front();
        }
        let from = self.left + self.len as u64;
        put(self);
        let to = self.left + self.len as u64;
        self.frames.push_back(Frame { number, from, to });
    }

    /// Takes back a frame of which no byte has left. Tells whether it was there.
    pub fn withdraw(&mut self, number: u64) -> bool {
        let Some(at) = self.frames.iter().position(|frame| frame.number == number) else {
            return false;
        };
        let Some(Frame { from, to, .. }) = self.frames.remove(at) else { return false };
        if from < self.left {
            return false;
        }
        // Both fit: they are places among what waits.
        let (start, end) = ((from - self.left) as usize, (to - self.left) as usize);
        self.cut_out(start, end);
        for later in self.frames.range_mut(at..) {
            later.from -= to - from;
            later.to -= to - from;
        }
        true
    }

    fn cut_out(&mut self, start: usize, end: usize) {
        let tail = self.tail.split().freeze();
        let pieces = std::mem::take(&mut self.pieces);
        let mut at = 0;
        for piece in pieces.into_iter().chain([tail]) {
            let within = |place: usize| place.saturating_sub(at).min(piece.len());
            let (before, behind) = (piece.slice(..within(start)), piece.slice(within(end)..));
            self.pieces.extend([before, behind].into_iter().filter(|part| !part.is_empty()));
            at += piece.len();
        }
        self.len -= end - start;
    }

    /// Makes room for so many bytes, unless there is.
    pub fn reserve(&mut self, bytes: usize) {
        self.tail.reserve(bytes);
    }

    /// Appends a few bytes by copying them.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends a text as a JSON string, quotes included.
    pub fn put_string(&mut self, text: &str) {
        let before = self.tail.len();
        // Some of it will have to be escaped, and a long text should not move for that.
        self.tail.reserve(text.len() + text.len() / 16 + 2);
        write_string(&mut self.tail, text);
        self.len += self.tail.len() - before;
    }

    /// Appends the digits of a number.
    pub fn put_number(&mut self, mut number: u64) {
        // As many as the largest has.
        let mut digits = [b'0'; 20];
        let mut from = digits.len() - 1;
        loop {
            digits[from] += (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return self.put(&digits[from..]);
            }
            from -= 1;
        }
    }

    /// Appends bytes, without a copy where they are many.
    #[inline]
    pub fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < WHOLE_FROM {
            return self.put(bytes);
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.len += bytes.len();
        self.pieces.push_back(bytes.clone());
    }

    /// Appends all that waits in `other`, which can be used again.
    pub fn append(&mut self, other: &mut Outbox) {
        // A few bytes are copied, so that the room there is here is used again, if there is some.
        if self.is_empty() && (WHOLE_FROM <= other.len || self.tail.capacity() == 0) {
            std::mem::swap(&mut self.pieces, &mut other.pieces);
            std::mem::swap(&mut self.tail, &mut other.tail);
            self.len = std::mem::take(&mut other.len);
            return;
        }
        for piece in other.pieces.drain(..) {
            self.put_shared(&piece);
        }
        if WHOLE_FROM <= other.tail.len() {
            // With all of its room, which would be shared otherwise.
            self.put_shared(&std::mem::take(&mut other.tail).freeze());
        } else {
            self.put(&other.tail);
            other.tail.clear();
        }
        other.len = 0;
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lays the waiting bytes out for one write; gives how many slices were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        let waiting = self.pieces.iter().map(|piece| &piece[..]).chain(tail);
        let mut filled = 0;
        for (slice, bytes) in slices.iter_mut().zip(waiting) {
            *slice = IoSlice::new(bytes);
            filled += 1;
        }
        filled
    }

    /// The first `count` waiting bytes have been written.
    pub fn advance(&mut self, mut count: usize) {
        self.len -= count;
        self.left += count as u64;
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
        if count == self.tail.len() {
            // Keeps the room, so that the next message needs none.
            self.tail.clear();
        } else {
            self.tail.advance(count);
        }
    }

    /// Takes the first of what waits, as far as it is of one piece, and at most so much:
    /// nothing is copied.
    pub fn take_piece(&mut self, bytes_max: usize) -> Option<Bytes> {
        let mut piece = match self.pieces.pop_front() {
            Some(piece) => piece,
            None if self.tail.is_empty() => return None,
            None => self.tail.split().freeze(),
        };
        if bytes_max < piece.len() {
            self.pieces.push_front(piece.split_off(bytes_max));
        }
        self.len -= piece.len();
        self.left += piece.len() as u64;
        Some(piece)
    }

    /// Takes all that waits as one run of bytes.
    pub fn take(&mut self) -> Bytes {
        let mut all = BytesMut::with_capacity(self.len);
        for piece in self.pieces.drain(..) {
            all.extend_from_slice(&piece);
        }
        all.extend_from_slice(&self.tail);
        self.tail.clear();
        self.left += self.len as u64;
        self.len = 0;
        all.freeze()
    }
}

impl fmt::Write for Outbox {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_displayed() {
        let powers = (0..20).map(|exponent| 10u64.pow(exponent));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            let mut outbox = Outbox::new();
            outbox.put_number(number);
            assert_eq!(outbox.take(), number.to_string());
        }
    }

    proptest! {
        #[test]
        fn a_frame_can_be_taken_back_until_its_first_byte_has_left(
            sizes in prop::collection::vec(1usize..20_000, 1..8),
            written in 0usize..60_000,
            taken_back in prop::collection::vec(0u64..8, 1..8),
        ) {
            let mut outbox = Outbox::new();
            for (index, size) in sizes.iter().enumerate() {
                let bytes = Bytes::from(vec![index as u8; *size]);
                outbox.put_frame(index as u64, |out| out.put_shared(&bytes));
            }
            let written = written.min(outbox.len());
            outbox.advance(written);
            let mut expected: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(at, size)| vec![at as u8; *size]).collect();
            let mut skipped = written;
            for frame in &mut expected {
                let count = skipped.min(frame.len());
                frame.drain(..count);
                skipped -= count;
            }
            for number in taken_back {
                let Some(frame) = expected.get_mut(number as usize) else {
                    prop_assert!(!outbox.withdraw(number));
                    continue;
                };
                let is_whole = !frame.is_empty() && frame.len() == sizes[number as usize];
                prop_assert_eq!(outbox.withdraw(number), is_whole);
                if is_whole {
                    frame.clear();
                }
                prop_assert_eq!(outbox.len(), expected.concat().len());
            }
            prop_assert_eq!(outbox.take(), expected.concat());
        }

        #[test]
        fn whatever_is_put_comes_out_in_order(
            sizes in prop::collection::vec(0usize..40_000, 1..8),
            steps in prop::collection::vec(1usize..30_000, 1..30),
            whole in any::<bool>(),
        ) {
            let mut outbox = Outbox::new();
            let mut expected = Vec::new();
            for (index, size) in sizes.into_iter().enumerate() {
                let bytes = Bytes::from(vec![index as u8; size]);
                outbox.put_shared(&bytes);
                expected.extend_from_slice(&bytes);
            }
            let mut written = Vec::new();
            for step in steps {
                let mut slices = [IoSlice::new(&[]); 3];
                let filled = outbox.slices(&mut slices);
                let ready: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
                let step = step.min(ready.len());
                written.extend_from_slice(&ready[..step]);
                outbox.advance(step);
                prop_assert_eq!(outbox.len(), expected.len() - written.len());
            }
            if whole {
                written.extend_from_slice(&outbox.take());
            }
            while let Some(piece) = outbox.take_piece(1000) {
                prop_assert!(piece.len() <= 1000);
                written.extend_from_slice(&piece);
                prop_assert_eq!(outbox.len(), expected.len() - written.len());
            }
            prop_assert_eq!(written, expected);
            prop_assert!(outbox.is_empty());
        }
    }
}
