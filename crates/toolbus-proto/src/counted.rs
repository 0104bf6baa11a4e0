//! Maps by numbers that we count up ourselves: tickets, and the ids of our own questions.
//!
//! No peer can choose them to collide, so that a few instructions are enough to hash them. Ids that
//! a peer gives its own requests are hashed so, too: of those there are only so many at a time, and
//! whoever has them collide waits for that alone.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of each number.
pub type Counted<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Some of these numbers.
pub type CountedSet<K> = HashSet<K, BuildHasherDefault<Spread>>;

/// Spreads counted numbers over all bits.
#[derive(Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.write_u64(last);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The golden ratio: neighbours end up far from each other.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Which variant of an enum it is, if the numbers are of several kinds.
    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
