//! TLS over TCP: rustls, with ring doing the sums.
//!
//! Certificates and keys are PEM files. They are read when the end is made, and a wrong one is
//! reported before the first connection. A serving end reads them again when they have changed.

mod server;
mod trust;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(in crate::transport) use server::Handshakes;
pub use server::{FileLook, LOOKED_EVERY, ServerFiles, ServerTls, last_day};

/// One end of an open TLS connection.
pub type TlsStream = tokio_rustls::TlsStream<TcpStream>;

/// What may be spoken inside, and is agreed on while shaking hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// Something that both sides know beforehand.
    Bytes,
    /// HTTP/2 or HTTP/1.1.
    Http,
}

/// The files by which one end proves who it is.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The certificate, and those between it and its root.
    pub cert: &'a Path,
    /// Its private key.
    pub key: &'a Path,
}

/// What a calling end needs. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    connector: TlsConnector,
    /// How the user names the authority of a server that is not believed.
    named_by: &'static str,
}

impl ClientTls {
    /// Reads the files. `ca` is trusted instead of the public roots.
    pub fn load(
        ca: Option<&Path>,
        identity: Option<Identity<'_>>,
        inside: Inside,
    ) -> Result<ClientTls, TlsError> {
        let builder = ClientConfig::builder_with_provider(ring())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match ca {
            None => {
                let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
                builder.with_root_certificates(roots.collect::<RootCertStore>())
            }
            // It checks all that the usual verifier does.
            Some(ca) => builder.dangerous().with_custom_certificate_verifier(named(ca)?),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certs, key) = identity.read_in(Path::new(""))?;
                let unfit = |source| TlsError::Unfit { path: identity.cert.into(), source };
                builder.with_client_auth_cert(certs, key).map_err(unfit)?
            }
        };
        config.alpn_protocols = inside.protocols();
        let connector = Arc::new(config).into();
        Ok(ClientTls {
            connector,
            named_by: "if the server's certificate is your own, name it by `ca=FILE`",
        })
    }

    /// The same, where an authority is named in this way.
    #[must_use]
    pub fn named_by(self, named_by: &'static str) -> ClientTls {
        ClientTls { named_by, ..self }
    }

    /// Shakes hands with `host`, which has to prove that it is.
    pub async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        patience: Duration,
    ) -> Result<TlsStream, TlsError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| TlsError::Name { host: host.to_owned() })?;
        match timeout(patience, self.connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(source)) if is_stranger(&source) => {
                Err(TlsError::Stranger { source, named_by: self.named_by })
            }
            Ok(Err(source)) => Err(TlsError::Handshake { source }),
            Err(_) => Err(TlsError::TimedOut { patience }),
        }
    }
}

impl Inside {
    fn protocols(self) -> Vec<Vec<u8>> {
        match self {
            Inside::Bytes => Vec::new(),
            Inside::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }
}

impl Identity<'_> {
    /// Reads the files, whose paths are relative to `folder`.
    fn read_in(
        &self,
        folder: &Path,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let certs = certificates(folder, self.cert)?;
        let key = PrivateKeyDer::from_pem_file(folder.join(self.key))
            .map_err(|error| TlsError::of_file(self.key, "private key", error))?;
        Ok((certs, key))
    }
}

fn roots(folder: &Path, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(folder, path)? {
        let unfit = |source| TlsError::Unfit { path: path.into(), source };
        roots.add(cert).map_err(unfit)?;
    }
    Ok(roots)
}

/// Believes the authority in this file, and whom it vouches for.
fn named(ca: &Path) -> Result<Arc<trust::Named>, TlsError> {
    let here = Path::new("");
    let by_chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(here, ca)?), ring());
    let nothing = |_| TlsError::NothingIn { path: ca.into(), what: "certificate" };
    let by_chain = by_chain.build().map_err(nothing)?;
    Ok(Arc::new(trust::Named { certificates: certificates(here, ca)?, by_chain }))
}

/// What is wrong with the certificate of the other side, if that was it.
fn unbelieved(error: &io::Error) -> Option<&CertificateError> {
    match error.get_ref()?.downcast_ref()? {
        Error::InvalidCertificate(why) => Some(why),
        _ => None,
    }
}

/// Is it of an authority that was not named? One that is its own is an authority, too.
fn is_stranger(error: &io::Error) -> bool {
    use CertificateError::{BadSignature, Other, UnknownIssuer};
    matches!(unbelieved(error), Some(UnknownIssuer | BadSignature | Other(_)))
}

/// Never empty.
fn certificates(folder: &Path, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let of_file = |error| TlsError::of_file(path, "certificate", error);
    let found = CertificateDer::pem_file_iter(folder.join(path)).map_err(of_file)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(of_file)?;
    match found.is_empty() {
        true => Err(TlsError::NothingIn { path: path.into(), what: "certificate" }),
        false => Ok(found),
    }
}

/// Named each time: what another crate of the program prefers does not matter.
fn ring() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Why there is no TLS connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} in `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A file is no PEM.
    #[error("cannot read the {what} in `{}`: it is no PEM file: {why}", path.display())]
    NoPem {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A file holds something else.
    #[error("there is no {what} in `{}`", path.display())]
    NothingIn {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
    },
    /// A certificate cannot be used, or not with this key.
    #[error("the certificate in `{}` cannot be used", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
    /// A host whose certificate could never be checked.
    #[error("no certificate can prove to be `{host}`: it is neither a name nor an address")]
    Name {
        /// The host.
        host: String,
    },
    /// The server shows a certificate of an authority that we do not know.
    #[error("the TLS handshake failed")]
    Stranger {
        /// What is wrong with it.
        source: io::Error,
        /// How its authority is named.
        named_by: &'static str,
    },
    /// The two sides did not agree.
    #[error("the TLS handshake failed")]
    Handshake {
        /// Why not.
        source: io::Error,
    },
    /// The other side was silent.
    #[error("no TLS handshake within {patience:?}")]
    TimedOut {
        /// How long was waited.
        patience: Duration,
    },
    /// The library and its sums do not fit.
    #[error("cannot set up TLS")]
    Setup(#[source] Error),
}

impl TlsError {
    fn of_file(path: &Path, what: &'static str, error: pem::Error) -> TlsError {
        let path = path.to_owned();
        match error {
            pem::Error::Io(source) => TlsError::Read { path, what, source },
            pem::Error::NoItemsFound => TlsError::NothingIn { path, what },
            error => TlsError::NoPem { path, what, why: error.to_string() },
        }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            TlsError::Stranger { named_by, .. } => Some((*named_by).to_owned()),
            TlsError::Handshake { source } if unbelieved(source).is_some() => None,
            TlsError::Handshake { .. } => {
                Some("does the other side speak TLS, and does it want a certificate?".into())
            }
            TlsError::NoPem { .. } | TlsError::NothingIn { .. } => {
                Some("certificates and keys are PEM files: `-----BEGIN …`".into())
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}
