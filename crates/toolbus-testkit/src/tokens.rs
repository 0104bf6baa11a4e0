//! Tokens as sign-in servers make them, and the keys by which they are checked. Those who made them
//! sign in tests and nowhere else.

use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use toolbus_proto::collect::from_base64;
use toolbus_proto::oauth::base64url::base64url;

const RSA: &str = concat!(
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC2Yv/yh6tMB0tw7xeT83goShJH6L0oVZhr",
    "DiyKSgIeAqun3RPvg+dGtX1Gld1THFHZ3b/Qsbgug3O93pWYbNoVSvMAQd1KoSW7Z/oeOyNWn2GzL8tAM/Ge",
    "LSuG5tj4WT/768v1AtioTUwH07WYnDJAaHPKdKQEiAOamOxdyvt5G8Mu6q7X4Yav/xFszeRdtH4t7oOo2RWT",
    "8GbkVzt/KgE7QmMnMOFbCLQ0zA01/pNKqsSebWbLea4j8BIMZKSeb0DmT8Sz/LJV6tNkGNw55rJJkJLxhJOE",
    "rrR3jZ/Ot/EMJfrJkEiu1hjcdJWHGyq2Oxa6gUVAdexxDyoux4kTP3mnAgMBAAECggEAQfKgG4EE5lPI6of5",
    "XYzuiJrn60pzgy8YErWoU0SZaWKL0QG2YKewK7gaGTi9M30M95sf7YUlVORBKIlgTCIn5QUZwqEONBr6ur3J",
    "Cb9Wcs7kk9cXRhrCJfCtSXUVRQ94fE3xjKE/1/NDJ51cj1cDMJjULYNpfx3zN6ZN6UgpD8vmuF8uia/F4AIF",
    "+rrPYkjt7ljz1Sdz4v5IjS2B3IXtkR6iwZrset9J4cmDJCRFcRB8eBpmFc9tMyrnDFNrLogC4HHtQXFIFdTD",
    "Dr6Bl3vC5ZSi5bT62E8QidIT5yGKG/uVP12tsbLhpl8TQYLS3+ows9tHq3CNL2/kWHTpJZORoQKBgQDfcZDY",
    "KC0s9dIGTX6xK4nJhCWlBg28VFYxRef8IpMaZ+1vWHVnD0uCOF5kyWq47+Mr1KxQiSH9nScw7PlxkVvWFTAU",
    "edGssd2bQQihM+9oLrszABNBtO9Yn8/R0YJcuNsFmzAzUyJyYCa1pO29V6w9fagbBHLMaoTDQ7lH08QIlwKB",
    "gQDQ9gOWh0auv+nZPIiui1IwRM9LqMEpMQ9D9dos/EAFw9PIFcFMtYvyYHifsC25sX8fyZq76/dx7VvMcXaB",
    "NjN0Z7LqaJJ6KU8Y9vWQozuobC9/343a9AOrCoqiMPZClXQ71Wx8FJQ7NV/Si9PosGa4KIGfRFbG9xzv4CRO",
    "5dSpcQKBgQCz93NTNmDUcpWbr/UX29pZrY7ocIzFoCPgAc8MfAiBXy2U3emJfX8yvhYBFV1Y4RXWqq+zGhB/",
    "hYEYXfW3K/2M23njNA7WClhUALhjpkHwZpsuQ6Q+6u1QMz+eXiGibt0xkcHrxMzc1Ga5LMKzGxdGW5v3Tsjr",
    "reuKnlRv7rdYtwKBgAYFEFVl0EN4g+QeOlHM8bEySkaDtgzZvPbYPlDNc4q2+YLqHYd4M2/oF5GCIc8XrfHc",
    "fPis85P0opBhNGjEhvbzhdP67z1Vs1Gky64/BZj0hOnKJuwH25Mx2oyRnIaOh6qxm053yU1rXDdUj+ZELrFf",
    "eVx9O4K/27WNX35mYJoBAoGATGseww6+jOsYsA3hp5+bvPi2+1aUTN9WPxvfJanEA7YIs7qqV/9uUY5F5U+c",
    "7m4Qb2VERzLkz9gXvBcgXJoMcP8qlbTVwF+BgpWoVtvsUGhDnKItzGptdEmFJrmZF48b7PrGce81hK2oexO9",
    "ipE+VxCga6bB5aZHylbkInbuDpY=",
);
const P256: &str = concat!(
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgx44VHfEVq4dPMkjhErjXwlZuW2buvyldXPGD",
    "ZXwBEcChRANCAAR6uXXYX//InZ2SltQ5ylsWdgm54TPl+a204J/9CxF2b2/TSp5e1V+F/m6fzkRn6BDPE+d8",
    "d3GE9SXhO9qkDwYQ",
);

/// Who signs tokens.
pub enum Signer {
    /// By RS256.
    Rsa(Box<RsaKeyPair>),
    /// By ES256.
    P256(EcdsaKeyPair),
    /// By EdDSA.
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// One who signs by RS256.
    pub fn rsa() -> Signer {
        let key = from_base64(RSA).expect("it was written so");
        Signer::Rsa(Box::new(RsaKeyPair::from_pkcs8(&key).expect("it is a key")))
    }

    /// One who signs by ES256.
    pub fn p256() -> Signer {
        let key = from_base64(P256).expect("it was written so");
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key, &random);
        Signer::P256(key.expect("it is a key"))
    }

    /// One who signs by EdDSA; another for each number.
    pub fn ed25519(number: u8) -> Signer {
        let key = Ed25519KeyPair::from_seed_unchecked(&[number; 32]);
        Signer::Ed25519(key.expect("any seed makes a key"))
    }

    /// What its tokens name as their algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Signer::Rsa(_) => "RS256",
            Signer::P256(_) => "ES256",
            Signer::Ed25519(_) => "EdDSA",
        }
    }

    /// Its public key by this name, as it stands in a set of keys.
    pub fn jwk(&self, id: &str) -> String {
        let rest = match self {
            Signer::Rsa(key) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                format!(r#""kty":"RSA","n":"{}","e":"{}""#, base64url(&n), base64url(&e))
            }
            Signer::P256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                let (x, y) = (base64url(x), base64url(y));
                format!(r#""kty":"EC","crv":"P-256","x":"{x}","y":"{y}""#)
            }
            Signer::Ed25519(key) => {
                let x = base64url(key.public_key().as_ref());
                format!(r#""kty":"OKP","crv":"Ed25519","x":"{x}""#)
            }
        };
        format!(r#"{{"kid":"{id}",{rest}}}"#)
    }

    /// What it signs.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("there is room for it");
                signature
            }
            Signer::P256(key) => {
                let signature = key.sign(&random, message).expect("there is randomness");
                signature.as_ref().to_vec()
            }
            Signer::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims, both as JSON.
    pub fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        let signature = base64url(&self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// A set of these keys.
pub fn key_set(keys: &[String]) -> String {
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}
