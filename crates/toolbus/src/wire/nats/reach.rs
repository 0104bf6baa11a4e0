//! How servers are reached: in turn, each in two seconds, with TLS behind their first line.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::time::timeout;
use toolbus_proto::nats::Info;
use toolbus_proto::nats::credentials::Credentials;
use toolbus_proto::nats::opening::{Opening, ServerTarget, Step};
use toolbus_proto::tool::{Failure, FailureKind};

use super::settings::{is_loopback, shown};
use crate::bus::back::{causes, hinted};
use crate::transport::io::Source;
use crate::transport::stream::{ReadHalf, Rest, WriteHalf};
use crate::transport::tls::ClientTls;
use crate::transport::{Stream, tcp};

/// How long one server has.
const ONE: Duration = Duration::from_secs(2);
/// How long all of them have, unless it was set.
pub(super) const ALL: Duration = Duration::from_secs(5);
/// So many further servers of a cluster are remembered.
const FURTHER_MAX: usize = 32;

/// The servers of one address.
#[derive(Clone)]
pub struct Servers {
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) tls: Option<ClientTls>,
    pub(super) server_name: Option<String>,
    pub(super) handshake_first: bool,
    pub(super) may_leave_loopback: bool,
    pub(super) credentials: Credentials,
    pub(super) inbox: String,
    /// What we are called there.
    pub(super) name: String,
}

/// The way to servers: which of them is next.
pub struct Reach {
    servers: Servers,
    patience: Duration,
    /// Servers of the cluster that others told of.
    further: RefCell<Vec<(String, u16)>>,
    next: Cell<usize>,
}

/// A connection that is ready.
pub struct Connected {
    /// What it is read from, and whose reads are told.
    pub source: FedSource,
    /// What it is written to.
    pub sink: WriteHalf,
    /// What is left of it when both are dropped.
    pub rest: Rest,
    /// `HOST:PORT`.
    pub at: String,
    /// What the server says about itself.
    pub info: Info,
    /// Rung when what was read before has been taken, each time more is to be read.
    pub taken: Rc<Notify>,
}

/// A stream of which the first bytes were read already.
pub struct FedSource {
    left: BytesMut,
    source: ReadHalf,
    taken: Rc<Notify>,
}

impl Source for FedSource {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        self.taken.notify_one();
        if !self.left.is_empty() {
            let count = self.left.len();
            input.unsplit(self.left.split());
            return Ok(count);
        }
        Source::read(&mut self.source, input).await
    }

    async fn ended(&self) {
        Source::ended(&self.source).await;
    }
}

impl Reach {
    /// Reaches nobody yet.
    pub fn new(servers: Servers, patience: Option<Duration>) -> Reach {
        let patience = patience.unwrap_or(ALL);
        Reach { servers, patience, further: RefCell::default(), next: Cell::new(0) }
    }

    /// Another way to the same servers.
    pub fn another(&self) -> Reach {
        Reach::new(self.servers.clone(), Some(self.patience))
    }

    /// What subjects begin with on which answers are taken.
    pub fn inbox(&self) -> &str {
        &self.servers.inbox
    }

    /// All servers as they were written.
    pub fn shown(&self) -> String {
        let hosts = self.servers.hosts.iter().map(|(host, port)| shown(host, *port));
        hosts.collect::<Vec<_>>().join(", ")
    }

    /// How the address of the server that we have begins.
    pub fn scheme(&self) -> &'static str {
        if self.servers.tls.is_some() { "nats+tls://" } else { "nats://" }
    }

    /// Connects to the next of the servers that is there.
    pub async fn connect(&self) -> Result<Connected, Failure> {
        let all: Vec<(String, u16)> =
            self.servers.hosts.iter().chain(&*self.further.borrow()).cloned().collect();
        let until = Instant::now() + self.patience;
        let (from, mut said) = (self.next.get(), None);
        for turn in 0..all.len() {
            let at = (from + turn) % all.len();
            let left = until.saturating_duration_since(Instant::now()).min(ONE);
            if left.is_zero() {
                break;
            }
            let (host, port) = &all[at];
            match timeout(left, self.open(host, *port)).await {
                Ok(Ok(connected)) => {
                    self.next.set(at + 1);
                    self.remember(&connected.info);
                    return Ok(connected);
                }
                Ok(Err(Some(failure))) => said = Some(failure),
                Ok(Err(None)) | Err(_) => {}
            }
        }
        self.next.set(0);
        Err(said.unwrap_or_else(|| {
            let message = format!("no NATS server answers at {}", self.shown());
            Failure::new(FailureKind::Unavailable, message)
        }))
    }

    /// What servers tell of others holds if the address would have allowed them.
    pub fn remember(&self, info: &Info) {
        let mut further = self.further.borrow_mut();
        for url in info.connect_urls.iter().flatten() {
            let Some((host, port)) = url.rsplit_once(':') else { continue };
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let Ok(port) = port.parse() else { continue };
            let known = (host, port);
            let is_new = !self.servers.hosts.contains(&known) && !further.contains(&known);
            let may = self.servers.may_leave_loopback || is_loopback(&known.0);
            if is_new && may && further.len() < FURTHER_MAX {
                further.push(known);
            }
        }
    }

    /// Opens a connection; no failure means that nobody answers.
    async fn open(&self, host: &str, port: u16) -> Result<Connected, Option<Failure>> {
        let Servers { tls, server_name, handshake_first, credentials, name, .. } = &self.servers;
        let at = shown(host, port);
        let socket = tcp::connect(host, port, ONE).await.map_err(|_| None)?;
        let mut opening = Opening::new(ServerTarget {
            at: at.clone(),
            tls: tls.is_some(),
            credentials: credentials.clone(),
            name: name.clone(),
        });
        let mut stream = Stream::Tcp(socket);
        let broken = |error: io::Error| {
            let message = format!("the connection to {at} broke: {error}");
            Some(Failure::new(FailureKind::Unavailable, message))
        };
        if let Some(tls) = tls.as_ref().filter(|_| *handshake_first) {
            stream = secured(stream, tls, server_name.as_deref().unwrap_or(host)).await?;
        }
        let mut input = BytesMut::new();
        loop {
            match opening.handle_bytes(&mut input).map_err(Some)? {
                Step::Done => break,
                Step::Secure => {
                    if let (Some(tls), Stream::Tcp(_)) = (tls, &stream) {
                        stream =
                            secured(stream, tls, server_name.as_deref().unwrap_or(host)).await?;
                    }
                    opening.secured();
                }
                Step::Read => {}
            }
            let said = opening.poll_transmit();
            if !said.is_empty() {
                stream.write_all(&said).await.map_err(broken)?;
                stream.flush().await.map_err(broken)?;
            }
            if stream.read_buf(&mut input).await.map_err(broken)? == 0 {
                return Err(Some(opening.closed()));
            }
        }
        let info = opening.info().clone();
        let (source, sink, rest) = stream.split();
        let taken = Rc::new(Notify::new());
        let source = FedSource { left: input, source, taken: taken.clone() };
        Ok(Connected { source, sink, rest, at, info, taken })
    }
}

async fn secured(stream: Stream, tls: &ClientTls, name: &str) -> Result<Stream, Option<Failure>> {
    let Stream::Tcp(socket) = stream else { return Ok(stream) };
    let secured = tls.connect(socket, name, ONE).await.map_err(|error| {
        let failure = Failure::new(FailureKind::Unavailable, causes(&error));
        Some(hinted(failure, error.hint()))
    })?;
    Ok(Stream::Tls(Box::new(secured)))
}
