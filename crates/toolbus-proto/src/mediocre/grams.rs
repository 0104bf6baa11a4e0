//! A search for frames that would make an ordinary search slow: it skips data that shares no
//! four bytes with the frame.
//!
//! Our own frames never do. But a peer may choose one that is long or repeats itself, such as 255 times
//! `a`, and data to go with it.

use memchr::memmem::Finder;

/// The bytes that are looked at together.
const GRAM: usize = 4;
/// Frames from this size on are searched this way, or from half of it if they repeat themselves.
const FRAME_FROM: usize = 33;
/// What is left to the ordinary search where nothing else helps.
const STRETCH: usize = 4096;

/// Which runs of four bytes a frame has; of others it may say so too, but seldom.
#[derive(Debug)]
pub(super) struct Grams([u64; 32]);

impl Grams {
    /// For a frame that needs it; `border` is the longest beginning that is also its end.
    pub(super) fn of(frame: &[u8], border: usize) -> Option<Box<Grams>> {
        if frame.len() < FRAME_FROM / 2 || (frame.len() < FRAME_FROM && border == 0) {
            return None;
        }
        let mut grams = Box::new(Grams([0; 32]));
        for gram in frame.windows(GRAM) {
            let bit = bit(gram);
            grams.0[bit / 64] |= 1 << (bit % 64);
        }
        Some(grams)
    }

    /// Where the frame begins in `piece`.
    ///
    /// Linear: a look over a place where the frame may stand goes on for long only if the next
    /// one does not, or the stretch behind it is left to the ordinary search.
    pub(super) fn find(
        &self,
        frame_len: usize,
        finder: &Finder<'_>,
        piece: &[u8],
    ) -> Option<usize> {
        let mut from = 0;
        while let Some(place) = piece.get(from..from + frame_len) {
            // The frame cannot stand across what it does not have.
            if let Some(at) = place.windows(GRAM).rposition(|gram| !self.may_have(gram)) {
                from += at + 1;
                continue;
            }
            let stretch = &piece[from..piece.len().min(from + STRETCH)];
            if let Some(at) = finder.find(stretch) {
                return Some(from + at);
            }
            from += stretch.len() - frame_len + 1;
        }
        None
    }

    fn may_have(&self, gram: &[u8]) -> bool {
        let bit = bit(gram);
        self.0[bit / 64] & 1 << (bit % 64) != 0
    }
}

/// One of 2048 bits.
fn bit(gram: &[u8]) -> usize {
    let gram = u32::from_le_bytes(gram.try_into().expect("is of four bytes"));
    (gram.wrapping_mul(0x9E37_79B1) >> 21) as usize
}
