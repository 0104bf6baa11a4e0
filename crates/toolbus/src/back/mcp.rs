//! An MCP server behind the bus: its tools are tools, and whatever an MCP client says to it
//! passes as it is.
//!
//! A server may know two eras and yet keep a process to the one it was first spoken to in.
//! So each era has a process of its own, started by the first call that is made in it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::mcp::Client;
use toolbus_proto::mcp::calling::{Settings, era_of};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What, Wire};

use super::child::Child;
use super::{Back, LocalFuture};
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::link::{Inbox, Sharing, Slot, Uplink};

/// How long a server may take for each step of its goodbye once we were told to end.
const IN_A_HURRY: Duration = Duration::from_secs(1);

/// All that can be set about an MCP server behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to start.
    pub program: Program,
    /// How long to wait at each turn of its life.
    pub patience: Patience,
    /// May it be started again once it has died?
    pub restart: Restart,
    /// How long it may take to list its tools.
    pub timeout: Duration,
    /// Its name, limits and times of the wire.
    pub settings: Settings,
}

/// An MCP server that is started by the first call and kept.
pub struct Mcp {
    legacy: Child<Client>,
    modern: Child<Client>,
    timeout: Duration,
}

impl Mcp {
    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn new(options: Options) -> Mcp {
        // The settings share what is known of the server's eras.
        Mcp { legacy: child(&options), modern: child(&options), timeout: options.timeout }
    }
}

fn child(options: &Options) -> Child<Client> {
    let Options { program, patience, restart, settings, .. } = options.clone();
    let name = settings.name.clone();
    let make = move || Client::new(settings.clone());
    let supervisor = Supervisor::new(name.clone(), patience, restart, make);
    Child::new(name, program, Sharing::Shared, supervisor)
}

impl Back for Mcp {
    fn wire(&self) -> Wire {
        Wire::Mcp
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async {
            let (inbox, slot) = Inbox::new();
            let mut call = Call::of(Instant::now(), What::Tools);
            call.deadline.quiet = Some(self.timeout);
            let uplink = self.start(call, slot);
            match inbox.whole(uplink).await? {
                Outcome::Tools(tools) => Ok(tools),
                _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list of tools")),
            }
        })
    }

    fn start(&self, call: Call, down: Slot) -> Uplink {
        match era_of(&call) {
            Era::Legacy => self.legacy.start(call, down),
            Era::Modern => self.modern.start(call, down),
        }
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.legacy.watch(changed.clone());
        self.modern.watch(changed);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            tokio::join!(self.legacy.shutdown(), self.modern.shutdown());
        })
    }

    fn hurry(&self) {
        self.legacy.hurry(IN_A_HURRY);
        self.modern.hurry(IN_A_HURRY);
    }

    fn kill(&self) {
        self.legacy.kill();
        self.modern.kill();
    }
}
