//! How fast what a client sends has to come.
//!
//! A client that sends a byte now and then is never silent, and holds its place for ever. So
//! besides a time for the beginning there is a rate for the rest.

use std::time::{Duration, Instant};

/// How many bytes a second count as going on.
pub const BYTES_A_SECOND_MIN: u32 = 1024;

/// How a client goes on with what it has begun.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    late_at: Instant,
}

impl Pace {
    /// It begins now. Of `patience` nothing is gained or lost by bytes; each of them gives a
    /// little more time.
    pub fn new(now: Instant, patience: Duration) -> Pace {
        Pace { late_at: now + patience }
    }

    /// So many bytes more have come.
    pub fn handle_bytes(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.late_at += Duration::from_secs(1) * count / BYTES_A_SECOND_MIN;
    }

    /// When it has taken too long, unless more comes.
    pub fn late_at(&self) -> Instant {
        self.late_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_drips_is_late_and_who_goes_on_is_not() {
        let (begun, patience) = (Instant::now(), Duration::from_secs(30));
        let late = |bytes: usize| {
            let mut pace = Pace::new(begun, patience);
            let drips = (0u32..).find(|second| {
                pace.handle_bytes(bytes);
                pace.late_at() <= begun + Duration::from_secs(1) * *second || 1_000_000 < *second
            });
            drips.unwrap()
        };
        assert_eq!(late(0), 30);
        assert_eq!(late(1), 31);
        assert_eq!(late(512), 61);
        assert_eq!(late(1024), 1_000_001, "never");
    }
}
