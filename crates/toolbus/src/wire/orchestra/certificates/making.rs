//! Certificates and keys: what stands in ours, and what is read of any.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use toolbus_proto::collect::base64;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::CertificatesError;
use crate::chance;

const DAY: i64 = 24 * 60 * 60;
/// Clocks differ a little.
const VALID_BEFORE: i64 = 60;
const VALID_FOR: i64 = 365 * DAY;

/// What stands before the 32 bytes of an Ed25519 key in PKCS#8 version 0.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A key with which certificates are signed and handshakes proven.
pub(super) struct Key {
    der: Vec<u8>,
    pair: KeyPair,
}

impl Key {
    /// A new one, of Ed25519.
    pub(super) fn generate() -> Key {
        let seed: [u8; 32] = chance::bytes();
        let der = [&ED25519_PKCS8[..], &seed].concat();
        let pair = KeyPair::try_from(der.as_slice()).expect("any 32 bytes are a key of Ed25519");
        Key { der, pair }
    }

    /// The key in a PEM file, of whatever kind.
    pub(super) fn read(pem: &[u8]) -> Option<Key> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let der = der.secret_pkcs8_der().to_vec();
        let pair = KeyPair::try_from(der.as_slice()).ok()?;
        Some(Key { der, pair })
    }

    pub(super) fn to_pem(&self) -> String {
        pem("PRIVATE KEY", &self.der)
    }

    pub(super) fn into_der(self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.der).into()
    }
}

/// A certificate, and what is known of it.
#[derive(Clone)]
pub(super) struct Certificate {
    der: CertificateDer<'static>,
    pub(super) subject: String,
    /// Seconds since 1970.
    pub(super) not_after: i64,
    public_key: Vec<u8>,
}

impl Certificate {
    /// The first certificate in a PEM file.
    pub(super) fn read(pem: &[u8]) -> Option<Certificate> {
        Certificate::of(CertificateDer::from_pem_slice(pem).ok()?)
    }

    fn of(der: CertificateDer<'static>) -> Option<Certificate> {
        let (rest, read) = X509Certificate::from_der(&der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let subject = read.subject().to_string();
        let not_after = read.validity().not_after.timestamp();
        let public_key = read.public_key().subject_public_key.data.to_vec();
        Some(Certificate { subject, not_after, public_key, der })
    }

    /// Less than none once it has expired.
    pub(super) fn days_left(&self, now: i64) -> i64 {
        (self.not_after - now).div_euclid(DAY)
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        self.public_key == key.pair.der_bytes()
    }

    /// Did the key of `ca` sign it?
    pub(super) fn is_signed_by(&self, ca: &Certificate) -> bool {
        let (Ok((_, leaf)), Ok((_, ca))) =
            (X509Certificate::from_der(&self.der), X509Certificate::from_der(&ca.der))
        else {
            return false;
        };
        leaf.issuer() == ca.subject() && leaf.verify_signature(Some(ca.public_key())).is_ok()
    }

    pub(super) fn to_pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }

    pub(super) fn into_der(self) -> CertificateDer<'static> {
        self.der
    }
}

/// The name in a certificate that a peer has shown.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// A CA that signs for itself.
pub(super) fn ca(key: &Key, now: i64) -> Result<Certificate, CertificatesError> {
    let failed = |source| CertificatesError::Make { name: super::CA.to_owned(), source };
    let mut params = params("Orchestra CA", now, now + VALID_FOR);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let made = params.self_signed(&key.pair).map_err(failed)?;
    Certificate::of(made.der().clone()).ok_or(failed(rcgen::Error::CouldNotParseCertificate))
}

/// A certificate for both ends of a connection, never valid for longer than its CA.
pub(super) fn leaf(
    name: &str,
    key: &Key,
    ca: &Certificate,
    ca_key: &Key,
    now: i64,
) -> Result<Certificate, CertificatesError> {
    let failed = |source| CertificatesError::Make { name: name.to_owned(), source };
    let mut params = params(name, now, ca.not_after.min(now + VALID_FOR));
    params.is_ca = IsCa::NoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params.subject_alt_names = vec![
        SanType::DnsName(name.try_into().map_err(failed)?),
        SanType::DnsName("localhost".try_into().map_err(failed)?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    let issuer = Issuer::from_ca_cert_der(&ca.der, &ca_key.pair).map_err(failed)?;
    let made = params.signed_by(&key.pair, &issuer).map_err(failed)?;
    Certificate::of(made.der().clone()).ok_or(failed(rcgen::Error::CouldNotParseCertificate))
}

fn params(name: &str, now: i64, until: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Orchestra");
    params.distinguished_name.push(DnType::CommonName, name);
    let at = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.max(0).unsigned_abs())
    };
    params.not_before = at(now - VALID_BEFORE);
    params.not_after = at(until);
    let serial: [u8; 16] = chance::bytes();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
