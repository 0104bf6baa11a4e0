//! What became of the tokens that were shown to each front: counted, and told in the log.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::bus::meters::{self, Measure, Meter, MeterReading};

static TOKENS: Measure = Measure {
    name: "toolbus_oauth_tokens_total",
    help: "Tokens that were shown to a front, by what became of them.",
    is_counter: true,
};

/// All that can become of a token.
const OUTCOMES: [&str; 13] = [
    "ok",
    "ended",
    "audience",
    "issuer",
    "signature",
    "key",
    "algorithm",
    "malformed",
    "scope",
    "caller",
    "bound",
    "inactive",
    "unavailable",
];
/// How often the log is told why a token was refused.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// What became of the tokens of one front.
pub(crate) struct TokenCounts {
    front: Arc<str>,
    by_outcome: RefCell<BTreeMap<&'static str, u64>>,
    told_at: Cell<Option<Instant>>,
}

impl TokenCounts {
    /// Those of the front of this name, which go on while anybody has them.
    pub(crate) fn of(front: &Arc<str>) -> Rc<TokenCounts> {
        thread_local! {
            static ALL: RefCell<HashMap<Arc<str>, Weak<TokenCounts>>> = RefCell::default();
        }
        ALL.with_borrow_mut(|all| {
            if let Some(known) = all.get(front).and_then(Weak::upgrade) {
                return known;
            }
            all.retain(|_, counts| 0 < counts.strong_count());
            let by_outcome = OUTCOMES.iter().map(|outcome| (*outcome, 0)).collect();
            let by_outcome = RefCell::new(by_outcome);
            let counts =
                Rc::new(TokenCounts { front: front.clone(), by_outcome, told_at: Cell::default() });
            all.insert(front.clone(), Rc::downgrade(&counts));
            let meter: Rc<dyn Meter> = counts.clone();
            meters::watch(&meter);
            counts
        })
    }

    /// A token was let in.
    pub(crate) fn let_in(&self) {
        self.count("ok");
    }

    /// A token was refused, for this reason.
    pub(crate) fn refused(&self, outcome: &'static str, why: impl fmt::Display) {
        self.count(outcome);
        let now = Instant::now();
        if self.told_at.get().is_none_or(|at| at + TOLD_EVERY <= now) {
            self.told_at.set(Some(now));
            tracing::info!("front.{}: a token was refused: {why}", self.front);
        }
    }

    fn count(&self, outcome: &'static str) {
        *self.by_outcome.borrow_mut().entry(outcome).or_default() += 1;
    }
}

impl Meter for TokenCounts {
    fn read(&self) -> Vec<MeterReading> {
        let by_outcome = self.by_outcome.borrow();
        let readings = by_outcome.iter().map(|(outcome, value)| MeterReading {
            measure: &TOKENS,
            labels: vec![("front", self.front.to_string()), ("outcome", (*outcome).to_owned())],
            value: *value,
        });
        readings.collect()
    }
}
