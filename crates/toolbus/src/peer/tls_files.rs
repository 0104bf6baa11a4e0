//! The files by which we call over TLS: whom we believe, and what we show.

use std::path::PathBuf;

#[cfg(feature = "tls")]
use thiserror::Error;

#[cfg(feature = "tls")]
use crate::transport::tls::{ClientTls, Identity, Inside, TlsError};

/// The files of a calling end of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that is believed in place of the public ones.
    pub ca: Option<PathBuf>,
    /// The certificate that we show.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// These as far as they are named, and those of a command line in their place.
    #[must_use]
    pub fn and(&self, more: &TlsFiles) -> TlsFiles {
        let shows = if more.cert.is_some() || more.key.is_some() { more } else { self };
        TlsFiles {
            ca: more.ca.as_ref().or(self.ca.as_ref()).cloned(),
            cert: shows.cert.clone(),
            key: shows.key.clone(),
        }
    }

    /// What they mean for a connection.
    #[cfg(feature = "tls")]
    pub(crate) fn client(&self, inside: Inside) -> Result<ClientTls, UnfitTls> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(Identity { cert, key }),
            (None, None) => None,
            _ => return Err(UnfitTls::Half),
        };
        Ok(ClientTls::load(self.ca.as_deref(), identity, inside)?)
    }
}

/// Why no safe connection can be begun.
#[cfg(feature = "tls")]
#[derive(Debug, Error)]
pub(crate) enum UnfitTls {
    /// Who shows a certificate needs its key.
    #[error("a certificate and its key belong together")]
    Half,
    /// A file is not as it should be.
    #[error(transparent)]
    File(#[from] TlsError),
}
