//! Calls over connections to one host: each carries one call at a time, and is kept.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use toolbus_proto::mediocre::{Client, Methods, Reading};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::{Host, Options};
use crate::bus::back::{causes, hinted};
use crate::chance::OsRandom;
use crate::engine::calls::{ReplyTo, RunningCall, Sharing};
use crate::engine::client::Client as Joined;
use crate::engine::pool::Supply;
use crate::transport::tcp::ConnectError;
use crate::transport::{Stream, tcp, unix};

/// Connects to one host.
pub(super) struct Connections {
    host: Host,
    name: String,
    reading: Reading,
    /// As the server last told; the next connection has to know.
    methods: RefCell<Methods>,
    /// How long connecting may take.
    patience: Duration,
}

impl Connections {
    pub(super) fn new(host: Host, options: Options, patience: Duration) -> Connections {
        let Options { name, reading, methods, .. } = options;
        Connections { host, name, reading, methods: RefCell::new(methods), patience }
    }
}

/// One connection, and a second hold on its socket.
pub(super) struct Connection {
    client: Joined<Client<OsRandom>>,
    socket: OwnedFd,
}

impl Supply for Connections {
    type Carrier = Connection;

    async fn make(&self, until: Option<Instant>) -> Result<Connection, Failure> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = left.map_or(self.patience, |left| left.min(self.patience));
        let unavailable = |error: &dyn std::error::Error, hint| {
            hinted(Failure::new(FailureKind::Unavailable, causes(error)), hint)
        };
        let refused = |error: ConnectError| unavailable(&error, error.hint());
        let stream = match &self.host {
            Host::Tcp { host, port } => {
                Stream::Tcp(tcp::connect(host, *port, patience).await.map_err(refused)?)
            }
            Host::Unix(path) => Stream::Unix(unix::connect(path, patience).await.map_err(refused)?),
            #[cfg(feature = "tls")]
            Host::Tls { host, port, tls } => {
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                let stream = tls.connect(stream, host, patience).await;
                Stream::Tls(Box::new(stream.map_err(|error| unavailable(&error, error.hint()))?))
            }
        };
        let socket = stream.duplicate().map_err(|error| unavailable(&error, None))?;
        let methods = self.methods.borrow().clone();
        let machine = Client::new(Instant::now(), self.reading, methods, OsRandom::new());
        let (source, sink, _rest) = stream.split();
        let client = Joined::new(&self.name, machine, Sharing::Alone, source, sink);
        Ok(Connection { client, socket })
    }

    fn start(&self, connection: &Connection, call: Call, down: ReplyTo) -> RunningCall {
        connection.client.start(call, down)
    }

    async fn freed(&self, connection: &Connection) -> bool {
        let is_free = connection.client.until(Client::is_free).await;
        *self.methods.borrow_mut() = connection.client.ask(|client| client.methods().clone());
        is_free
    }

    async fn over(&self, connection: &Connection) {
        connection.client.ended().await;
    }

    /// The end of the stream, or a response that was not asked for, may be there already,
    /// though we have not read it.
    fn is_good(&self, connection: &Connection) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(&connection.socket, &mut byte, flags);
        let is_quiet = matches!(peeked, Err(rustix::io::Errno::AGAIN));
        is_quiet && connection.client.takes_calls()
    }
}
