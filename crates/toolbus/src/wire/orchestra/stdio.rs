//! `transport.stdio`: MCP on our standard streams, in front of a hub
//! (`docs/protocols/orchestra.md` 12).
//!
//! What a line means and when the hub is dialled are decided by the rules; here lines are read
//! and written, connections opened and closed.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinSet;
use toolbus_proto::channel::{Down, Ended};
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::redial::Again;
use toolbus_proto::orchestra::stdio::{
    Profile, Transport, TransportSettings, Uplink, UplinkNews, UplinkSettings,
};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::caller::{Caller, Reach};
use super::certificates::{CertificatesError, Folder};
use super::ids::uuid;
use super::{HostPort, tls};
use crate::bus::Route;
use crate::bus::back::{LocalFuture, causes};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::front::Front;
use crate::task::boxed;
use crate::transport::io::{Sink, Source};
use crate::transport::quic::{
    self, Connection, Dialler, HANDSHAKE, Idle, QuicClient, TlsSetupError,
};
use crate::wake::Wake;

/// Who we are to a hub.
const CLIENT: &str = "transport.stdio-client";

/// What can be set about it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the hub is, as the user wrote it.
    pub address: String,
    /// Whom the hub has to prove to be, if it is not the host of the address.
    pub server_name: Option<String>,
    /// Where the certificates are.
    pub folder: Folder,
    /// How long the hub may take to answer.
    pub timeout: Duration,
    /// After so long a silence the hub counts as lost.
    pub idle_timeout: Duration,
    /// The hub need not be there at first.
    pub waits: bool,
    /// A hub that is lost is dialled again.
    pub reconnects: bool,
    /// Which methods there are.
    pub profile: Profile,
    /// A line is read when the one before is answered.
    pub in_order: bool,
    /// Topics whose events are told.
    pub events: Vec<String>,
}

/// Why it cannot begin.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The address is none.
    #[error("`{address}` is no address of an orchestrator: expected `HOST:PORT`")]
    Address {
        /// As the user wrote it.
        address: String,
    },
    /// There is no certificate to show.
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    /// The certificate cannot be used.
    #[error("cannot use the certificates")]
    Tls(#[from] TlsSetupError),
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Code(u8),
    /// The client reads no more.
    PeerStoppedReading,
}

/// Our end of the client's lines, and of the connections to the hub.
#[derive(Clone)]
pub struct StdioTransport(Rc<Inner>);

struct Inner {
    target: quic::Target,
    folder: Folder,
    idle: Idle,
    /// Who we are, as it was read last.
    client: RefCell<QuicClient>,
    events: Vec<String>,
    dialler: Dialler,
    uplink: RefCell<Uplink>,
    hub: Rc<Caller>,
    front: Rc<Front<Transport>>,
    say: Box<dyn Fn(&str)>,
    exit: Cell<Option<u8>>,
    /// Rung when the hub is there for the first time, or it is over.
    begun: Wake,
}

impl StdioTransport {
    /// Reads the certificates; nothing is dialled yet. `say` writes the lines that people and
    /// scripts rely on.
    pub fn new(options: Options, say: impl Fn(&str) + 'static) -> Result<Self, OpenError> {
        let Options { address, server_name, folder, timeout, idle_timeout, .. } = options;
        let place: HostPort =
            address.parse().map_err(|_| OpenError::Address { address: address.clone() })?;
        let identity = folder.identity(CLIENT)?;
        identity.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let idle = Idle::after(idle_timeout);
        let client = tls::client(&identity, idle)?;
        let Options { waits, reconnects, profile, in_order, events, .. } = options;
        let defaults = ClientSettings::default();
        let asking = ClientSettings {
            // The client's requests are counted where they come in, and events beside them.
            in_flight_max: defaults.in_flight_max * 2,
            ..defaults
        };
        let session_id = uuid();
        let serving =
            TransportSettings { profile, timeout, in_order, session_id, ..Default::default() };
        let inner = Rc::new_cyclic(|this: &Weak<Inner>| {
            let way = Rc::new(Way(this.clone()));
            Inner {
                target: place.target(server_name.as_deref()),
                folder,
                idle,
                client: RefCell::new(client),
                events,
                dialler: Dialler::new(),
                uplink: RefCell::new(Uplink::new(UplinkSettings { address, waits, reconnects })),
                hub: Caller::new("orchestrator", asking, Again::ByItself, way.clone()),
                front: Front::new(Transport::new(serving), way, None),
                say: Box::new(say),
                exit: Cell::new(None),
                begun: Wake::default(),
            }
        });
        Ok(StdioTransport(inner))
    }

    /// Serves the client until it has had enough or there is no use in going on. Nothing is read
    /// before the hub is there, unless it need not be. Must be called inside a `LocalSet`.
    pub async fn serve(&self, source: impl Source + 'static, sink: impl Sink + 'static) -> Ending {
        let inner = &self.0;
        inner.hub.want();
        while inner.must_connect() {
            if let Some(code) = inner.exit.get() {
                return Ending::Code(code);
            }
            inner.begun.rung().await;
        }
        let mut serving = JoinSet::new();
        let front = inner.front.clone();
        serving.spawn_local(boxed(async move { front.serve(source, sink).await }));
        let ended = serving.join_next().await;
        self.leave().await;
        match ended {
            Some(Ok(Ended::PeerStoppedReading)) => Ending::PeerStoppedReading,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => Ending::Code(inner.exit.get().unwrap_or(0)),
        }
    }

    /// Says goodbye to the hub, whatever is under way there.
    pub async fn leave(&self) {
        self.0.exit(0);
        self.0.hub.shutdown().await;
    }

    /// Reads no more; what is under way has a little time.
    pub fn stop(&self) {
        match self.0.must_connect() {
            true => self.0.exit(0),
            false => self.0.stop(),
        }
    }
}

impl Inner {
    /// Is nothing read before the hub is there?
    fn must_connect(&self) -> bool {
        self.uplink.borrow().must_connect()
    }

    fn stop(&self) {
        self.front.tell_machine(Transport::stop);
    }

    /// It ends with this code, unless it ends already.
    fn exit(&self, code: u8) {
        if self.exit.get().is_none() {
            self.exit.set(Some(code));
        }
        self.hub.rest();
        self.begun.ring();
        self.stop();
    }

    fn tell(&self, news: UplinkNews) {
        (self.say)(&news.line);
        if let Some(code) = news.exit {
            self.exit(code);
        }
    }

    async fn dial(&self) -> Result<Connection, String> {
        if self.uplink.borrow().was_connected() {
            self.look_at_certificates().await;
        }
        let client = self.client.borrow().clone();
        let dialled = self.dialler.dial(&self.target, &client, HANDSHAKE).await;
        dialled.map_err(|error| causes(&error))
    }

    /// A hub may be away because its certificates are others by now, or ours too old.
    async fn look_at_certificates(&self) {
        let client = match tls::load(&self.folder, CLIENT).await {
            Ok(identity) => tls::client(&identity, self.idle).map_err(|error| causes(&error)),
            Err(error) => Err(causes(&error)),
        };
        match client {
            Ok(client) => *self.client.borrow_mut() = client,
            Err(cause) => tracing::warn!("{cause}"),
        }
    }

    /// The hub is there, at first or again.
    fn connected(&self) {
        let was_connected = self.uplink.borrow().was_connected();
        let news = self.uplink.borrow_mut().handle_dialled();
        self.tell(news);
        self.begun.ring();
        self.front.tell_machine(|transport, now| {
            if was_connected {
                transport.handle_reconnected();
            }
            for topic in &self.events {
                transport.subscribe(now, topic);
            }
        });
    }
}

/// The way to the hub, and that of the client's requests.
struct Way(Weak<Inner>);

impl Reach for Way {
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>> {
        Box::pin(async {
            let dialled = match self.0.upgrade() {
                Some(inner) => inner.dial().await,
                None => Err("it is being left".to_owned()),
            };
            dialled.map_err(|cause| Failure::new(FailureKind::Unavailable, cause))
        })
    }

    fn connected(&self, is_further: bool) {
        if let Some(inner) = self.0.upgrade().filter(|_| !is_further) {
            inner.connected();
        }
    }

    fn failed(&self, _peer: &str, why: &Failure, is_further: bool) {
        let Some(inner) = self.0.upgrade().filter(|_| !is_further) else { return };
        let news = inner.uplink.borrow().handle_failed(&why.message);
        if let Some(news) = news {
            inner.tell(news);
        }
    }

    fn lost(&self, _peer: &str, why: &Failure) {
        let Some(inner) = self.0.upgrade() else { return };
        let news = inner.uplink.borrow().handle_lost(&why.message);
        inner.tell(news);
    }
}

impl Route for Way {
    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let Some(inner) = self.0.upgrade() else { return RunningCall::ended() };
        match inner.hub.link() {
            Some(link) => link.start(call, reply),
            None => {
                let refusal = inner.uplink.borrow().refusal();
                let _ = reply.send(Down::Done(Err(refusal)));
                RunningCall::ended()
            }
        }
    }
}
