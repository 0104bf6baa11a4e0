//! An MCP server behind the bus: its tools are tools, and whatever an MCP client says to it
//! passes as it is.
//!
//! A server may know two eras and yet keep a process to the one it was first spoken to in.
//! So each era that it speaks has a process of its own, started by the first call that is made in
//! it; or each legacy session has, if that is asked for.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::mcp::Client;
use toolbus_proto::mcp::calling::{Settings, era_of};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, LastWords, Wire};

use super::processes::Processes;
use super::sessions::{SessionPeer, Sessions};
use super::settings::Share;
use crate::bus::back::{Back, Connection, LocalFuture};
use crate::child::supervisor::{Judge, Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::program::Child;

/// All that can be set about an MCP server behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to start.
    pub program: Program,
    /// How long to wait at each turn of its life.
    pub patience: Patience,
    /// May it be started again once it has died?
    pub restart: Restart,
    /// Who shares a process of the old era.
    pub share: Share,
    /// How long it may take to list its tools.
    pub timeout: Duration,
    /// Its name, limits and times of the wire.
    pub settings: Settings,
}

/// An MCP server that is started by the first call and kept.
pub struct Mcp {
    share: Shared,
    timeout: Duration,
}

enum Shared {
    ByAll(Rc<Processes>),
    /// Only modern callers share one.
    BySession(Rc<Sessions<Child<Client>>>, Child<Client>),
}

impl Mcp {
    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn new(options: Options) -> Mcp {
        Mcp::made(options, None)
    }

    /// The same of a program that may turn out to speak another wire.
    pub(super) fn stranger(options: Options, judge: Judge) -> Mcp {
        Mcp::made(options, Some(judge))
    }

    fn made(options: Options, judge: Option<Judge>) -> Mcp {
        let timeout = options.timeout;
        // The settings share what is known of the server's eras.
        let memory = options.settings.memory.clone();
        let share = match options.share {
            Share::All => {
                let name = options.settings.name.clone();
                let make = move || child(&options, judge.as_ref());
                Shared::ByAll(Processes::new(&name, memory, make))
            }
            Share::Session => {
                let modern = child(&options, judge.as_ref());
                let sessions = Sessions::new(move || child(&options, judge.as_ref()));
                Shared::BySession(sessions, modern)
            }
        };
        Mcp { share, timeout }
    }

    fn each(&self, tell: impl Fn(&Child<Client>)) {
        match &self.share {
            Shared::ByAll(processes) => processes.each(tell),
            Shared::BySession(sessions, modern) => {
                sessions.living().iter().for_each(|child| tell(child));
                tell(modern);
            }
        }
    }
}

fn child(options: &Options, judge: Option<&Judge>) -> Child<Client> {
    let Options { program, patience, restart, settings, .. } = options.clone();
    let name = settings.name.clone();
    let make = move || Client::new(settings.clone());
    let mut supervisor = Supervisor::new(name.clone(), patience, restart);
    if let Some(judge) = judge {
        supervisor.set_judge(judge.clone());
    }
    Child::new(name, program, Sharing::Shared, supervisor, make)
}

impl SessionPeer for Child<Client> {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Child::start(self, call, down)
    }

    fn leave(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.shutdown())
    }

    fn restarts(&self) -> u64 {
        Child::restarts(self)
    }
}

impl Back for Mcp {
    fn wire(&self) -> Wire {
        toolbus_proto::mcp::WIRE
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &self.share {
            Shared::ByAll(processes) => processes.start(call, down),
            Shared::BySession(sessions, modern) => match era_of(&call) {
                Era::Legacy => sessions.start(call, down),
                Era::Modern => modern.start(call, down),
            },
        }
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        match &self.share {
            Shared::ByAll(processes) => processes.watch(changed),
            // A session hears from its own server what has changed.
            Shared::BySession(_, modern) => modern.watch(changed),
        }
    }

    fn connection(&self, call: &Call) -> Connection {
        match &self.share {
            Shared::ByAll(processes) => processes.connection(call),
            Shared::BySession(sessions, modern) => match era_of(call) {
                Era::Legacy => sessions.of(call.caller).map_or(Connection::None, |child| {
                    let number = call.caller.0 << 24;
                    child.run().map_or(Connection::None, |run| Connection::Open(number | run))
                }),
                Era::Modern => modern.run().map_or(Connection::None, Connection::Open),
            },
        }
    }

    fn is_starting(&self) -> bool {
        match &self.share {
            Shared::ByAll(processes) => processes.is_starting(),
            Shared::BySession(_, modern) => modern.is_starting(),
        }
    }

    fn last_words(&self) -> Option<LastWords> {
        match &self.share {
            Shared::ByAll(processes) => processes.last_words(),
            Shared::BySession(_, modern) => modern.last_words(),
        }
    }

    fn restarts(&self) -> Option<u64> {
        Some(match &self.share {
            Shared::ByAll(processes) => processes.restarts(),
            Shared::BySession(sessions, modern) => sessions.restarts() + modern.restarts(),
        })
    }

    /// A process that is a session's own ends with that.
    fn rest(&self) -> bool {
        match &self.share {
            Shared::ByAll(processes) => processes.rest(),
            Shared::BySession(_, modern) => modern.rest(),
        }
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            match &self.share {
                Shared::ByAll(processes) => processes.shutdown().await,
                Shared::BySession(sessions, modern) => {
                    tokio::join!(sessions.shutdown(), modern.shutdown());
                }
            }
        })
    }

    fn hurry(&self) {
        self.each(|child| child.hurry(crate::wire::mcp::PATIENCE.hurry));
    }

    fn kill(&self) {
        self.each(Child::kill);
    }
}
