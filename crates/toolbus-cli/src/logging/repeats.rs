//! The same warning of the same peer is told once, then counted. Pure: time comes in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long is counted before the count is told.
pub(super) const COUNTED_FOR: Duration = Duration::from_secs(10);
/// How many warnings of one kind are told while it is counted, if each says something else.
const TOLD_MAX: usize = 20;
/// How many kinds are remembered; beyond it the oldest is told and forgotten.
const KINDS_MAX: usize = 256;

/// Warnings that were told not long ago.
#[derive(Default)]
pub(super) struct Repeats {
    kinds: HashMap<Kind, Counted>,
    /// How many kinds there have been.
    seen: u64,
}

/// Where a warning comes from, and which peer it is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) callsite: tracing::callsite::Identifier,
    pub(super) peer: Option<String>,
}

struct Counted {
    /// The first kind that was told is also the first whose count is told.
    order: u64,
    since: Instant,
    told: Vec<String>,
    more: u64,
}

/// So many more of one kind came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) peer: Option<String>,
    /// The first of them that was told.
    pub(super) message: String,
    pub(super) count: u64,
    pub(super) within: Duration,
}

impl Repeats {
    /// Is this one to be told? If not, it is counted.
    pub(super) fn is_news(&mut self, now: Instant, kind: Kind, message: &str) -> bool {
        let order = self.seen;
        self.seen += 1;
        let fresh = || Counted { order, since: now, told: Vec::new(), more: 0 };
        let counted = self.kinds.entry(kind).or_insert_with(fresh);
        let is_known = counted.told.iter().any(|told| told == message);
        if is_known || counted.told.len() == TOLD_MAX {
            counted.more += 1;
            return false;
        }
        counted.told.push(message.to_owned());
        true
    }

    /// What was counted long enough, or too many kinds ago; forgets it.
    pub(super) fn due(&mut self, now: Instant) -> Vec<More> {
        let mut due = self.take(now, |counted| counted.since + COUNTED_FOR <= now);
        if KINDS_MAX < self.kinds.len()
            && let Some(oldest) = self.kinds.values().map(|counted| counted.since).min()
        {
            due.extend(self.take(now, |counted| counted.since == oldest));
        }
        due
    }

    /// When something is due, if anything was counted.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let counted = self.kinds.values().filter(|counted| counted.more != 0);
        counted.map(|counted| counted.since + COUNTED_FOR).min()
    }

    /// All that was counted.
    pub(super) fn all(&mut self, now: Instant) -> Vec<More> {
        self.take(now, |_| true)
    }

    fn take(&mut self, now: Instant, is_due: impl Fn(&Counted) -> bool) -> Vec<More> {
        let mut due: Vec<_> = self.kinds.extract_if(|_, counted| is_due(counted)).collect();
        due.sort_unstable_by_key(|(_, counted)| counted.order);
        let told =
            due.into_iter().filter(|(_, counted)| counted.more != 0).map(|(kind, counted)| {
                let message = counted.told.into_iter().next().unwrap_or_default();
                let within = now.duration_since(counted.since);
                More { peer: kind.peer, message, count: counted.more, within }
            });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use tracing::Callsite as _;

    use super::*;

    fn kind(peer: &str) -> Kind {
        let callsite =
            tracing::callsite! { name: "t", kind: tracing::metadata::Kind::EVENT, fields: };
        Kind { callsite: callsite.metadata().callsite(), peer: Some(peer.to_owned()) }
    }

    #[test]
    fn the_same_is_told_once_and_then_counted() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        assert!(repeats.is_news(start, kind("a"), "x"));
        for _ in 0..12_345 {
            assert!(!repeats.is_news(start, kind("a"), "x"));
        }
        assert!(repeats.is_news(start, kind("b"), "x"));
        assert_eq!(repeats.due(start), []);
        assert_eq!(repeats.next_due(), Some(start + COUNTED_FOR));
        let more = More {
            peer: Some("a".to_owned()),
            message: "x".to_owned(),
            count: 12_345,
            within: COUNTED_FOR,
        };
        assert_eq!(repeats.due(start + COUNTED_FOR), [more]);
        assert!(repeats.is_news(start + COUNTED_FOR, kind("a"), "x"));
    }

    #[test]
    fn different_words_are_told_up_to_a_limit() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        let told = (0..100).filter(|n| repeats.is_news(now, kind("a"), &n.to_string())).count();
        assert_eq!(told, TOLD_MAX);
        assert_eq!(repeats.all(now)[0].count, 80);
    }
}
