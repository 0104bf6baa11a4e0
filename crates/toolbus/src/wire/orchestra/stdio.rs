//! `transport.stdio`: MCP on our standard streams, in front of a hub
//! (`docs/protocols/orchestra.md` 12).
//!
//! What a line means and when the hub is dialled are decided by the rules; here lines are read
//! and written, connections opened and closed.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::task::JoinSet;
use toolbus_proto::channel::{Down, Ended};
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::stdio::{
    Profile, Transport, TransportSettings, Uplink, UplinkOrder, UplinkSettings,
};
use toolbus_proto::tool::Call;

use super::certificates::{CertificatesError, Folder};
use super::ids::uuid;
use super::links::{LinkEvent, Links};
use super::{HostPort, tls};
use crate::bus::Route;
use crate::bus::back::causes;
use crate::engine::alarm::Alarm;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::front::Front;
use crate::task::{boxed, spawn_local};
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
    this: Weak<Inner>,
    target: quic::Target,
    folder: Folder,
    idle: Idle,
    /// Who we are, as it was read last.
    client: RefCell<QuicClient>,
    events: Vec<String>,
    dialler: Dialler,
    uplink: RefCell<Uplink>,
    links: OnceCell<Rc<Links>>,
    front: OnceCell<Rc<Front<Transport>>>,
    say: Box<dyn Fn(&str)>,
    /// Reached, and not in use yet.
    dialled: RefCell<Option<Connection>>,
    was_connected: Cell<bool>,
    exit: Cell<Option<u8>>,
    is_settling: Cell<bool>,
    /// Rung when the hub is there for the first time, or it is over.
    begun: Wake,
    alarm: Alarm,
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
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            target: place.target(server_name.as_deref()),
            folder,
            idle,
            client: RefCell::new(client),
            events,
            dialler: Dialler::new(),
            uplink: RefCell::new(Uplink::new(UplinkSettings { address, waits, reconnects })),
            links: OnceCell::new(),
            front: OnceCell::new(),
            say: Box::new(say),
            dialled: RefCell::default(),
            was_connected: Cell::new(false),
            exit: Cell::new(None),
            is_settling: Cell::new(false),
            begun: Wake::default(),
            alarm: Alarm::default(),
        });
        let this = inner.this.clone();
        let defaults = ClientSettings::default();
        let settings = ClientSettings {
            // The client's requests are counted where they come in, and events beside them.
            in_flight_max: defaults.in_flight_max * 2,
            ..defaults
        };
        inner.links.get_or_init(|| {
            Links::new("orchestrator", settings, move |event| {
                if let Some(inner) = this.upgrade() {
                    inner.link_changed(event);
                }
            })
        });
        let session_id = uuid();
        let settings =
            TransportSettings { profile, timeout, in_order, session_id, ..Default::default() };
        let route = Rc::new(ToHub(inner.this.clone()));
        inner.front.get_or_init(|| Front::new(Transport::new(settings), route, None));
        Ok(StdioTransport(inner))
    }

    /// Serves the client until it has had enough or there is no use in going on. Nothing is read
    /// before the hub is there, unless it need not be. Must be called inside a `LocalSet`.
    pub async fn serve(&self, source: impl Source + 'static, sink: impl Sink + 'static) -> Ending {
        let inner = &self.0;
        let mut tasks = JoinSet::new();
        tasks.spawn_local(boxed(keep(inner.clone())));
        inner.settle();
        let waits = !inner.must_connect();
        while !waits && !inner.was_connected.get() && inner.exit.get().is_none() {
            inner.begun.rung().await;
        }
        if let (Some(code), false) = (inner.exit.get(), inner.was_connected.get()) {
            return Ending::Code(code);
        }
        let mut serving = JoinSet::new();
        if let Some(front) = inner.front.get().cloned() {
            serving.spawn_local(boxed(async move { front.serve(source, sink).await }));
        }
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
        self.0.act(|uplink, _| uplink.close());
        if let Some(links) = self.0.links.get() {
            links.say_goodbye().await;
        }
    }

    /// Reads no more; what is under way has a little time.
    pub fn stop(&self) {
        if self.0.must_connect() && !self.0.was_connected.get() {
            self.0.exit.set(Some(0));
            return self.0.begun.ring();
        }
        self.0.stop();
    }
}

impl Inner {
    fn must_connect(&self) -> bool {
        self.uplink.borrow().must_connect()
    }

    fn stop(&self) {
        if let Some(front) = self.front.get() {
            front.tell_machine(Transport::stop);
        }
    }

    fn act(&self, tell: impl FnOnce(&mut Uplink, Instant)) {
        tell(&mut self.uplink.borrow_mut(), Instant::now());
        self.settle();
    }

    fn settle(&self) {
        // What an order leads to waits for its turn behind the others.
        if self.is_settling.replace(true) {
            return;
        }
        loop {
            let order = self.uplink.borrow_mut().poll_order();
            let Some(order) = order else { break };
            self.obey(order);
        }
        self.is_settling.set(false);
        self.alarm.set(self.uplink.borrow().poll_timeout());
    }

    fn obey(&self, order: UplinkOrder) {
        match order {
            UplinkOrder::Dial => self.dial(),
            UplinkOrder::Use(id) => {
                let (Some(links), Some(connection)) = (self.links.get(), self.dialled.take())
                else {
                    return;
                };
                let is_further = links.used().is_some();
                links.add(id, connection);
                if !is_further {
                    self.connected();
                }
            }
            UplinkOrder::Close(id) => {
                // The last ones are closed with a goodbye.
                if let Some(links) = self.links.get().filter(|links| links.used() != Some(id)) {
                    links.close(id);
                }
            }
            UplinkOrder::Say(line) => (self.say)(&line),
            UplinkOrder::Exit(code) => {
                if self.exit.get().is_none() {
                    self.exit.set(Some(code));
                }
                self.begun.ring();
                self.stop();
            }
        }
    }

    /// The hub is there, at first or again.
    fn connected(&self) {
        let was_connected = self.was_connected.replace(true);
        self.begun.ring();
        let Some(front) = self.front.get() else { return };
        front.tell_machine(|transport, now| {
            if was_connected {
                transport.handle_reconnected();
            }
            for topic in &self.events {
                transport.subscribe(now, topic);
            }
        });
    }

    fn dial(&self) {
        let Some(inner) = self.this.upgrade() else { return };
        spawn_local(async move {
            if inner.was_connected.get() {
                inner.look_at_certificates().await;
            }
            let client = inner.client.borrow().clone();
            let dialled = inner.dialler.dial(&inner.target, &client, HANDSHAKE).await;
            match dialled {
                Ok(connection) => {
                    *inner.dialled.borrow_mut() = Some(connection);
                    inner.act(|uplink, _| uplink.handle_dialled());
                }
                Err(error) => {
                    let cause = causes(&error);
                    inner.act(|uplink, now| uplink.handle_dial_failed(now, &cause));
                }
            }
        });
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

    fn link_changed(&self, event: LinkEvent) {
        self.act(|uplink, now| match event {
            LinkEvent::Starved(id) => uplink.handle_starved(id),
            LinkEvent::Idle(id) => uplink.handle_idle(id),
            LinkEvent::Lost(id, failure) => uplink.handle_lost(now, id, &failure.message),
        });
    }
}

/// The way of the client's requests to the hub.
struct ToHub(Weak<Inner>);

impl Route for ToHub {
    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let Some(inner) = self.0.upgrade() else { return RunningCall::ended() };
        let refusal = inner.uplink.borrow().refusal();
        match (refusal, inner.links.get()) {
            (None, Some(links)) => links.start(call, reply),
            (refusal, _) => {
                if let Some(failure) = refusal {
                    let _ = reply.send(Down::Done(Err(failure)));
                }
                RunningCall::ended()
            }
        }
    }
}

/// Looks at the clock for the way to the hub.
async fn keep(inner: Rc<Inner>) {
    let poll_timeout = || inner.uplink.borrow().poll_timeout();
    inner.alarm.keep(poll_timeout, || inner.act(Uplink::handle_timeout)).await;
}
