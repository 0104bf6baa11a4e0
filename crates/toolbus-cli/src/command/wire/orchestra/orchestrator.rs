//! `toolbus orchestrator`: a hub of Orchestra and its plugins.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args as _, FromArgMatches as _};
use toolbus::wire::orchestra::HostPort;
use toolbus::wire::orchestra::hub::{HubError, HubFileError, Orchestrator, read_config};

use super::{GROUP, certs};
use crate::args::Globals;
use crate::args::groups::Group;
use crate::command::wire::{Run, Verb};
use crate::exit::Exit;
use crate::failed::Failed;
use crate::runtime::{Signals, block_on};
use crate::{observers, stderr};

pub(crate) static VERB: OrchestratorVerb = OrchestratorVerb;

pub(crate) struct OrchestratorVerb;

impl Verb for OrchestratorVerb {
    fn name(&self) -> &'static str {
        "orchestrator"
    }

    fn group(&self) -> &'static Group {
        &GROUP
    }

    fn command(&self) -> clap::Command {
        OrchestratorArgs::augment_args(clap::Command::new(self.name()))
    }

    fn read(&self, matches: &ArgMatches) -> Result<Box<dyn Run>, clap::Error> {
        Ok(Box::new(OrchestratorArgs::from_arg_matches(matches)?))
    }

    fn is_program(&self) -> bool {
        true
    }
}

/// Be an Orchestra hub: run the plugins of a file and route calls to them
///
/// Reads `plugins.yaml`, or the file that `--config` names, starts its plugins and keeps them
/// running: one that dies is started again, after half a second at first, and given up after five
/// failed starts. Callers are let in by their certificates; `toolbus certs` shows them.
///
/// SIGINT or SIGTERM says goodbye to all plugins and ends with 0; a second one kills them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus orchestrator
  toolbus orchestrator --config ./plugins.yaml --listen-addr localhost:50100

A small plugins.yaml:
  plugins:
    - id: tools.toolbus
      binary: toolbus
      args: [plugin, --id, tools.toolbus, \"builtin:\"]
      enabled: true")]
struct OrchestratorArgs {
    /// Listen here, whatever the file says; port 0 takes a free one [default: localhost:50100]
    #[arg(long, value_name = "HOST:PORT")]
    listen_addr: Option<HostPort>,
    /// Folder of the certificates, whatever the file says [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR")]
    certs_dir: Option<PathBuf>,
    /// Let callers in that show no certificate; a wrong one is still refused
    #[arg(long)]
    allow_anonymous: bool,
}

impl Run for OrchestratorArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        let path = globals.config.as_deref().unwrap_or(Path::new("plugins.yaml"));
        let mut config = read_config(path).map_err(|error| wrong_file(&error))?;
        if let Some(address) = &self.listen_addr {
            config.listen_addr.clone_from(address);
        }
        if let Some(folder) = &self.certs_dir {
            config.certs_dir.clone_from(folder);
        }
        config.allow_anonymous |= self.allow_anonymous;
        for warning in &config.warnings {
            tracing::warn!("{}: {warning}", path.display());
        }
        block_on(async {
            let mut signals = Signals::listen()?;
            let say = |line: &str| match line.starts_with('[') {
                // What plugins write may be much.
                true => stderr::write(&format!("{line}\n")),
                false => stderr::write_awaited(&format!("{line}\n")),
            };
            let hub = Orchestrator::open(config, say).await.map_err(|error| cannot_open(&error))?;
            // The file that `--config` names is the hub's own.
            let hub = hub.observed_by(observers::of_config(None)?);
            let stopper = hub.stopper();
            let mut running = std::pin::pin!(hub.run());
            let signal = tokio::select! {
                () = &mut running => return Ok(()),
                signal = signals.next() => signal,
            };
            stopper.stop(if signal == Exit::Interrupted { "interrupt" } else { "terminated" });
            tokio::select! {
                () = &mut running => Ok(()),
                signal = signals.next() => {
                    stopper.kill();
                    Err(Failed::quietly(signal))
                }
            }
        })
    }
}

fn wrong_file(error: &HubFileError) -> Failed {
    let failed = Failed::usage(error.to_string());
    match error {
        HubFileError::Unreadable { source, .. } => failed.causes([source.to_string()]).hint(
            "name the file by `--config FILE`; `toolbus orchestrator --help` shows a small one",
        ),
        HubFileError::Wrong { source, .. } => failed.hint_if_any(source.hint.clone()),
    }
}

fn cannot_open(error: &HubError) -> Failed {
    match error {
        HubError::Certificates(error) => certs::refused(error),
        HubError::Tls(source) => Failed::usage(error.to_string()).caused_by(source),
        HubError::Listen(error) => {
            let causes = std::iter::successors(std::error::Error::source(error), |it| it.source());
            let failed = Failed::new(Exit::Failed, error.to_string());
            failed.causes(causes.map(ToString::to_string)).hint_if_any(error.hint())
        }
    }
}
