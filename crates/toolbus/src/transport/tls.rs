//! TLS over TCP: rustls, with ring doing the sums.
//!
//! Certificates and keys are PEM files. They are read once, when the end is made; a
//! wrong one is reported before the first connection.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

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

/// What a serving end needs. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls(TlsAcceptor);

/// What a calling end needs. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls(TlsConnector);

impl ServerTls {
    /// Reads the files. With `client_ca` only clients that it vouches for are let in.
    pub fn load(
        identity: Identity<'_>,
        client_ca: Option<&Path>,
        inside: Inside,
    ) -> Result<ServerTls, TlsError> {
        let (certs, key) = identity.read()?;
        let builder = ServerConfig::builder_with_provider(ring())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let roots = Arc::new(roots(ca)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, ring()).build().map_err(
                        |_| TlsError::NothingIn { path: ca.into(), what: "certificate" },
                    )?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let unfit = |source| TlsError::Unfit { path: identity.cert.into(), source };
        let mut config = builder.with_single_cert(certs, key).map_err(unfit)?;
        config.alpn_protocols = inside.protocols();
        Ok(ServerTls(Arc::new(config).into()))
    }

    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        patience: Duration,
    ) -> Result<TlsStream, TlsError> {
        match timeout(patience, self.0.accept(stream)).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(source)) => Err(TlsError::Handshake { source }),
            Err(_) => Err(TlsError::TimedOut { patience }),
        }
    }
}

impl ClientTls {
    /// Reads the files. `ca` is trusted instead of the public roots.
    pub fn load(
        ca: Option<&Path>,
        identity: Option<Identity<'_>>,
        inside: Inside,
    ) -> Result<ClientTls, TlsError> {
        let roots = match ca {
            Some(ca) => roots(ca)?,
            None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
        };
        let builder = ClientConfig::builder_with_provider(ring())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (certs, key) = identity.read()?;
                let unfit = |source| TlsError::Unfit { path: identity.cert.into(), source };
                builder.with_client_auth_cert(certs, key).map_err(unfit)?
            }
        };
        config.alpn_protocols = inside.protocols();
        Ok(ClientTls(Arc::new(config).into()))
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
        match timeout(patience, self.0.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream.into()),
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
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let certs = certificates(self.cert)?;
        let key = PrivateKeyDer::from_pem_file(self.key)
            .map_err(|error| TlsError::of_file(self.key, "private key", error))?;
        Ok((certs, key))
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(path)? {
        let unfit = |source| TlsError::Unfit { path: path.into(), source };
        roots.add(cert).map_err(unfit)?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let of_file = |error| TlsError::of_file(path, "certificate", error);
    let found = CertificateDer::pem_file_iter(path).map_err(of_file)?;
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
            TlsError::Handshake { source } => {
                let fault = source.get_ref().and_then(|fault| fault.downcast_ref());
                match fault {
                    Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                        Some("if the server's certificate is your own, name it by `ca=FILE`".into())
                    }
                    Some(Error::InvalidCertificate(_)) => None,
                    _ => Some(
                        "does the other side speak TLS, and does it want a certificate?".into(),
                    ),
                }
            }
            TlsError::NoPem { .. } | TlsError::NothingIn { .. } => {
                Some("certificates and keys are PEM files: `-----BEGIN …`".into())
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}
