//! One front of the config: planned, opened, led elsewhere, stopped.

use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use toolbus::address::{Place, Url};
use toolbus::bus::Bus;
use toolbus::bus::config::{ClientSettings, FrontConfig};
use toolbus::bus::lenient::LenientBus;
use toolbus::bus::{Route, SwappableRoute};
use toolbus::wire::mcp::front::Backs;
use toolbus::wire::mcp::front_http::{self as mcp_http, At};
use toolbus::wire::mediocre::front::{self as mediocre, Mediocre};

use crate::command::mcp::{cannot_serve, listen, token_of};
use crate::command::rpc::Entry;
use crate::failed::Failed;

/// Callers of one front are never as many.
const CALLERS_MAX: u64 = 1 << 40;

/// A front that could be opened.
pub(super) struct Plan {
    config: FrontConfig,
    kind: Kind,
}

/// What is spoken, and where.
enum Kind {
    Mcp { at: At, options: mcp_http::Options },
    Mediocre { entry: Entry, settings: mediocre::Settings },
}

impl Plan {
    /// Checks all that can be checked before it listens.
    pub(super) fn of(front: &FrontConfig) -> Result<Plan, Failed> {
        let kind = match front.serve.place() {
            Place::Url(url) if url.wire == toolbus_proto::mcp::WIRE => mcp_plan(front, url)?,
            Place::Url(url) if url.wire != toolbus_proto::mediocre::WIRE => {
                let FrontConfig { name, serve, .. } = front;
                return Err(Failed::usage(format!(
                    "`front.{name}.serve`: fronts like `{serve}` are not there yet"
                )));
            }
            // Whatever carries mediocre-rpc is the business of the entry.
            _ => Kind::Mediocre {
                entry: Entry::read(front.serve.as_str())?,
                settings: mediocre_settings(front),
            },
        };
        Ok(Plan { config: front.clone(), kind })
    }
}

fn mcp_plan(front: &FrontConfig, url: &Url) -> Result<Kind, Failed> {
    let name = &front.name;
    let token = front.token_env.as_deref().map(token_of).transpose();
    let options = mcp_http::Options {
        path: url.path.clone(),
        origins: front.origins.clone(),
        token: token.map_err(|why| Failed::usage(format!("`front.{name}.token_env`: {why}")))?,
        insecure: front.insecure,
        ..mcp_http::Options::default()
    };
    let at = At { host: url.host.clone(), port: url.port };
    mcp_http::may_listen(&at, &options).map_err(|error| {
        Failed::usage(format!("`front.{name}.serve`: {error}"))
            .hint("name the variable that holds one by `token_env`, or set `insecure = true`")
    })?;
    Ok(Kind::Mcp { at, options })
}

fn mediocre_settings(front: &FrontConfig) -> mediocre::Settings {
    let usual = mediocre::Settings::default();
    let ClientSettings { drain_bytes_max, drain_timeout, idle_timeout, call_timeout } =
        front.clients;
    mediocre::Settings {
        reading: front.mediocre.reading(),
        drain_bytes_max: drain_bytes_max.map_or(usual.drain_bytes_max, |bytes| bytes as u64),
        drain_timeout: drain_timeout.unwrap_or(usual.drain_timeout),
        idle_timeout: idle_timeout.unwrap_or(usual.idle_timeout),
        call_timeout: call_timeout.unwrap_or(usual.call_timeout),
        ..usual
    }
}

/// A front that listens.
pub(super) struct Front {
    config: FrontConfig,
    led: Led,
    /// Dropped to end it.
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// What leads a front to the backs.
enum Led {
    Mcp(Rc<Backs>),
    Mediocre(Rc<SwappableRoute>),
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
        let Plan { config, kind } = plan;
        let (stop, stopped) = oneshot::channel();
        // Nobody ever sends: it is dropped.
        let stopped = async { drop(stopped.await) };
        let (led, serving) = match kind {
            Kind::Mcp { at, mut options } => {
                options.first_caller = number * CALLERS_MAX;
                let listener = listen(&at, &options).await?;
                let backs = Rc::new(Backs::of(for_mcp(bus)));
                let (served, breaking) = (backs.clone(), breaking.clone());
                let serving = spawn_local(async move {
                    let served = mcp_http::serve(&served, options, listener, stopped).await;
                    if let Err(error) = served {
                        let _ = breaking.send(cannot_serve(&error));
                    }
                });
                (Led::Mcp(backs), serving)
            }
            Kind::Mediocre { entry, settings } => {
                let route = Rc::new(SwappableRoute::new(hub(bus)));
                let server = Mediocre::new(route.clone(), settings);
                let mut connections = JoinSet::new();
                entry.open(&server, &mut connections).await?;
                let serving = spawn_local(async move {
                    stopped.await;
                    server.stop();
                    connections.join_all().await;
                });
                (Led::Mediocre(route), serving)
            }
        };
        Ok(Front { config, led, stop, serving })
    }

    /// Is it all that `plan` wants, once it leads to the backs of `after`?
    pub(super) fn can_become(&self, plan: &Plan, before: &Bus, after: &Bus) -> bool {
        let passes_through = |bus: &Bus| {
            speaks_mcp(&self.config) && bus.native_wire() == Some(toolbus_proto::mcp::WIRE)
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
        match &self.led {
            Led::Mcp(backs) => backs.lead_to(for_mcp(bus)),
            Led::Mediocre(route) => route.set(hub(bus)),
        }
    }

    /// Takes nobody any more. It is over when its last calls are.
    pub(super) fn stop(self) -> JoinHandle<()> {
        drop(self.stop);
        self.serving
    }
}

fn for_mcp(bus: &Bus) -> Rc<Bus> {
    Rc::new(bus.clone().named_for_mcp())
}

fn hub(bus: &Bus) -> Rc<dyn Route> {
    Rc::new(LenientBus::new(Rc::new(bus.clone())))
}

fn speaks_mcp(config: &FrontConfig) -> bool {
    matches!(config.serve.place(), Place::Url(url) if url.wire == toolbus_proto::mcp::WIRE)
}
