//! A listener: accepts connections for as long as it lives, whatever goes wrong meanwhile.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::passed::PassedSocket;
use super::stream::Stream;
use super::tcp::{self, ListenError};
#[cfg(feature = "tls")]
use super::tls::{Handshakes, ServerTls, TlsError};
use super::unix;

/// How long to wait when the system has no descriptor or memory for one more connection:
/// connections that end meanwhile give theirs back.
const BREATH: Duration = Duration::from_millis(100);

/// Accepts connections of one kind at one address. Not to be dropped while it should listen.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(unix::Socket),
}

/// Where a listener or its peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Host and port.
    Tcp(SocketAddr),
    /// On this machine, by this file.
    Unix(std::path::PathBuf),
}

/// A client that has connected; the TLS handshake, if there is one, is to come.
#[derive(Debug)]
pub struct Arrival {
    stream: Raw,
    /// Who it is.
    pub peer: Whereabouts,
    #[cfg(feature = "tls")]
    tls: Option<Handshakes>,
}

/// The same on its way to another thread.
#[cfg(feature = "http")]
pub(super) struct Departed {
    stream: RawDeparted,
    peer: Whereabouts,
    #[cfg(feature = "tls")]
    tls: Option<Handshakes>,
}

#[cfg(feature = "http")]
enum RawDeparted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

#[derive(Debug)]
enum Raw {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on a host and port; port 0 takes a free one.
    pub async fn tcp(host: &str, port: u16) -> Result<Listener, ListenError> {
        let socket = Socket::Tcp(tcp::listen(host, port).await?);
        Ok(Listener {
            socket,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Listens on a socket file, which is removed in the end.
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        let socket = Socket::Unix(unix::listen(path)?);
        Ok(Listener {
            socket,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Listens on a socket that was opened for us. A socket file stays as it is, and in the end is
    /// not removed.
    pub fn passed(socket: &PassedSocket) -> Result<Listener, ListenError> {
        let at = || socket.to_string();
        let socket = match socket.whereabouts() {
            Whereabouts::Tcp(_) => socket.tcp().map(Socket::Tcp),
            Whereabouts::Unix(path) => {
                let listener = socket.unix();
                listener.map(|listener| Socket::Unix(unix::Socket::passed(listener, path)))
            }
        };
        Ok(Listener {
            socket: socket.map_err(|source| ListenError::Failed { at: at(), source })?,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Speaks TLS with every client.
    #[cfg(feature = "tls")]
    pub fn with_tls(self, tls: ServerTls) -> Listener {
        Listener { tls: Some(tls), ..self }
    }

    /// Where it listens, with the real port.
    pub fn whereabouts(&self) -> io::Result<Whereabouts> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(Whereabouts::Tcp),
            Socket::Unix(socket) => Ok(Whereabouts::Unix(socket.path().to_owned())),
        }
    }

    /// The next client to connect. Dropped while it waits, it has taken none.
    ///
    /// A connection that fails before it is accepted is passed over. If the system has no
    /// room for one more, clients wait in the kernel's queue, and the log says so once.
    pub async fn accept(&self) -> Arrival {
        let mut is_told = false;
        loop {
            match self.try_accept().await {
                Ok(arrival) => return arrival,
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    if !is_told {
                        tracing::warn!("cannot accept connections for the moment: {error}");
                        is_told = true;
                    }
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }

    async fn try_accept(&self) -> io::Result<Arrival> {
        let (stream, peer) = match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                (Raw::Tcp(tcp::tuned(stream)?), Whereabouts::Tcp(peer))
            }
            Socket::Unix(socket) => {
                let (stream, _nameless) = socket.listener.accept().await?;
                (Raw::Unix(stream), Whereabouts::Unix(socket.path().to_owned()))
            }
        };
        Ok(Arrival {
            stream,
            peer,
            #[cfg(feature = "tls")]
            tls: self.tls.as_ref().map(ServerTls::acceptor),
        })
    }
}

/// The fault of one connection, and not of the listener: the next may be there already.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

impl Arrival {
    /// Leaves the runtime of this thread.
    #[cfg(feature = "http")]
    pub(super) fn depart(self) -> io::Result<Departed> {
        let stream = match self.stream {
            Raw::Tcp(stream) => RawDeparted::Tcp(stream.into_std()?),
            Raw::Unix(stream) => RawDeparted::Unix(stream.into_std()?),
        };
        Ok(Departed {
            stream,
            peer: self.peer,
            #[cfg(feature = "tls")]
            tls: self.tls,
        })
    }

    /// Shakes hands, where that is asked for, and gives the open connection.
    ///
    /// Not to be awaited by the task that accepts: other clients wait meanwhile.
    #[cfg(feature = "tls")]
    pub async fn open(self, patience: Duration) -> Result<Stream, TlsError> {
        match (self.stream, self.tls) {
            (Raw::Tcp(stream), Some(tls)) => {
                let stream = tls.accept(stream, patience).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
            (Raw::Tcp(stream), None) => Ok(Stream::Tcp(stream)),
            (Raw::Unix(stream), _) => Ok(Stream::Unix(stream)),
        }
    }

    /// Gives the open connection.
    #[cfg(not(feature = "tls"))]
    pub async fn open(self, _patience: Duration) -> Result<Stream, std::convert::Infallible> {
        match self.stream {
            Raw::Tcp(stream) => Ok(Stream::Tcp(stream)),
            Raw::Unix(stream) => Ok(Stream::Unix(stream)),
        }
    }
}

#[cfg(feature = "http")]
impl Departed {
    /// Enters the runtime of this thread.
    pub(super) fn arrive(self) -> io::Result<Arrival> {
        let stream = match self.stream {
            RawDeparted::Tcp(stream) => Raw::Tcp(TcpStream::from_std(stream)?),
            RawDeparted::Unix(stream) => Raw::Unix(UnixStream::from_std(stream)?),
        };
        Ok(Arrival {
            stream,
            peer: self.peer,
            #[cfg(feature = "tls")]
            tls: self.tls,
        })
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whereabouts::Tcp(address) => address.fmt(f),
            Whereabouts::Unix(path) => path.display().fmt(f),
        }
    }
}
