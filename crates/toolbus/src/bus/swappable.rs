//! A route that can be changed while a front serves.

use std::cell::RefCell;
use std::rc::Rc;

use toolbus_proto::tool::{Call, Failure};

use super::Route;
use crate::engine::calls::{ReplyTo, RunningCall};

/// Leads to the bus it was last set to. Calls that are under way stay where they are.
pub struct SwappableRoute(RefCell<Rc<dyn Route>>);

impl SwappableRoute {
    /// Leads to `route`.
    pub fn new(route: Rc<dyn Route>) -> SwappableRoute {
        SwappableRoute(RefCell::new(route))
    }

    /// Leads to `route` from now on.
    pub fn set(&self, route: Rc<dyn Route>) {
        self.0.replace(route);
    }
}

impl Route for SwappableRoute {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        // Nothing stays borrowed: who is answered may ask again at once.
        let route = self.0.borrow().clone();
        route.start(call, down)
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        let route = self.0.borrow().clone();
        route.refuse(call, down, why);
    }
}
