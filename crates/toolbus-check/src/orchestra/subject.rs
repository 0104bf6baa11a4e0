//! Who is tested: a hub or plugin by its address, or a plugin that we start.

use std::time::Duration;

use tokio::time::timeout;
use toolbus_proto::json::Json;
use toolbus_proto::tool::Failure;

use super::{ANSWER, unreachable};
use crate::Wanted;
use toolbus::address::{Address, Place};
use toolbus::bus::back::causes;
use toolbus::peer::open::{file_name, program};
use toolbus::wire::orchestra::back::{Started, StartedOptions, scratch_folder};
use toolbus::wire::orchestra::caller::Reach as _;
use toolbus::wire::orchestra::certificates::Identity;
use toolbus::wire::orchestra::settings::CallParameters;
use toolbus::wire::orchestra::tls;
use toolbus_engine::child::{EnvPolicy, Patience, Program, Running};
use toolbus_engine::transport::quic::{
    self, Connection, Dialler, HANDSHAKE, Idle, QuicClient, Target as Host,
};

/// Who is tested.
pub(super) struct Subject {
    place: Where,
    dialler: Dialler,
    /// Who we are to it, and where it is, once it was opened.
    known: std::cell::RefCell<Option<(Identity, Host)>>,
}

enum Where {
    Elsewhere { host: Host, parameters: CallParameters },
    Started { plugin: Box<Started>, program: Program, stop: Duration },
}

impl Subject {
    pub(super) fn of(address: &Address, wanted: &Wanted) -> Result<Subject, String> {
        let place = match address.place() {
            Place::Url(url) => {
                let parameters = CallParameters::of(url)?;
                let server_name = parameters.server_name.clone();
                let host = Host { host: url.host.clone(), port: url.port, server_name };
                Where::Elsewhere { host, parameters }
            }
            Place::Command(words) => {
                let program = program(words, &wanted.settings, EnvPolicy::Inherit);
                let mut patience = Patience {
                    stop: wanted.stop,
                    waits_for: None,
                    ..toolbus::wire::orchestra::PATIENCE
                };
                patience.start = wanted.start.unwrap_or(patience.start);
                let options =
                    StartedOptions { name: file_name(words), program: program.clone(), patience };
                let plugin = Box::new(Started::new(options));
                Where::Started { plugin, program, stop: wanted.stop }
            }
            _ => return Err(format!("`{address}` is neither a hub nor a plugin")),
        };
        Ok(Subject { place, dialler: Dialler::new(), known: Default::default() })
    }

    pub(super) fn is_plugin(&self) -> bool {
        matches!(self.place, Where::Started { .. })
    }

    /// Connects to it for the first time; starts it first if it is ours to start.
    pub(super) async fn open(&self) -> Result<Connection, Failure> {
        match &self.place {
            Where::Elsewhere { host, parameters } => {
                let identity = tls::load(&parameters.folder, &parameters.certificate).await;
                let identity = identity.map_err(|error| tls::unfit(&error))?;
                *self.known.borrow_mut() = Some((identity, host.clone()));
                self.open_another().await
            }
            Where::Started { plugin, .. } => {
                let connection = plugin.reach().await?;
                let identity = plugin.identity().await?;
                let address = connection.peer_address();
                let (host, port) = (address.ip().to_string(), address.port());
                *self.known.borrow_mut() = Some((identity, Host { host, port, server_name: None }));
                Ok(connection)
            }
        }
    }

    /// One more connection, as the first.
    pub(super) async fn open_another(&self) -> Result<Connection, Failure> {
        self.dial(tls::ALPN, self.own()).await.map_err(unreachable)
    }

    /// What we prove to be.
    pub(super) fn own(&self) -> Option<Identity> {
        self.known.borrow().as_ref().map(|(identity, _)| identity.clone())
    }

    /// A certificate of a CA that nobody knows.
    pub(super) async fn foreign(&self) -> Result<Identity, Failure> {
        let (folder, _scratch) = scratch_folder()?;
        tls::load(&folder, "stranger").await.map_err(|error| tls::unfit(&error))
    }

    /// Is a client with this protocol and certificate refused?
    pub(super) async fn refuses(
        &self,
        alpn: &[u8],
        identity: Option<Identity>,
    ) -> Result<(), String> {
        let Ok(connection) = self.dial(alpn, identity).await else { return Ok(()) };
        // The certificate is judged after our own handshake is over.
        let talk = super::Talk::new(connection.clone());
        let health = toolbus_proto::orchestra::wire::HealthRequest::default();
        match timeout(ANSWER, talk.ask("check-0", health)).await {
            Ok(Err(_)) if connection.is_closed() => Ok(()),
            Ok(Err(why)) => Err(why),
            Ok(Ok(_)) => Err("it was let in".to_owned()),
            Err(_) => Err("it was not told".to_owned()),
        }
    }

    async fn dial(&self, alpn: &[u8], identity: Option<Identity>) -> Result<Connection, String> {
        let known = self.known.borrow().clone();
        let Some((own, host)) = known else { return Err("it was not opened".to_owned()) };
        let shown = identity.map(|identity| quic::Identity {
            chain: vec![identity.certificate.clone()],
            key: identity.key.clone_key(),
        });
        let client = QuicClient::new(alpn, &[own.ca], shown, Idle::after(tls::IDLE_TIMEOUT));
        let client = client.map_err(|error| causes(&error))?;
        let dialled = self.dialler.dial(&host, &client, HANDSHAKE).await;
        dialled.map_err(|error| causes(&error))
    }

    /// Does the plugin print its manifest, and end?
    pub(super) async fn manifest(&self) -> Result<(), String> {
        let Where::Started { program, .. } = &self.place else { return Ok(()) };
        let mut program = program.clone();
        program.words.push("--manifest".to_owned());
        let started = Running::start_without_input(&program);
        let mut running = started.map_err(|error| causes(&error))?;
        let reading = async { while 0 < running.stdout.read().await {} };
        timeout(ANSWER, reading).await.map_err(|_| format!("it does not end within {ANSWER:?}"))?;
        let text = std::str::from_utf8(&running.stdout.bytes).map_err(|_| "it prints no text")?;
        let manifest =
            Json::parse(text.trim_end().to_owned()).map_err(|error| error.to_string())?;
        match manifest.as_str().starts_with("{\"id\":") {
            true => Ok(()),
            false => Err(format!("it prints {}", text.lines().next().unwrap_or_default())),
        }
    }

    /// Does the plugin end after `shutdown`?
    pub(super) async fn exits(&self) -> Result<(), String> {
        let Where::Started { plugin, stop, .. } = &self.place else { return Ok(()) };
        let exited = timeout(*stop, plugin.exited()).await;
        plugin.kill();
        match exited {
            Ok(Some(toolbus_proto::tool::Exit::Code(0))) => Ok(()),
            Ok(Some(exit)) => Err(format!("it ended with {exit}")),
            Ok(None) | Err(_) => Err(format!("it still runs after {stop:?}")),
        }
    }
}
