//! Certificates and keys: what stands in ours, and what is read of any.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{AlgorithmIdentifier, alg_id};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::SigningKey;
use sha2::{Digest, Sha256};
use toolbus_proto::collect::base64;
use toolbus_proto::orchestra::Timestamp;
use toolbus_proto::orchestra::certificates::der::{self, Reader, tag};
use toolbus_proto::orchestra::certificates::x509::{self, Parts, PublicKey, id};

use super::CertificatesError;
use crate::chance;

const DAY: i64 = 24 * 60 * 60;
/// Clocks differ a little.
const VALID_BEFORE: i64 = 60;
const VALID_FOR: i64 = 365 * DAY;

/// What stands before the 32 bytes of an Ed25519 key in PKCS#8 version 0.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// With what keys sign certificates, each with what stands in them of it.
const ALGORITHMS: [(SignatureScheme, AlgorithmIdentifier); 4] = [
    (SignatureScheme::ED25519, alg_id::ED25519),
    (SignatureScheme::ECDSA_NISTP256_SHA256, alg_id::ECDSA_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, alg_id::ECDSA_SHA384),
    (SignatureScheme::RSA_PKCS1_SHA256, alg_id::RSA_PKCS1_SHA256),
];

/// A key with which certificates are signed and handshakes proven.
pub(super) struct Key {
    der: Vec<u8>,
    signing: Arc<dyn SigningKey>,
    /// The public half, as it stands in a certificate.
    public: Vec<u8>,
}

impl Key {
    /// A new one, of Ed25519.
    pub(super) fn generate() -> Key {
        let seed: [u8; 32] = chance::bytes();
        let der = [&ED25519_PKCS8[..], &seed].concat();
        Key::of(der).expect("any 32 bytes are a key of Ed25519")
    }

    /// The key in a PEM file, of whatever kind.
    pub(super) fn read(pem: &[u8]) -> Option<Key> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        Key::of(der.secret_pkcs8_der().to_vec())
    }

    fn of(der: Vec<u8>) -> Option<Key> {
        let pkcs8 = PrivateKeyDer::Pkcs8(der.as_slice().into());
        let signing = ring::sign::any_supported_type(&pkcs8).ok()?;
        let public = signing.public_key()?.to_vec();
        Some(Key { der, signing, public })
    }

    /// The bits of the public half.
    fn public_bits(&self) -> Option<&[u8]> {
        let info = Reader::new(&self.public).expect(tag::SEQUENCE)?;
        PublicKey::read(info).map(|key| key.bits)
    }

    /// By what its certificates name it, unless they say otherwise (RFC 7093).
    fn identifier(&self) -> Vec<u8> {
        Sha256::digest(&self.public)[..20].to_vec()
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

    pub(super) fn of(der: CertificateDer<'static>) -> Option<Certificate> {
        let parts = Parts::read(&der)?;
        let subject = parts.subject.to_text();
        let (not_after, public_key) = (parts.not_after, parts.key.bits.to_vec());
        Some(Certificate { subject, not_after, public_key, der })
    }

    /// Less than none once it has expired.
    pub(super) fn days_left(&self, now: i64) -> i64 {
        (self.not_after - now).div_euclid(DAY)
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        Some(self.public_key.as_slice()) == key.public_bits()
    }

    /// Did the key of `ca` sign it?
    pub(super) fn is_signed_by(&self, ca: &Certificate) -> bool {
        let (Some(leaf), Some(ca)) = (Parts::read(&self.der), Parts::read(&ca.der)) else {
            return false;
        };
        let is_verified = || {
            let known = ring::default_provider().signature_verification_algorithms.all;
            known.iter().any(|algorithm| {
                algorithm.signature_alg_id().as_ref() == leaf.signature_algorithm
                    && algorithm.public_key_alg_id().as_ref() == ca.key.algorithm
                    && algorithm.verify_signature(ca.key.bits, leaf.signed, leaf.signature).is_ok()
            })
        };
        leaf.issuer.bytes() == ca.subject.bytes() && is_verified()
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
    Parts::read(certificate)?.subject.common_name().map(str::to_owned)
}

/// A CA that signs for itself.
pub(super) fn ca(key: &Key, now: i64) -> Result<Certificate, CertificatesError> {
    let subject = subject("Orchestra CA");
    // It signs certificates and lists of those that are no longer valid.
    let usage = [tag::BIT_STRING, 2, 1, 0b0000_0110];
    let identifier = der::write(tag::OCTET_STRING, &[&key.identifier()]);
    // One CA more may stand between it and a leaf.
    let is_ca = der::write(tag::BOOLEAN, &[&[0xff]]);
    let constraints = der::write(tag::SEQUENCE, &[&is_ca, &der::write_number(&[1])]);
    let made = signed(
        key,
        &subject,
        &Contents {
            serial: chance::bytes(),
            subject: &subject,
            public_key: &key.public,
            now,
            until: now + VALID_FOR,
            extensions: [
                x509::write_extension(id::KEY_USAGE, true, &usage),
                x509::write_extension(id::SUBJECT_KEY, false, &identifier),
                x509::write_extension(id::BASIC_CONSTRAINTS, true, &constraints),
            ]
            .concat(),
        },
    );
    made.map_err(|source| CertificatesError::Make { name: super::CA.to_owned(), source })
}

/// A certificate for both ends of a connection, never valid for longer than its CA.
pub(super) fn leaf(
    name: &str,
    key: &Key,
    ca: &Certificate,
    ca_key: &Key,
    now: i64,
) -> Result<Certificate, CertificatesError> {
    let parts = Parts::read(&ca.der);
    let known_as = parts.and_then(|ca| ca.key_identifier).map(<[u8]>::to_vec);
    let authority = known_as.unwrap_or_else(|| ca_key.identifier());
    let authority = der::write(tag::numbered_bytes(0), &[&authority]);
    let usage = [tag::BIT_STRING, 2, 7, 0b1000_0000];
    let purposes = [id::SERVER, id::CLIENT].map(|id| der::write(tag::OBJECT_IDENTIFIER, &[id]));
    let host = |name: &str| der::write(tag::numbered_bytes(2), &[name.as_bytes()]);
    let address = |octets: &[u8]| der::write(tag::numbered_bytes(7), &[octets]);
    let names = [
        host(name),
        host("localhost"),
        address(&Ipv4Addr::LOCALHOST.octets()),
        address(&Ipv6Addr::LOCALHOST.octets()),
    ];
    let sequence = |content: &[u8]| der::write(tag::SEQUENCE, &[content]);
    let made = signed(
        ca_key,
        parts.map_or(&[], |ca| ca.subject.bytes()),
        &Contents {
            serial: chance::bytes(),
            subject: &subject(name),
            public_key: &key.public,
            now,
            until: ca.not_after.min(now + VALID_FOR),
            extensions: [
                x509::write_extension(id::AUTHORITY_KEY, false, &sequence(&authority)),
                x509::write_extension(id::OTHER_NAMES, false, &sequence(&names.concat())),
                x509::write_extension(id::KEY_USAGE, true, &usage),
                x509::write_extension(id::PURPOSES, false, &sequence(&purposes.concat())),
            ]
            .concat(),
        },
    );
    made.map_err(|source| CertificatesError::Make { name: name.to_owned(), source })
}

fn subject(name: &str) -> Vec<u8> {
    x509::write_name(&[(id::ORGANIZATION, "Orchestra"), (id::COMMON_NAME, name)])
}

/// What stands in a certificate of ours.
struct Contents<'a> {
    serial: [u8; 16],
    subject: &'a [u8],
    public_key: &'a [u8],
    now: i64,
    until: i64,
    extensions: Vec<u8>,
}

/// The certificate, signed by `key` in the name of `issuer`.
fn signed(key: &Key, issuer: &[u8], contents: &Contents<'_>) -> Result<Certificate, rustls::Error> {
    let unfit = || rustls::Error::General("the key of the CA cannot sign certificates".to_owned());
    let usable = ALGORITHMS.map(|(scheme, _)| scheme);
    let signer = key.signing.choose_scheme(&usable).ok_or_else(unfit)?;
    let known = ALGORITHMS.iter().find(|(scheme, _)| *scheme == signer.scheme());
    let (_, algorithm) = known.ok_or_else(unfit)?;
    let algorithm = der::write(tag::SEQUENCE, &[algorithm.as_ref()]);

    let version = der::write(tag::numbered(0), &[&der::write_number(&[2])]);
    let times = [contents.now - VALID_BEFORE, contents.until].map(time);
    let extensions = der::write(tag::SEQUENCE, &[&contents.extensions]);
    let to_sign = der::write(
        tag::SEQUENCE,
        &[
            &version,
            &der::write_number(&contents.serial),
            &algorithm,
            issuer,
            &der::write(tag::SEQUENCE, &[&times.concat()]),
            contents.subject,
            contents.public_key,
            &der::write(tag::numbered(3), &[&extensions]),
        ],
    );
    let signature = der::write_bits(&signer.sign(&to_sign)?);
    let made = der::write(tag::SEQUENCE, &[&to_sign, &algorithm, &signature]);
    Certificate::of(made.into()).ok_or_else(|| {
        rustls::Error::General("the certificate that was made cannot be read".to_owned())
    })
}

pub(super) fn time(seconds: i64) -> Vec<u8> {
    let text = Timestamp { seconds: seconds.max(0), nanos: 0 }.to_rfc3339();
    // The last moment that a certificate can name stands for all behind it.
    x509::write_time(&text.unwrap_or_else(|| "9999-12-31T23:59:59Z".to_owned()))
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
