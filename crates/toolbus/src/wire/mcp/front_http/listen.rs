//! Where an MCP server over HTTP listens, and when it must not.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

use thiserror::Error;

use super::Options;
use crate::transport::tcp::ListenError;
use crate::transport::{Listener, Whereabouts};
use crate::wire::access::{Asks, Unprotected};

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

/// Listens, if callers may come in there.
pub async fn listen(at: &At, options: &Options) -> Result<Listener, OpenError> {
    options.access.may_listen(&at.host, at.port, Asks::ForToken)?;
    let listener = Listener::tcp(&at.host, at.port).await?;
    options.access.check(&listener, Asks::ForToken)?;
    Ok(listener)
}

/// What people are told once it listens: `listening on http://127.0.0.1:8932/mcp`.
pub fn listening_on(listener: &Listener, options: &Options) -> io::Result<String> {
    let path = &options.path;
    Ok(match listener.whereabouts()? {
        Whereabouts::Tcp(address) => format!("listening on http://{address}{path}"),
        Whereabouts::Unix(file) => format!("listening on {}, path {path}", file.display()),
    })
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

/// Why we do not listen.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Any host that reaches the port could call all tools.
    #[error(transparent)]
    Unprotected(#[from] Unprotected),
    /// The system does not let us.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

impl OpenError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            OpenError::Unprotected(error) => Some(error.hint()),
            OpenError::Listen(error) => error.hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::access::Access;

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

    #[tokio::test]
    async fn others_need_a_token_or_a_word() {
        let at = At { host: "0.0.0.0".into(), port: 0 };
        let refused = listen(&at, &Options::default()).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "will not listen on 0.0.0.0:0 without a token: other machines can reach it"
        );
        assert!(refused.hint().unwrap().contains("--insecure"));
        let access = Access { insecure: true, ..Access::default() };
        let insecure = Options { access, ..Options::default() };
        assert!(listen(&at, &insecure).await.is_ok());
    }
}
