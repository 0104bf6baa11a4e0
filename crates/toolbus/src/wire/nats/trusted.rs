//! Callers that other machines name, where that is believed: each is led to the tools of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use toolbus_proto::caller::CallerName;
use toolbus_proto::nats::trusted_number;
use toolbus_proto::tool::Call;

use crate::bus::lenient::LenientBus;
use crate::bus::{Bus, Route};
use crate::engine::calls::{ReplyTo, RunningCall};

/// The ways of all of them.
pub(super) struct TrustedCallers {
    bus: RefCell<Bus>,
    /// By their numbers, which they keep.
    names: RefCell<Vec<CallerName>>,
    ways: RefCell<HashMap<u32, Rc<dyn Route>>>,
    /// The way of those that no message names.
    others: Rc<dyn Route>,
}

impl TrustedCallers {
    pub(super) fn new(bus: Bus, others: Rc<dyn Route>) -> TrustedCallers {
        let (names, ways) = (RefCell::default(), RefCell::default());
        TrustedCallers { bus: RefCell::new(bus), names, ways, others }
    }

    /// The number of a caller of the config.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        let name = CallerName::new(name);
        self.bus.borrow().knows_caller(&name).then_some(())?;
        let mut names = self.names.borrow_mut();
        let known = names.iter().position(|known| *known == name);
        let at = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        u32::try_from(at).ok()
    }

    /// Calls go to the backs of `bus` from now on.
    pub(super) fn lead_to(&self, bus: Bus) {
        self.bus.replace(bus);
        self.ways.borrow_mut().clear();
    }

    fn way_of(&self, number: u32) -> Option<Rc<dyn Route>> {
        if let Some(way) = self.ways.borrow().get(&number) {
            return Some(way.clone());
        }
        let name = self.names.borrow().get(number as usize)?.clone();
        let bus = self.bus.borrow().as_caller(&name);
        let way: Rc<dyn Route> = Rc::new(LenientBus::new(Rc::new(bus)));
        self.ways.borrow_mut().insert(number, way.clone());
        Some(way)
    }
}

impl Route for TrustedCallers {
    fn start(&self, mut call: Call, down: ReplyTo) -> RunningCall {
        let way = trusted_number(call.caller).and_then(|number| self.way_of(number));
        if let (Some(_), Some(provenance)) = (&way, &mut call.provenance) {
            // It is no claim any more.
            provenance.caller = None;
        }
        way.as_ref().unwrap_or(&self.others).start(call, down)
    }
}
