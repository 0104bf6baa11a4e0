//! The way to a server that is passed through: its clients are told why it cannot be opened, and
//! here is told it to those who look after us, too.

use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::tool::{Call, Failure, FailureKind, What};

use crate::bus::Route;
use crate::bus::lenient::{is_back, left_out};
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};

/// A route whose greetings the log is told of.
pub(super) struct ToldRoute {
    pub(super) route: Rc<dyn Route>,
    /// What the log calls the server.
    pub(super) server: Arc<str>,
}

impl Route for ToldRoute {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let is_greeting = matches!(
            &call.what,
            What::Native { method, .. } if method == "initialize" || method == "server/discover"
        );
        let down = match is_greeting {
            true => {
                let told = ToldGreeting { down, server: self.server.clone() };
                ReplyTo::new(Rc::new(told), Ticket(0))
            }
            false => down,
        };
        self.route.start(call, down)
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        self.route.refuse(call, down, why);
    }
}

/// Passes on what a server answers to a greeting.
struct ToldGreeting {
    down: ReplyTo,
    server: Arc<str>,
}

impl Asker for ToldGreeting {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        match &down {
            Down::Begin { .. } | Down::Done(Ok(_)) => is_back(&self.server),
            // What a server itself says to its clients is theirs, and so is their change of mind.
            Down::Done(Err(failure))
                if !failure.from_peer && failure.kind != FailureKind::Cancelled =>
            {
                left_out(&self.server, failure);
            }
            _ => {}
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
