//! Keys by which tokens are checked, as JSON Web Key Sets have them (RFC 7517).
//!
//! What we cannot use is passed over in the set of a sign-in server, which may have keys for many
//! things. In a file of the user's a key that ought to be secret is a mistake.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::{Map, Value};
use thiserror::Error;

use super::base64url::from_base64url;
use super::document::{BadDocument, DEPTH_MAX, object};

/// How large a set may be.
pub const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// How many keys may be in it.
const KEYS_MAX: usize = 100;
const RSA_BITS_MIN: usize = 2048;
const P256_BYTES: usize = 32;
/// In front of a point that is written whole.
const UNCOMPRESSED: u8 = 4;

/// How tokens may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

    /// As tokens name it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The one of this name, case and all.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The keys of one issuer.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

#[derive(Clone, PartialEq, Eq)]
struct PublicKey {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// What a key is not there for.
enum Unfit {
    /// For tokens.
    Other,
    /// For others to see.
    Secret(&'static str),
}

impl KeySet {
    /// Reads what a sign-in server has published. What cannot be used is passed over.
    pub fn read(text: &[u8]) -> Result<KeySet, BadKeySet> {
        let keys = entries(text)?;
        let keys = keys.iter().filter_map(|key| public_key(key.as_object()?).ok());
        Ok(KeySet { keys: keys.collect() })
    }

    /// Reads a file of the user's, which must have a key for one of these algorithms.
    pub fn read_file(text: &[u8], algorithms: &[Algorithm]) -> Result<KeySet, BadKeySet> {
        let mut keys = Vec::new();
        for key in entries(text)? {
            let key = key.as_object().ok_or(BadKeySet::NoSet)?;
            match public_key(key) {
                Ok(key) => keys.push(key),
                Err(Unfit::Secret(member)) => return Err(BadKeySet::Secret { member }),
                Err(Unfit::Other) => {}
            }
        }
        let fits = |key: &PublicKey| algorithms.contains(&key.material.algorithm());
        match keys.iter().any(fits) {
            true => Ok(KeySet { keys }),
            false => Err(BadKeySet::NoneFits),
        }
    }

    /// Has it a key of this name, whatever it is for?
    pub fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The key for a token that is signed so: that of its name, or the only one that fits.
    pub(super) fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Option<FittingKey<'_>> {
        let fits = |key: &&PublicKey| key.material.algorithm() == algorithm;
        let mut fitting = self.keys.iter().filter(fits);
        let key = match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id))?,
            None => {
                let only = fitting.next()?;
                fitting.next().is_none().then_some(only)?
            }
        };
        Some(FittingKey(&key.material))
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

/// A key that was found.
pub(super) struct FittingKey<'a>(&'a Material);

impl FittingKey<'_> {
    /// Is it the signature of this by the key?
    pub(super) fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match self.0 {
            Material::Rsa { modulus, exponent } => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                    &RSA_PKCS1_2048_8192_SHA256,
                    signed,
                    signature,
                )
            }
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(signed, signature)
            }
        };
        verified.is_ok()
    }
}

impl Material {
    fn algorithm(&self) -> Algorithm {
        match self {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }
}

fn entries(text: &[u8]) -> Result<Vec<Value>, BadKeySet> {
    let mut set = object(text, DEPTH_MAX)?;
    let Some(Value::Array(keys)) = set.remove("keys") else { return Err(BadKeySet::NoSet) };
    match keys.len() <= KEYS_MAX {
        true => Ok(keys),
        false => Err(BadKeySet::TooMany),
    }
}

fn public_key(key: &Map<String, Value>) -> Result<PublicKey, Unfit> {
    for member in ["d", "k"] {
        if key.contains_key(member) {
            return Err(Unfit::Secret(member));
        }
    }
    let text = |name: &str| key.get(name).and_then(Value::as_str).ok_or(Unfit::Other);
    let bytes = |name: &str| from_base64url(text(name)?).ok_or(Unfit::Other);
    if key.get("use").is_some_and(|use_| use_ != "sig") {
        return Err(Unfit::Other);
    }
    let verifies =
        |all: &Value| all.as_array().is_some_and(|all| all.iter().any(|it| it == "verify"));
    if key.get("key_ops").is_some_and(|all| !verifies(all)) {
        return Err(Unfit::Other);
    }
    let material = match (text("kty")?, key.get("crv").and_then(Value::as_str)) {
        ("RSA", _) => {
            let without_zeros = |bytes: Vec<u8>| -> Vec<u8> {
                bytes.into_iter().skip_while(|byte| *byte == 0).collect()
            };
            let (modulus, exponent) = (without_zeros(bytes("n")?), without_zeros(bytes("e")?));
            let first = modulus.first().ok_or(Unfit::Other)?;
            let bits = modulus.len() * 8 - first.leading_zeros() as usize;
            if bits < RSA_BITS_MIN || exponent.is_empty() {
                return Err(Unfit::Other);
            }
            Material::Rsa { modulus, exponent }
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != P256_BYTES || y.len() != P256_BYTES {
                return Err(Unfit::Other);
            }
            Material::P256([&[UNCOMPRESSED], &*x, &*y].concat())
        }
        ("OKP", Some("Ed25519")) => {
            let x = bytes("x")?;
            if x.len() != 32 {
                return Err(Unfit::Other);
            }
            Material::Ed25519(x)
        }
        _ => return Err(Unfit::Other),
    };
    if key.get("alg").is_some_and(|alg| alg != material.algorithm().name()) {
        return Err(Unfit::Other);
    }
    Ok(PublicKey { id: text("kid").ok().map(str::to_owned), material })
}

/// Why there is no set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadKeySet {
    #[error(transparent)]
    Document(#[from] BadDocument),
    #[error("it is no set of keys")]
    NoSet,
    #[error("it has more than {KEYS_MAX} keys")]
    TooMany,
    #[error("it has a key that is to be secret (`{member}`)")]
    Secret { member: &'static str },
    #[error("it has no key for the algorithms that are allowed")]
    NoneFits,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC: &str = r#""kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM""#;
    const OKP: &str =
        r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;

    fn has(key: &str, algorithm: Algorithm) -> bool {
        let set = KeySet::read(format!(r#"{{"keys":[{{{key}}}]}}"#).as_bytes()).unwrap();
        set.find(algorithm, None).is_some()
    }

    #[test]
    fn keys_for_other_things_are_not_there() {
        assert!(has(EC, Algorithm::Es256));
        assert!(has(OKP, Algorithm::EdDsa));
        assert!(!has(EC, Algorithm::EdDsa));
        assert!(!has(OKP, Algorithm::Rs256));
        for more in [
            r#""use":"enc""#,
            r#""use":1"#,
            r#""key_ops":["sign"]"#,
            r#""key_ops":"verify""#,
            r#""alg":"ES384""#,
            r#""d":"AAAA""#,
            r#""k":"AAAA""#,
        ] {
            assert!(!has(&format!("{EC},{more}"), Algorithm::Es256), "{more}");
        }
        for more in [r#""use":"sig""#, r#""key_ops":["sign","verify"]"#, r#""alg":"ES256""#] {
            assert!(has(&format!("{EC},{more}"), Algorithm::Es256), "{more}");
        }
        let short = EC.replace("MKBC", "");
        assert!(!has(&short, Algorithm::Es256));
        let small = format!(r#""kty":"RSA","e":"AQAB","n":"{}""#, "_".repeat(340));
        assert!(!has(&small, Algorithm::Rs256), "2040 bits");
        let large = format!(r#""kty":"RSA","e":"AQAB","n":"{}""#, "_".repeat(344));
        assert!(has(&large, Algorithm::Rs256), "2064 bits");
        let padded = format!(r#""kty":"RSA","e":"AQAB","n":"AAAA{}""#, "_".repeat(340));
        assert!(!has(&padded, Algorithm::Rs256), "2040 bits behind zeros");
    }

    #[test]
    fn a_token_without_a_name_of_a_key_needs_that_there_is_one() {
        let other = EC.replace("MKBC", "AKBC");
        let two = format!(r#"{{"keys":[{{{EC},"kid":"a"}},{{{other},"kid":"b"}},{{{OKP}}}]}}"#);
        let set = KeySet::read(two.as_bytes()).unwrap();
        assert!(set.find(Algorithm::Es256, None).is_none());
        assert!(set.find(Algorithm::EdDsa, None).is_some());
        assert!(set.find(Algorithm::Es256, Some("b")).is_some());
        assert!(set.find(Algorithm::EdDsa, Some("b")).is_none());
        assert!(set.has("a") && !set.has("c"));
    }

    #[test]
    fn a_file_has_public_keys_and_one_that_fits() {
        let told = |text: &str| match KeySet::read_file(text.as_bytes(), &[Algorithm::Es256]) {
            Ok(set) => format!("{set:?}"),
            Err(why) => why.to_string(),
        };
        assert_eq!(told(&format!(r#"{{"keys":[{{{EC},"kid":"a"}}]}}"#)), r#"[Some("a")]"#);
        let none = "it has no key for the algorithms that are allowed";
        assert_eq!(told(&format!(r#"{{"keys":[{{{OKP}}}]}}"#)), none);
        assert_eq!(told(r#"{"keys":[]}"#), none);
        assert_eq!(
            told(&format!(r#"{{"keys":[{{{EC}}},{{"kty":"oct","k":"c2VjcmV0"}}]}}"#)),
            "it has a key that is to be secret (`k`)"
        );
        assert_eq!(
            told(&format!(r#"{{"keys":[{{{EC},"d":"AAAA"}}]}}"#)),
            "it has a key that is to be secret (`d`)"
        );
        assert_eq!(told(&format!("{{{EC}}}")), "it is no set of keys");
        assert_eq!(told("no"), "it is no JSON");
        let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; 101].join(","));
        assert_eq!(told(&many), "it has more than 100 keys");
    }
}
