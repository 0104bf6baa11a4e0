//! The words of a happening, and bytes written as text.

use serde_json::value::RawValue;
use toolbus_proto::json::Json;

/// What is left to read of a happening.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Words with one blank between them.
    pub fn new(words: &'a str) -> Words<'a> {
        Words(words)
    }

    /// The next word.
    pub fn word(&mut self) -> Option<&'a str> {
        let (word, rest) = self.0.split_once(' ').unwrap_or((self.0, ""));
        self.0 = rest;
        Some(word).filter(|word| !word.is_empty())
    }

    /// The next word if it is `expected`; else nothing is taken.
    pub fn is(&mut self, expected: &str) -> bool {
        let mut next = *self;
        let found = next.word() == Some(expected);
        if found {
            *self = next;
        }
        found
    }

    /// The JSON value that stands next, blanks inside it included.
    pub fn json(&mut self) -> Option<Json> {
        let mut values = serde_json::Deserializer::from_str(self.0).into_iter::<&RawValue>();
        let value = values.next()?.ok()?;
        let rest = &self.0[values.byte_offset()..];
        self.0 = rest.strip_prefix(' ').unwrap_or(rest);
        Json::parse(value.get().to_owned()).ok()
    }

    /// The text in the JSON string that stands next.
    pub fn text(&mut self) -> Option<String> {
        let mut next = *self;
        let text = next.json()?.string()?;
        *self = next;
        Some(text)
    }

    /// All that is left.
    pub fn rest(self) -> &'a str {
        self.0
    }
}

/// The bytes that `text` stands for: `\n`, `\r`, `\t`, `\\` and `\xNN` are one byte each,
/// `\{41*1024}` is the byte 41 as often as that, everything else is itself.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escaped(&rest[at + 1..], &mut bytes)
            .unwrap_or_else(|| panic!("not an escape: `{}` in `{text}`", &rest[at..]));
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Reads what stands behind a backslash; gives what follows it.
fn escaped<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let hex = |digits| u8::from_str_radix(digits, 16).ok();
    let byte = match text.as_bytes().first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' => b'\\',
        b'x' => {
            bytes.push(hex(text.get(1..3)?)?);
            return Some(&text[3..]);
        }
        b'{' => {
            let (run, rest) = text[1..].split_once('}')?;
            let (byte, count) = run.split_once('*')?;
            bytes.resize(bytes.len() + count.parse::<usize>().ok()?, hex(byte)?);
            return Some(rest);
        }
        _ => return None,
    };
    bytes.push(byte);
    Some(&text[1..])
}

/// Bytes as text that [`unescape`] reads; valid UTF-8 stays as it is.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\\' => text.push_str("\\\\"),
                '\0'..' ' | '\x7f' => text.push_str(&format!("\\x{:02x}", character as u32)),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_numbers_and_values_stand_behind_each_other() {
        let mut words = Words::new(r#"fail c1 luck "no  luck" code 7 detail {"a": [1, 2]}"#);
        assert_eq!((words.word(), words.word()), (Some("fail"), Some("c1")));
        assert!(!words.is("failed"));
        assert!(words.is("luck"));
        assert_eq!(words.text().as_deref(), Some("no  luck"));
        assert!(words.is("code"));
        assert_eq!(words.text(), None);
        assert_eq!(words.json().unwrap().as_str(), "7");
        assert_eq!(words.rest(), r#"detail {"a": [1, 2]}"#);
        assert!(words.is("detail"));
        assert_eq!(words.json().unwrap().as_str(), r#"{"a": [1, 2]}"#);
        assert_eq!((words.word(), words.rest()), (None, ""));
    }

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(r"a\n\xff\\n\{41*3}ż"), b"a\n\xff\\nAAA\xc5\xbc");
    }

    #[test]
    #[should_panic(expected = r"not an escape: `\q` in `a\q`")]
    fn what_is_no_escape_is_a_mistake() {
        unescape(r"a\q");
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_written_and_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(unescape(&escape(&bytes)), bytes);
        }
    }
}
