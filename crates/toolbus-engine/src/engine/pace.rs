//! How much of our one thread a peer may have: a turn is bounded, and a peer that makes nothing
//! but noise rests.

use std::mem;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::drive::ReadNext;

/// How long one peer may keep all others waiting. What was read is handled to its end, so the
/// first turn of a peer that sends very many frames may be longer.
const TURN_TIME: Duration = Duration::from_millis(5);
/// What is handled at once of a peer that made a turn too long all by itself.
const HELD_BYTES: usize = 4 * 1024;
/// In so few steps a turn becomes too long only by what is handled, not by what is read.
const ASKS_FEW: usize = 2;

/// From so many frames in a row that served no purpose on, a peer counts as noisy.
const NOISE_FROM: usize = 64;
/// A noisy peer rests so many times as long as its noise took: it costs the others a tenth.
const REST_TIMES: u32 = 9;
/// However long its noise took, a peer is heard again after this.
const REST_MAX: Duration = Duration::from_millis(50);

/// How long one turn has been: a peer that never stops talking must not stop signals,
/// deadlines and all other peers.
pub(super) struct Pace {
    began: Instant,
    /// How often something was handled since.
    asks: usize,
    /// It takes so long to handle what this peer sends that it is handled bit by bit.
    is_held: bool,
    /// What was read and not yet shown to the machine.
    kept_back: BytesMut,
    /// How often in a row nothing but blanks was read.
    blanks: usize,
    /// Something was read, or shown, that it was not judged by yet.
    has_read: bool,
    /// Until then nothing is read, because all it said of late was noise.
    pub(super) rest: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            began: Instant::now(),
            asks: 0,
            is_held: false,
            kept_back: BytesMut::new(),
            blanks: 0,
            has_read: false,
            rest: None,
        }
    }

    /// Something was handled.
    pub(super) fn asked(&mut self) {
        self.asks += 1;
    }

    /// Others had their turn: because it was theirs, or because there was nothing to do.
    pub(super) fn turn_passed(&mut self, now: Instant, next: ReadNext) {
        self.is_held &= next == ReadNext::Turn;
        self.began = now;
        self.asks = 0;
        if self.rest.is_some_and(|rest| rest <= now) {
            self.rest = None;
        }
    }

    /// Looks at what was just read.
    pub(super) fn listen(&mut self, read: &[u8]) {
        let is_blank = !read.is_empty() && read.iter().all(u8::is_ascii_whitespace);
        self.blanks = if is_blank { self.blanks + 1 } else { 0 };
        self.has_read = true;
    }

    /// Lets a peer rest that makes nothing but noise. What it says is read after all, only not
    /// at the cost of those that have something to say: each rest is for what was read since the
    /// one before, or it would never be heard again.
    pub(super) fn judge(&mut self, noise: usize) {
        let has_read = mem::take(&mut self.has_read);
        if has_read && self.rest.is_none() && (NOISE_FROM <= noise || NOISE_FROM <= self.blanks) {
            let now = Instant::now();
            let cost = now.duration_since(self.began);
            self.rest = Some(now + (cost * REST_TIMES).min(REST_MAX));
        }
    }

    /// Keeps back most of what was just read behind the first `shown` bytes, if it must be. A
    /// machine never sees less than it has seen.
    pub(super) fn keep_back(&mut self, input: &mut BytesMut, shown: usize) {
        if self.is_held && shown + HELD_BYTES < input.len() {
            self.kept_back = input.split_off(shown + HELD_BYTES);
        }
    }

    /// So many bytes were read and are not shown yet.
    pub(super) fn kept_back(&self) -> usize {
        self.kept_back.len()
    }

    /// Shows more of what was kept back. Tells whether there was any.
    pub(super) fn show_more(&mut self, input: &mut BytesMut) -> bool {
        if self.kept_back.is_empty() {
            return false;
        }
        let count = HELD_BYTES.min(self.kept_back.len());
        input.unsplit(self.kept_back.split_to(count));
        self.has_read = true;
        true
    }

    pub(super) fn is_too_long(&mut self, now: Instant) -> bool {
        let is_too_long = TURN_TIME <= now.duration_since(self.began);
        self.is_held |= is_too_long && self.asks <= ASKS_FEW;
        is_too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_followed_by_a_rest_that_ends() {
        let mut pace = Pace::new();
        pace.listen(b"x\n");
        pace.judge(NOISE_FROM - 1);
        assert_eq!(pace.rest, None);
        pace.listen(b"x\n");
        pace.judge(NOISE_FROM);
        let rest = pace.rest.expect("it has said nothing else");
        pace.turn_passed(rest - Duration::from_nanos(1), ReadNext::Read);
        assert_eq!(pace.rest, Some(rest));
        pace.turn_passed(rest, ReadNext::Read);
        assert_eq!(pace.rest, None);
    }

    #[test]
    fn behind_a_rest_it_is_heard_before_it_rests_again() {
        let mut pace = Pace::new();
        pace.listen(b"x\n");
        pace.judge(NOISE_FROM);
        let rest = pace.rest.expect("it has said nothing else");
        pace.turn_passed(rest, ReadNext::Read);
        pace.judge(NOISE_FROM);
        assert_eq!(pace.rest, None);
        pace.listen(b"x\n");
        pace.judge(NOISE_FROM + 1);
        assert!(pace.rest.is_some());
    }

    #[test]
    fn blanks_are_noise_and_one_letter_ends_them() {
        let mut pace = Pace::new();
        for _ in 0..NOISE_FROM {
            pace.listen(b" \n\r\t");
        }
        pace.listen(b" \n{");
        pace.judge(0);
        assert_eq!(pace.rest, None);
        for _ in 0..NOISE_FROM {
            pace.listen(b"\n");
        }
        pace.judge(0);
        assert!(pace.rest.is_some());
    }
}
