//! How a server elsewhere is reached: whom to trust, and by which path.

#[cfg(feature = "tls")]
use std::path::Path;

#[cfg(feature = "tls")]
use crate::address::Transport;
use crate::address::{Address, Url};
#[cfg(feature = "tls")]
use crate::bus::back::causes;
#[cfg(feature = "http")]
use crate::transport::http::{Origin, Uri};
#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, Identity, Inside};
use crate::wire::OpenError;

/// Whom to call by HTTP, and by which path.
#[cfg(feature = "http")]
pub(super) fn origin(address: &Address, url: &Url) -> Result<(Origin, Uri), OpenError> {
    let path = url
        .path
        .parse()
        .map_err(|_| OpenError::unusable(address, "its path can stand in no request"))?;
    let origin = Origin {
        host: url.host.clone(),
        port: url.port,
        #[cfg(feature = "tls")]
        tls: match url.carrier {
            Transport::Https => Some(client_tls(address, url, Inside::Http)?),
            _ => None,
        },
    };
    Ok((origin, path))
}

/// What the parameters of an address say about whom to trust and who we are.
#[cfg(feature = "tls")]
pub(super) fn client_tls(
    address: &Address,
    url: &Url,
    inside: Inside,
) -> Result<ClientTls, OpenError> {
    let path = |name| url.parameter(name).map(Path::new);
    let fault = |why: String| OpenError::unusable(address, why);
    let identity = match (path("cert"), path("key")) {
        (Some(cert), Some(key)) => Some(Identity { cert, key }),
        (None, None) => None,
        _ => return Err(fault("`cert` and `key` belong together".to_owned())),
    };
    ClientTls::load(path("ca"), identity, inside).map_err(|error| fault(causes(&error)))
}
