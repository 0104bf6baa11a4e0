//! An oracle behind the bus: its functions are tools, and any selector can be called natively.

use toolbus_proto::oracle::{Client, Functions, Settings};
use toolbus_proto::tool::{Call, LastWords, Wire};

use crate::bus::back::{Back, Connection, LocalFuture};
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::program::Child;

/// All that can be set about an oracle behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the log calls it.
    pub name: String,
    /// What to start.
    pub program: Program,
    /// How long to wait at each turn of its life.
    pub patience: Patience,
    /// May it be started again once it has died?
    pub restart: Restart,
    /// Limits and leniency of the wire.
    pub settings: Settings,
    /// The functions that the config knows.
    pub functions: Functions,
}

/// An oracle that is started by the first call and kept.
pub struct Oracle {
    child: Child<Client>,
}

impl Oracle {
    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn new(options: Options) -> Oracle {
        let Options { name, program, patience, restart, settings, functions } = options;
        let make = move || Client::new(settings.clone(), functions.clone());
        let supervisor = Supervisor::new(name.clone(), patience, restart);
        // Calls wait for each other, and none may keep the others waiting by reading slowly.
        Oracle { child: Child::new(name, program, Sharing::Shared, supervisor, make) }
    }
}

impl Back for Oracle {
    fn wire(&self) -> Wire {
        toolbus_proto::oracle::WIRE
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.child.start(call, down)
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
