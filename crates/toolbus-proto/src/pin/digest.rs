//! Canonical JSON, and the SHA-256 of it: two texts that say the same have one digest, whatever
//! the order of their members.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::value::JsonTree;
use crate::json::JsonError;

/// The text without blanks, members sorted by the bytes of their names, doubled ones kept in
/// their order, numbers as they came. `18446744073709551615` and `…614` are two values.
pub fn canonical(json: &str) -> Result<String, JsonError> {
    let mut out = Vec::with_capacity(json.len());
    JsonTree::parse(json)?.write_canonically(&mut out);
    Ok(String::from_utf8(out).expect("made of text"))
}

/// The digest of the [canonical] form of this JSON.
pub fn digest(json: &str) -> Result<Digest, JsonError> {
    Ok(Digest::of(&JsonTree::parse(json)?))
}

/// SHA-256 of canonical JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of this value.
    pub fn of(value: &JsonTree<'_>) -> Digest {
        let mut out = Vec::new();
        value.write_canonically(&mut out);
        Digest::of_bytes(&out)
    }

    /// Of these bytes, whatever they are.
    pub fn of_bytes(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn read(text: &str) -> Option<Digest> {
        let hex = text.strip_prefix("sha256:")?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != 64 || !hex.bytes().all(is_hex) {
            return None;
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Digest(bytes))
    }

    /// The 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        let mut out = String::with_capacity(64);
        for byte in self.0 {
            let _ = write!(out, "{byte:02x}");
        }
        out
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_sorted_and_nothing_else_changes() {
        for (json, expected) in [
            (r#" { "b" : 1.0 , "a" : [ 2 , 1 ] } "#, r#"{"a":[2,1],"b":1.0}"#),
            (r#"{"a":2,"A":1,"é":0,"a":1}"#, r#"{"A":1,"a":2,"a":1,"é":0}"#),
            ("18446744073709551615", "18446744073709551615"),
            (r#""\u0041\/\u001f\u007f\u2028""#, "\"A/\\u001f\u{7f}\u{2028}\""),
        ] {
            assert_eq!(canonical(json).unwrap(), expected);
        }
        assert_ne!(digest("1e1").unwrap(), digest("10").unwrap());
        assert!(canonical("[1,]").is_err());
    }

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let digest = digest("{}").unwrap();
        assert_eq!(Digest::read(&digest.to_string()), Some(digest));
        let upper = digest.to_string().replace('a', "A");
        for wrong in ["", "sha256:", "sha1:00", &upper, &digest.to_string()[..70]] {
            assert_eq!(Digest::read(wrong), None, "{wrong}");
        }
    }
}
