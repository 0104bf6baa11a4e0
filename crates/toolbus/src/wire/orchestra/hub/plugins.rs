//! Who answers for a hub: its plugins, their processes and the connections to them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::hub::{Comeback, Gone, PluginIndex};
use toolbus_proto::tool::{Exit, Failure, FailureKind};

use super::{Inner, ORCHESTRATOR, PluginEntry};
use crate::bus::back::causes;
use crate::child::supervisor::{self, Departure, Next, Restart, RunId, Why};
use crate::child::{Patience, Program, SpawnError};
use crate::engine::program::{Apart, ApartOptions, Life};
use crate::task::spawn_local;
use crate::transport::quic::{Connection, HANDSHAKE, Idle};
use crate::wire::orchestra::links::{LinkEvent, LinkId, Links};
use crate::wire::orchestra::{HostPort, tls};

/// What we hold of one plugin.
#[derive(Default)]
pub(super) struct Slot {
    /// `None` until it is to be started.
    program: RefCell<Option<Rc<Apart>>>,
    /// Its present process: what an earlier one leaves behind does not count.
    run: Cell<Option<RunId>>,
    links: RefCell<Option<Rc<Links>>>,
    /// Where it listens.
    address: RefCell<String>,
    next_link: Cell<LinkId>,
}

impl Slot {
    pub(super) fn links(&self) -> Option<Rc<Links>> {
        self.links.borrow().clone()
    }

    /// Closes the connections. Nothing is borrowed while their calls end.
    fn disconnect(&self) {
        let links = self.links.take();
        drop(links);
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
        let patience = Patience { start, waits_for: None, ..Patience::ORCHESTRA };
        let binary = entry.binary.clone();
        let options = ApartOptions {
            name: entry.config.id.clone(),
            program: self.program(entry),
            patience,
            restart: match entry.config.restarts {
                true => Restart::Always(supervisor::Comeback::ORCHESTRA),
                false => Restart::Never,
            },
            unspawned: Box::new(move |error| {
                Failure::new(FailureKind::Unavailable, told(error, &binary))
            }),
        };
        let inner = self.this.clone();
        let apart = Rc::new(Apart::new(options, move |life| {
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
        self.act(|hub, now| hub.handle_gone(now, index, why.into(), next.into()));
        if slot.run.get() == Some(run) {
            slot.run.set(None);
            slot.disconnect();
        }
    }

    /// Connects to a plugin.
    pub(super) fn dial(&self, index: PluginIndex, address: String) {
        let Some(inner) = self.this.upgrade() else { return };
        let slot = &self.plugins[index];
        slot.address.borrow_mut().clone_from(&address);
        let run = slot.run.get();
        spawn_local(async move {
            let dialled = inner.reach(index, &address).await;
            let slot = &inner.plugins[index];
            if slot.run.get() != run {
                return;
            }
            match dialled {
                Ok(connection) => {
                    let links = inner.link(index, run);
                    let id = slot.next_link();
                    links.add(id, connection);
                    let before = slot.links.replace(Some(links));
                    drop(before);
                    inner.act(|hub, now| hub.handle_dialled(now, index));
                }
                Err(cause) => inner.act(|hub, _| hub.handle_dial_failed(index, &cause)),
            }
        });
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

    fn link(&self, index: PluginIndex, run: Option<RunId>) -> Rc<Links> {
        let inner = self.this.clone();
        let settings =
            ClientSettings { caller_plugin: ORCHESTRATOR.to_owned(), ..ClientSettings::default() };
        Links::new(&self.entries[index].config.id, settings, move |event| {
            if let Some(inner) = inner.upgrade()
                && inner.plugins[index].run.get() == run
            {
                inner.link_changed(index, run, event);
            }
        })
    }

    fn link_changed(&self, index: PluginIndex, run: Option<RunId>, event: LinkEvent) {
        let slot = &self.plugins[index];
        match event {
            LinkEvent::Starved(id) if slot.links().is_none_or(|it| it.used() != Some(id)) => {}
            LinkEvent::Starved(_) => self.dial_further(index, run),
            // The links close it themselves.
            LinkEvent::Idle(_) => {}
            LinkEvent::Lost(_, failure) => {
                // One of two may be left.
                if slot.links().is_some_and(|links| links.used().is_some()) {
                    return;
                }
                let id = &self.entries[index].config.id;
                tracing::info!(peer = id, "connection lost: {}", failure.message);
                slot.disconnect();
                self.act(|hub, _| hub.handle_connection_lost(index));
            }
        }
    }

    /// A connection beside the one on which no stream can be opened any more.
    fn dial_further(&self, index: PluginIndex, run: Option<RunId>) {
        let Some(inner) = self.this.upgrade() else { return };
        let address = self.plugins[index].address.borrow().clone();
        spawn_local(async move {
            let dialled = inner.reach(index, &address).await;
            let slot = &inner.plugins[index];
            match (dialled, slot.links()) {
                (Ok(connection), Some(links)) if slot.run.get() == run => {
                    links.add(slot.next_link(), connection);
                }
                (Err(cause), _) => {
                    let id = &inner.entries[index].config.id;
                    tracing::warn!(peer = id, "cannot open a second connection: {cause}");
                }
                _ => {}
            }
        });
    }

    /// Tells the supervisor of a plugin's process how far the plugin is.
    pub(super) fn tell(&self, index: PluginIndex, tell: impl FnOnce(&Apart, RunId)) {
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

impl Slot {
    fn next_link(&self) -> LinkId {
        self.next_link.set(self.next_link.get() + 1);
        self.next_link.get()
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
impl From<Why> for Gone {
    fn from(why: Why) -> Gone {
        match why {
            Why::Unfit(failure) => Gone::Unfit(failure.message),
            Why::Exited(Exit::Code(code)) => Gone::Exited(format!("status {code}")),
            Why::Exited(Exit::Signal(signal)) => Gone::Exited(format!("signal {signal}")),
            Why::Late => Gone::Late,
        }
    }
}

impl From<Next> for Comeback {
    fn from(next: Next) -> Comeback {
        match next {
            Next::In(delay) => Comeback::In(delay),
            Next::GivenUp(starts) => Comeback::GivenUp(starts),
            Next::OnDemand | Next::Never => Comeback::Never,
        }
    }
}
