//! Where an MCP server over HTTP listens, and when it must not.

use std::io;

use thiserror::Error;

use super::Options;
use crate::peer::access::{Asks, Unprotected};
use crate::peer::at::At;
use crate::transport::tcp::ListenError;
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;
use crate::transport::{Listener, Whereabouts};

/// Listens, if callers may come in there.
pub async fn listen(at: &At, options: &Options) -> Result<Listener, OpenError> {
    let asks = options.asks();
    options.access.may_listen(&at.host, at.port, asks)?;
    let listener = match &options.passed {
        Some(passed) => Listener::passed(passed)?,
        None => Listener::tcp(&at.host, at.port).await?,
    };
    options.access.check(&listener, asks)?;
    #[cfg(feature = "tls")]
    if let Some(tls) = &options.tls {
        tls.warn_if_ended();
        return Ok(listener.with_tls(tls.clone()));
    }
    Ok(listener)
}

impl Options {
    /// What tells callers apart.
    fn asks(&self) -> Asks {
        match self.asks_for_certificates() {
            true => Asks::ForCertificate,
            false => Asks::ForToken,
        }
    }

    #[cfg(feature = "tls")]
    fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(ServerTls::asks_for_certificates)
    }

    #[cfg(not(feature = "tls"))]
    fn asks_for_certificates(&self) -> bool {
        false
    }

    #[cfg(feature = "tls")]
    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    #[cfg(not(feature = "tls"))]
    fn scheme(&self) -> &'static str {
        "http"
    }
}

/// What people are told once it listens: `listening on http://127.0.0.1:8932/mcp`.
pub fn listening_on(listener: &Listener, options: &Options) -> io::Result<String> {
    let (scheme, path) = (options.scheme(), &options.path);
    Ok(match listener.whereabouts()? {
        Whereabouts::Tcp(address) => format!("listening on {scheme}://{address}{path}"),
        Whereabouts::Unix(file) => format!("listening on {}, path {path}", file.display()),
    })
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
    use crate::peer::access::Access;

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
