//! The alphabet in which OAuth writes bytes: base64url without padding.

use crate::collect::{base64, from_base64};

/// Bytes as text.
pub fn base64url(bytes: &[u8]) -> String {
    base64(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

/// Text as bytes; none if it is padded or of the other alphabet.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    if text.contains(['=', '+', '/']) || text.len() % 4 == 1 {
        return None;
    }
    let text = text.replace('-', "+").replace('_', "/");
    let padding = (4 - text.len() % 4) % 4;
    let bytes = from_base64(&format!("{text}{}", &"==="[..padding]))?;
    // Bits that no byte has may be set by those who want two texts for the same bytes.
    (base64(&bytes).trim_end_matches('=') == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_text() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0xfb, 0xff, 0xfe]] {
            assert_eq!(from_base64url(&base64url(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(base64url(&[0xfb, 0xff, 0xfe]), "-__-");
        for bad in ["YQ==", "+_", "YR", "Y", "Y Q"] {
            assert_eq!(from_base64url(bad), None, "{bad}");
        }
    }
}
