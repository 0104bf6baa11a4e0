//! The same line about the same peer is told once, then counted. Pure: time comes in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tracing::Level;

/// How long is counted before the count is told.
pub(super) const COUNTED_FOR: Duration = Duration::from_secs(10);
/// How many warnings of one kind are told while it is counted, if each says something else.
const TOLD_MAX: usize = 20;
/// How often any other line is told while it is counted: a program may be ready again, and a server
/// may log the same for two requests.
const SAME_MAX: usize = 5;
/// How many kinds are remembered; beyond it the oldest is told and forgotten.
const KINDS_MAX: usize = 256;

/// Lines that were told not long ago.
#[derive(Default)]
pub(super) struct Repeats {
    kinds: HashMap<Kind, Counted>,
    /// How many kinds there have been.
    seen: u64,
}

/// Where a line comes from, and which peer it is about. Warnings that differ are of one kind all
/// the same; of other lines each text is a kind of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    callsite: tracing::callsite::Identifier,
    peer: Option<String>,
    text: Option<String>,
}

impl Kind {
    pub(super) fn of(
        callsite: tracing::callsite::Identifier,
        peer: Option<&str>,
        level: Level,
        message: &str,
    ) -> Kind {
        let text = (level != Level::WARN).then(|| message.to_owned());
        Kind { callsite, peer: peer.map(str::to_owned), text }
    }
}

struct Counted {
    /// The first kind that was told is also the first whose count is told.
    order: u64,
    since: Instant,
    level: Level,
    told: Vec<String>,
    more: u64,
}

/// So many more of one kind came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct More {
    pub(super) peer: Option<String>,
    pub(super) level: Level,
    /// The first of them that was told.
    pub(super) message: String,
    pub(super) count: u64,
    pub(super) within: Duration,
}

impl Repeats {
    /// Was this said not long ago? Then it is counted.
    pub(super) fn is_repeat(&mut self, kind: &Kind, message: &str) -> bool {
        let Some(counted) = self.kinds.get_mut(kind) else { return false };
        let is_repeat = match kind.text {
            Some(_) => counted.told.len() == SAME_MAX,
            None => {
                counted.told.len() == TOLD_MAX || counted.told.iter().any(|told| told == message)
            }
        };
        counted.more += u64::from(is_repeat);
        is_repeat
    }

    /// This is told now, and counted from now on.
    pub(super) fn tell(&mut self, now: Instant, kind: Kind, level: Level, message: &str) {
        let order = self.seen;
        self.seen += 1;
        let fresh = || Counted { order, since: now, level, told: Vec::new(), more: 0 };
        self.kinds.entry(kind).or_insert_with(fresh).told.push(message.to_owned());
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
                let within = now.saturating_duration_since(counted.since);
                let message = counted.told.first().cloned().unwrap_or_default();
                let Counted { level, more: count, .. } = counted;
                More { peer: kind.peer, level, message, count, within }
            });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use tracing::Callsite as _;

    use super::*;

    fn kind(peer: &str, level: Level, message: &str) -> Kind {
        let callsite =
            tracing::callsite! { name: "t", kind: tracing::metadata::Kind::EVENT, fields: };
        Kind::of(callsite.metadata().callsite(), Some(peer), level, message)
    }

    fn is_news(repeats: &mut Repeats, now: Instant, peer: &str, level: Level, text: &str) -> bool {
        let kind = kind(peer, level, text);
        if repeats.is_repeat(&kind, text) {
            return false;
        }
        repeats.tell(now, kind, level, text);
        true
    }

    #[test]
    fn the_same_is_told_once_and_then_counted() {
        let start = Instant::now();
        let mut repeats = Repeats::default();
        assert!(is_news(&mut repeats, start, "a", Level::WARN, "x"));
        for _ in 0..12_345 {
            assert!(!is_news(&mut repeats, start, "a", Level::WARN, "x"));
        }
        assert!(is_news(&mut repeats, start, "b", Level::WARN, "x"));
        assert_eq!(repeats.due(start), []);
        assert_eq!(repeats.next_due(), Some(start + COUNTED_FOR));
        let more = More {
            peer: Some("a".to_owned()),
            level: Level::WARN,
            message: "x".to_owned(),
            count: 12_345,
            within: COUNTED_FOR,
        };
        assert_eq!(repeats.due(start + COUNTED_FOR), [more]);
        assert!(is_news(&mut repeats, start + COUNTED_FOR, "a", Level::WARN, "x"));
    }

    #[test]
    fn different_words_are_told_up_to_a_limit() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        let mut told = |level| {
            let is_news = |n: &i32| is_news(&mut repeats, now, "a", level, &n.to_string());
            (0..100).filter(is_news).count()
        };
        assert_eq!(told(Level::WARN), TOLD_MAX);
        // What a program says on its standard error is its own, however much: there is a rate.
        assert_eq!(told(Level::INFO), 100);
        assert_eq!(repeats.all(now)[0].count, 80);
    }

    #[test]
    fn lines_of_all_levels_are_counted_each_by_itself() {
        let now = Instant::now();
        let mut repeats = Repeats::default();
        let mut news = Vec::new();
        for text in ["x", "y", "x", "x", "x", "y", "x", "z", "x", "x"] {
            if is_news(&mut repeats, now, "a", Level::INFO, text) {
                news.push(text);
            }
        }
        assert_eq!(news, ["x", "y", "x", "x", "x", "y", "x", "z"]);
        let counted = repeats.all(now).into_iter().map(|more| (more.message, more.count));
        assert_eq!(counted.collect::<Vec<_>>(), [("x".to_owned(), 2)]);
    }
}
