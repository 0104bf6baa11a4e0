//! Reaching others.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use quinn::{ConnectError, ConnectionError, Endpoint};
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::Connection;
use super::error::{cause, code};
use super::tls::QuicClient;

/// How long the first family of addresses has before the other is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);

const LOOK_AGAIN_MIN: Duration = Duration::from_millis(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(25);

/// Whom to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whom the peer has to prove to be, if it is not `host`.
    pub server_name: Option<String>,
}

/// Dials from one socket for each family of addresses, however many connections there are.
#[derive(Default)]
pub struct Dialler {
    v4: RefCell<Option<Endpoint>>,
    v6: RefCell<Option<Endpoint>>,
}

impl Dialler {
    /// Has no socket before it needs one.
    pub fn new() -> Dialler {
        Dialler::default()
    }

    /// Connects and shakes hands, all of it within `patience`. IPv4 goes first, IPv6 a moment
    /// later; the first handshake wins.
    pub async fn dial(
        &self,
        target: &Target,
        client: &QuicClient,
        patience: Duration,
    ) -> Result<Connection, DialError> {
        let until = Instant::now() + patience;
        let Target { host, port, server_name } = target;
        let found = timeout_at(until, lookup_host((host.as_str(), *port)));
        let found = found.await.map_err(|_| DialError::NoAnswer { patience })?;
        let lookup = |source| DialError::Lookup { host: host.clone(), source };
        let addresses: Vec<SocketAddr> = found.map_err(lookup)?.collect();
        let name = server_name.as_ref().unwrap_or(host);
        let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
        let any = async {
            match (v4.is_empty(), v6.is_empty()) {
                (true, true) => Err(DialError::NoAddress { host: host.clone() }),
                (false, true) => self.first_of(&v4, name, client).await,
                (true, false) => self.first_of(&v6, name, client).await,
                (false, false) => self.either(&v4, &v6, name, client).await,
            }
        };
        let connection = timeout_at(until, any).await;
        connection.unwrap_or(Err(DialError::NoAnswer { patience }))
    }

    async fn either(
        &self,
        v4: &[SocketAddr],
        v6: &[SocketAddr],
        name: &str,
        client: &QuicClient,
    ) -> Result<Connection, DialError> {
        let mut first = std::pin::pin!(self.first_of(v4, name, client));
        let failed = tokio::select! {
            biased;
            connected = &mut first => match connected {
                Ok(connection) => return Ok(connection),
                Err(error) => Some(error),
            },
            () = sleep(HEAD_START) => None,
        };
        let mut second = std::pin::pin!(self.first_of(v6, name, client));
        let Some(failed) = failed else {
            return tokio::select! {
                biased;
                connected = &mut first => match connected {
                    Ok(connection) => Ok(connection),
                    Err(error) => second.await.map_err(|other| error.or(other)),
                },
                connected = &mut second => match connected {
                    Ok(connection) => Ok(connection),
                    // The first family is what people mean.
                    Err(other) => first.await.map_err(|error| error.or(other)),
                },
            };
        };
        second.await.map_err(|other| failed.or(other))
    }

    async fn first_of(
        &self,
        addresses: &[SocketAddr],
        name: &str,
        client: &QuicClient,
    ) -> Result<Connection, DialError> {
        let mut last = None;
        for address in addresses {
            match self.at(*address, name, client).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| DialError::NoAddress { host: name.to_owned() }))
    }

    async fn at(
        &self,
        address: SocketAddr,
        name: &str,
        client: &QuicClient,
    ) -> Result<Connection, DialError> {
        let endpoint = self.endpoint(address).map_err(DialError::Socket)?;
        let connecting = endpoint.connect_with(client.0.clone(), address, name);
        let connecting = connecting.map_err(|error| match error {
            ConnectError::InvalidServerName(name) => DialError::Name { name },
            error => DialError::Unusable(error),
        })?;
        let connection = connecting.await.map_err(DialError::Refused)?;
        confirmed(&connection).await?;
        Ok(Connection::dialled(connection))
    }

    fn endpoint(&self, address: SocketAddr) -> io::Result<Endpoint> {
        let (kept, any) = match address {
            SocketAddr::V4(_) => (&self.v4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (&self.v6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        if let Some(endpoint) = &*kept.borrow() {
            return Ok(endpoint.clone());
        }
        let endpoint = Endpoint::client(SocketAddr::new(any, 0))?;
        *kept.borrow_mut() = Some(endpoint.clone());
        Ok(endpoint)
    }
}

/// Waits until the peer has said that it will have us: our own handshake is over before it has
/// looked at our certificate.
async fn confirmed(connection: &quinn::Connection) -> Result<(), DialError> {
    // Nothing tells us when the frame comes, so it is looked for, a few times each round trip.
    while connection.stats().frame_rx.handshake_done == 0 {
        let soon = sleep((connection.rtt() / 4).clamp(LOOK_AGAIN_MIN, LOOK_AGAIN_MAX));
        tokio::select! {
            biased;
            error = connection.closed() => return Err(DialError::Refused(error)),
            () = soon => {}
        }
    }
    Ok(())
}

/// Why a peer cannot be reached.
#[derive(Debug, Error)]
pub enum DialError {
    /// The name cannot be resolved.
    #[error("cannot find the host `{host}`")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The name exists, but leads nowhere.
    #[error("the host `{host}` has no address")]
    NoAddress {
        /// The name.
        host: String,
    },
    /// Nobody could prove to be this.
    #[error("no certificate can prove to be `{name}`: it is neither a name nor an address")]
    Name {
        /// What it was to be.
        name: String,
    },
    /// There is no socket to be had.
    #[error("cannot open a UDP socket")]
    Socket(#[source] io::Error),
    /// It cannot be dialled as it is written.
    #[error("cannot be dialled: {0}")]
    Unusable(ConnectError),
    /// One of the two would not have the other.
    #[error("{}", cause(.0, false))]
    Refused(ConnectionError),
    /// Neither yes nor no.
    #[error("no answer within {patience:?}")]
    NoAnswer {
        /// How long was waited.
        patience: Duration,
    },
}

impl DialError {
    /// The more telling of two.
    fn or(self, other: DialError) -> DialError {
        match self {
            DialError::Socket(_) => other,
            first => first,
        }
    }

    /// By which code of QUIC the peer refused us, if it did so: 0x100 and more are alerts of TLS.
    pub fn code(&self) -> Option<u64> {
        match self {
            DialError::Refused(error) => code(error),
            _ => None,
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            DialError::Refused(ConnectionError::TransportError(_)) => {
                Some("do both ends have their certificates from the same CA?".to_owned())
            }
            DialError::Refused(ConnectionError::ConnectionClosed(_)) => {
                Some("does the other side speak the same protocol, with the same CA?".to_owned())
            }
            _ => None,
        }
    }
}
