//! A wire made of its two machines alone, spoken over pipes: for those who add one.
//!
//! The wires that are compiled in have backs and fronts of their own where they need more.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::{Calling, Channel, Ended, Serving};
use toolbus_proto::tool::{Call, LastWords, Wire};

use super::open::{file_name, patience, program, unfit};
use super::settings::Settings;
use super::{Opened, PeerKind};
use crate::address::{Address, Place};
use crate::bus::back::{Back, Connection, LocalFuture};
use crate::bus::{Bus, TIMEOUT};
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{EnvPolicy, Patience};
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::front::Front;
use crate::engine::program::Child;
use crate::transport::stdio;

/// A program behind the bus, spoken to over its pipes by the calling machine of some wire. It is
/// started by the first call and kept; its environment is a clean one.
struct ProgramBack<C: Calling + Channel + 'static> {
    wire: Wire,
    child: Child<C>,
    timeout: Duration,
}

/// The program that an address names, behind the bus; `make` gives a machine for each run of it.
/// Starts nothing yet. Must be called inside a `LocalSet`.
pub fn open<C: Calling + Channel + 'static>(
    kind: &dyn PeerKind,
    address: &Address,
    settings: &Settings,
    make: impl Fn() -> C + Send + 'static,
) -> Opened {
    let Place::Command(words) = address.place() else {
        return Err(unfit(address, "a command"));
    };
    let name = settings.name.clone().unwrap_or_else(|| file_name(words));
    let env = EnvPolicy::Clean { pass: settings.program.env_pass.clone() };
    let patience = patience(Patience::USUAL, settings);
    let restart = settings.restart.unwrap_or(Restart::OnDemand);
    let supervisor = Supervisor::new(name.clone(), patience, restart);
    let program = program(words, settings, env);
    Ok(Rc::new(ProgramBack {
        wire: kind.wire(),
        child: Child::new(name, program, Sharing::Shared, supervisor, make),
        timeout: settings.timeout.unwrap_or(TIMEOUT),
    }))
}

impl<C: Calling + Channel + 'static> Back for ProgramBack<C> {
    fn wire(&self) -> Wire {
        self.wire
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.child.start(call, down)
    }

    fn watch(&self, changed: Rc<dyn Fn()>) {
        self.child.watch(changed);
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

/// Serves the tools of a bus on standard input and output by the serving machine of some wire,
/// until the caller has had enough. All backs are opened first.
pub async fn serve_stdio(bus: Bus, machine: impl Serving + Channel + 'static) -> io::Result<Ended> {
    bus.open().await.map_err(io::Error::other)?;
    let front = Front::new(machine, Rc::new(bus), None);
    Ok(front.serve(stdio::stdin()?, stdio::stdout()?).await)
}
