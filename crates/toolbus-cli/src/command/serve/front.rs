//! One front of the config: planned, opened, led elsewhere, stopped.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use toolbus::address::{Address, Place};
use toolbus::bus::config::FrontConfig;
use toolbus::bus::{Bus, LIST_TIMEOUT};
use toolbus::peer::{Circumstances, FrontError, FrontKind, FrontPlan, Listening, RunningFront};
use toolbus_engine::transport::tls::ServerTls;
use toolbus_proto::tool::ToolName;

use crate::exit::Exit;
use crate::failed::Failed;
use crate::{logging, stderr};

/// A front that could be opened.
pub(super) struct Plan {
    config: FrontConfig,
    circumstances: Circumstances,
    plan: FrontPlan,
}

impl Plan {
    /// Checks all that can be checked before it listens.
    pub(super) fn of(config: &FrontConfig, circumstances: Circumstances) -> Result<Plan, Failed> {
        let FrontConfig { name, serve, settings, .. } = config;
        let Some(kind) = serve.kind().front() else {
            return Err(Failed::usage(format!(
                "`front.{name}.serve`: nothing can be served at `{serve}`"
            )));
        };
        let table = format!("front.{name}");
        let circumstances = Circumstances {
            called: Some(table.clone()),
            is_closed: config.is_closed(),
            ..circumstances
        };
        let plan = kind.plan(serve, settings, circumstances.clone());
        let plan = plan.map_err(|error| failed(&table, error))?;
        Ok(Plan { config: config.clone(), circumstances, plan })
    }

    /// What it was made of.
    pub(super) fn parts(&self) -> (FrontConfig, Circumstances) {
        (self.config.clone(), self.circumstances.clone())
    }

    pub(super) fn config(&self) -> &FrontConfig {
        &self.config
    }
}

/// A front that listens.
pub(super) struct Front {
    config: FrontConfig,
    /// What people were told when it listened.
    line: Option<String>,
    running: RunningFront,
    /// By what it shows itself.
    tls: Option<ServerTls>,
    serving: JoinHandle<()>,
    /// It is to end: that it does is nothing to tell.
    is_leaving: Rc<Cell<bool>>,
}

impl Front {
    /// Listens, says so, and serves from now on.
    ///
    /// `number` is another for each front. What goes wrong later is told to `breaking`.
    pub(super) async fn open(
        plan: Plan,
        bus: &Bus,
        number: u64,
        breaking: &mpsc::UnboundedSender<Failed>,
    ) -> Result<Front, Failed> {
        let Plan { config, plan, .. } = plan;
        let opened = plan(bus_of(&config, bus), number).await;
        let table = format!("front.{}", config.name);
        let Listening { line, later, front, tls, serving } =
            opened.map_err(|error| failed(&table, error))?;
        let say = |line: String| stderr::write(&logging::announcement(&line));
        line.clone().into_iter().for_each(say);
        if let Some(later) = later {
            drop(spawn_local(async move { later.await.into_iter().for_each(say) }));
        }
        let breaking = breaking.clone();
        let is_leaving = Rc::new(Cell::new(false));
        let is_expected = is_leaving.clone();
        let serving = spawn_local(async move {
            if let Err(error) = serving.await
                && !is_expected.get()
            {
                let _ = breaking.send(failed(&table, error));
            }
        });
        Ok(Front { config, line, running: front, tls, serving, is_leaving })
    }

    /// By what it shows itself, if it is at this address.
    pub(super) fn tls_at(&self, serve: &Address) -> Option<ServerTls> {
        self.tls.as_ref().filter(|_| self.config.serve == *serve).cloned()
    }

    /// Its name in the config.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// What people were told when it listened.
    pub(super) fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// Where it listens, by what was said of it.
    pub(super) fn place(&self) -> Option<(String, String)> {
        Some((self.config.name.clone(), self.line.clone()?))
    }

    /// Is it all that `plan` wants, but perhaps for its name, and for whom it is and what they are
    /// shown?
    pub(super) fn is_set_up_as(&self, plan: &Plan) -> bool {
        let FrontConfig { serve, list_timeout, search, always, settings, .. } = &self.config;
        *serve == plan.config.serve
            && *search == plan.config.search
            && *always == plan.config.always
            && *settings == plan.config.settings
            && *list_timeout == plan.config.list_timeout
    }

    /// Can it lead to the backs of `after`, with the clients that it has?
    pub(super) fn can_lead_to(&self, before: &Bus, after: &Bus) -> bool {
        let kind = self.config.serve.kind();
        let passes_through = |bus: &Bus| {
            kind.front().is_some_and(FrontKind::passes_through)
                && bus.lone_wire() == Some(kind.wire())
        };
        match (passes_through(before), passes_through(after)) {
            (false, false) => true,
            // The sessions of a server that is passed through are its own.
            (true, true) => after.without(before).is_empty(),
            (true, false) | (false, true) => false,
        }
    }

    /// Tells that clients have to call tools otherwise when it leads to the backs of `after`.
    pub(super) fn warn_of_new_names(&self, before: &Bus, after: &Bus) {
        let Some(kind) = self.config.serve.kind().front() else { return };
        let [then, now] = [before, after].map(|bus| kind.name_tools(bus.clone()));
        let stays = |(back, _): &(Arc<str>, _)| before.backs().any(|(known, _)| known == *back);
        let any = ToolName::from("tool");
        for (back, _) in after.backs().filter(stays) {
            let [was, is] = [&then, &now].map(|bus| bus.name_of(&back, &any));
            if was != is {
                let name = &self.config.name;
                let why = "names depend on how many backs there are";
                tracing::warn!(
                    "`front.{name}` spells the tools of `{back}` otherwise from now on: `{was}` is \
                     `{is}`; {why}"
                );
            }
        }
    }

    /// It is set up so from now on: what differs needs no other listener.
    pub(super) fn take_over(&mut self, config: &FrontConfig) {
        self.config.clone_from(config);
    }

    /// Does it listen where `config` wants to?
    pub(super) fn is_in_the_way_of(&self, config: &FrontConfig) -> bool {
        if !self.config.serve.kind().front().is_none_or(FrontKind::takes_its_address) {
            return false;
        }
        match (self.config.serve.place(), config.serve.place()) {
            (Place::Unix(ours), Place::Unix(theirs)) => ours == theirs,
            // Hosts may have several names; ports of the system's choice are never the same.
            (Place::Url(ours), Place::Url(theirs)) => ours.port == theirs.port && ours.port != 0,
            _ => false,
        }
    }

    /// Calls go to the backs of `bus` from now on.
    pub(super) fn lead_to(&self, bus: &Bus) {
        self.running.lead_to(bus_of(&self.config, bus));
    }

    /// Takes no client any more. It is over when its last calls are.
    pub(super) fn stop(self) -> JoinHandle<()> {
        self.is_leaving.set(true);
        self.running.stop();
        self.serving
    }

    /// The same; its last calls have so long.
    pub(super) fn drain(self, patience: Duration) -> Draining {
        self.is_leaving.set(true);
        self.running.drain(patience);
        Draining(self.serving)
    }
}

/// The bus as a front of this config has it.
fn bus_of(config: &FrontConfig, bus: &Bus) -> Bus {
    let list_timeout = config.list_timeout.unwrap_or(LIST_TIMEOUT);
    let bus = bus.clone().at_front(config).listing_within(list_timeout);
    bus.searched(config.search, config.always.as_deref())
}

/// A front that takes no client any more.
pub(super) struct Draining(JoinHandle<()>);

impl Draining {
    pub(super) fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    /// Can be asked whether it is over.
    pub(super) fn watch(&self) -> AbortHandle {
        self.0.abort_handle()
    }

    /// Its last calls have so long from now on, however long they had.
    pub(super) fn hurry(mut self, patience: Duration) -> JoinHandle<()> {
        spawn_local(async move {
            if tokio::time::timeout(patience, &mut self.0).await.is_err() {
                self.0.abort();
            }
        })
    }
}

/// Why what this table of the config asks for cannot be opened, or go on.
pub(super) fn failed(table: &str, error: FrontError) -> Failed {
    let FrontError { is_usage, key, message, causes, hint } = error;
    let message = match key {
        Some(key) => format!("`{table}.{key}`: {message}"),
        None => message,
    };
    let exit = if is_usage { Exit::Usage } else { Exit::Failed };
    Failed::new(exit, message).causes(causes).hint_if_any(hint)
}
