//! One plugin: where it listens, its hub, and its end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, getppid, pidfd_open};
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::interval_at;
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::plugin::{register, registered};
use toolbus_proto::orchestra::redial::{Again, Redial};
use toolbus_proto::orchestra::wire::PluginManifest;
use toolbus_proto::tool::{Call, Failure};

use super::{Served, serve};
use crate::bus::Route;
use crate::bus::back::causes;
use crate::engine::calls::Inbox;
use crate::engine::drive::until;
use crate::peer::guests::Guests;
use crate::task::boxed;
use crate::transport::pipe::Watch;
use crate::transport::quic::{
    Arrival, Clients, Dialler, HANDSHAKE, Idle, Listener, QuicServer, TlsSetupError,
};
use crate::transport::tcp::ListenError;
use crate::transport::tls::{FileLook, LOOKED_EVERY, last_day};
use crate::wire::orchestra::certificates::{CertificatesError, Folder};
use crate::wire::orchestra::link::Link;
use crate::wire::orchestra::{HostPort, tls};

/// How long a hub may be gone before we are too.
const HUB_GONE: Duration = Duration::from_secs(60);
/// By which code a connection is closed that is no caller's of the front.
const REFUSED: u32 = 1;
/// How often certificates are looked at.
const RENEWAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What can be set about a plugin.
#[derive(Debug, Clone)]
pub struct PluginOptions {
    /// Its id, as in the hub's file.
    pub id: String,
    /// Where it listens.
    pub listen_addr: HostPort,
    /// With whom it registers.
    pub orchestrator_addr: Option<HostPort>,
    /// Where the certificates are.
    pub certs: Folder,
    /// May callers come without a certificate?
    pub allow_anonymous: bool,
    /// How long a call may be quiet.
    pub timeout: Duration,
    /// What it is called in the log, as `front.hub`.
    pub called: Option<String>,
}

/// A plugin that listens.
pub struct Plugin {
    options: PluginOptions,
    listener: Listener,
    shown: RefCell<Shown>,
    /// The certificate is to be read again, whatever its files look like.
    is_renewed: Notify,
    dialler: Dialler,
    guests: Rc<Guests>,
    is_stopping: watch::Sender<bool>,
}

/// By what a plugin shows itself.
struct Shown {
    certificate: CertificateDer<'static>,
    /// What the files looked like when they were last read, whatever came of it.
    read: [Option<FileLook>; 3],
    looked_at: tokio::time::Instant,
}

/// Why a plugin came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginEnded {
    /// The hub asked for it.
    ShutDown,
    /// [`Plugin::stop`] was called.
    Stopped,
    /// The hub has been gone for too long.
    HubGone(HostPort),
    /// Who started us is gone.
    ParentGone,
}

impl Plugin {
    /// Loads its certificates and listens: whoever connects waits until it serves. Calls go to
    /// `route`.
    pub async fn bind(options: PluginOptions, route: Rc<dyn Route>) -> Result<Plugin, PluginError> {
        Plugin::open(options, Rc::new(Guests::by(route))).await
    }

    /// The same for those who are led where `guests` says.
    pub(in crate::wire::orchestra) async fn open(
        options: PluginOptions,
        guests: Rc<Guests>,
    ) -> Result<Plugin, PluginError> {
        // Before they are read: what changes meanwhile is found the next time.
        let read = options.certs.looks(&options.id);
        let (server, certificate) = options.server().await?;
        // The hub makes one for us too if we do not; better is to find out now.
        tls::load(&options.certs, &options.client_name()).await?;
        let HostPort { host, port } = &options.listen_addr;
        let listener = Listener::bind(host, *port, &server).await?;
        let is_stopping = watch::Sender::new(false);
        let looked_at = tokio::time::Instant::now();
        let shown = RefCell::new(Shown { certificate, read, looked_at });
        let (dialler, is_renewed) = (Dialler::new(), Notify::new());
        Ok(Plugin { options, listener, shown, is_renewed, dialler, guests, is_stopping })
    }

    /// Where it listens, as `READY` tells: the IPv4 address where there are two.
    pub fn address(&self) -> SocketAddr {
        self.listener.addresses()[0]
    }

    /// Dials the hub, if there is one, and tells it of us.
    pub async fn register(
        &self,
        manifest: &PluginManifest,
    ) -> Result<Option<Registration>, PluginError> {
        match &self.options.orchestrator_addr {
            Some(at) => self.register_at(at, manifest).await.map(Some),
            None => Ok(None),
        }
    }

    async fn register_at(
        &self,
        at: &HostPort,
        manifest: &PluginManifest,
    ) -> Result<Registration, PluginError> {
        let link = self.dial(at).await?;
        let mut call = Call::of(Instant::now(), register(manifest.clone()));
        call.deadline.total = Some(self.options.timeout);
        let (inbox, down) = Inbox::new();
        let outcome = inbox.whole(link.start(call, down)).await;
        if let Err(failure) = &outcome {
            return Err(PluginError::Hub { at: at.clone(), why: failure.message.clone() });
        }
        registered(&outcome).map_err(PluginError::Rejected)?;
        Ok(Registration { at: at.clone(), link, manifest: manifest.clone() })
    }

    /// Serves whoever connects, until it has a reason to end. `hub` is where it is registered.
    pub async fn serve(&self, hub: Option<Registration>) -> PluginEnded {
        let has_hub = hub.is_some();
        let ended = tokio::select! {
            ended = self.accept() => ended,
            ended = self.stay_with(hub) => ended,
            () = parent_gone(), if has_hub => PluginEnded::ParentGone,
        };
        self.stop();
        ended
    }

    /// Takes nobody any more; calls under way have a while to end.
    pub fn stop(&self) {
        self.is_stopping.send_replace(true);
    }

    /// Reads the certificate again. One that cannot be used leaves the old in force.
    pub fn renew(&self) {
        self.is_renewed.notify_one();
    }

    async fn stopped(mut is_stopping: watch::Receiver<bool>) {
        // Cannot fail while we are there, and is of no use after.
        let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
    }

    async fn accept(&self) -> PluginEnded {
        let mut connections = JoinSet::new();
        let mut ended = None;
        let first = tokio::time::Instant::now() + RENEWAL;
        let mut daily = interval_at(first, RENEWAL);
        while ended.is_none() {
            tokio::select! {
                arrival = self.listener.accept() => match arrival {
                    Some(arrival) => {
                        // Before the handshake, which is to show what is there now.
                        if self.is_to_be_looked_at() {
                            self.look(false).await;
                        }
                        let stopped = Plugin::stopped(self.is_stopping.subscribe());
                        let (guests, timeout) = (self.guests.clone(), self.options.timeout);
                        connections.spawn_local(boxed(welcome(arrival, guests, timeout, stopped)));
                    }
                    None => ended = Some(PluginEnded::Stopped),
                },
                Some(served) = connections.join_next() => {
                    if let Ok(Served::ShutDown) = served {
                        ended = Some(PluginEnded::ShutDown);
                    }
                }
                () = Plugin::stopped(self.is_stopping.subscribe()) => {
                    ended = Some(PluginEnded::Stopped);
                }
                () = self.is_renewed.notified() => self.look(true).await,
                _ = daily.tick() => self.look(true).await,
            }
        }
        self.stop();
        while connections.join_next().await.is_some() {}
        ended.unwrap_or(PluginEnded::Stopped)
    }

    fn is_to_be_looked_at(&self) -> bool {
        self.shown.borrow().looked_at + LOOKED_EVERY <= tokio::time::Instant::now()
    }

    /// Reads the certificate again if its files have changed, or if that is asked for.
    async fn look(&self, is_asked: bool) {
        let PluginOptions { certs, id, called, .. } = &self.options;
        let looks = certs.looks(id);
        let have_changed = {
            let mut shown = self.shown.borrow_mut();
            shown.looked_at = tokio::time::Instant::now();
            std::mem::replace(&mut shown.read, looks) != looks
        };
        if !have_changed && !is_asked {
            return;
        }
        let prefix = called.as_ref().map(|called| format!("{called}: ")).unwrap_or_default();
        match self.options.server().await {
            Ok((server, certificate)) => {
                self.listener.set_server(&server);
                let until = last_day(&certificate).map(|day| format!(", until {day}"));
                let is_new = certificate != self.shown.borrow().certificate;
                self.shown.borrow_mut().certificate = certificate;
                if is_new {
                    tracing::info!("{prefix}new certificate{}", until.unwrap_or_default());
                }
            }
            // It was told when they came to look like this.
            Err(_) if !have_changed => {}
            Err(error) => {
                let file = certs.certificate_file(id);
                tracing::warn!(
                    "{prefix}the certificate in `{}` cannot be used; the old one stays",
                    file.display()
                );
                tracing::info!("{prefix}{}", causes(&error));
            }
        }
    }

    /// Looks after the connection to the hub: one that is lost is made again, for a while.
    async fn stay_with(&self, hub: Option<Registration>) -> PluginEnded {
        let Some(mut hub) = hub else { return std::future::pending().await };
        loop {
            let why = hub.link.connection().closed().await;
            tracing::warn!("lost connection to orchestrator at {}: {}", hub.at, why.message);
            let gone_at = tokio::time::Instant::now() + HUB_GONE;
            match tokio::time::timeout_at(gone_at, self.register_again(&hub)).await {
                Ok(found) => {
                    tracing::info!("registered with orchestrator at {}", found.at);
                    hub = found;
                }
                Err(_) => return PluginEnded::HubGone(hub.at),
            }
        }
    }

    /// Nothing is asked over this connection besides that, so that it is dialled in this loop.
    async fn register_again(
        &self,
        Registration { at, manifest, .. }: &Registration,
    ) -> Registration {
        let mut redial = Redial::new(Again::ByItself);
        loop {
            redial.handle_failed(Instant::now());
            until(redial.poll_timeout()).await;
            match self.register_at(at, manifest).await {
                Ok(hub) => return hub,
                Err(error) => tracing::debug!("{}", causes(&error)),
            }
        }
    }

    async fn dial(&self, at: &HostPort) -> Result<Link, PluginError> {
        let identity = tls::load(&self.options.certs, &self.options.client_name()).await?;
        let client = tls::client(&identity, Idle::after(tls::IDLE_TIMEOUT))?;
        let dialled = self.dialler.dial(&at.target(None), &client, HANDSHAKE).await;
        let connection =
            dialled.map_err(|error| PluginError::Hub { at: at.clone(), why: causes(&error) })?;
        Ok(Link::new("orchestrator", connection, ClientSettings::default()))
    }
}

impl PluginOptions {
    fn client_name(&self) -> String {
        format!("{}-client", self.id)
    }

    /// The serving end, and the certificate that it shows.
    async fn server(&self) -> Result<(QuicServer, CertificateDer<'static>), PluginError> {
        let identity = tls::load(&self.certs, &self.id).await?;
        let clients = match self.allow_anonymous {
            true => Clients::KnownOrAnonymous,
            false => Clients::Known,
        };
        Ok((tls::server(&identity, clients)?, identity.certificate))
    }
}

/// A hub that knows of us. Dropping it closes our connection to it.
pub struct Registration {
    at: HostPort,
    link: Link,
    manifest: PluginManifest,
}

impl Registration {
    /// Where it is, as it was written.
    pub fn address(&self) -> &HostPort {
        &self.at
    }
}

async fn welcome(
    arrival: Arrival,
    guests: Rc<Guests>,
    timeout: Duration,
    stopped: impl Future<Output = ()>,
) -> Served {
    let peer = arrival.peer_address();
    let connection = match arrival.open(HANDSHAKE).await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::info!("{peer} has not come in, for the handshake failed: {error}");
            return Served::Disconnected;
        }
    };
    let guest = match guests.welcome(connection.identity()) {
        Ok(guest) => guest,
        Err(stranger) => {
            tracing::info!("{peer} was refused: {stranger}");
            connection.refuse(REFUSED, stranger.reason()).await;
            return Served::Disconnected;
        }
    };
    let served = tokio::select! {
        served = serve(&connection, guest.route(), timeout, stopped) => served,
        why = guest.cut() => {
            connection.refuse(REFUSED, why).await;
            return Served::Disconnected;
        }
    };
    connection.say_goodbye().await;
    served
}

/// Waits until who started us is gone; for ever where that cannot be seen.
async fn parent_gone() {
    let watched = || {
        let parent = getppid()?;
        let descriptor = pidfd_open(parent, PidfdFlags::empty()).ok()?;
        Watch::new(std::os::fd::AsFd::as_fd(&descriptor)).ok()
    };
    match watched() {
        Some(parent) => parent.ready().await,
        None => std::future::pending().await,
    }
}

/// Why there is no plugin, or no hub for it.
#[derive(Debug, Error)]
pub enum PluginError {
    /// Its certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// Nor can TLS.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The hub cannot be reached.
    #[error("connect to orchestrator at {at}: {why}")]
    Hub {
        /// Where it should be.
        at: HostPort,
        /// Why not.
        why: String,
    },
    /// The hub would not have us.
    #[error("{0}")]
    Rejected(String),
}

impl PluginError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            PluginError::Certificates(error) => Some(error.hint()),
            PluginError::Listen(error) => error.hint(),
            PluginError::Tls(_) | PluginError::Hub { .. } | PluginError::Rejected(_) => None,
        }
    }
}

/// As callers are told.
impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Failure {
        Failure::new(toolbus_proto::tool::FailureKind::Unavailable, causes(&error))
    }
}
