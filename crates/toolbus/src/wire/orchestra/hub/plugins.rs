//! Who answers for a hub: its plugins, their processes and the connections to them.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::hub::{Comeback, Gone, Hub, PluginIndex};
use toolbus_proto::orchestra::redial::Again;
use toolbus_proto::tool::{Exit, Failure, FailureKind};

use super::{Inner, ORCHESTRATOR, PluginEntry};
use crate::bus::back::{LocalFuture, causes};
use crate::child::supervisor::{Departure, Next, Restart, RunId, Why};
use crate::child::{Patience, Program, SpawnError};
use crate::engine::program::{DetachedOptions, DetachedProgram, Life};
use crate::transport::quic::{Connection, HANDSHAKE, Idle};
use crate::wire::orchestra::caller::{Caller, Reach};
use crate::wire::orchestra::link::Link;
use crate::wire::orchestra::{HostPort, tls};

/// What we hold of one plugin.
#[derive(Default)]
pub(super) struct Slot {
    /// `None` until it is to be started.
    program: RefCell<Option<Rc<DetachedProgram>>>,
    /// Its present process: what an earlier one leaves behind does not count.
    run: Cell<Option<RunId>>,
    caller: RefCell<Option<Rc<Caller>>>,
}

impl Slot {
    /// The connection that is used, if there is one.
    pub(super) fn link(&self) -> Option<Rc<Link>> {
        self.caller.borrow().as_ref()?.link()
    }

    /// Closes the connections, and waits until the plugin has been told.
    pub(super) async fn say_goodbye(&self) {
        let caller = self.caller.take();
        if let Some(caller) = caller {
            caller.shutdown().await;
        }
    }

    /// Closes the connections. Nothing is borrowed while their calls end.
    fn disconnect(&self) {
        let caller = self.caller.take();
        drop(caller);
    }
}

/// As whom a hub calls a plugin.
pub(super) fn client_name(id: &str) -> String {
    format!("{ORCHESTRATOR}-to-{id}")
}

impl Inner {
    /// Starts the program of a plugin, and keeps it alive.
    pub(super) fn start(&self, index: PluginIndex) {
        let entry = &self.entries[index];
        let start = entry.config.start_timeout;
        // A hub tells in lines of its own what becomes of its plugins.
        let patience = Patience { start, waits_for: None, ..crate::wire::orchestra::PATIENCE };
        let binary = entry.binary.clone();
        let options = DetachedOptions {
            name: entry.config.id.clone(),
            program: self.program(entry),
            patience,
            restart: match entry.config.restarts {
                true => Restart::Always(crate::wire::orchestra::COMEBACK),
                false => Restart::Never,
            },
            unspawned: Box::new(move |error| {
                Failure::new(FailureKind::Unavailable, told(error, &binary))
            }),
        };
        let inner = self.this.clone();
        let apart = Rc::new(DetachedProgram::new(options, move |life| {
            if let Some(inner) = inner.upgrade() {
                inner.happened(index, life);
            }
        }));
        let before = self.plugins[index].program.replace(Some(apart.clone()));
        drop(before);
        // Why it does not start, if it does not, is told as its departure.
        let _ = apart.wake();
    }

    fn program(&self, entry: &PluginEntry) -> Program {
        let mut words = vec![entry.program.clone()];
        words.extend(entry.args.iter().cloned());
        words.push(format!("--orchestrator-addr={}", self.address));
        words.push("--listen-addr=localhost:0".to_owned());
        words.push(format!("--certs-dir={}", self.folder.path().display()));
        Program { vars: entry.env.clone(), ..Program::new(words) }
    }

    /// Something became of a program.
    fn happened(&self, index: PluginIndex, life: Life<'_>) {
        let slot = &self.plugins[index];
        match life {
            Life::Spawned(run, pid) => {
                slot.disconnect();
                slot.run.set(Some(run));
                self.act(|hub, _| hub.handle_spawned(index, pid.unsigned_abs()));
            }
            Life::Line(run, line) if slot.run.get() == Some(run) => {
                self.act(|hub, _| hub.handle_line(index, line));
            }
            // The last words of an earlier process are not about the present one.
            Life::Line(_, line) => {
                (self.say)(&format!("[{}] {line}", self.entries[index].config.id));
            }
            Life::Departed(departure) => self.departed(index, departure),
            Life::Stopped => self.act(|hub, now| hub.handle_stopped(now, index)),
        }
    }

    fn departed(&self, index: PluginIndex, departure: Departure) {
        let slot = &self.plugins[index];
        let Departure { run, why, next, .. } = departure;
        // Before the connections go: how it ended says more than that they did.
        self.act(|hub, now| hub.handle_gone(now, index, gone(why), comeback(next)));
        if slot.run.get() == Some(run) {
            slot.run.set(None);
            slot.disconnect();
        }
    }

    /// Connects to a plugin.
    pub(super) fn dial(&self, index: PluginIndex, address: String) {
        let way = Rc::new(Way { inner: self.this.clone(), index, address });
        let settings =
            ClientSettings { caller_plugin: ORCHESTRATOR.to_owned(), ..ClientSettings::default() };
        let id = &self.entries[index].config.id;
        let caller = Caller::new(id, settings, Again::OnDemand, way);
        caller.want();
        let before = self.plugins[index].caller.replace(Some(caller));
        drop(before);
    }

    async fn reach(&self, index: PluginIndex, address: &str) -> Result<Connection, String> {
        let target = address.parse::<HostPort>().map_err(|error| format!("{address}: {error}"))?;
        // Looked at each time: it may have to be made anew.
        let name = client_name(&self.entries[index].config.id);
        let identity = tls::load(&self.folder, &name).await.map_err(|error| causes(&error))?;
        let client = tls::client(&identity, Idle::PATIENT).map_err(|error| causes(&error))?;
        let dialled = self.dialler.dial(&target.target(None), &client, HANDSHAKE).await;
        dialled.map_err(|error| causes(&error))
    }

    /// Tells the supervisor of a plugin's process how far the plugin is.
    pub(super) fn tell(&self, index: PluginIndex, tell: impl FnOnce(&DetachedProgram, RunId)) {
        let slot = &self.plugins[index];
        let apart = slot.program.borrow().clone();
        if let (Some(apart), Some(run)) = (apart, slot.run.get()) {
            tell(&apart, run);
        }
    }

    /// Makes a plugin end.
    pub(super) fn stop(&self, index: PluginIndex) {
        let apart = self.plugins[index].program.borrow().clone();
        match apart {
            Some(apart) => apart.stop(),
            None => self.act(|hub, now| hub.handle_stopped(now, index)),
        }
    }

    pub(super) fn kill_all(&self) {
        for slot in &self.plugins {
            // Killed, and reaped, when it is dropped.
            let program = slot.program.take();
            drop(program);
        }
    }
}

/// The way to the present process of a plugin.
struct Way {
    inner: Weak<Inner>,
    index: PluginIndex,
    address: String,
}

impl Way {
    fn tell(&self, tell: impl FnOnce(&mut Hub, Instant, PluginIndex)) {
        if let Some(inner) = self.inner.upgrade() {
            inner.act(|hub, now| tell(hub, now, self.index));
        }
    }
}

impl Reach for Way {
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>> {
        Box::pin(async {
            let reached = match self.inner.upgrade() {
                Some(inner) => inner.reach(self.index, &self.address).await,
                None => Err("the hub has ended".to_owned()),
            };
            reached.map_err(|cause| Failure::new(FailureKind::Unavailable, cause))
        })
    }

    fn connected(&self, is_further: bool) {
        if !is_further {
            self.tell(Hub::handle_dialled);
        }
    }

    fn failed(&self, peer: &str, why: &Failure, is_further: bool) {
        match is_further {
            true => tracing::warn!(peer, "cannot open a second connection: {}", why.message),
            false => self.tell(|hub, _, index| hub.handle_dial_failed(index, &why.message)),
        }
    }

    fn lost(&self, peer: &str, why: &Failure) {
        tracing::info!(peer, "connection lost: {}", why.message);
        self.tell(|hub, _, index| hub.handle_connection_lost(index));
    }
}

fn told(error: &SpawnError, binary: &str) -> String {
    match error {
        SpawnError::NotInPath { .. } | SpawnError::NoFile { .. } => {
            format!("there is no program \"{binary}\"")
        }
        error => causes(error),
    }
}

/// What the supervisor says of a process, as the hub's rules are told.
pub fn gone(why: Why) -> Gone {
    match why {
        Why::Unfit(failure) => Gone::Unfit(failure.message),
        Why::Exited(Exit::Code(code)) => Gone::Exited(format!("status {code}")),
        Why::Exited(Exit::Signal(signal)) => Gone::Exited(format!("signal {signal}")),
        Why::Late => Gone::Late,
    }
}

/// When it is started again, as the hub's rules are told.
pub fn comeback(next: Next) -> Comeback {
    match next {
        Next::In(delay) => Comeback::In(delay),
        Next::GivenUp(starts) => Comeback::GivenUp(starts),
        Next::OnDemand | Next::Never => Comeback::Never,
    }
}
