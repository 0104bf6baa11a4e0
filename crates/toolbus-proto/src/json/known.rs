//! Members of JSON that was checked when it arrived, and of which only one is wanted now.
//!
//! What is stepped over is not judged a second time: of a string only its end is looked for. Text
//! that is no JSON after all gives a wrong answer here, and does no other harm.

use memchr::memmem::Finder;
use memchr::{memchr, memchr3};

use crate::json::looks;
use crate::jsonrpc::string;

/// A name that most objects do not have.
#[derive(Debug)]
pub(crate) struct Rare {
    name: &'static str,
    /// How it ends where it is written plainly.
    plain: Finder<'static>,
    /// How any other way to write it begins.
    escaped: Finder<'static>,
}

impl Rare {
    /// `name` is of plain characters.
    pub(crate) fn new(name: &'static str) -> Rare {
        let plain = Finder::new(&format!("{name}\"")).into_owned();
        Rare { name, plain, escaped: Finder::new(r"\u") }
    }

    /// Like [`member`]. What a short text has nowhere at all need not be looked for; in a long one
    /// strings are stepped over faster than they are searched.
    pub(crate) fn find<'a>(&self, object: &'a [u8]) -> Option<&'a [u8]> {
        looks::add(object.len());
        let is_nowhere = object.len() <= SHORT_BYTES_MAX
            && self.plain.find(object).is_none()
            && self.escaped.find(object).is_none();
        if is_nowhere { None } else { member(object, self.name) }
    }
}

/// The longest text that is searched before it is looked at member by member.
const SHORT_BYTES_MAX: usize = 512;

/// The value of the member `name` of an object that is known to be valid; of the last, as most
/// readers do, if it stands twice.
fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let mut at = blanks(object, 0);
    if object.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        // Behind the brace, or behind the comma.
        at = blanks(object, at + 1);
        if object.get(at) != Some(&b'"') {
            return found;
        }
        let key = &object[at + 1..];
        let key_end = string_end(key);
        let colon = blanks(object, at + 1 + key_end);
        let from = blanks(object, colon + 1);
        let end = value_end(object, from);
        if spells(&key[..key_end.saturating_sub(1)], name) {
            found = object.get(from..end);
        }
        at = blanks(object, end);
        if object.get(at) != Some(&b',') {
            return found;
        }
    }
}

/// Does this, between quotes, spell `name`? Keys are hardly ever escaped.
fn spells(inner: &[u8], name: &str) -> bool {
    if inner == name.as_bytes() || memchr(b'\\', inner).is_none() {
        return inner == name.as_bytes();
    }
    let quoted = [b"\"", inner, b"\""].concat();
    str::from_utf8(&quoted).ok().and_then(string).is_some_and(|key| key == name)
}

fn blanks(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the value ends that begins at `from`.
fn value_end(bytes: &[u8], from: usize) -> usize {
    let Some(&first) = bytes.get(from) else { return bytes.len() };
    match first {
        b'"' => from + 1 + string_end(&bytes[from + 1..]),
        b'{' => container_end(bytes, from, first, b'}'),
        b'[' => container_end(bytes, from, first, b']'),
        _ => {
            let is_over = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t'..=b'\r');
            bytes[from..].iter().position(is_over).map_or(bytes.len(), |len| from + len)
        }
    }
}

/// Those of the other kind need not be counted: in valid text each of them is closed in time.
fn container_end(bytes: &[u8], from: usize, open: u8, close: u8) -> usize {
    let mut at = from + 1;
    let mut inside = 1;
    while let Some(next) = memchr3(b'"', open, close, &bytes[at..]) {
        at += next + 1;
        match bytes[at - 1] {
            b'"' => at += string_end(&bytes[at..]),
            byte if byte == open => inside += 1,
            _ => inside -= 1,
        }
        if inside == 0 {
            return at;
        }
    }
    bytes.len()
}

/// How long a string is behind its opening quote, the closing one included.
fn string_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(quote) = memchr(b'"', &bytes[at..]) {
        let before = &bytes[at..at + quote];
        at += quote + 1;
        // An even number of backslashes are characters themselves.
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::edit;
    use crate::json::edit::tests::any_json;

    #[test]
    fn a_member_is_found_behind_anything() {
        let object = br#" { "a" : "\\" , "b":"x\"}\\\"" ,"c":[{"d":1},"]"],"\u0064" : {"d":[]}, "e":-1.5e3 }"#;
        let check = |name: &str, expected: &str| {
            let found = member(object, name).map(|raw| str::from_utf8(raw).unwrap());
            assert_eq!(found, Some(expected), "{name}");
        };
        check("a", r#""\\""#);
        check("b", r#""x\"}\\\"""#);
        check("c", r#"[{"d":1},"]"]"#);
        check("d", r#"{"d":[]}"#);
        check("e", "-1.5e3");
        assert_eq!(member(object, "f"), None);
        assert_eq!(member(b"[1]", "a"), None);
        assert_eq!(member(b"", "a"), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_careful_look_finds(object in any_json(), name in "[a-d]{1,2}") {
            let careful = edit::member(&object, &name).map(str::as_bytes);
            prop_assert_eq!(member(object.as_bytes(), &name), careful);
            let rare = edit::member(&object, "a").map(str::as_bytes);
            prop_assert_eq!(Rare::new("a").find(object.as_bytes()), rare);
        }

        #[test]
        fn text_that_is_no_json_does_no_harm(text in r#"[\[\]{}:,"\\ 0-9ab]{0,40}"#) {
            let _ = member(text.as_bytes(), "a");
            let _ = member(format!("{{{text}").as_bytes(), "a");
        }
    }
}
