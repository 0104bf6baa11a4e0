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
use crate::bus::observe::{CallEnd, ObservedCall, Observer};

/// The name under which calls of tools are counted that their back has not listed.
pub(super) const OTHER: &str = "(other)";

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

/// All numbers of a bus. They outlive a reload.
pub struct Metrics {
    pub(super) since: SystemTime,
    backs: RefCell<HashMap<Arc<str>, BackMetrics>>,
    /// Calls that came by each front.
    fronts: RefCell<HashMap<Arc<str>, Cell<u64>>>,
    /// Calls that were for no back, by the way they failed.
    pub(super) refused: [Cell<u64>; FailureKind::ALL.len()],
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
    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        if let Some(front) = self.fronts.borrow().get(&call.front) {
            add(front, 1);
        }
        if let Some(back) = &call.back
            && let Some(back) = self.backs.borrow_mut().get_mut(back)
        {
            add(&back.tool_begun(call).begun, 1);
        }
        Ok(())
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        match &call.back {
            Some(back) => {
                if let Some(back) = self.backs.borrow_mut().get_mut(back) {
                    back.health.called(end.failure);
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

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// Where it stands among [`FailureKind::ALL`].
fn place(kind: FailureKind) -> usize {
    // A kind that is new to us is a failure.
    FailureKind::ALL.iter().position(|known| *known == kind).unwrap_or(2)
}
