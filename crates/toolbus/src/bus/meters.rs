//! Numbers of a wire's own, for those who read the metrics: told by what has them when they are
//! asked for. Nothing is kept here but where to ask, on the one thread of a bus.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// What is counted, under one name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Measure {
    /// Its name, as Prometheus has them.
    pub(crate) name: &'static str,
    /// What it is, as a sentence.
    pub(crate) help: &'static str,
    /// It only rises: the numbers of several under the same labels are added up.
    pub(crate) is_counter: bool,
}

/// One number with its labels.
pub(crate) struct MeterReading {
    pub(crate) measure: &'static Measure,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: u64,
}

/// What has numbers.
pub(crate) trait Meter {
    /// What they are now.
    fn read(&self) -> Vec<MeterReading>;

    /// If it is a front that no caller can reach by now: its name, and why.
    fn outage(&self) -> Option<(String, String)> {
        None
    }
}

thread_local! {
    static METERS: RefCell<Vec<Weak<dyn Meter>>> = const { RefCell::new(Vec::new()) };
}

/// Reads this from now on, until it is dropped.
pub(crate) fn watch(meter: &Rc<dyn Meter>) {
    METERS.with_borrow_mut(|meters| {
        meters.retain(|known| known.strong_count() != 0);
        meters.push(Rc::downgrade(meter));
    });
}

/// The fronts that no caller can reach by now, and why.
pub(crate) fn outages() -> Vec<(String, String)> {
    let meters: Vec<_> = METERS.with_borrow(|all| all.iter().filter_map(Weak::upgrade).collect());
    meters.iter().filter_map(|meter| meter.outage()).collect()
}

/// The numbers of one measure by their labels.
type Readings = BTreeMap<Vec<(&'static str, String)>, u64>;

/// All numbers there are.
pub(crate) fn all() -> BTreeMap<&'static Measure, Readings> {
    let meters: Vec<_> = METERS.with_borrow(|all| all.iter().filter_map(Weak::upgrade).collect());
    let mut read: BTreeMap<_, Readings> = BTreeMap::new();
    for MeterReading { measure, labels, value } in meters.iter().flat_map(|meter| meter.read()) {
        let known = read.entry(measure).or_default().entry(labels).or_default();
        // Of two, one is being left: the other, which came later, says how it is.
        *known = if measure.is_counter { *known + value } else { value };
    }
    read
}
