//! Certificates against another maker of them, under foreign CAs, and with every byte wrong.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, SanType,
    SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{ServerName, UnixTime};
use toolbus_proto::orchestra::certificates::der::{self, Reader, tag};
use toolbus_proto::orchestra::certificates::x509::{self, Parts, id};

use super::making::{self, Certificate, Key, common_name};

const NOW: i64 = 1_800_000_000;

/// What rcgen makes of the same.
fn params(name: &str, until: i64, made: &Certificate) -> CertificateParams {
    let at = |seconds: i64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds as u64);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Orchestra");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = at(NOW - 60);
    params.not_after = at(until);
    let made = made.clone().into_der();
    let signed = Parts::read(&made).unwrap().signed;
    let mut parts = Reader::new(signed).within(tag::SEQUENCE).unwrap();
    let (_version, serial) = (parts.value().unwrap(), parts.value().unwrap());
    params.serial_number = Some(SerialNumber::from_slice(serial.content));
    params
}

fn rcgen_key(key: &Key) -> KeyPair {
    KeyPair::from_pem(&key.to_pem()).unwrap()
}

#[test]
fn ours_are_those_of_another_maker_to_the_byte() {
    let (ca_key, key) = (Key::generate(), Key::generate());
    let ca = making::ca(&ca_key, NOW).unwrap();
    let mut ca_params = params("Orchestra CA", NOW + 365 * 86_400, &ca);
    ca_params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    ca_params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let theirs = ca_params.self_signed(&rcgen_key(&ca_key)).unwrap();
    assert_eq!(&ca.clone().into_der(), theirs.der());

    // A name of so many letters makes all lengths longer.
    for name in ["hub", &"n".repeat(200)] {
        let leaf = making::leaf(name, &key, &ca, &ca_key, NOW).unwrap();
        let mut leaf_params = params(name, NOW + 365 * 86_400, &leaf);
        leaf_params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf_params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        leaf_params.use_authority_key_identifier_extension = true;
        leaf_params.subject_alt_names = vec![
            SanType::DnsName(name.try_into().unwrap()),
            SanType::DnsName("localhost".try_into().unwrap()),
            SanType::IpAddress([127, 0, 0, 1].into()),
            SanType::IpAddress(std::net::Ipv6Addr::LOCALHOST.into()),
        ];
        let issuer = Issuer::from_params(&ca_params, rcgen_key(&ca_key));
        let theirs = leaf_params.signed_by(&rcgen_key(&key), &issuer).unwrap();
        assert_eq!(&leaf.into_der(), theirs.der());
    }
}

/// A CA that is not ours: its name, its key, and whether it says by what its key is known.
fn foreign(parts: &[(DnType, DnValue)], key: &KeyPair, has_identifier: bool) -> Certificate {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in parts {
        params.distinguished_name.push(kind.clone(), value.clone());
    }
    if has_identifier {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_identifier_method = KeyIdMethod::PreSpecified(b"known so".to_vec());
    }
    let made = params.self_signed(key).unwrap();
    Certificate::read(made.pem().as_bytes()).unwrap()
}

#[test]
fn foreign_cas_are_named_as_they_name_themselves() {
    let parts = [
        (DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap())),
        (DnType::OrganizationName, DnValue::BmpString("Größe".try_into().unwrap())),
        (DnType::OrganizationalUnitName, DnValue::TeletexString("old".try_into().unwrap())),
        (DnType::LocalityName, DnValue::UniversalString("幅".try_into().unwrap())),
        (
            DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]),
            DnValue::Ia5String("ca@example.com".try_into().unwrap()),
        ),
        (DnType::CustomDnType(vec![2, 999, 4_294_967_296]), DnValue::Utf8String("ours".into())),
        (DnType::CommonName, DnValue::Utf8String("Die CA".into())),
    ];
    for algorithm in
        [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384]
    {
        for has_identifier in [true, false] {
            let pair = KeyPair::generate_for(algorithm).unwrap();
            let ca = foreign(&parts, &pair, has_identifier);
            assert_eq!(
                ca.subject,
                "C=DE, O=Größe, OU=old, L=00005E45, Email=ca@example.com, \
                 OID(2.999.4294967296)=ours, CN=Die CA"
            );
            let ca_key = Key::read(pair.serialize_pem().as_bytes()).unwrap();
            assert!(ca.is_of(&ca_key) && ca.is_signed_by(&ca));
            let key = Key::generate();
            let leaf = making::leaf("hub", &key, &ca, &ca_key, NOW).unwrap();
            assert!(leaf.is_signed_by(&ca) && leaf.is_of(&key) && !leaf.is_of(&ca_key));
            assert!(!ca.is_signed_by(&leaf));
            let mut issuer = CertificateParams::default();
            if has_identifier {
                issuer.key_identifier_method = KeyIdMethod::PreSpecified(b"known so".to_vec());
            }
            let issuer = Issuer::new(issuer, &pair);
            let mut params = CertificateParams::default();
            params.use_authority_key_identifier_extension = true;
            let theirs = params.signed_by(&pair, &issuer).unwrap();
            let known_as = |certificate: &[u8]| {
                let at = certificate.windows(3).position(|part| part == id::AUTHORITY_KEY).unwrap();
                Reader::new(&certificate[at + 3..]).value().unwrap().content.to_vec()
            };
            assert_eq!(known_as(&leaf.into_der()), known_as(theirs.der()));
        }
    }
}

#[test]
fn a_peer_that_trusts_a_foreign_ca_trusts_its_leaf() {
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let parts = [(DnType::CommonName, DnValue::PrintableString("Their CA".try_into().unwrap()))];
    let ca = foreign(&parts, &pair, true);
    let ca_key = Key::read(pair.serialize_pem().as_bytes()).unwrap();
    let leaf = making::leaf("hub", &Key::generate(), &ca, &ca_key, NOW).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(ca.into_der()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW as u64));
    for name in ["hub", "localhost", "127.0.0.1", "::1"] {
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&leaf.clone().into_der(), &[], &name, &[], now).unwrap();
    }
}

#[test]
fn names_that_repeat_or_join_attributes_stay_as_they_are() {
    let part = |id: &[u8], text: &str| {
        let id = der::write(tag::OBJECT_IDENTIFIER, &[id]);
        der::write(tag::SEQUENCE, &[&id, &der::write(tag::UTF8_STRING, &[text.as_bytes()])])
    };
    let domain = [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25];
    let set = |parts: &[&[u8]]| der::write(tag::SET, parts);
    let name = der::write(
        tag::SEQUENCE,
        &[
            &set(&[&part(&domain, "com")]),
            &set(&[&part(&domain, "example")]),
            &set(&[&part(id::COMMON_NAME, "ca"), &part(id::ORGANIZATION, "us")]),
        ],
    );
    let ca_key = Key::generate();
    let ca = making::ca(&ca_key, NOW).unwrap().into_der();
    let old = Parts::read(&ca).unwrap();
    let named = old.signed.windows(old.subject.bytes().len());
    let places = named.enumerate().filter(|(_, part)| *part == old.subject.bytes());
    let [(first, _), (second, _)] = places.collect::<Vec<_>>()[..] else { panic!("two names") };
    let length = old.subject.bytes().len();
    let content = [
        &old.signed[4..first],
        &name,
        &old.signed[first + length..second],
        &name,
        &old.signed[second + length..],
    ]
    .concat();
    let renamed = der::write(
        tag::SEQUENCE,
        &[
            &der::write(tag::SEQUENCE, &[&content]),
            &der::write(tag::SEQUENCE, &[old.signature_algorithm]),
            &der::write_bits(old.signature),
        ],
    );
    let ca = Certificate::of(renamed.into()).unwrap();
    assert_eq!(ca.subject, "DC=com, DC=example, CN=ca + O=us");
    let leaf = making::leaf("hub", &Key::generate(), &ca, &ca_key, NOW).unwrap();
    assert!(leaf.is_signed_by(&ca));
}

#[test]
fn what_is_cut_or_wrong_is_no_certificate() {
    let ca_key = Key::generate();
    let ca = making::ca(&ca_key, NOW).unwrap();
    let leaf = making::leaf("hub", &Key::generate(), &ca, &ca_key, NOW).unwrap();
    let whole = leaf.into_der().to_vec();
    assert_eq!(common_name(&whole).as_deref(), Some("hub"));
    for end in 0..whole.len() {
        assert!(Parts::read(&whole[..end]).is_none(), "cut at {end}");
    }
    assert!(Parts::read(&[&whole[..], &[0]].concat()).is_none());
    for at in 0..whole.len() {
        for wrong in [0, 1, 0x1f, 0x7f, 0x80, 0x81, 0x82, 0x83, 0x84, 0x88, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = wrong;
            let Some(parts) = Parts::read(&bytes) else { continue };
            let _ = (parts.subject.to_text(), parts.issuer.to_text(), parts.subject.common_name());
            // Whatever can still be read is not what was signed.
            let changed = Certificate::of(bytes.clone().into()).unwrap();
            assert!(bytes == whole || !changed.is_signed_by(&ca), "{wrong} at {at}");
        }
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let value = |bytes: &[u8]| Reader::new(bytes).value().map(|value| value.content.to_vec());
    assert_eq!(value(&[4, 1, 7]), Some(vec![7]));
    for wrong in [
        &[][..],
        &[4],
        &[4, 2, 7],
        &[4, 0x80, 7, 0, 0],
        &[4, 0x81],
        &[4, 0x81, 1, 7],
        &[4, 0x82, 0, 1, 7],
        &[4, 0x83, 0xff, 0xff, 0xff],
        &[4, 0x84, 0, 0, 0, 1, 7],
        &[4, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[4, 0xff],
        &[0x1f, 0x81, 0, 1],
    ] {
        assert_eq!(value(wrong), None, "{wrong:?}");
    }
    for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x1_0000] {
        let content = vec![7; length];
        assert_eq!(value(&der::write(4, &[&content])), Some(content));
    }
}

#[test]
fn times_are_those_of_the_calendar() {
    let read = |text: &str| {
        let tag = if text.len() == 13 { tag::UTC_TIME } else { tag::GENERALIZED_TIME };
        x509::time(Reader::new(&der::write(tag, &[text.as_bytes()])).value().unwrap())
    };
    for (text, seconds) in [
        ("700101000000Z", Some(0)),
        ("691231235959Z", Some(-1)),
        ("491231235959Z", Some(2_524_607_999)),
        ("500101000000Z", Some(-631_152_000)),
        ("000229120000Z", Some(951_825_600)),
        ("20500101000000Z", Some(2_524_608_000)),
        ("99991231235959Z", Some(253_402_300_799)),
        ("00000101000000Z", Some(-62_167_219_200)),
        ("010229000000Z", None),
        ("21000229000000Z", None),
        ("701301000000Z", None),
        ("700001000000Z", None),
        ("700100000000Z", None),
        ("700431000000Z", None),
        ("700101240000Z", None),
        ("700101006000Z", None),
        ("700101000060Z", None),
        ("7001010000000", None),
        ("70010100000:Z", None),
        ("7001010000+00", None),
    ] {
        assert_eq!(read(text), seconds, "{text}");
        let written = |tag: u8| der::write(tag, &[text.as_bytes()]);
        if let Some(seconds @ 0..) = seconds {
            let wanted = if seconds < 2_524_608_000 { written(0x17) } else { written(0x18) };
            assert_eq!(making::time(seconds), wanted, "{text}");
        }
    }
}
