//! Who answers for a hub: its plugins, their processes and the connections to them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use tokio::task::spawn_local;
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::hub::PluginIndex;
use toolbus_proto::tool::Exit;

use super::{Inner, ORCHESTRATOR, PluginEntry};
use crate::bus::back::causes;
use crate::child::{Program, Signal, SpawnError};
use crate::engine::program::{Apart, Life};
use crate::transport::quic::{Connection, HANDSHAKE, Idle};
use crate::wire::orchestra::links::{LinkEvent, LinkId, Links};
use crate::wire::orchestra::{HostPort, tls};

/// What we hold of one plugin.
#[derive(Default)]
pub(super) struct Slot {
    run: RefCell<Option<Apart>>,
    /// How often it was started: what an earlier process leaves behind does not count.
    runs: Cell<u64>,
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
    /// Runs the program of a plugin.
    pub(super) fn spawn(&self, index: PluginIndex) {
        let (entry, slot) = (&self.entries[index], &self.plugins[index]);
        slot.disconnect();
        let run = slot.runs.get() + 1;
        slot.runs.set(run);
        let inner = self.this.clone();
        let happened = move |life: Life<'_>| {
            if let Some(inner) = inner.upgrade() {
                inner.happened(index, run, life);
            }
        };
        let spawned = Apart::spawn(&self.program(entry), happened);
        let now = Instant::now();
        let mut hub = self.hub.borrow_mut();
        match spawned {
            Ok(apart) => {
                hub.handle_spawned(index, apart.pid().unsigned_abs());
                let before = slot.run.replace(Some(apart));
                drop(hub);
                drop(before);
            }
            Err(error) => hub.handle_not_spawned(now, index, told(&error, entry)),
        }
    }

    fn program(&self, entry: &PluginEntry) -> Program {
        let mut words = vec![entry.program.clone()];
        words.extend(entry.args.iter().cloned());
        words.push(format!("--orchestrator-addr={}", self.address));
        words.push("--listen-addr=localhost:0".to_owned());
        words.push(format!("--certs-dir={}", self.folder.path().display()));
        Program { vars: entry.env.clone(), ..Program::new(words) }
    }

    /// Something became of a process.
    fn happened(&self, index: PluginIndex, run: u64, life: Life<'_>) {
        let slot = &self.plugins[index];
        if slot.runs.get() != run {
            return;
        }
        match life {
            Life::Line(line) => self.act(|hub, _| hub.handle_line(index, line)),
            Life::Exited(exit) => {
                let how = match exit {
                    Exit::Code(code) => format!("status {code}"),
                    Exit::Signal(signal) => format!("signal {signal}"),
                };
                // Before the connections go: how it ended says more than that they did.
                self.act(|hub, now| hub.handle_exited(now, index, &how));
                if slot.runs.get() == run {
                    slot.disconnect();
                }
            }
        }
    }

    /// Connects to a plugin.
    pub(super) fn dial(&self, index: PluginIndex, address: String) {
        let Some(inner) = self.this.upgrade() else { return };
        let slot = &self.plugins[index];
        slot.address.borrow_mut().clone_from(&address);
        let run = slot.runs.get();
        spawn_local(async move {
            let dialled = inner.reach(index, &address).await;
            let slot = &inner.plugins[index];
            if slot.runs.get() != run {
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
                Err(cause) => inner.act(|hub, now| hub.handle_dial_failed(now, index, &cause)),
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

    fn link(&self, index: PluginIndex, run: u64) -> Rc<Links> {
        let inner = self.this.clone();
        let settings =
            ClientSettings { caller_plugin: ORCHESTRATOR.to_owned(), ..ClientSettings::default() };
        Links::new(&self.entries[index].config.id, settings, move |event| {
            if let Some(inner) = inner.upgrade()
                && inner.plugins[index].runs.get() == run
            {
                inner.link_changed(index, run, event);
            }
        })
    }

    fn link_changed(&self, index: PluginIndex, run: u64, event: LinkEvent) {
        let slot = &self.plugins[index];
        match event {
            LinkEvent::Starved(id) if slot.links().is_none_or(|it| it.used() != Some(id)) => {}
            LinkEvent::Starved(_) => self.dial_further(index, run),
            LinkEvent::Idle(id) => {
                if let Some(links) = slot.links() {
                    links.close(id);
                }
            }
            LinkEvent::Lost(_, failure) => {
                // One of two may be left.
                if slot.links().is_some_and(|links| links.used().is_some()) {
                    return;
                }
                let id = &self.entries[index].config.id;
                tracing::info!(peer = id, "connection lost: {}", failure.message);
                slot.disconnect();
                self.act(|hub, now| hub.handle_connection_lost(now, index));
            }
        }
    }

    /// A connection beside the one on which no stream can be opened any more.
    fn dial_further(&self, index: PluginIndex, run: u64) {
        let Some(inner) = self.this.upgrade() else { return };
        let address = self.plugins[index].address.borrow().clone();
        spawn_local(async move {
            let dialled = inner.reach(index, &address).await;
            let slot = &inner.plugins[index];
            match (dialled, slot.links()) {
                (Ok(connection), Some(links)) if slot.runs.get() == run => {
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

    pub(super) fn kill(&self, index: PluginIndex) {
        let slot = &self.plugins[index];
        if let Some(run) = &*slot.run.borrow() {
            run.signal(Signal::Kill);
        }
        slot.disconnect();
    }

    pub(super) fn terminate(&self, index: PluginIndex) {
        if let Some(run) = &*self.plugins[index].run.borrow() {
            run.signal(Signal::Term);
        }
    }

    pub(super) fn kill_all(&self) {
        for slot in &self.plugins {
            // Killed, and reaped, when it is dropped.
            let run = slot.run.take();
            drop(run);
        }
    }
}

impl Slot {
    fn next_link(&self) -> LinkId {
        self.next_link.set(self.next_link.get() + 1);
        self.next_link.get()
    }
}

fn told(error: &SpawnError, entry: &PluginEntry) -> String {
    match error {
        SpawnError::NotInPath { .. } | SpawnError::NoFile { .. } => {
            format!("there is no program \"{}\"", entry.binary)
        }
        error => causes(error),
    }
}
