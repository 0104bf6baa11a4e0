//! A host and port to listen on, as people write it where a wire or a page of ours is meant.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use thiserror::Error;

/// A host and port to listen on: `HOST:PORT`, `:PORT` or `PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
}

impl FromStr for At {
    type Err = AtError;

    fn from_str(text: &str) -> Result<At, AtError> {
        let fault = || AtError { text: text.to_owned() };
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        let port = port.parse().map_err(|_| fault())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match (host, bare) {
            ("", _) => Ipv4Addr::LOCALHOST.to_string(),
            (_, Some(bare)) => bare.to_owned(),
            // An IPv6 address without brackets: which colon is the last cannot be told.
            (host, None) if host.contains(':') => return Err(fault()),
            (host, None) => host.to_owned(),
        };
        Ok(At { host, port })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// What was given is no host and port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is no address to listen on")]
pub struct AtError {
    text: String,
}

impl AtError {
    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        "write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_leave_out_the_host() {
        for (text, expected) in [
            ("8932", "127.0.0.1:8932"),
            (":0", "127.0.0.1:0"),
            ("localhost:1", "localhost:1"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(text.parse::<At>().unwrap().to_string(), expected);
        }
        for text in ["", "host", "host:", "host:65536", "::1:80", "80:host"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }
}
