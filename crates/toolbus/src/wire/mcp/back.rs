//! An MCP server behind the bus: its tools are tools, and whatever an MCP client says to it
//! passes as it is.
//!
//! A server may know two eras and yet keep a process to the one it was first spoken to in.
//! So each era has a process of its own, started by the first call that is made in it; or each
//! legacy session has, if that is asked for. A server that is found to know one era only has one
//! process for callers of both.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::mcp::calling::{Settings, era_of};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::mcp::{Client, Memory};
use toolbus_proto::tool::{Call, Wire};

use super::sessions::{Private, Sessions};
use super::settings::Share;
use crate::bus::back::{Back, LocalFuture};
use crate::child::supervisor::{Restart, Supervisor};
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
    legacy: Legacy,
    modern: Child<Client>,
    /// Which of the two were called.
    was_legacy: Cell<bool>,
    was_modern: Cell<bool>,
    /// What is known of the server's eras.
    memory: Memory,
    timeout: Duration,
}

enum Legacy {
    All(Child<Client>),
    Sessions(Rc<Sessions<Child<Client>>>),
}

impl Mcp {
    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn new(options: Options) -> Mcp {
        // The settings share what is known of the server's eras.
        let (modern, timeout) = (child(&options), options.timeout);
        let memory = options.settings.memory.clone();
        let legacy = match options.share {
            Share::All => Legacy::All(child(&options)),
            Share::Session => Legacy::Sessions(Sessions::new(move || child(&options))),
        };
        let (was_legacy, was_modern) = (Cell::new(false), Cell::new(false));
        Mcp { legacy, modern, was_legacy, was_modern, memory, timeout }
    }

    /// The era whose process takes a call of this one.
    fn place(&self, era: Era) -> Era {
        let (other, was_called, was_other) = match era {
            Era::Legacy => (Era::Modern, &self.was_legacy, &self.was_modern),
            Era::Modern => (Era::Legacy, &self.was_modern, &self.was_legacy),
        };
        let lacks = |era: Era| self.memory.speaks(era) == Some(false);
        let is_shared = matches!(self.legacy, Legacy::All(_)) && was_other.get();
        // Found out in the process of the other era, which goes on to serve both.
        if is_shared && (lacks(era) || (lacks(other) && !was_called.get())) {
            return other;
        }
        was_called.set(true);
        era
    }

    fn each(&self, tell: impl Fn(&Child<Client>)) {
        match &self.legacy {
            Legacy::All(child) => tell(child),
            Legacy::Sessions(sessions) => sessions.living().iter().for_each(|child| tell(child)),
        }
        tell(&self.modern);
    }
}

fn child(options: &Options) -> Child<Client> {
    let Options { program, patience, restart, settings, .. } = options.clone();
    let name = settings.name.clone();
    let make = move || Client::new(settings.clone());
    let supervisor = Supervisor::new(name.clone(), patience, restart, make);
    Child::new(name, program, Sharing::Shared, supervisor)
}

impl Private for Child<Client> {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Child::start(self, call, down)
    }

    fn leave(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.shutdown())
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
        match (self.place(era_of(&call)), &self.legacy) {
            (Era::Modern, _) => self.modern.start(call, down),
            (Era::Legacy, Legacy::All(child)) => child.start(call, down),
            (Era::Legacy, Legacy::Sessions(sessions)) => sessions.start(call, down),
        }
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        // A session hears from its own server what has changed.
        if let Legacy::All(child) = &self.legacy {
            child.watch(changed.clone());
        }
        self.modern.watch(changed);
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        let legacy = async {
            match &self.legacy {
                Legacy::All(child) => child.shutdown().await,
                Legacy::Sessions(sessions) => sessions.shutdown().await,
            }
        };
        Box::pin(async {
            tokio::join!(legacy, self.modern.shutdown());
        })
    }

    fn hurry(&self) {
        self.each(|child| child.hurry(Patience::MCP.hurry));
    }

    fn kill(&self) {
        self.each(Child::kill);
    }
}
