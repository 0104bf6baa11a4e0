//! TCP: to be reached, and to reach others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

/// A connection that is quiet is asked after so long whether it is still there…
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// … again after each of these, and is given up after so many questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// Listens on `host`, a name or an address; port 0 takes a free one.
///
/// The real address is [`TcpListener::local_addr`].
pub async fn listen(host: &str, port: u16) -> Result<TcpListener, ListenError> {
    let at = shown(host, port);
    let lookup = |source| ListenError::Lookup { host: host.to_owned(), source };
    let addresses = lookup_host((host, port)).await.map_err(lookup)?;
    let mut last = ListenError::NotHere { at: at.clone() };
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = listen_error(&at, error),
        }
    }
    Err(last)
}

/// Connects to `host`, a name or an address. The addresses of a name are tried in their order,
/// all of them within `patience`.
pub async fn connect(host: &str, port: u16, patience: Duration) -> Result<TcpStream, ConnectError> {
    connect_vetted(host, port, patience, None).await
}

/// Which addresses may be connected to, where a stranger has named the host.
pub type Vet = Rc<dyn Fn(IpAddr) -> bool>;

/// The same, but only to addresses that pass.
pub(super) async fn connect_vetted(
    host: &str,
    port: u16,
    patience: Duration,
    vet: Option<&Vet>,
) -> Result<TcpStream, ConnectError> {
    let at = shown(host, port);
    let too_late = || ConnectError::TimedOut { at: at.clone(), patience };
    let until = Instant::now() + patience;
    let found = timeout(patience, lookup_host((host, port))).await.map_err(|_| too_late())?;
    let lookup = |source| ConnectError::Lookup { host: host.to_owned(), source };
    let addresses: Vec<SocketAddr> = found.map_err(lookup)?.collect();

    let mut last = ConnectError::NoAddress { host: host.to_owned() };
    for (tried, address) in addresses.iter().enumerate() {
        // What is judged is what is connected to: a name may lead elsewhere the next time.
        if vet.is_some_and(|vet| !vet(address.ip())) {
            last = ConnectError::Inside { host: host.to_owned() };
            continue;
        }
        // An address that never answers must leave some time for the others.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        last = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return tuned(stream).map_err(|error| failed(&at, error)),
            Ok(Err(error)) => failed(&at, error),
            Err(_) => too_late(),
        };
    }
    Err(last)
}

/// Nothing waits for more to be sent along, and a peer that vanished is found out in the end.
pub(super) fn tuned(stream: TcpStream) -> io::Result<TcpStream> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
    Ok(stream)
}

fn failed(at: &str, source: io::Error) -> ConnectError {
    let at = at.to_owned();
    match source.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { at },
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            ConnectError::Unreachable { at }
        }
        _ => ConnectError::Failed { at, source },
    }
}

/// Why a socket cannot be bound.
pub(super) fn listen_error(at: &str, source: io::Error) -> ListenError {
    let at = at.to_owned();
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { at },
        io::ErrorKind::PermissionDenied => ListenError::NotAllowed { at },
        io::ErrorKind::AddrNotAvailable => ListenError::NotHere { at },
        _ => ListenError::Failed { at, source },
    }
}

/// As people write it: an IPv6 address in brackets.
pub(super) fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Why a server cannot be reached.
#[derive(Debug, Error)]
pub enum ConnectError {
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
    /// It leads to this machine or its network, and was named by one who is not there.
    #[error("`{host}` leads to this machine or its own network")]
    Inside {
        /// The name.
        host: String,
    },
    /// No server listens.
    #[error("nothing listens on {at}")]
    Refused {
        /// Host and port, or a path.
        at: String,
    },
    /// There is no way there.
    #[error("there is no way to {at}")]
    Unreachable {
        /// Host and port.
        at: String,
    },
    /// No answer, neither yes nor no.
    #[error("no connection to {at} within {patience:?}")]
    TimedOut {
        /// Host and port, or a path.
        at: String,
        /// How long was waited.
        patience: Duration,
    },
    /// Anything else.
    #[error("cannot connect to {at}")]
    Failed {
        /// Host and port, or a path.
        at: String,
        /// What the system said.
        source: io::Error,
    },
}

impl ConnectError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ConnectError::Lookup { .. } | ConnectError::NoAddress { .. } => {
                Some("check the spelling of the host".into())
            }
            ConnectError::Refused { .. } => {
                Some("is the server running, and is this its address?".into())
            }
            ConnectError::Unreachable { .. } | ConnectError::TimedOut { .. } => {
                Some("check the address, the network and firewalls on the way".into())
            }
            ConnectError::Inside { .. } | ConnectError::Failed { .. } => None,
        }
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The name cannot be resolved.
    #[error("cannot listen on the host `{host}`: it cannot be found")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Another program listens there.
    #[error("cannot listen on {at}: somebody else does already")]
    InUse {
        /// Host and port, or a path.
        at: String,
    },
    /// The system does not let us.
    #[error("cannot listen on {at}: that is not allowed")]
    NotAllowed {
        /// Host and port, or a path.
        at: String,
    },
    /// The address is none of this machine's.
    #[error("cannot listen on {at}: this machine has no such address")]
    NotHere {
        /// Host and port.
        at: String,
    },
    /// A file is in the way.
    #[error("cannot listen on {at}: there is a file that is no socket")]
    NoSocket {
        /// A path.
        at: String,
    },
    /// The system takes no socket with so long a path.
    #[error("cannot listen on {at}: the path has {bytes} bytes, a socket's can have {bytes_max}")]
    TooLong {
        /// A path.
        at: String,
        /// Its length.
        bytes: usize,
        /// What the system takes.
        bytes_max: usize,
    },
    /// Anything else.
    #[error("cannot listen on {at}")]
    Failed {
        /// Host and port, or a path.
        at: String,
        /// What the system said.
        source: io::Error,
    },
}

impl ListenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ListenError::InUse { .. } => Some(
                "end the other program, or take another address; port 0 takes a free one".into(),
            ),
            ListenError::NotAllowed { .. } => {
                Some("ports below 1024 and foreign folders need more rights".into())
            }
            ListenError::NoSocket { .. } => Some("remove the file, or take another path".into()),
            ListenError::TooLong { .. } => Some("take a shorter path".into()),
            ListenError::Lookup { .. }
            | ListenError::NotHere { .. }
            | ListenError::Failed { .. } => None,
        }
    }
}
