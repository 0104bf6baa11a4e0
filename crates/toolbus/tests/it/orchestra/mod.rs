//! Orchestra over real QUIC: a plugin of ours, hubs and plugins behind the bus, bad networks.

mod calling;
mod doors;
mod hub;
mod lossy;
mod played;
mod plugin;
mod routed;
mod script;
mod starved;

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_local};
use toolbus::address::Address;
use toolbus::bus::{Bus, Route};
use toolbus::peer::settings::Settings;
use toolbus::wire::orchestra::certificates::Folder;
use toolbus::wire::orchestra::front::{Plugin, PluginEnded, PluginOptions};
use toolbus::wire::orchestra::{HostPort, tls};
use toolbus_engine::calls::Inbox;
use toolbus_engine::transport::quic::{Clients, Connection, HANDSHAKE, Listener};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, Outcome};
use toolbus_testkit::scratch::Scratch;

/// A folder of certificates that goes with the test.
struct Certs {
    scratch: Scratch,
    folder: Folder,
}

impl Certs {
    fn new() -> Certs {
        let scratch = Scratch::new();
        let folder = Folder::at(&scratch.path().join("certs"));
        Certs { scratch, folder }
    }

    fn parameter(&self) -> String {
        self.scratch.path().join("certs").display().to_string()
    }

    /// A listener that speaks as a hub does.
    async fn listen(&self) -> Listener {
        let identity = self.folder.identity("orchestrator").unwrap();
        let server = tls::server(&identity, Clients::Known).unwrap();
        Listener::bind("127.0.0.1", 0, &server).await.unwrap()
    }

    fn options(&self, hub: Option<&Listener>) -> PluginOptions {
        let hub = hub.map(|hub| HostPort::new("127.0.0.1", hub.addresses()[0].port()));
        PluginOptions {
            called: None,
            id: "tools.bus".to_owned(),
            listen_addr: HostPort::new("localhost", 0),
            orchestrator_addr: hub,
            certs: self.folder.clone(),
            allow_anonymous: false,
            timeout: Duration::from_secs(60),
        }
    }

    /// The address by which something at this port is called.
    fn address(&self, port: u16, more: &str) -> Address {
        let certs = self.parameter();
        Address::parse(&format!("orchestra+quic://127.0.0.1:{port}?certs={certs}{more}")).unwrap()
    }
}

async fn accept(listener: &Listener) -> Connection {
    listener.accept().await.unwrap().open(HANDSHAKE).await.unwrap()
}

async fn builtin() -> Rc<dyn Route> {
    let bus = bus_at(Address::parse("builtin:").unwrap());
    bus.open().await.unwrap();
    Rc::new(bus)
}

/// A plugin without a hub, which serves in a task of its own.
async fn plugin(certs: &Certs, route: Rc<dyn Route>) -> (Rc<Plugin>, JoinHandle<PluginEnded>) {
    let plugin = Rc::new(Plugin::bind(certs.options(None), route).await.unwrap());
    let serving = plugin.clone();
    let served = spawn_local(async move { serving.serve(None).await });
    (plugin, served)
}

fn bus_at(address: Address) -> Bus {
    Bus::of_addresses(&[address], &Settings::default()).unwrap()
}

fn call(tool: &str, args: &str) -> Call {
    Call::tool(Instant::now(), tool, Some(Json::parse(args.to_owned()).unwrap()))
}

async fn outcome(bus: &Bus, call: Call) -> Result<Outcome, Failure> {
    let (inbox, down) = Inbox::new();
    inbox.whole(bus.start(call, down)).await
}

fn value(text: &str) -> Result<Outcome, Failure> {
    Ok(Outcome::Value(Json::parse(text.to_owned()).unwrap()))
}
