//! A bus as what answers the calls of a front.

use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure};

use super::Bus;
use crate::engine::Route;
use crate::engine::calls::{ReplyTo, RunningCall};

impl Route for Bus {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Bus::start(self, call, down)
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        let refused = self.observers.start(call, down, |_, down, _| {
            let _ = down.send(Down::Done(Err(why)));
            RunningCall::ended()
        });
        refused.forget();
    }
}
