//! What fronts over TLS show: which files their addresses name, for every wire.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Circumstances, FrontError};
use crate::address::{Address, Place, Transport, Url};
use crate::transport::tls::{Inside, ServerFiles, ServerTls, TlsError};

/// By what the front at this address shows itself; `None` if TLS is not spoken there. If it does so
/// already by the same files, they are read again.
pub(crate) fn of(
    address: &Address,
    circumstances: &Circumstances,
) -> Result<Option<ServerTls>, NothingToShow> {
    let Place::Url(url) = address.place() else { return Ok(None) };
    let inside = match url.carrier {
        Transport::Tls => Inside::Bytes,
        Transport::Https => Inside::Http,
        Transport::Tcp | Transport::Http | Transport::Quic => return Ok(None),
    };
    let files = files(url, &circumstances.folder);
    let files = files.ok_or_else(|| NothingToShow::Unnamed { address: address.clone() })?;
    if let Some(tls) = circumstances.tls.as_ref().filter(|tls| tls.is_of(&files, inside)) {
        tls.renew();
        return Ok(Some(tls.clone()));
    }
    let opened = ServerTls::open(files, inside, circumstances.called.clone());
    let unfit = |source| NothingToShow::Unfit { address: address.clone(), source };
    opened.map(Some).map_err(unfit)
}

fn files(url: &Url, folder: &Path) -> Option<ServerFiles> {
    let named = |name| url.parameter(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(ServerFiles {
        folder: folder.to_owned(),
        cert: named("cert")?,
        key: named("key")?,
        // Also one without a name, which cannot be read: whoever writes it wants clients checked.
        client_ca: url.parameter("client_ca").map(PathBuf::from),
    })
}

/// Why a front over TLS cannot listen.
#[derive(Debug, Error)]
pub enum NothingToShow {
    /// No certificate is named, or not its key.
    #[error("cannot listen on `{address}`: it has no certificate")]
    Unnamed {
        /// Where it would have been.
        address: Address,
    },
    /// The files are not as they should be.
    #[error("cannot listen on `{address}`")]
    Unfit {
        /// Where it would have been.
        address: Address,
        /// What is wrong with them.
        source: TlsError,
    },
}

impl NothingToShow {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            NothingToShow::Unnamed { .. } => {
                Some("name the certificate and its key by `?cert=FILE&key=FILE`".to_owned())
            }
            NothingToShow::Unfit { source, .. } => source.hint(),
        }
    }
}

impl From<NothingToShow> for FrontError {
    fn from(error: NothingToShow) -> FrontError {
        let refused = FrontError::usage(error.to_string()).hint(error.hint());
        match &error {
            NothingToShow::Unfit { source, .. } => refused.caused_by(source),
            NothingToShow::Unnamed { .. } => refused,
        }
    }
}
