//! `toolbus plugin`: the tools of the bus for an Orchestra hub.

use std::rc::Rc;
use std::time::Duration;

use toolbus::bus::Bus;
use toolbus::peer::settings::Settings;
use toolbus::wire::orchestra::ID_DEFAULT;
use toolbus::wire::orchestra::front::{
    Plugin, PluginEnded, PluginError, PluginFlags, PluginOptions,
};
use toolbus_proto::orchestra::plugin::{manifest, manifest_line};
use toolbus_proto::orchestra::wire::PluginManifest;

use crate::args::peer::{FrontArgs, HttpArgs, ProgramArgs};
use crate::args::view::ViewArgs;
use crate::args::{Globals, value};
use crate::command::wire::Run;
use crate::exit::Exit;
use crate::failed::Failed;
use crate::peers::Peers;
use crate::render::{self, failure};
use crate::runtime::Signals;
use crate::{logging, stderr};

/// Be an Orchestra plugin: its hub calls the tools of the bus
///
/// A hub starts its plugins with `--orchestrator-addr`, `--listen-addr` and `--certs-dir`, behind
/// whatever stands in its own file. All peers are opened first; if one cannot be, the exit code
/// is 3. Then standard error has the line `READY HOST:PORT`, the hub is told which tools there
/// are, and answers are given until it says `shutdown`, a signal comes, or the hub has been gone
/// for a minute. Standard output stays empty.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  toolbus plugin builtin: --manifest
  toolbus plugin --id tools.bus builtin:

In a hub's plugins.yaml:
  plugins:
    - id: tools.bus
      binary: toolbus
      args: [plugin, --id, tools.bus, 'builtin:']")]
pub(crate) struct PluginArgs {
    /// Peers whose tools are served, in place of those in the config, e.g. `builtin:`
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// Hub to register with, e.g. `localhost:50100`; none if it is empty
    #[arg(long, value_name = "HOST:PORT", overrides_with = "orchestrator_addr")]
    orchestrator_addr: Option<String>,
    /// Where to listen [default: localhost:0]
    #[arg(long, value_name = "HOST:PORT", overrides_with = "listen_addr")]
    listen_addr: Option<String>,
    /// Folder of the certificates [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR", overrides_with = "certs_dir")]
    certs_dir: Option<String>,
    /// Our id, as it stands in the hub's file
    #[arg(long, value_name = "ID", default_value = ID_DEFAULT)]
    id: String,
    /// Print what we would tell a hub of ourselves, and end
    #[arg(long)]
    manifest: bool,
    /// Let callers in that show no certificate
    #[arg(long)]
    allow_anonymous: bool,
    /// Give up on a call that is quiet for this long, e.g. `90`, `500ms`
    #[arg(long, value_name = "TIME", value_parser = value::duration, default_value = "60s",
          allow_negative_numbers = true)]
    timeout: Duration,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    front: FrontArgs,
    #[command(flatten)]
    seen: ViewArgs,
}

impl Run for PluginArgs {
    fn run(&self, globals: &Globals) -> Result<(), Failed> {
        let flags = PluginFlags::read(
            self.orchestrator_addr.as_deref(),
            self.listen_addr.as_deref(),
            self.certs_dir.as_deref(),
            self.manifest,
        );
        let flags = flags.map_err(|error| Failed::usage(error.to_string()))?;
        let options = PluginOptions {
            called: None,
            allow_anonymous: self.allow_anonymous,
            ..flags.options(&self.id, self.timeout)
        };
        let backs = Settings {
            timeout: Some(self.timeout),
            program: self.program.settings()?,
            credentials: self.http.credentials()?,
            ..Settings::default()
        };
        let peers = Peers::of(&self.addresses, globals, backs)?
            .seen_as(&self.seen)?
            .fresh_if(self.front.fresh.fresh);
        crate::spans::say_if_missing();
        peers.meet_with_signals(
            |bus| self.front.searched(bus.for_front("plugin")),
            async |bus, signals| match self.manifest {
                true => {
                    let told = tokio::select! {
                        told = describe(&bus, &self.id) => told?,
                        exit = signals.next() => return Err(Failed::quietly(exit)),
                    };
                    render::print(&format!("{}\n", manifest_line(&told)))
                }
                false => serve(bus, options, signals).await,
            },
        )
    }
}

/// Opens all peers, and says what we have because of them.
async fn describe(bus: &Bus, id: &str) -> Result<PluginManifest, Failed> {
    bus.open().await.map_err(|error| failure::not_open(&error))?;
    let tools = bus.tools().await.map_err(|error| failure::failed(&error))?;
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    names.sort();
    Ok(manifest(id, env!("CARGO_PKG_VERSION"), names))
}

async fn serve(bus: Rc<Bus>, options: PluginOptions, signals: &mut Signals) -> Result<(), Failed> {
    let id = options.id.clone();
    let starting = async {
        // The certificates first: without them nothing need be started.
        let plugin = Plugin::bind(options, bus.clone()).await.map_err(|error| failed(&error))?;
        let told = describe(&bus, &id).await?;
        // A parent that closed our standard error does not wait for the line.
        stderr::write_protocol(&format!("READY {}\n", plugin.address()));
        let hub = plugin.register(&told).await.map_err(|error| failed(&error))?;
        if let Some(hub) = &hub {
            let line = format!("registered with orchestrator at {}", hub.address());
            stderr::write(&logging::announcement(&line));
        }
        Ok::<_, Failed>((plugin, hub))
    };
    let (plugin, hub) = tokio::select! {
        started = starting => started?,
        _ = signals.next() => return Ok(()),
    };
    let mut serving = std::pin::pin!(plugin.serve(hub));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        _ = signals.next() => {
            plugin.stop();
            tokio::select! {
                ended = &mut serving => ended,
                // A second signal: calls in flight are not waited for.
                exit = signals.next() => return Err(Failed::quietly(exit)),
            }
        }
    };
    match ended {
        PluginEnded::ShutDown | PluginEnded::Stopped => Ok(()),
        PluginEnded::HubGone(at) => {
            let message = format!("the orchestrator at {at} has been gone for a minute");
            Err(Failed::new(Exit::Unreachable, message))
        }
        PluginEnded::ParentGone => {
            Err(Failed::new(Exit::Unreachable, "the orchestrator that started us is gone"))
        }
    }
}

fn failed(error: &PluginError) -> Failed {
    let exit = match error {
        PluginError::Certificates(_) | PluginError::Tls(_) => Exit::Usage,
        PluginError::Listen(_) | PluginError::Rejected(_) => Exit::Failed,
        PluginError::Hub { .. } => Exit::Unreachable,
    };
    Failed::new(exit, error.to_string()).hint_if_any(error.hint())
}
