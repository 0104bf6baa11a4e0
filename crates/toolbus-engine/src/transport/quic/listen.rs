//! Being reached.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use quinn::{Endpoint, EndpointConfig, Incoming, TokioRuntime, VarInt};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::connection::Connection;
use super::dial::DialError;
use super::tls::QuicServer;
use crate::transport::tcp::{ListenError, listen_error, shown};

/// How often a port is drawn that both families of addresses might have.
const DRAWS: usize = 16;

/// Accepts connections at one address, or at both addresses of `localhost`.
pub struct Listener {
    /// IPv4 first.
    endpoints: Vec<Endpoint>,
    addresses: Vec<SocketAddr>,
}

/// A client that would connect; the handshake is to come.
pub struct Arrival(Incoming);

impl Listener {
    /// Listens on a host and port; port 0 takes a free one. `localhost` is both of its
    /// addresses, on one port; one that this machine lacks is left out with a warning.
    pub async fn bind(host: &str, port: u16, server: &QuicServer) -> Result<Listener, ListenError> {
        let sockets = match host {
            "localhost" => both(port)?,
            _ => vec![at_host(host, port).await?],
        };
        let (mut endpoints, mut addresses) = (Vec::new(), Vec::new());
        for socket in sockets {
            let fault = |source| ListenError::Failed { at: shown(host, port), source };
            addresses.push(socket.local_addr().map_err(fault)?);
            let config = EndpointConfig::default();
            let runtime = Arc::new(TokioRuntime);
            let endpoint = Endpoint::new(config, Some(server.0.clone()), socket, runtime);
            endpoints.push(endpoint.map_err(fault)?);
        }
        Ok(Listener { endpoints, addresses })
    }

    /// Where it listens, with the real port; IPv4 first.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// From the next handshake on we are what `server` says: a certificate was renewed.
    pub fn set_server(&self, server: &QuicServer) {
        for endpoint in &self.endpoints {
            endpoint.set_server_config(Some(server.0.clone()));
        }
    }

    /// The next client that would connect; `None` once it is closed. Dropped while it waits, it
    /// has taken none.
    pub async fn accept(&self) -> Option<Arrival> {
        let mut accepts: Vec<_> =
            self.endpoints.iter().map(|endpoint| Box::pin(endpoint.accept())).collect();
        poll_fn(|context| {
            let mut is_closed = true;
            for accept in &mut accepts {
                match Pin::new(accept).poll(context) {
                    Poll::Ready(Some(incoming)) => return Poll::Ready(Some(Arrival(incoming))),
                    Poll::Ready(None) => {}
                    Poll::Pending => is_closed = false,
                }
            }
            if is_closed { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Closes every connection with code 0 and no reason, and accepts no more.
    pub fn close(&self) {
        for endpoint in &self.endpoints {
            endpoint.close(VarInt::from_u32(0), b"");
        }
    }
}

impl Drop for Listener {
    /// Connections that are open go on.
    fn drop(&mut self) {
        for endpoint in &self.endpoints {
            endpoint.set_server_config(None);
        }
    }
}

impl Arrival {
    /// Who it is.
    pub fn peer_address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Shakes hands. Not to be awaited by the task that accepts: other clients wait meanwhile.
    pub async fn open(self, patience: Duration) -> Result<Connection, DialError> {
        let connecting = pin!(self.0.into_future());
        match timeout(patience, connecting).await {
            Ok(Ok(connection)) => Ok(Connection::accepted(connection)),
            Ok(Err(error)) => Err(DialError::Refused(error)),
            Err(_) => Err(DialError::NoAnswer { patience }),
        }
    }
}

async fn at_host(host: &str, port: u16) -> Result<UdpSocket, ListenError> {
    let lookup = |source| ListenError::Lookup { host: host.to_owned(), source };
    let addresses = lookup_host((host, port)).await.map_err(lookup)?;
    let at = shown(host, port);
    let mut last = ListenError::NotHere { at: at.clone() };
    for address in addresses {
        match UdpSocket::bind(address) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = listen_error(&at, error),
        }
    }
    Err(last)
}

/// Both addresses of this machine, on one port.
fn both(port: u16) -> Result<Vec<UdpSocket>, ListenError> {
    let at = shown("localhost", port);
    for draw in 1.. {
        let v4 = match UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(socket) => Some(socket),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(listen_error(&at, error)),
        };
        let chosen = match &v4 {
            Some(socket) => socket.local_addr().map_err(|error| listen_error(&at, error))?.port(),
            None => port,
        };
        let v6 = match UdpSocket::bind((Ipv6Addr::LOCALHOST, chosen)) {
            Ok(socket) => Some(socket),
            Err(error) if is_missing(&error) => None,
            Err(error) if port == 0 && error.kind() == io::ErrorKind::AddrInUse && draw < DRAWS => {
                continue;
            }
            Err(error) => return Err(listen_error(&at, error)),
        };
        if v4.is_none() || v6.is_none() {
            let missing = if v4.is_none() { "127.0.0.1" } else { "::1" };
            tracing::warn!("cannot listen on {missing}: this machine does not have it");
        }
        let sockets: Vec<_> = v4.into_iter().chain(v6).collect();
        return if sockets.is_empty() { Err(ListenError::NotHere { at }) } else { Ok(sockets) };
    }
    Err(ListenError::NotHere { at })
}

/// Does this machine lack the family of addresses?
fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}
