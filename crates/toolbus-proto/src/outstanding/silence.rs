//! Tells a peer that hangs from one that is slow.
//!
//! A call that times out says little: its tool may be slow. A peer that has left several calls
//! in a row without an answer, and has answered nothing else as long as they waited, is stopped
//! or hangs, and has to be replaced.

/// So many calls in a row.
const MISSED_MAX: u32 = 2;

/// How long a peer has been silent, counted in calls.
#[derive(Debug, Default)]
pub struct Silence {
    answers: u64,
    missed: u32,
}

/// When a call was made, as [`Silence`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since(u64);

impl Silence {
    /// A call is being made.
    pub fn since(&self) -> Since {
        Since(self.answers)
    }

    /// The peer answered something, whatever it was, and be it too late.
    pub fn answered(&mut self) {
        self.answers += 1;
        self.missed = 0;
    }

    /// A call that was made at `since` got no answer in time. Does the peer hang?
    pub fn timed_out(&mut self, since: Since) -> bool {
        // If others were answered while it waited, it was this call that was slow.
        if since == self.since() {
            self.missed += 1;
        }
        MISSED_MAX <= self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_calls_in_a_row_are_enough() {
        let mut silence = Silence::default();
        let (first, second) = (silence.since(), silence.since());
        assert!(!silence.timed_out(first));
        assert!(silence.timed_out(second));
    }

    #[test]
    fn any_answer_between_them_counts_from_the_start() {
        let mut silence = Silence::default();
        let first = silence.since();
        assert!(!silence.timed_out(first));
        silence.answered();
        let (second, third) = (silence.since(), silence.since());
        assert!(!silence.timed_out(second));
        assert!(silence.timed_out(third));
    }

    #[test]
    fn a_call_while_others_were_answered_does_not_count() {
        let mut silence = Silence::default();
        let slow = [silence.since(), silence.since(), silence.since()];
        silence.answered();
        assert!(slow.into_iter().all(|since| !silence.timed_out(since)));
    }
}
