//! Who we are to a server: a user, a token, an NKey, or a JWT with the seed that it speaks of.
//!
//! An NKey is an Ed25519 key, written in base32 with a kind before and a check sum behind it. What
//! is secret is never shown.

use std::fmt;

use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::collect::base64;

/// What begins the bytes of a seed, and the kind of key that is a user's.
const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Who we are.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nobody in particular.
    #[default]
    None,
    /// A name and its password.
    User {
        /// The name.
        user: String,
        /// Its password.
        password: String,
    },
    /// A token.
    Token(String),
    /// The key of a user.
    Nkey(Seed),
    /// A signed claim about a user, and the user's key.
    Creds {
        /// The claim.
        jwt: String,
        /// The key.
        seed: Seed,
    },
}

/// The private key of a user.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

/// Why a text holds no credentials. Nothing of the text is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// It is no seed at all, or one that was mistyped.
    #[error("it holds no NKey seed (`SU…`)")]
    NoSeed,
    /// It is the seed of something else.
    #[error("it holds the NKey seed of an account or a server, not of a user (`SU…`)")]
    NotOfUser,
    /// It is no credentials file.
    #[error("it is no credentials file: a user JWT and a seed (`SU…`) have to be in it")]
    NoCreds,
}

impl Seed {
    /// Reads `SU…`.
    pub fn read(text: &str) -> Result<Seed, CredentialsError> {
        let bytes = from_base32(text.trim()).ok_or(CredentialsError::NoSeed)?;
        let Some((body, sum)) = bytes.split_last_chunk::<2>() else {
            return Err(CredentialsError::NoSeed);
        };
        if body.len() != 34 || crc16(body) != u16::from_le_bytes(*sum) || body[0] & 0xf8 != SEED {
            return Err(CredentialsError::NoSeed);
        }
        if (body[0] & 7) << 5 | body[1] >> 3 != USER {
            return Err(CredentialsError::NotOfUser);
        }
        Ok(Seed(body[2..].try_into().map_err(|_| CredentialsError::NoSeed)?))
    }

    fn pair(&self) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&self.0).expect("any 32 bytes are a seed")
    }

    /// The public key, `U…`.
    pub fn public(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend_from_slice(self.pair().public_key().as_ref());
        bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
        to_base32(&bytes)
    }

    /// The signature of what a server gave us to sign, in base64url without padding.
    pub fn sign(&self, nonce: &str) -> String {
        let text = base64(self.pair().sign(nonce.as_bytes()).as_ref());
        text.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }
}

impl Credentials {
    /// Reads a credentials file.
    pub fn read_creds(text: &str) -> Result<Credentials, CredentialsError> {
        let mut blocks = Vec::new();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line.starts_with("---") && line.contains("BEGIN") {
                let within = lines.by_ref().take_while(|line| !line.starts_with("---"));
                blocks.push(within.collect::<Vec<_>>().concat());
            }
        }
        let [jwt, seed] = &blocks[..] else { return Err(CredentialsError::NoCreds) };
        let seed = Seed::read(seed).map_err(|_| CredentialsError::NoCreds)?;
        if jwt.is_empty() {
            return Err(CredentialsError::NoCreds);
        }
        Ok(Credentials::Creds { jwt: jwt.clone(), seed })
    }

    /// Are there any?
    pub fn is_none(&self) -> bool {
        *self == Credentials::None
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::User { .. } => "User(***)",
            Credentials::Token(_) => "Token(***)",
            Credentials::Nkey(_) => "Nkey(***)",
            Credentials::Creds { .. } => "Creds(***)",
        })
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(***)")
    }
}

fn from_base32(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        bits = bits << 5 | u32::try_from(value).ok()?;
        count += 5;
        if 8 <= count {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0 && count < 5).then_some(bytes)
}

fn to_base32(bytes: &[u8]) -> String {
    let (mut text, mut bits, mut count) = (String::new(), 0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        count += 8;
        while 5 <= count {
            count -= 5;
            text.push(char::from(ALPHABET[(bits >> count) as usize & 31]));
        }
        bits &= (1 << count) - 1;
    }
    if 0 < count {
        text.push(char::from(ALPHABET[(bits << (5 - count)) as usize & 31]));
    }
    text
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key and what another implementation makes of it.
    const SEED: &str = "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY";
    const PUBLIC: &str = "UAT6BWCSCWLUKJT6K6MBJJOEOTXZ5AJDOYKNEVRFC7VNO6OA43N4TRNO";
    const SIGNED: &str =
        "W9Q3AUeNqiKcqNdN07ZVd-tL_0IpkfAQfGXwYomWhkWl_gg0uUSWADZlvnHUb7QemDC4JtxciGodAYand34uCw";

    #[test]
    fn a_seed_is_read_and_signs() {
        let seed = Seed::read(&format!(" {SEED}\n")).unwrap();
        assert_eq!(seed.public(), PUBLIC);
        assert_eq!(seed.sign("PXoWU7zWAMt75FY"), SIGNED);
        assert_eq!(format!("{seed:?}"), "Seed(***)");
    }

    #[test]
    fn what_is_no_seed_is_refused() {
        let mistyped = SEED.replace("K2F", "K3F");
        for text in ["", "SU", PUBLIC, &mistyped, &SEED.to_lowercase(), "!"] {
            assert_eq!(Seed::read(text), Err(CredentialsError::NoSeed), "{text}");
        }
        let mut account = vec![super::SEED, 0];
        account.extend_from_slice(&[7; 32]);
        account.extend_from_slice(&crc16(&account).to_le_bytes());
        assert_eq!(Seed::read(&to_base32(&account)), Err(CredentialsError::NotOfUser));
    }

    #[test]
    fn a_credentials_file_has_a_jwt_and_a_seed() {
        let file = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n\n\
             ***** IMPORTANT *****\n\n-----BEGIN USER NKEY SEED-----\n{SEED}\n\
             ------END USER NKEY SEED------\n"
        );
        let seed = Seed::read(SEED).unwrap();
        let read = Credentials::read_creds(&file);
        assert_eq!(read, Ok(Credentials::Creds { jwt: "eyJ0".to_owned(), seed }));
        assert_eq!(Credentials::read_creds(SEED), Err(CredentialsError::NoCreds));
        assert_eq!(format!("{:?}", Credentials::Token("x".to_owned())), "Token(***)");
    }
}
