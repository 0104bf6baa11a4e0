//! What is counted of calls: by back and tool, in plain cells on the bus's one thread.
//!
//! A call that is counted costs one look into a map and a few additions. A tool gets numbers of
//! its own when it is first called, and only if its back has listed it: what callers make up is
//! counted in one place, so that no caller can make us remember names without end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use toolbus_proto::tool::{Failure, FailureKind, ToolName};

use crate::bus::health::Health;
use crate::bus::observe::{CallEnd, Kept, ObservedCall, Observer};

/// The name under which calls of tools are counted that their back has not listed.
pub(super) const OTHER: &str = "(other)";

/// The name under which calls are counted that are no caller's of the config.
const NO_CALLER: &str = "(none)";

/// The upper bounds of the buckets of a duration, in seconds, as they are written.
pub(super) const BOUNDS: [(&str, Duration); 15] = [
    ("0.001", Duration::from_micros(1_000)),
    ("0.0025", Duration::from_micros(2_500)),
    ("0.005", Duration::from_micros(5_000)),
    ("0.01", Duration::from_millis(10)),
    ("0.025", Duration::from_millis(25)),
    ("0.05", Duration::from_millis(50)),
    ("0.1", Duration::from_millis(100)),
    ("0.25", Duration::from_millis(250)),
    ("0.5", Duration::from_millis(500)),
    ("1", Duration::from_secs(1)),
    ("2.5", Duration::from_millis(2_500)),
    ("5", Duration::from_secs(5)),
    ("10", Duration::from_secs(10)),
    ("30", Duration::from_secs(30)),
    ("60", Duration::from_secs(60)),
];

/// A back, its tool, and the reason for which the lock refused a call of it.
type LockRefused = (Arc<str>, Arc<str>, &'static str);

/// All numbers of a bus. They outlive a reload.
pub struct Metrics {
    pub(super) since: SystemTime,
    backs: RefCell<HashMap<Arc<str>, BackMetrics>>,
    /// Calls that came by each front.
    fronts: RefCell<HashMap<Arc<str>, Cell<u64>>>,
    /// Calls that were for no back, by the way they failed.
    pub(super) refused: [Cell<u64>; FailureKind::ALL.len()],
    /// Calls by who made them; none are counted where the config has neither callers nor limits.
    callers: RefCell<HashMap<Arc<str>, Rc<CallerSeries>>>,
    /// Calls that a limit kept from their back, by its name and by how.
    limited: RefCell<BTreeMap<(Arc<str>, &'static str), u64>>,
    /// Calls that the lock refused, by back, tool and reason.
    lock_refused: RefCell<BTreeMap<LockRefused, u64>>,
    /// Searches by front, and whether they found something.
    searches: RefCell<BTreeMap<(Arc<str>, bool), u64>>,
}

/// How many tools have a number of their own that the lock has refused.
const REFUSED_MAX: usize = 1000;

/// The numbers of one caller.
#[derive(Default)]
pub(super) struct CallerSeries {
    begun: Cell<u64>,
    pub(super) ended: Cell<u64>,
    pub(super) failed: [Cell<u64>; FailureKind::ALL.len()],
}

/// The numbers of one back.
struct BackMetrics {
    health: Rc<Health>,
    tools: HashMap<ToolName, Rc<Series>>,
    other: Rc<Series>,
}

/// The numbers of one tool.
pub(super) struct Series {
    /// Calls that were made before are counted elsewhere.
    since: Instant,
    pub(super) begun: Cell<u64>,
    pub(super) ended: Cell<u64>,
    pub(super) failed: [Cell<u64>; FailureKind::ALL.len()],
    pub(super) request_bytes: Cell<u64>,
    pub(super) response_bytes: Cell<u64>,
    /// How many calls took no longer than each bound, and longer than the one before.
    pub(super) buckets: [Cell<u64>; BOUNDS.len()],
    pub(super) took: Cell<Duration>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            since: SystemTime::now(),
            backs: RefCell::default(),
            fronts: RefCell::default(),
            refused: Default::default(),
            callers: RefCell::default(),
            limited: RefCell::default(),
            lock_refused: RefCell::default(),
            searches: RefCell::default(),
        }
    }
}

impl Metrics {
    /// Counts the calls of these backs and fronts from now on, and forgets those that are gone.
    pub(crate) fn follow<'a>(
        &self,
        backs: impl Iterator<Item = (&'a Arc<str>, &'a Rc<Health>)>,
        fronts: impl Iterator<Item = Arc<str>>,
    ) {
        let mut before = self.backs.take();
        let followed = backs.map(|(name, health)| {
            let health = health.clone();
            let back = match before.remove(name) {
                Some(back) => BackMetrics { health, ..back },
                None => {
                    let other = Rc::new(Series::since(Instant::now()));
                    BackMetrics { health, tools: HashMap::new(), other }
                }
            };
            (name.clone(), back)
        });
        self.backs.replace(followed.collect());
        let mut before = self.fronts.take();
        let followed = fronts.map(|name| {
            let count = before.remove(&name).unwrap_or_default();
            (name, count)
        });
        self.fronts.replace(followed.collect());
        let backs = self.backs.borrow();
        self.lock_refused.borrow_mut().retain(|(back, ..), _| backs.contains_key(back));
        let fronts = self.fronts.borrow();
        self.searches.borrow_mut().retain(|(front, _), _| fronts.contains_key(front));
    }

    /// Counts the calls that come by this, too.
    pub(crate) fn follow_also(&self, front: Option<Arc<str>>) {
        let mut fronts = self.fronts.borrow_mut();
        front.into_iter().for_each(|front| _ = fronts.entry(front).or_default());
    }

    /// Counts the calls of these callers from now on, and of all others together, if there are
    /// callers or limits to be counted; and forgets those that are gone.
    pub(crate) fn follow_callers(&self, callers: Option<&[Arc<str>]>) {
        let mut before = self.callers.take();
        let names =
            callers.into_iter().flat_map(|names| names.iter().cloned().chain([NO_CALLER.into()]));
        let followed: HashMap<_, _> = names
            .map(|name| {
                let series = before.remove(&name).unwrap_or_default();
                (name, series)
            })
            .collect();
        self.limited.borrow_mut().retain(|(limit, _), _| match limit.strip_prefix("caller.") {
            None => callers.is_some(),
            Some(rest) => followed.contains_key(rest.split('.').next().unwrap_or(rest)),
        });
        self.callers.replace(followed);
    }

    /// The numbers of each caller.
    pub(super) fn by_caller(&self) -> BTreeMap<Arc<str>, Rc<CallerSeries>> {
        self.callers.borrow().iter().map(|(name, series)| (name.clone(), series.clone())).collect()
    }

    /// How many calls each limit has kept from their backs, and how.
    pub(super) fn limited(&self) -> BTreeMap<(Arc<str>, &'static str), u64> {
        self.limited.borrow().clone()
    }

    /// How many calls the lock has refused, by back, tool and reason.
    pub(super) fn lock_refused(&self) -> BTreeMap<LockRefused, u64> {
        self.lock_refused.borrow().clone()
    }

    /// How many searches there were by each front, and whether they found something.
    pub(super) fn searches(&self) -> BTreeMap<(Arc<str>, bool), u64> {
        self.searches.borrow().clone()
    }

    fn refused_by_lock(&self, back: &Arc<str>, tool: &str, reason: &'static str) {
        let mut all = self.lock_refused.borrow_mut();
        let mut key = (back.clone(), Arc::from(tool), reason);
        // What callers make up is counted in one place.
        if REFUSED_MAX <= all.len() && !all.contains_key(&key) {
            key.1 = OTHER.into();
        }
        *all.entry(key).or_default() += 1;
    }

    fn caller_of(&self, call: &ObservedCall) -> Option<Rc<CallerSeries>> {
        let callers = self.callers.borrow();
        callers.get(call.caller.as_deref().unwrap_or(NO_CALLER)).cloned()
    }

    /// All tools that were called, by back and name.
    pub(super) fn series(&self) -> BTreeMap<(Arc<str>, Arc<str>), Rc<Series>> {
        let mut all = BTreeMap::new();
        for (back, metrics) in &*self.backs.borrow() {
            for (tool, series) in &metrics.tools {
                all.insert((back.clone(), tool.as_str().into()), series.clone());
            }
            if 0 < metrics.other.begun.get() {
                all.insert((back.clone(), OTHER.into()), metrics.other.clone());
            }
        }
        all
    }

    /// How many calls came by each front.
    pub(super) fn by_front(&self) -> BTreeMap<Arc<str>, u64> {
        let fronts = self.fronts.borrow();
        fronts.iter().map(|(name, count)| (name.clone(), count.get())).collect()
    }
}

impl Observer for Metrics {
    fn limits(&self, limit: &Arc<str>, reason: &'static str) {
        *self.limited.borrow_mut().entry((limit.clone(), reason)).or_default() += 1;
    }

    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        // It is no call of a tool.
        if let Some(Kept::Searched(_)) = call.kept {
            return Ok(());
        }
        if let Some(front) = self.fronts.borrow().get(&call.front) {
            add(front, 1);
        }
        if let Some(caller) = self.caller_of(call) {
            add(&caller.begun, 1);
        }
        if let Some(back) = call.back.as_ref().filter(|_| !call.is_hidden())
            && let Some(back) = self.backs.borrow_mut().get_mut(back)
        {
            add(&back.tool_begun(call).begun, 1);
        }
        Ok(())
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        if let Some(Kept::Searched(has_found)) = call.kept {
            *self.searches.borrow_mut().entry((call.front.clone(), has_found)).or_default() += 1;
            return Ok(());
        }
        if let (Some(back), Some(reason)) = (&call.back, end.lock_reason()) {
            self.refused_by_lock(back, call.tool.as_str(), reason);
        }
        if let Some(caller) = self.caller_of(call) {
            add(&caller.ended, 1);
            if let Some(kind) = end.failed {
                add(&caller.failed[place(kind)], 1);
            }
        }
        if let (Some(Kept::Limited(limit)), Some(reason)) = (&call.kept, end.reason()) {
            self.limits(limit, reason);
        }
        // Who is not shown a tool is not told by numbers either that it is there.
        match call.back.as_ref().filter(|_| !call.is_hidden()) {
            Some(back) => {
                if let Some(back) = self.backs.borrow_mut().get_mut(back) {
                    // It was not asked, if a limit kept the call from it.
                    if call.kept.is_none() {
                        back.health.called(end.failure);
                    }
                    back.tool_ended(call).end(call, end);
                }
            }
            None => add(&self.refused[place(end.failed.unwrap_or(FailureKind::Failed))], 1),
        }
        Ok(())
    }
}

impl BackMetrics {
    /// The numbers of this tool, or of all that the back has not listed if it is one of those.
    fn tool_begun(&mut self, call: &ObservedCall) -> &Series {
        // Looked up twice when it is new: a name that is known costs no copy of it.
        if !self.tools.contains_key(&call.tool) {
            if !self.health.has(call.tool.as_str()) {
                return &self.other;
            }
            self.tools.insert(call.tool.clone(), Rc::new(Series::since(call.asked)));
        }
        self.tools.get(&call.tool).unwrap_or(&self.other)
    }

    /// The same numbers again, also if the tool was listed since the call began.
    fn tool_ended(&self, call: &ObservedCall) -> &Series {
        let own = self.tools.get(&call.tool);
        own.filter(|series| series.since <= call.asked).unwrap_or(&self.other)
    }
}

impl Series {
    fn since(since: Instant) -> Series {
        Series {
            since,
            begun: Cell::default(),
            ended: Cell::default(),
            failed: Default::default(),
            request_bytes: Cell::default(),
            response_bytes: Cell::default(),
            buckets: Default::default(),
            took: Cell::default(),
        }
    }

    fn end(&self, call: &ObservedCall, end: &CallEnd<'_>) {
        add(&self.ended, 1);
        // Counted at the end, since more of the arguments may come behind the call.
        add(&self.request_bytes, call.bytes_in);
        add(&self.response_bytes, call.bytes_out);
        if let Some(kind) = end.failed {
            add(&self.failed[place(kind)], 1);
        }
        self.took.set(self.took.get() + end.duration);
        if let Some(at) = BOUNDS.iter().position(|(_, bound)| end.duration <= *bound) {
            add(&self.buckets[at], 1);
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.begun.get().saturating_sub(self.ended.get())
    }
}

impl CallerSeries {
    pub(super) fn in_flight(&self) -> u64 {
        self.begun.get().saturating_sub(self.ended.get())
    }
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// Where it stands among [`FailureKind::ALL`].
fn place(kind: FailureKind) -> usize {
    // A kind that is new to us is a failure.
    FailureKind::ALL.iter().position(|known| *known == kind).unwrap_or(2)
}
