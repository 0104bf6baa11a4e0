//! Where callers come in: one address, whatever carries it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use toolbus_proto::http::Admission;

use super::Mediocre;
use crate::address::{Address, Place, Transport, Url};
use crate::peer::access::{Access, Asks, Unprotected};
use crate::transport::tcp::ListenError;
#[cfg(feature = "tls")]
use crate::transport::tls::{Identity, Inside, ServerTls, TlsError};
use crate::transport::{Listener, Whereabouts};

/// An address to listen on, whose certificates have been read.
#[derive(Debug, Clone)]
pub struct ListenAddress {
    socket: Socket,
    access: Access,
    asks: Asks,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

#[derive(Debug, Clone)]
enum Socket {
    Unix { path: PathBuf, shown: String },
    Host(Url),
}

/// A door at which we listen.
#[derive(Debug)]
pub struct OpenListener {
    listener: Listener,
    /// Over HTTP, the one path there is, and what is asked of each request.
    http: Option<(String, Admission)>,
    url: String,
}

impl ListenAddress {
    /// Reads an address that was parsed for serving, and the files it names; `access` says who
    /// may come in.
    pub fn of(address: &Address, access: &Access) -> Result<ListenAddress, ListenAddressError> {
        let closed = || ListenAddressError::NoDoor { address: address.clone() };
        let socket = match address.place() {
            Place::Unix(path) => {
                Socket::Unix { path: path.clone(), shown: address.as_str().to_owned() }
            }
            Place::Url(url) => Socket::Host(url.clone()),
            _ => return Err(closed()),
        };
        let carrier = match &socket {
            Socket::Unix { .. } => Transport::Tcp,
            Socket::Host(url) => url.carrier,
        };
        match carrier {
            Transport::Tcp => {}
            #[cfg(feature = "tls")]
            Transport::Tls => {}
            #[cfg(feature = "http")]
            Transport::Http => {}
            #[cfg(all(feature = "http", feature = "tls"))]
            Transport::Https => {}
            _ => return Err(closed()),
        }
        let asks = match &socket {
            // Its file can be opened by our own user alone.
            Socket::Unix { .. } => Asks::ForNothing,
            Socket::Host(url) => {
                let asks = asks(url);
                access.may_listen(&url.host, url.port, asks)?;
                asks
            }
        };
        Ok(ListenAddress {
            #[cfg(feature = "tls")]
            tls: server_tls(address, carrier)?,
            socket,
            access: access.clone(),
            asks,
        })
    }

    /// Is it HTTP that carries the calls there?
    pub fn is_http(&self) -> bool {
        matches!(&self.socket, Socket::Host(url) if is_http(url))
    }

    /// Accepts from now on: a client that connects waits until it is served.
    pub async fn open(&self) -> Result<OpenListener, OpenError> {
        let (listener, path, url) = match &self.socket {
            Socket::Unix { path, shown } => (Listener::unix(path)?, None, shown.clone()),
            Socket::Host(url) => {
                let listener = Listener::tcp(&url.host, url.port).await?;
                let shown = shown(url, &listener);
                (listener, is_http(url).then(|| url.path.clone()), shown)
            }
        };
        self.access.check(&listener, self.asks)?;
        let http = match path {
            Some(path) => Some((path, self.access.admission(&listener)?)),
            None => None,
        };
        #[cfg(feature = "tls")]
        let listener = match &self.tls {
            Some(tls) => listener.with_tls(tls.clone()),
            None => listener,
        };
        Ok(OpenListener { listener, http, url })
    }
}

impl OpenListener {
    /// Where it is: the full address, with the real port and without parameters.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Mediocre {
    /// Serves the clients that come in, until it is told to stop and the last call is over.
    pub async fn serve(&self, door: OpenListener) {
        match door.http {
            None => self.listen(door.listener).await,
            #[cfg(feature = "http")]
            Some((path, admission)) => {
                self.listen_http(door.listener, &path, admission).await;
            }
            #[cfg(not(feature = "http"))]
            Some(_) => {}
        }
    }
}

fn is_http(url: &Url) -> bool {
    matches!(url.carrier, Transport::Http | Transport::Https)
}

/// What tells callers apart there.
fn asks(url: &Url) -> Asks {
    match url.parameter("client_ca") {
        Some(_) => Asks::ForCertificate,
        None if is_http(url) => Asks::ForToken,
        None => Asks::ForNothing,
    }
}

fn shown(url: &Url, listener: &Listener) -> String {
    let scheme = match url.carrier {
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Http => "http",
        Transport::Https => "https",
        Transport::Quic => "quic",
    };
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let port = match listener.whereabouts() {
        Ok(Whereabouts::Tcp(address)) => address.port(),
        _ => url.port,
    };
    format!("mediocre+{scheme}://{host}:{port}{}", url.path)
}

#[cfg(feature = "tls")]
fn server_tls(
    address: &Address,
    carrier: Transport,
) -> Result<Option<ServerTls>, ListenAddressError> {
    let inside = match carrier {
        Transport::Tls => Inside::Bytes,
        Transport::Https => Inside::Http,
        _ => return Ok(None),
    };
    let Place::Url(url) = address.place() else { return Ok(None) };
    let path = |name| url.parameter(name).map(std::path::Path::new);
    let (Some(cert), Some(key)) = (path("cert"), path("key")) else {
        return Err(ListenAddressError::Nameless { address: address.clone() });
    };
    let loaded = ServerTls::load(Identity { cert, key }, path("client_ca"), inside);
    loaded.map(Some).map_err(|source| ListenAddressError::Tls { address: address.clone(), source })
}

/// Why an address cannot be listened on, whatever is there.
#[derive(Debug, Error)]
pub enum ListenAddressError {
    /// No client can come in by it.
    #[error("cannot listen on `{address}`: nobody can connect to it")]
    NoDoor {
        /// Where it would have been.
        address: Address,
    },
    /// Other machines could call all tools.
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    /// TLS without a certificate.
    #[cfg(feature = "tls")]
    #[error("cannot listen on `{address}`: it has no certificate")]
    Nameless {
        /// Where it would have been.
        address: Address,
    },
    /// The files for TLS are not as they should be.
    #[cfg(feature = "tls")]
    #[error("cannot listen on `{address}`")]
    Tls {
        /// Where it would have been.
        address: Address,
        /// What is wrong with them.
        source: TlsError,
    },
}

impl ListenAddressError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ListenAddressError::NoDoor { .. } => None,
            ListenAddressError::Unprotected(error) => Some(error.hint()),
            #[cfg(feature = "tls")]
            ListenAddressError::Nameless { .. } => {
                Some("name the certificate and its key by `?cert=FILE&key=FILE`".to_owned())
            }
            #[cfg(feature = "tls")]
            ListenAddressError::Tls { source, .. } => source.hint(),
        }
    }
}

/// Why nobody can come in by an address after all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The system does not let us listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its name led elsewhere than it says, and other machines could call all tools.
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    /// It is not known who can reach us.
    #[error("cannot tell where we listen")]
    Address(#[from] io::Error),
}
