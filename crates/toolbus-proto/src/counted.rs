//! Maps by numbers that we count up ourselves: tickets, and the ids of our own questions.
//!
//! No peer can choose them to collide, so that a few instructions are enough to hash them.

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
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
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
