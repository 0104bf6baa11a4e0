//! How much of one peer is told in a second; what is more is counted. Pure: time comes in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Look;

/// What is told of one peer within [`SECOND`].
const LINES_MAX: u64 = 100;
const BYTES_MAX: usize = 64 << 10;
const SECOND: Duration = Duration::from_secs(1);

/// The peers of which something was told within the last second.
#[derive(Default)]
pub(super) struct Rates {
    peers: HashMap<Option<String>, ToldRate>,
    /// How many seconds were ever begun.
    seen: u64,
}

/// What was told of a peer since its second began.
struct ToldRate {
    /// The first whose second began is also the first whose count is told.
    order: u64,
    since: Instant,
    lines: u64,
    bytes: usize,
    /// How many lines are left out, and how the first of them would have looked.
    left_out: u64,
    look: Look,
}

/// So many lines of a peer were left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) peer: Option<String>,
    pub(super) look: Look,
    pub(super) count: u64,
    pub(super) within: Duration,
}

impl Rates {
    /// Is there room for a line of so many bytes? If not, it is counted. The first line of a second
    /// always has it, whatever its length.
    pub(super) fn has_room(
        &mut self,
        now: Instant,
        peer: Option<&str>,
        look: Look,
        bytes: usize,
    ) -> bool {
        let peer = peer.map(str::to_owned);
        let order = self.seen;
        let told = self.peers.entry(peer).or_insert_with(|| {
            self.seen += 1;
            ToldRate { order, since: now, lines: 0, bytes: 0, left_out: 0, look }
        });
        let has_room = told.lines < LINES_MAX && bytes <= BYTES_MAX.saturating_sub(told.bytes);
        // Once a line is left out all are, or what is told would be out of order.
        if told.lines == 0 || has_room && told.left_out == 0 {
            told.lines += 1;
            told.bytes += bytes;
            return true;
        }
        if told.left_out == 0 {
            told.look = look;
        }
        told.left_out += 1;
        false
    }

    /// What was left out in seconds that are over; forgets them.
    pub(super) fn due(&mut self, now: Instant) -> Vec<LeftOut> {
        self.take(now, |told| told.since + SECOND <= now)
    }

    /// When something is due, if anything was left out.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let counted = self.peers.values().filter(|told| told.left_out != 0);
        counted.map(|told| told.since + SECOND).min()
    }

    /// All that was left out.
    pub(super) fn all(&mut self, now: Instant) -> Vec<LeftOut> {
        self.take(now, |_| true)
    }

    fn take(&mut self, now: Instant, is_due: impl Fn(&ToldRate) -> bool) -> Vec<LeftOut> {
        let mut due: Vec<_> = self.peers.extract_if(|_, told| is_due(told)).collect();
        due.sort_unstable_by_key(|(_, told)| told.order);
        let left_out = due.into_iter().filter(|(_, told)| told.left_out != 0);
        let left_out = left_out.map(|(peer, told)| {
            let within = now.saturating_duration_since(told.since);
            LeftOut { peer, look: told.look, count: told.left_out, within }
        });
        left_out.collect()
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    const INFO: Look = Look::Log(Level::INFO);

    fn told(rates: &mut Rates, now: Instant, peer: &str, lines: usize, bytes: usize) -> usize {
        (0..lines).filter(|_| rates.has_room(now, Some(peer), INFO, bytes)).count()
    }

    #[test]
    fn a_hundred_lines_of_each_peer_are_told_in_a_second() {
        let start = Instant::now();
        let mut rates = Rates::default();
        assert_eq!(told(&mut rates, start, "a", 1000, 10), 100);
        assert_eq!(told(&mut rates, start, "b", 99, 10), 99);
        assert_eq!(rates.next_due(), Some(start + SECOND));
        let soon = start + SECOND / 2;
        assert_eq!((told(&mut rates, soon, "a", 5, 1), rates.due(soon)), (0, Vec::new()));
        let left_out =
            LeftOut { peer: Some("a".to_owned()), look: INFO, count: 905, within: SECOND };
        let later = start + SECOND;
        assert_eq!(rates.due(later), [left_out]);
        assert_eq!(rates.next_due(), None);
        assert_eq!(told(&mut rates, later, "a", 1000, 10), 100);
    }

    #[test]
    fn so_are_64_kib_and_at_least_one_line() {
        let start = Instant::now();
        let mut rates = Rates::default();
        assert_eq!(told(&mut rates, start, "a", 10, 16 << 10), 4);
        assert_eq!(told(&mut rates, start, "b", 10, 1 << 20), 1);
        // A short line does not overtake those that were too long.
        assert!(rates.has_room(start, Some("c"), INFO, 1));
        assert!(!rates.has_room(start, Some("c"), INFO, BYTES_MAX));
        assert!(!rates.has_room(start, Some("c"), INFO, 1));
        let counts: Vec<_> = rates.all(start).into_iter().map(|left| left.count).collect();
        assert_eq!(counts, [6, 9, 2]);
    }

    #[test]
    fn what_is_left_out_looks_like_the_first_of_it() {
        let now = Instant::now();
        let mut rates = Rates::default();
        assert!(rates.has_room(now, None, INFO, BYTES_MAX));
        assert!(!rates.has_room(now, None, Look::Shown, 1));
        assert!(!rates.has_room(now, None, INFO, 1));
        let left_out = LeftOut { peer: None, look: Look::Shown, count: 2, within: Duration::ZERO };
        assert_eq!(rates.all(now), [left_out]);
    }
}
