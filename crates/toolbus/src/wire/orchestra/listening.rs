//! An Orchestra front as the registry knows it: planned, opened, led elsewhere, stopped.

use std::io;
use std::rc::Rc;

use toolbus_proto::channel::Ended;
use toolbus_proto::orchestra::plugin::manifest;
use toolbus_proto::tool::ToolSpec;

use super::OrchestraKind;
use super::front::{Plugin, PluginEnded, PluginError, PluginFlags, PluginOptions};
use super::host_port::HostPort;
use super::settings::folder;
use crate::address::{Address, Place};
use crate::bus::{Bus, TIMEOUT};
use crate::peer::guests::Guests;
use crate::peer::settings::WireSettings;
use crate::peer::{
    Circumstances, FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce,
};

/// What a plugin is called that was given no id.
pub const ID_DEFAULT: &str = "toolbus";

impl FrontKind for OrchestraKind {
    fn can_listen(&self, address: &Address) -> bool {
        matches!(address.place(), Place::Url(_))
    }

    fn callers(&self) -> &'static str {
        "an Orchestra hub"
    }

    fn plan(
        &self,
        address: &Address,
        _settings: &WireSettings,
        circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        let Place::Url(url) = address.place() else {
            return Err(FrontError::usage(format!("cannot listen on `{address}`")));
        };
        let hub = url.parameter("hub").filter(|hub| !hub.is_empty());
        let hub = hub.map(str::parse::<HostPort>).transpose().map_err(|error| {
            FrontError::usage(format!("cannot listen on `{address}`: `hub`: {error}"))
        })?;
        let options = PluginOptions {
            id: url.parameter("id").unwrap_or(ID_DEFAULT).to_owned(),
            listen_addr: HostPort::new(&url.host, url.port),
            orchestrator_addr: hub,
            certs: folder(url),
            allow_anonymous: false,
            timeout: TIMEOUT,
            called: circumstances.called,
        };
        Ok(Box::new(|bus, _| Box::pin(open(options, bus))))
    }

    /// Serves the hub whose flags stand among the words: it does not speak to the standard
    /// streams of its plugins.
    fn serve_stdio(&self, bus: Bus, words: &[String], say: fn(&str)) -> ServedOnce {
        let flags = PluginFlags::of(words).transpose();
        Box::pin(async move {
            let flags = flags.map_err(io::Error::other)?.ok_or_else(|| {
                io::Error::other("an Orchestra plugin is started with the flags of its hub")
            })?;
            bus.open().await.map_err(io::Error::other)?;
            let tools = bus.tools().await.map_err(io::Error::other)?;
            let options = flags.options(ID_DEFAULT, TIMEOUT);
            let plugin = Plugin::bind(options, Rc::new(bus)).await.map_err(io::Error::other)?;
            say(&format!("READY {}", plugin.address()));
            let told = manifest(ID_DEFAULT, env!("CARGO_PKG_VERSION"), names(&tools));
            let hub = plugin.register(&told).await.map_err(io::Error::other)?;
            Ok(match plugin.serve(hub).await {
                PluginEnded::ShutDown | PluginEnded::Stopped => Ended::Well,
                PluginEnded::HubGone(_) | PluginEnded::ParentGone => Ended::PeerStoppedReading,
            })
        })
    }
}

async fn open(options: PluginOptions, bus: Bus) -> Result<Listening, FrontError> {
    let id = options.id.clone();
    let names = names(&bus.tools().await.unwrap_or_default());
    let guests = Rc::new(Guests::of(bus));
    let plugin = Plugin::open(options, guests.clone()).await.map_err(|error| not_open(&error))?;
    let plugin = Rc::new(plugin);
    let told = manifest(&id, env!("CARGO_PKG_VERSION"), names);
    let hub = plugin.register(&told).await.map_err(|error| not_open(&error))?;
    let line = format!("listening on orchestra+quic://{}", plugin.address());
    let (led, stopped) = (plugin.clone(), plugin.clone());
    let lead_to = move |bus| {
        guests.lead_to(bus);
        // The config was read again, and with it goes the certificate.
        led.renew();
    };
    let front = RunningFront::new(lead_to, move |_| stopped.stop());
    let serving = Box::pin(async move {
        match plugin.serve(hub).await {
            PluginEnded::HubGone(at) => {
                Err(FrontError::failed(format!("the orchestrator at {at} is gone")))
            }
            _ => Ok(()),
        }
    });
    Ok(Listening { line: Some(line), later: None, front, tls: None, serving })
}

/// The names of tools as a manifest lists them.
fn names(tools: &[ToolSpec]) -> Vec<String> {
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    names.sort();
    names
}

fn not_open(error: &PluginError) -> FrontError {
    let refused = match error {
        PluginError::Certificates(_) => FrontError::usage(error.to_string()),
        _ => FrontError::failed(error.to_string()),
    };
    refused.hint(error.hint())
}
