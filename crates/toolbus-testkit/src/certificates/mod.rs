//! Certificates for TLS, made for one test and gone with it.

mod authority;

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};

use crate::scratch::Scratch;

pub use authority::{Authority, Leaf};

/// An authority with certificates for `localhost` and for a client, as the files `ca.pem`,
/// `server.pem`, `server.key`, `client.pem` and `client.key`.
#[derive(Debug)]
pub struct Certificates {
    scratch: Scratch,
}

impl Certificates {
    /// Makes an authority that no system trusts.
    #[expect(clippy::new_without_default, reason = "two authorities are not the same")]
    #[expect(clippy::unwrap_used, reason = "a test that cannot make them has failed")]
    pub fn new() -> Certificates {
        let scratch = Scratch::new();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(scratch.file("ca.pem"), ca.pem()).unwrap();
        for (name, usage) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate().unwrap();
            let cert = params.signed_by(&key, &ca).unwrap();
            fs::write(scratch.file(&format!("{name}.pem")), cert.pem()).unwrap();
            fs::write(scratch.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Certificates { scratch }
    }

    /// The path of one of the files, or of one beside them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The same, as text.
    pub fn file(&self, name: &str) -> String {
        self.scratch.file(name)
    }
}
