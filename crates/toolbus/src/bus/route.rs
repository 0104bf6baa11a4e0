//! The way from a front to the bus or back that answers its calls.

use toolbus_proto::tool::Call;

use super::Bus;
use crate::engine::calls::{ReplyTo, RunningCall};

/// What answers the calls of a front: the bus, or one back.
pub trait Route {
    /// Asks, at once. What comes back goes to `down`.
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall;
}

impl Route for Bus {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Bus::start(self, call, down)
    }
}
