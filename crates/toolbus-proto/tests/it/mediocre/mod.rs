//! mediocre-rpc: vectors and conversations of `transcripts/mediocre/`, faults and chance.

mod chance;
mod conversations;
mod ends;
mod exchange;
mod faults;
mod hub;
mod vectors;

use toolbus_proto::mediocre::frames::Random;

/// Frames that can be foreseen: the first is `A` and 24 times `a`, the second begins with `B`.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    letters: u64,
}

impl Random for Counting {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
        if bytes.len() == 4 && self.letters.is_multiple_of(25) {
            let scaled = ((self.letters / 25 % 26) << 32).div_ceil(26) as u32;
            bytes.copy_from_slice(&scaled.to_le_bytes());
        }
        self.letters += 1;
    }
}

/// The frame that is drawn as number `index`, counted from 0.
pub(crate) fn frame(index: u8) -> String {
    format!("{}{}", char::from(b'A' + index), "a".repeat(24))
}
