//! How a server elsewhere is reached: whom to trust, and by which path.

#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(any(feature = "tls", feature = "http"))]
use crate::address::Transport;
use crate::address::{Address, Url};
#[cfg(feature = "tls")]
use crate::bus::back::causes;
use crate::peer::OpenError;
#[cfg(feature = "http")]
use crate::peer::settings::Credentials;
#[cfg(feature = "tls")]
use crate::peer::tls_files::TlsFiles;
#[cfg(feature = "http")]
use crate::transport::http::{HeaderMap, Origin, Uri};
#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, Inside};

/// A server over HTTP.
#[cfg(feature = "http")]
#[derive(Debug, Clone)]
pub struct Site {
    /// Whom to call.
    pub origin: Origin,
    /// By which path.
    pub path: Uri,
    /// Sent with every request.
    pub headers: HeaderMap,
}

/// Whom to call by HTTP, by which path, and what is sent with every request.
#[cfg(feature = "http")]
pub fn site(address: &Address, url: &Url, credentials: &Credentials) -> Result<Site, OpenError> {
    let is_secure = url.carrier == Transport::Https;
    let headers = credentials.fields(&url.host, is_secure).map_err(|error| error.of(address))?;
    let path = url
        .path
        .parse()
        .map_err(|_| OpenError::unusable(address, "its path can stand in no request"))?;
    let origin = Origin {
        host: url.host.clone(),
        port: url.port,
        #[cfg(feature = "tls")]
        tls: match url.carrier {
            Transport::Https => Some(client_tls(address, url, &credentials.tls, Inside::Http)?),
            _ => None,
        },
    };
    Ok(Site { origin, path, headers })
}

/// What the parameters of an address say about whom to trust and who we are.
#[cfg(feature = "tls")]
///
/// What is said besides is for addresses that say nothing of it.
pub fn client_tls(
    address: &Address,
    url: &Url,
    besides: &TlsFiles,
    inside: Inside,
) -> Result<ClientTls, OpenError> {
    let path = |name| url.parameter(name).map(PathBuf::from);
    let (ca, cert, key) = (path("ca"), path("cert"), path("key"));
    let fault = |why: String| OpenError::unusable(address, why);
    if cert.is_some() != key.is_some() {
        return Err(fault("`cert` and `key` belong together".to_owned()));
    }
    let files = besides.and(&TlsFiles { ca, cert, key });
    files.client(inside).map_err(|error| fault(causes(&error)))
}
