//! The way from a front to what answers its calls.

use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure};

use super::calls::{ReplyTo, RunningCall};

/// What answers the calls of a front: the bus, or one back.
pub trait Route {
    /// Asks, at once. What comes back goes to `down`.
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall;

    /// The front itself refuses this call: its caller is told why, and so are the observers of calls.
    fn refuse(&self, _call: Call, down: ReplyTo, why: Failure) {
        let _ = down.send(Down::Done(Err(why)));
    }
}
