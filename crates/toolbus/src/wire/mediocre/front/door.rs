//! Where callers come in: one address, whatever carries it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use toolbus_proto::http::Admission;

use super::Mediocre;
use crate::address::{Address, Place, Transport, Url};
use crate::peer::Circumstances;
use crate::peer::access::{Access, Asks, Unprotected};
#[cfg(feature = "tls")]
use crate::peer::shown::{self, NothingToShow};
use crate::task::{LocalFuture, boxed};
#[cfg(feature = "http")]
use crate::transport::Threads;
use crate::transport::tcp::ListenError;
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;
use crate::transport::{Listener, PassedSocket, Whereabouts};

/// An address to listen on, whose certificates have been read.
#[derive(Debug, Clone)]
pub struct ListenAddress {
    socket: Socket,
    access: Access,
    asks: Asks,
    /// Opened for it already.
    passed: Option<PassedSocket>,
    #[cfg(feature = "http")]
    threads: Threads,
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
    /// We have made its socket.
    is_ours: bool,
    /// Which may have connections, over HTTP.
    #[cfg(feature = "http")]
    threads: Threads,
}

impl ListenAddress {
    /// Reads an address that was parsed for serving, and the files it names; `access` says who
    /// may come in.
    pub fn of(address: &Address, access: &Access) -> Result<ListenAddress, ListenAddressError> {
        ListenAddress::under(address, access, Circumstances::default())
    }

    /// The same of a front of which this is known besides.
    pub(crate) fn under(
        address: &Address,
        access: &Access,
        circumstances: Circumstances,
    ) -> Result<ListenAddress, ListenAddressError> {
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
            tls: shown::of(address, &circumstances)?,
            socket,
            access: access.clone(),
            asks,
            passed: circumstances.socket,
            #[cfg(feature = "http")]
            threads: circumstances.threads,
        })
    }

    /// Is it HTTP that carries the calls there?
    pub fn is_http(&self) -> bool {
        matches!(&self.socket, Socket::Host(url) if is_http(url))
    }

    /// Accepts from now on: a client that connects waits until it is served.
    pub async fn open(&self) -> Result<OpenListener, OpenError> {
        let listener = match (&self.passed, &self.socket) {
            (Some(passed), _) => Listener::passed(passed)?,
            (None, Socket::Unix { path, .. }) => Listener::unix(path)?,
            (None, Socket::Host(url)) => Listener::tcp(&url.host, url.port).await?,
        };
        let (path, url) = match &self.socket {
            Socket::Unix { shown, .. } => (None, shown.clone()),
            Socket::Host(url) => {
                let shown = url_of(url, &listener, self.passed.is_some());
                (is_http(url).then(|| url.path.clone()), shown)
            }
        };
        self.access.check(&listener, self.asks)?;
        let http = match path {
            Some(path) => Some((path, self.access.admission(&listener)?)),
            None => None,
        };
        #[cfg(feature = "tls")]
        let listener = match &self.tls {
            Some(tls) => {
                tls.warn_if_ended();
                listener.with_tls(tls.clone())
            }
            None => listener,
        };
        Ok(OpenListener {
            listener,
            http,
            url,
            is_ours: self.passed.is_none(),
            #[cfg(feature = "http")]
            threads: self.threads.clone(),
        })
    }

    /// By what it shows itself, over TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }
}

impl OpenListener {
    /// Where it is: the full address, with the real port and without parameters.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file by which it is found, if there is one and we have made it.
    pub(crate) fn socket_file(&self) -> Option<PathBuf> {
        match self.listener.whereabouts() {
            Ok(Whereabouts::Unix(path)) if self.is_ours => Some(path),
            _ => None,
        }
    }
}

impl Mediocre {
    /// Serves the clients that come in, until it is told to stop and the last call is over.
    /// In a box: so it is compiled here, and not once more by who calls it, for size perhaps.
    pub fn serve(&self, door: OpenListener) -> LocalFuture<'_, ()> {
        boxed(async move {
            match door.http {
                None => self.listen(door.listener).await,
                #[cfg(feature = "http")]
                Some((path, admission)) => {
                    let url = (&*door.url, &*path);
                    self.listen_http(&door.threads, door.listener, url, admission).await;
                }
                #[cfg(not(feature = "http"))]
                Some(_) => {}
            }
        })
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

/// The full address with the real port; of a socket that was passed with the real host, too.
fn url_of(url: &Url, listener: &Listener, is_passed: bool) -> String {
    let scheme = match url.carrier {
        Transport::Tcp => "tcp",
        Transport::Tls => "tls",
        Transport::Http => "http",
        Transport::Https => "https",
        Transport::Quic => "quic",
    };
    let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let at = match listener.whereabouts() {
        Ok(Whereabouts::Tcp(address)) if is_passed => address.to_string(),
        Ok(Whereabouts::Tcp(address)) => format!("{host}:{}", address.port()),
        _ => format!("{host}:{}", url.port),
    };
    format!("mediocre+{scheme}://{at}{}", url.path)
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
    /// There is nothing to show by TLS.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] NothingToShow),
}

impl ListenAddressError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ListenAddressError::NoDoor { .. } => None,
            ListenAddressError::Unprotected(error) => Some(error.hint()),
            #[cfg(feature = "tls")]
            ListenAddressError::Tls(error) => error.hint(),
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
