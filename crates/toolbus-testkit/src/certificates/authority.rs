//! An authority in memory, for those who take certificates as bytes.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};

/// An authority that no system trusts.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate that is good for both ends of a connection on this machine.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// DER.
    pub certificate: Vec<u8>,
    /// DER of PKCS #8.
    pub key: Vec<u8>,
}

#[expect(clippy::unwrap_used, reason = "a test that cannot make them has failed")]
impl Authority {
    /// Makes one.
    #[expect(clippy::new_without_default, reason = "two authorities are not the same")]
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its own certificate, as DER.
    pub fn root(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// A certificate for `name`, for `localhost` and for the addresses of this machine.
    pub fn leaf(&self, name: &str) -> Leaf {
        let names = [name, "localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Leaf { certificate: certificate.der().to_vec(), key: key.serialize_der() }
    }
}
