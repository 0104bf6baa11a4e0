//! Ids of sessions that several machines can read, and nobody else: sealed with a key that they share.
//!
//! An id says which node has the session and whose it is. What a client shows is opened before it is
//! believed; an id that another key has sealed is none of ours.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::collect::{base64, from_base64};

/// How every id begins.
const PREFIX: &str = "tb1.";
/// What is sealed with it, so that the key opens nothing else.
const PURPOSE: &[u8] = b"toolbus session 1";
/// How long the id of a node is.
pub const NODE_BYTES: usize = 22;
/// How long what makes a session unlike any other is, and a key.
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// The key by which ids are sealed, and the one before it, by which they may be opened as well.
pub struct SessionKeys {
    now: LessSafeKey,
    old: Option<LessSafeKey>,
}

/// What an id says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId {
    /// The node that has the session.
    pub node: String,
    /// What makes it unlike any other.
    pub salt: [u8; SALT_BYTES],
    /// The name of its caller; empty where callers are not told apart.
    pub caller: String,
}

/// 32 bytes in hexadecimal digits or base64, of either alphabet; `None` if it is neither.
pub fn read_key(text: &str) -> Option<[u8; KEY_BYTES]> {
    let text = text.trim();
    let bytes = match text.len() == 2 * KEY_BYTES {
        true => from_hex(text)?,
        false => from_base64url(text)?,
    };
    bytes.try_into().ok()
}

impl SessionKeys {
    /// Seals by `now`, and opens what `old` has sealed as well.
    pub fn new(now: [u8; KEY_BYTES], old: Option<[u8; KEY_BYTES]>) -> SessionKeys {
        let key = |bytes: [u8; KEY_BYTES]| {
            let key = UnboundKey::new(&AES_256_GCM, &bytes);
            LessSafeKey::new(key.expect("it is as long as such a key is"))
        };
        SessionKeys { now: key(now), old: old.map(key) }
    }

    /// The id as a client is given it. A nonce may be used once.
    pub fn seal(&self, nonce: [u8; NONCE_LEN], id: &SessionId) -> String {
        let mut sealed = [id.node.as_bytes(), &id.salt, id.caller.as_bytes()].concat();
        let nonced = Nonce::assume_unique_for_key(nonce);
        let done = self.now.seal_in_place_append_tag(nonced, Aad::from(PURPOSE), &mut sealed);
        done.expect("an id is far shorter than what can be sealed");
        let text = base64(&[&nonce[..], &sealed].concat());
        let text = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        format!("{PREFIX}{text}")
    }

    /// What an id says, if it is one of ours.
    pub fn open(&self, text: &str) -> Option<SessionId> {
        let bytes = from_base64url(text.strip_prefix(PREFIX)?)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce: [u8; NONCE_LEN] = nonce.try_into().ok()?;
        let keys = [Some(&self.now), self.old.as_ref()];
        keys.into_iter().flatten().find_map(|key| {
            let (mut sealed, nonce) = (sealed.to_vec(), Nonce::assume_unique_for_key(nonce));
            let said = key.open_in_place(nonce, Aad::from(PURPOSE), &mut sealed).ok()?;
            let (node, rest) = said.split_at_checked(NODE_BYTES)?;
            let (salt, caller) = rest.split_at_checked(SALT_BYTES)?;
            Some(SessionId {
                node: String::from_utf8(node.to_vec()).ok()?,
                salt: salt.try_into().ok()?,
                caller: String::from_utf8(caller.to_vec()).ok()?,
            })
        })
    }
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKeys(***)")
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: &u8| char::from(*byte).to_digit(16);
    let nibbles: Option<Vec<u32>> = text.as_bytes().iter().map(nibble).collect();
    let pairs = nibbles?;
    pairs.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair.get(1)?).ok()).collect()
}

/// Of either alphabet, padded or not.
fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
    let padding = (4 - text.len() % 4) % 4;
    from_base64(&format!("{text}{}", &"==="[..padding]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: [u8; 32] = [1; 32];
    const OLD: [u8; 32] = [2; 32];

    fn id() -> SessionId {
        let node = "aBcDeFgHiJkLmNoPqRsTuV".to_owned();
        SessionId { node, salt: *b"0123456789abcdef", caller: "ann".to_owned() }
    }

    /// What another implementation of AES-256-GCM makes of it.
    #[test]
    fn an_id_is_sealed_as_it_is_everywhere() {
        let keys = SessionKeys::new(NOW, None);
        let sealed = keys.seal([7; 12], &id());
        assert_eq!(sealed, SEALED);
        assert_eq!(keys.open(&sealed), Some(id()));
        let of_nobody = SessionId { caller: String::new(), ..id() };
        assert_eq!(keys.open(&keys.seal([8; 12], &of_nobody)), Some(of_nobody));
        assert_eq!(format!("{keys:?}"), "SessionKeys(***)");
    }

    #[test]
    fn the_key_before_still_opens_and_no_other_does() {
        let before = SessionKeys::new(OLD, None).seal([7; 12], &id());
        assert_eq!(SessionKeys::new(NOW, None).open(&before), None);
        assert_eq!(SessionKeys::new(NOW, Some(OLD)).open(&before), Some(id()));
    }

    #[test]
    fn what_was_tampered_with_is_not_ours() {
        let keys = SessionKeys::new(NOW, None);
        let sealed = keys.seal([7; 12], &id());
        for at in PREFIX.len()..sealed.len() {
            let mut other = sealed.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(keys.open(&String::from_utf8(other).unwrap()), None, "{at}");
            assert_eq!(keys.open(&sealed[..at]), None, "{at}");
        }
        for text in ["", "tb1.", "tb2.AAAA", &sealed[4..], "tb1.!!!!"] {
            assert_eq!(keys.open(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_has_32_bytes() {
        let hex = "01".repeat(32);
        let standard = base64(&[0xfb; 32]);
        let url = standard.replace('+', "-").replace('/', "_");
        for (text, is_key) in [
            (hex.as_str(), Some([1; 32])),
            (&format!(" {hex}\n"), Some([1; 32])),
            (&standard, Some([0xfb; 32])),
            (&url, Some([0xfb; 32])),
            (url.trim_end_matches('='), Some([0xfb; 32])),
            (&hex[2..], None),
            (&format!("{hex}01"), None),
            ("", None),
            ("secret", None),
        ] {
            assert_eq!(read_key(text), is_key, "{text}");
        }
    }

    const SEALED: &str = "tb1.BwcHBwcHBwcHBwcH7LGJ4Gro1ulw0G98y44Imtb78o0RPT9oOREHiNAjapQtS6HmpLvYg8rPF78goSSHaNntko4tOAcK";
}
