//! Random numbers from the operating system, for what must not be foreseen.

use std::fmt;

use toolbus_proto::chance::Random;

/// Asked for at once, since a frame takes it four bytes at a time.
const BUFFER_BYTES: usize = 128;

/// The operating system's generator.
pub struct OsRandom {
    buffer: [u8; BUFFER_BYTES],
    used: usize,
}

impl OsRandom {
    /// Nothing is drawn before it is needed.
    pub fn new() -> OsRandom {
        OsRandom { buffer: [0; BUFFER_BYTES], used: BUFFER_BYTES }
    }
}

/// So many bytes that cannot be foreseen.
///
/// # Panics
///
/// If the system has no chance to give.
#[cfg(feature = "runtime")]
pub fn bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    getrandom::fill(&mut bytes).expect("the system has a generator");
    bytes
}

impl Default for OsRandom {
    fn default() -> OsRandom {
        OsRandom::new()
    }
}

impl Random for OsRandom {
    /// # Panics
    ///
    /// If the system has no chance to give: whatever stood there instead could be foreseen.
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.used == BUFFER_BYTES {
                getrandom::fill(&mut self.buffer).expect("the system has a generator");
                self.used = 0;
            }
            // What was given out is not kept.
            *byte = std::mem::take(&mut self.buffer[self.used]);
            self.used += 1;
        }
    }
}

impl fmt::Debug for OsRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OsRandom")
    }
}
