//! One front of the config: planned, opened, led elsewhere, stopped.

use std::rc::Rc;

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};
use toolbus::bus::Bus;
use toolbus::bus::config::FrontConfig;
use toolbus::wire::{FrontError, FrontKind, FrontPlan, Listening, RunningFront};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::{logging, stderr};

/// A front that could be opened.
pub(super) struct Plan {
    config: FrontConfig,
    plan: Box<dyn FrontPlan>,
}

impl Plan {
    /// Checks all that can be checked before it listens.
    pub(super) fn of(config: &FrontConfig) -> Result<Plan, Failed> {
        let FrontConfig { name, serve, settings } = config;
        let Some(kind) = serve.kind().front() else {
            return Err(Failed::usage(format!(
                "`front.{name}.serve`: fronts like `{serve}` are not there yet"
            )));
        };
        let plan = kind.plan(serve, settings);
        let plan = plan.map_err(|error| failed(&format!("front.{name}"), error))?;
        Ok(Plan { config: config.clone(), plan })
    }
}

/// A front that listens.
pub(super) struct Front {
    config: FrontConfig,
    running: Rc<dyn RunningFront>,
    serving: JoinHandle<()>,
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
        let Plan { config, plan } = plan;
        let opened = plan.open(bus.clone().for_front(&config.name), number).await;
        let table = format!("front.{}", config.name);
        let Listening { line, front, serving } = opened.map_err(|error| failed(&table, error))?;
        stderr::write(&logging::announcement(&line));
        let breaking = breaking.clone();
        let serving = spawn_local(async move {
            if let Err(error) = serving.await {
                let _ = breaking.send(failed(&table, error));
            }
        });
        Ok(Front { config, running: front, serving })
    }

    /// Its name in the config.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Is it all that `plan` wants, once it leads to the backs of `after`?
    pub(super) fn can_become(&self, plan: &Plan, before: &Bus, after: &Bus) -> bool {
        let kind = self.config.serve.kind();
        let passes_through = |bus: &Bus| {
            kind.front().is_some_and(FrontKind::passes_through)
                && bus.native_wire() == Some(kind.wire())
        };
        self.config == plan.config
            && match (passes_through(before), passes_through(after)) {
                (false, false) => true,
                // The sessions of a server that is passed through are its own.
                (true, true) => after.without(before).is_empty(),
                (true, false) | (false, true) => false,
            }
    }

    /// Calls go to the backs of `bus` from now on.
    pub(super) fn lead_to(&self, bus: &Bus) {
        self.running.lead_to(bus.clone().for_front(&self.config.name));
    }

    /// Takes no client any more. It is over when its last calls are.
    pub(super) fn stop(self) -> JoinHandle<()> {
        self.running.stop();
        self.serving
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
