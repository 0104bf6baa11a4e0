//! A client that shows by a signature who it is (`private_key_jwt`, RFC 7523).

use std::fmt;

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::Value;
use thiserror::Error;

use super::base64url::base64url;
use super::identity::Signs;
use crate::collect::from_base64;

/// How long a signature counts.
const LIFE_SECONDS: u64 = 60;
/// Shorter RSA keys sign nothing.
const RSA_BYTES_MIN: usize = 2048 / 8;

/// A key that signs.
pub struct SigningKey(Pair);

enum Pair {
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

impl SigningKey {
    /// Reads PKCS#8 in PEM.
    pub fn read(pem: &str) -> Result<SigningKey, BadKey> {
        let der = der(pem).ok_or(BadKey::NoPem)?;
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random);
        if let Ok(pair) = p256 {
            return Ok(SigningKey(Pair::P256(Box::new(pair))));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            return Ok(SigningKey(Pair::Ed25519(pair)));
        }
        match RsaKeyPair::from_pkcs8(&der) {
            Ok(pair) if RSA_BYTES_MIN <= pair.public().modulus_len() => {
                Ok(SigningKey(Pair::Rsa(Box::new(pair))))
            }
            _ => Err(BadKey::Kind),
        }
    }

    fn algorithm(&self) -> &'static str {
        match self.0 {
            Pair::P256(_) => "ES256",
            Pair::Rsa(_) => "RS256",
            Pair::Ed25519(_) => "EdDSA",
        }
    }

    /// What shows `issuer` that `client` asks.
    pub fn assertion(
        &self,
        client: &str,
        issuer: &str,
        signs: &Signs<'_>,
    ) -> Result<String, BadKey> {
        let quoted = |text: &str| Value::from(text).to_string();
        let kid = signs.key_id.map(|kid| format!(",\"kid\":{}", quoted(kid))).unwrap_or_default();
        let head = format!("{{\"alg\":\"{}\",\"typ\":\"JWT\"{kid}}}", self.algorithm());
        let (client, jti) = (quoted(client), base64url(&signs.chance));
        let (now, until) = (signs.now, signs.now + LIFE_SECONDS);
        let claims = format!(
            "{{\"iss\":{client},\"sub\":{client},\"aud\":{},\"jti\":\"{jti}\",\"iat\":{now},\
             \"exp\":{until}}}",
            quoted(issuer)
        );
        let said = format!("{}.{}", base64url(head.as_bytes()), base64url(claims.as_bytes()));
        Ok(format!("{said}.{}", base64url(&self.sign(said.as_bytes())?)))
    }

    fn sign(&self, said: &[u8]) -> Result<Vec<u8>, BadKey> {
        let random = SystemRandom::new();
        match &self.0 {
            Pair::P256(pair) => {
                let signature = pair.sign(&random, said).map_err(|_| BadKey::Kind)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => Ok(pair.sign(said).as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, said, &mut signature);
                signed.map_err(|_| BadKey::Kind)?;
                Ok(signature)
            }
        }
    }
}

/// The bytes of the one block of a PEM text.
fn der(pem: &str) -> Option<Vec<u8>> {
    const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
    const END: &str = "-----END PRIVATE KEY-----";
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let text: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    from_base64(&text)
}

/// Why a key signs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadKey {
    #[error("it is no PKCS#8 key in PEM")]
    NoPem,
    #[error("it is no key of P-256, RSA (2048 bits or more) or Ed25519")]
    Kind,
    #[error("there is no private key to show who we are")]
    Missing,
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, KeyPair as _, UnparsedPublicKey};

    use super::*;
    use crate::collect::base64;
    use crate::oauth::base64url::from_base64url;
    use crate::oauth::hidden::Hidden;

    #[test]
    fn an_assertion_says_who_asks_whom() {
        let random = SystemRandom::new();
        let der = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let body = base64(der.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let key = Hidden::new(pem);
        let signs = Signs { key: &key, key_id: Some("k1"), now: 1000, chance: [7; 16] };
        let read = SigningKey::read(key.reveal()).unwrap();
        let assertion = read.assertion("me", "https://a.example", &signs).unwrap();
        let parts: Vec<&str> = assertion.split('.').collect();
        let text = |part: &str| String::from_utf8(from_base64url(part).unwrap()).unwrap();
        assert_eq!(text(parts[0]), r#"{"alg":"EdDSA","typ":"JWT","kid":"k1"}"#);
        assert_eq!(
            text(parts[1]),
            r#"{"iss":"me","sub":"me","aud":"https://a.example","jti":"BwcHBwcHBwcHBwcHBwcHBw","iat":1000,"exp":1060}"#
        );
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
        let said = format!("{}.{}", parts[0], parts[1]);
        let signature = from_base64url(parts[2]).unwrap();
        UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref())
            .verify(said.as_bytes(), &signature)
            .unwrap();
    }

    #[test]
    fn three_kinds_of_keys_sign() {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pem =
            |body: &str| format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----");
        let key = SigningKey::read(&pem(&base64(der.as_ref()))).unwrap();
        assert_eq!((key.algorithm(), key.sign(b"x").unwrap().len()), ("ES256", 64));
        assert_eq!(SigningKey::read("x").err(), Some(BadKey::NoPem));
        assert_eq!(SigningKey::read(&pem("AAAA")).err(), Some(BadKey::Kind));
    }
}
