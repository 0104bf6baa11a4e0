//! A provider behind the bus: its actions are tools.

use std::rc::Rc;

use toolbus_proto::channel::Notice;
use toolbus_proto::orchard::{Client, LogLine, Settings, WIRE};
use toolbus_proto::tool::{Call, LastWords, Wire};

use crate::bus::back::{Back, Connection, LocalFuture};
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::program::Child;

/// All that can be set about a provider behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to start.
    pub program: Program,
    /// How long to wait at each turn of its life.
    pub patience: Patience,
    /// May it be started again once it has died?
    pub restart: Restart,
    /// Its name, its config, and the limits of the wire.
    pub settings: Settings,
}

/// A provider that is started by the first call and kept.
pub struct Orchard {
    child: Child<Client>,
}

impl Orchard {
    /// Starts nothing yet. What it writes to standard error is always shown. Must be called
    /// inside a `LocalSet`.
    pub fn new(options: Options) -> Orchard {
        let orchard = Orchard::quiet(options);
        orchard.child.show_stderr(|line| LogLine::read(line).to_string());
        orchard
    }

    /// The same for a host that [listens](Back::listen), and shows people itself what the provider
    /// writes to standard error and what is odd about it.
    pub fn for_host(options: Options) -> Orchard {
        let orchard = Orchard::quiet(options);
        orchard.child.tell_listeners_only();
        orchard
    }

    fn quiet(options: Options) -> Orchard {
        let Options { program, patience, restart, settings } = options;
        let name = settings.name.clone();
        let make = move || Client::new(settings.clone());
        let supervisor = Supervisor::new(name.clone(), patience, restart);
        let child = Child::new(name, program, Sharing::Shared, supervisor, make);
        Orchard { child }
    }
}

impl Back for Orchard {
    fn wire(&self) -> Wire {
        WIRE
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.child.start(call, down)
    }

    fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.child.listen(hear);
    }

    fn connection(&self, _call: &Call) -> Connection {
        self.child.run().map_or(Connection::None, Connection::Open)
    }

    fn is_starting(&self) -> bool {
        self.child.is_starting()
    }

    fn last_words(&self) -> Option<LastWords> {
        self.child.last_words()
    }

    fn restarts(&self) -> Option<u64> {
        Some(self.child.restarts())
    }

    fn rest(&self) -> bool {
        self.child.rest()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.child.shutdown())
    }

    fn kill(&self) {
        self.child.kill();
    }
}
