//! Whom a calling end believes whose authority the user has named.
//!
//! Most people's first certificate is its own authority, as `openssl req -x509` makes one. The rules
//! of public certificates refuse that at the end of a chain; where the user named the very
//! certificate that is shown, it is believed as it is.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use toolbus_proto::x509::Parts;

/// Believes those for whom these certificates vouch, and these themselves.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) by_chain: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.by_chain.verify_server_cert(shown, between, host, ocsp, now);
        if verified.is_ok() || !self.certificates.contains(shown) {
            return verified;
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, host)?;
        let Some(parts) = Parts::read(shown) else { return verified };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match () {
            () if now < parts.not_before => Err(CertificateError::NotValidYet.into()),
            () if parts.not_after < now => Err(CertificateError::Expired.into()),
            () => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_chain.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_chain.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_chain.supported_verify_schemes()
    }
}
