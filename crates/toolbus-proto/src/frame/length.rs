//! Frames with their length before them, as four bytes, the greatest first: Orchestra.
//!
//! The bytes stay where the hands read them to; [`Lengths::next`] cuts whole frames off their
//! front. A frame over the limit is refused at its length, and its bytes are not kept.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use crate::channel::Outbox;

/// How many bytes the length takes.
pub const HEADER_BYTES: usize = 4;

/// Cuts frames.
#[derive(Debug)]
pub struct Lengths {
    bytes_max: usize,
    /// So much of a frame that is too long is still to come and to be thrown away.
    skipping: usize,
}

/// A frame longer than its limit; its bytes are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("frame of {bytes} bytes is over the limit of {bytes_max}")]
pub struct FrameTooLong {
    /// What its header says.
    pub bytes: usize,
    /// The limit.
    pub bytes_max: usize,
}

/// The bytes ended inside a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the bytes ended inside a frame")]
pub struct Truncated;

impl Lengths {
    /// Frames of at most `bytes_max` bytes, the header not counted.
    pub fn new(bytes_max: usize) -> Lengths {
        Lengths { bytes_max, skipping: 0 }
    }

    /// The next whole frame without its header, or `None` until the rest of it arrives.
    ///
    /// A frame that is too long is told once, at its header; what follows it is read as usual.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Result<Bytes, FrameTooLong>> {
        let skipped = self.skipping.min(input.len());
        input.advance(skipped);
        self.skipping -= skipped;
        if self.skipping > 0 {
            return None;
        }
        let header = *input.first_chunk::<HEADER_BYTES>()?;
        let bytes = u32::from_be_bytes(header) as usize;
        if self.bytes_max < bytes {
            input.advance(HEADER_BYTES);
            self.skipping = bytes;
            return Some(Err(FrameTooLong { bytes, bytes_max: self.bytes_max }));
        }
        // No room is made for what a header only promises: a hundred streams could promise.
        if input.len() - HEADER_BYTES < bytes {
            return None;
        }
        input.advance(HEADER_BYTES);
        // Shares the buffer: a frame is cut out, never copied.
        Some(Ok(input.split_to(bytes).freeze()))
    }

    /// The end of the bytes: is it the end of a frame, too? The end of one that was refused is
    /// not told twice.
    pub fn end(&mut self, input: &BytesMut) -> Result<(), Truncated> {
        let was_refused = std::mem::take(&mut self.skipping) > 0;
        if was_refused || input.is_empty() { Ok(()) } else { Err(Truncated) }
    }
}

/// Appends the header of a frame of so many bytes.
///
/// Panics beyond `u32::MAX`: every writer has a limit far below it.
pub fn put_header(out: &mut Outbox, bytes: usize) {
    let header = u32::try_from(bytes).expect("a frame is within its limit").to_be_bytes();
    out.put(&header);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Found = Vec<Result<Bytes, FrameTooLong>>;

    fn frames(bytes: &[u8], cuts: &[usize], bytes_max: usize) -> (Found, Result<(), Truncated>) {
        let mut frames = Lengths::new(bytes_max);
        let mut input = BytesMut::new();
        let mut out = Vec::new();
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            let cut = cut.clamp(from, bytes.len());
            input.extend_from_slice(&bytes[from..cut]);
            from = cut;
            out.extend(std::iter::from_fn(|| frames.next(&mut input)));
            assert!(input.len() < HEADER_BYTES + bytes_max.max(1), "kept more than the limit");
        }
        let end = frames.end(&input);
        (out, end)
    }

    #[test]
    fn a_frame_over_the_limit_is_skipped_and_the_next_is_fine() {
        let bytes = b"\0\0\0\x03abc\0\0\0\x04abcd\0\0\0\0\0\0\0\x01";
        let fine = |frame: &'static [u8]| Ok(Bytes::from_static(frame));
        let too_long = Err(FrameTooLong { bytes: 4, bytes_max: 3 });
        let expected = vec![fine(b"abc"), too_long.clone(), fine(b"")];
        assert_eq!(frames(bytes, &[], 3), (expected, Err(Truncated)));
        let refused = vec![fine(b"abc"), too_long];
        assert_eq!(frames(&bytes[..13], &[], 3), (refused, Ok(())), "told once");
    }

    proptest! {
        #[test]
        fn any_split_of_the_input_gives_the_same_frames(
            frames_in in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..8),
            rest in prop::collection::vec(0u8..3, 0..6),
            mut cuts in prop::collection::vec(0usize..120, 0..20),
            bytes_max in 0usize..12,
        ) {
            cuts.sort_unstable();
            let mut bytes = Vec::new();
            for frame in &frames_in {
                bytes.extend_from_slice(&(frame.len() as u32).to_be_bytes());
                bytes.extend_from_slice(frame);
            }
            bytes.extend_from_slice(&rest);
            let whole = frames(&bytes, &[], bytes_max);
            prop_assert_eq!(frames(&bytes, &cuts, bytes_max), whole);
        }
    }
}
