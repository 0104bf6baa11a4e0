//! Maps by ticket. Tickets are numbers that we count up ourselves, so that nobody outside can
//! choose them to collide, and a few instructions hash them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use toolbus_proto::channel::Ticket;

/// What is known of each ticket.
pub(crate) type ByTicket<T> = HashMap<Ticket, T, BuildHasherDefault<Spread>>;
/// Some tickets.
pub(crate) type Tickets = HashSet<Ticket, BuildHasherDefault<Spread>>;

/// Spreads counted numbers over all bits.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio: neighbours end up far from each other.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
