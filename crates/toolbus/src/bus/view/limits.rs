//! Limits of callers, fronts and backs, shared by all buses of a config and kept while it is read
//! again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::limit::{Bucket, Limits, Whose, too_fast, too_many};
use toolbus_proto::tool::Failure;

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
pub(super) fn admit<'a>(
    now: Instant,
    limiters: impl Iterator<Item = &'a Rc<Limiter>> + Clone,
) -> Result<InUse, (Arc<str>, Failure)> {
    if let Some((limiter, most)) =
        limiters.clone().find_map(|limiter| Some((limiter, limiter.is_full()?)))
    {
        return Err((limiter.name.clone(), too_many(limiter.whose, most)));
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
        return Err((limiter.name.clone(), too_fast(limiter.whose, rate, wait)));
    }
    let mut in_use = InUse::default();
    for limiter in limiters {
        if let Some(bucket) = &limiter.bucket {
            bucket.borrow_mut().take();
        }
        // Counted whether or not there is such a limit: the config that is read next may set one.
        if limiter.limits.in_flight.is_some() {
            in_use.add(&limiter.in_flight);
        }
    }
    Ok(in_use)
}

/// One call that has begun and not ended, in each of these counts.
#[derive(Default)]
pub(super) struct InUse {
    /// Those of the front, the caller, one of its patterns and the back.
    few: [Option<Rc<Cell<u32>>>; 4],
    more: Vec<Rc<Cell<u32>>>,
}

impl InUse {
    /// Is it counted nowhere?
    pub(super) fn is_empty(&self) -> bool {
        self.few[0].is_none()
    }

    fn add(&mut self, count: &Rc<Cell<u32>>) {
        count.set(count.get() + 1);
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(count.clone()),
            None => self.more.push(count.clone()),
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let all = self.few.iter().flatten().chain(&self.more);
        all.for_each(|count| count.set(count.get().saturating_sub(1)));
    }
}
