//! Where a hub or a plugin is: a host and a port.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::transport::quic::Target;

/// A host and a port, as in `localhost:50100` or `[::1]:50100`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// A host and a port.
    pub fn new(host: &str, port: u16) -> HostPort {
        HostPort { host: host.to_owned(), port }
    }

    /// As whom to dial.
    pub fn target(&self, server_name: Option<&str>) -> Target {
        let server_name = server_name.map(str::to_owned);
        Target { host: self.host.clone(), port: self.port, server_name }
    }
}

/// It is no `HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected `HOST:PORT`")]
pub struct NoHostPort;

impl FromStr for HostPort {
    type Err = NoHostPort;

    fn from_str(text: &str) -> Result<HostPort, NoHostPort> {
        let (host, port) = text.rsplit_once(':').ok_or(NoHostPort)?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']').ok_or(NoHostPort)?,
            None if host.contains(':') => return Err(NoHostPort),
            None => host,
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(NoHostPort);
        }
        let port = port.parse().map_err(|_| NoHostPort)?;
        Ok(HostPort { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for text in ["localhost:50100", "127.0.0.1:0", "[::1]:80"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
        for text in ["", "host", "host:", ":1", "host:65536", "::1:80", "[::1:80", "a b:1"] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
