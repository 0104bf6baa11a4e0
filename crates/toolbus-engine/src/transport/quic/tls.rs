//! Who we are and whom we believe: TLS 1.3 by rustls, with ring doing the sums.

use std::fmt;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    ServerConfig, SignatureScheme,
};
use thiserror::Error;

use super::tuning::Idle;

/// By what one end proves who it is.
pub struct Identity {
    /// The certificate, and those between it and its root.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

/// Whom a server lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Those with a certificate of its authority.
    Known,
    /// Those without a certificate too; a wrong one is refused all the same.
    KnownOrAnonymous,
}

/// What a calling end needs. Cheap to clone.
#[derive(Clone)]
pub struct QuicClient(pub(super) quinn::ClientConfig);

/// What a serving end needs. Cheap to clone.
#[derive(Clone)]
pub struct QuicServer(pub(super) quinn::ServerConfig);

impl QuicClient {
    /// Speaks `alpn` with servers whose certificate comes from one of `roots`, and shows them
    /// `identity` if there is one.
    pub fn new(
        alpn: &[u8],
        roots: &[CertificateDer<'static>],
        identity: Option<Identity>,
        idle: Idle,
    ) -> Result<QuicClient, TlsSetupError> {
        let builder = ClientConfig::builder_with_provider(ring())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsSetupError::Setup)?
            .with_root_certificates(store(roots)?);
        let mut tls = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).map_err(TlsSetupError::Identity)?
            }
        };
        tls.alpn_protocols = alpns(alpn);
        // Nobody is remembered, and nothing is sent before the handshake is over.
        tls.resumption = rustls::client::Resumption::disabled();
        let tls = QuicClientConfig::try_from(tls).map_err(|_| TlsSetupError::NoInitialCipher)?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(idle.transport());
        Ok(QuicClient(config))
    }
}

impl QuicServer {
    /// Speaks `alpn` with clients whose certificate comes from one of `roots`.
    pub fn new(
        alpn: &[u8],
        roots: &[CertificateDer<'static>],
        identity: Identity,
        clients: Clients,
        idle: Idle,
    ) -> Result<QuicServer, TlsSetupError> {
        let roots = Arc::new(store(roots)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, ring());
        let verifier = match clients {
            Clients::Known => verifier,
            Clients::KnownOrAnonymous => verifier.allow_unauthenticated(),
        };
        let verifier = verifier.build().map_err(|_| TlsSetupError::NoRoots)?;
        let verifier = Arc::new(KnownIssuers(verifier));
        let Identity { chain, key } = identity;
        let mut tls = ServerConfig::builder_with_provider(ring())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsSetupError::Setup)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(TlsSetupError::Identity)?;
        tls.alpn_protocols = alpns(alpn);
        tls.send_tls13_tickets = 0;
        let tls = QuicServerConfig::try_from(tls).map_err(|_| TlsSetupError::NoInitialCipher)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(idle.transport());
        Ok(QuicServer(config))
    }
}

/// Tells clients of another authority that it is unknown, also if it has the name of ours: only
/// the signature shows then that it is not.
#[derive(Debug)]
struct KnownIssuers(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for KnownIssuers {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now);
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(CertificateError::BadSignature) => {
                CertificateError::UnknownIssuer.into()
            }
            error => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }
}

/// None if there is nothing to agree on.
fn alpns(alpn: &[u8]) -> Vec<Vec<u8>> {
    if alpn.is_empty() { Vec::new() } else { vec![alpn.to_vec()] }
}

fn store(roots: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsSetupError> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).map_err(TlsSetupError::Root)?;
    }
    Ok(store)
}

/// Named each time: what another crate of the program prefers does not matter.
fn ring() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Why one end cannot be set up.
#[derive(Debug, Clone, Error)]
pub enum TlsSetupError {
    /// An authority's certificate cannot be used.
    #[error("the authority's certificate cannot be used")]
    Root(#[source] rustls::Error),
    /// There is nobody whose word would count.
    #[error("there is no authority whose certificates could be believed")]
    NoRoots,
    /// Our own certificate cannot be used, or not with this key.
    #[error("our certificate cannot be used")]
    Identity(#[source] rustls::Error),
    /// The library and its sums do not fit.
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
    /// The library lacks the cipher that every connection begins with.
    #[error("cannot set up QUIC: its first cipher is missing")]
    NoInitialCipher,
}

impl Clone for Identity {
    fn clone(&self) -> Identity {
        Identity { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl fmt::Debug for QuicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuicClient")
    }
}

impl fmt::Debug for QuicServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuicServer")
    }
}
