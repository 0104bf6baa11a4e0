//! Limits of callers, fronts and backs, shared by all buses of a config and kept while it is read
//! again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::limit::{Bucket, Limits, Whose, too_fast, too_many};
use toolbus_proto::tool::Failure;

use crate::engine::calls::{Asker, Pressure, ReplyTo};

/// How many calls may be made: what is set, and what has been used of it.
pub(in crate::bus) struct Limiter {
    /// What it is called: `front.web`, `caller.ann.limit.git.*`.
    name: Arc<str>,
    whose: Whose,
    limits: Limits,
    bucket: Option<Rc<RefCell<Bucket>>>,
    in_flight: Rc<Cell<u32>>,
}

impl Limiter {
    /// One of this name, with what the one of before has counted; `None` if nothing is limited.
    pub(super) fn new(
        name: &str,
        whose: Whose,
        limits: &Limits,
        before: Option<&Rc<Limiter>>,
    ) -> Option<Rc<Limiter>> {
        if limits.is_empty() {
            return None;
        }
        let bucket = limits.rate.as_ref().map(|rate| {
            let same = before.filter(|before| before.limits.rate.as_ref() == Some(rate));
            let kept = same.and_then(|same| same.bucket.clone());
            kept.unwrap_or_else(|| Rc::new(RefCell::new(Bucket::new(rate.clone()))))
        });
        let in_flight = before.map(|before| before.in_flight.clone()).unwrap_or_default();
        let (name, limits) = (name.into(), limits.clone());
        Some(Rc::new(Limiter { name, whose, limits, bucket, in_flight }))
    }

    fn is_full(&self) -> Option<u32> {
        self.limits.in_flight.filter(|most| *most <= self.in_flight.get())
    }

    fn wait(&self, now: Instant) -> Option<Duration> {
        self.bucket.as_ref()?.borrow_mut().wait(now)
    }
}

/// Takes a call into account by all of these, or by none: then the first that is full at once, or
/// the one that makes it wait longest, refuses it.
#[expect(clippy::result_large_err, reason = "a refusal is rare, and gives the reply back")]
pub(super) fn admit<'a>(
    now: Instant,
    limiters: impl Iterator<Item = &'a Rc<Limiter>> + Clone,
    down: ReplyTo,
) -> Result<ReplyTo, (Arc<str>, Failure, ReplyTo)> {
    if let Some((limiter, most)) =
        limiters.clone().find_map(|limiter| Some((limiter, limiter.is_full()?)))
    {
        return Err((limiter.name.clone(), too_many(limiter.whose, most), down));
    }
    let mut longest: Option<(&Rc<Limiter>, Duration)> = None;
    for limiter in limiters.clone() {
        if let Some(wait) = limiter.wait(now)
            && longest.is_none_or(|(_, longest)| longest < wait)
        {
            longest = Some((limiter, wait));
        }
    }
    if let Some((limiter, wait)) = longest
        && let Some(rate) = &limiter.limits.rate
    {
        return Err((limiter.name.clone(), too_fast(limiter.whose, rate, wait), down));
    }
    let mut held = Vec::new();
    for limiter in limiters {
        if let Some(bucket) = &limiter.bucket {
            bucket.borrow_mut().take(now);
        }
        // Counted whether or not there is such a limit: the config that is read next may set one.
        if limiter.limits.in_flight.is_some() {
            held.push(InUse::of(&limiter.in_flight));
        }
    }
    if held.is_empty() {
        return Ok(down);
    }
    Ok(ReplyTo::new(Rc::new(Counted { down, held: RefCell::new(held) }), Ticket(0)))
}

/// One call that has begun and not ended.
struct InUse(Rc<Cell<u32>>);

impl InUse {
    fn of(count: &Rc<Cell<u32>>) -> InUse {
        count.set(count.get() + 1);
        InUse(count.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Passes a reply on, and counts the call until it has ended or nobody waits for it any more.
struct Counted {
    down: ReplyTo,
    held: RefCell<Vec<InUse>>,
}

impl Asker for Counted {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if matches!(down, Down::Done(_)) {
            // Before its caller hears of it, who may call again at once.
            self.held.take();
        }
        self.down.send(down)
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}
