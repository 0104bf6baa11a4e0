//! A walk over JSON text, for readers that know which type comes next.
//!
//! Numbers keep every digit and members their order. The text is known to be JSON when it
//! gets here; if it is not after all, [`Broken`] comes out, never a panic.

use std::borrow::Cow;

use memchr::memchr2;

/// JSON nested deeper than this counts as no JSON on the oracle wire.
pub(crate) const NESTING_MAX: usize = 128;

#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// The text is not JSON.
#[derive(Debug)]
pub(crate) struct Broken;

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// The first byte of what comes next, which tells its kind.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    /// Takes one byte of punctuation, if it comes next.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Whether another element or member comes before `close`; takes the punctuation between.
    pub(crate) fn another(&mut self, close: u8, first: bool) -> Result<bool, Broken> {
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if first => Ok(true),
            _ => Err(Broken),
        }
    }

    /// The name of a member, up to and with its colon.
    pub(crate) fn key(&mut self) -> Result<Cow<'a, str>, Broken> {
        let key = self.string()?;
        if self.take(b':') { Ok(key) } else { Err(Broken) }
    }

    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Broken> {
        let (raw, escaped) = self.raw_string()?;
        if !escaped {
            return Ok(Cow::Borrowed(&raw[1..raw.len() - 1]));
        }
        serde_json::from_str(raw).map(Cow::Owned).map_err(|_| Broken)
    }

    /// The text of the next value, whatever it is.
    pub(crate) fn value(&mut self) -> Result<&'a str, Broken> {
        match self.peek() {
            Some(b'"') => self.raw_string().map(|(raw, _)| raw),
            Some(b'[' | b'{') => self.raw_container(),
            _ => {
                let rest = &self.text[self.at..];
                let ends = |byte: &u8| is_blank(*byte) || b",:]}[{\"".contains(byte);
                let length = rest.as_bytes().iter().position(ends).unwrap_or(rest.len());
                self.at += length;
                if length == 0 { Err(Broken) } else { Ok(&rest[..length]) }
            }
        }
    }

    /// Nothing but white space is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// A string with its quotes, and whether it has escapes.
    fn raw_string(&mut self) -> Result<(&'a str, bool), Broken> {
        if self.peek() != Some(b'"') {
            return Err(Broken);
        }
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + 1;
        let mut escaped = false;
        loop {
            let rest = bytes.get(end..).ok_or(Broken)?;
            end += memchr2(b'"', b'\\', rest).ok_or(Broken)?;
            if bytes[end] == b'"' {
                break;
            }
            escaped = true;
            end += 2;
        }
        self.at = end + 1;
        Ok((&self.text[start..self.at], escaped))
    }

    fn raw_container(&mut self) -> Result<&'a str, Broken> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at).ok_or(Broken)? {
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(&self.text[start..self.at]);
            }
        }
    }
}

/// The same JSON without white space between tokens, or `None` if it is nested too deeply.
pub(crate) fn compact(text: &str) -> Option<Cow<'_, str>> {
    let mut spaced = false;
    let mut depth = 0_usize;
    let mut quoted = Quoted::default();
    for byte in text.bytes() {
        if quoted.holds(byte) {
            continue;
        }
        match byte {
            b'[' | b'{' if depth == NESTING_MAX => return None,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => spaced |= is_blank(byte),
        }
    }
    if !spaced {
        return Some(Cow::Borrowed(text));
    }
    let mut quoted = Quoted::default();
    let kept = |char: &char| match u8::try_from(*char) {
        Ok(byte) => quoted.holds(byte) || !is_blank(byte),
        Err(_) => true,
    };
    Some(Cow::Owned(text.chars().filter(kept).collect()))
}

/// A value as an error shows it: on one line, and of a long one only the beginning.
pub(crate) fn shown(raw: &str) -> String {
    let mut chars = raw.trim().chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

const SHOWN_CHARS_MAX: usize = 80;

/// A JSON string; what is not ASCII stays as it is.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(text, &mut out);
    String::from_utf8(out).expect("JSON is text")
}

/// Appends a JSON string; what is not ASCII stays as it is.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string is JSON and a vector takes all bytes");
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Tells the bytes inside strings from those between tokens.
#[derive(Default)]
enum Quoted {
    #[default]
    Outside,
    Inside,
    Escape,
}

impl Quoted {
    /// Whether this byte, the next in the text, belongs to a string.
    fn holds(&mut self, byte: u8) -> bool {
        let outside = matches!(self, Quoted::Outside);
        *self = match (&self, byte) {
            (Quoted::Outside, b'"') | (Quoted::Escape, _) => Quoted::Inside,
            (Quoted::Inside, b'\\') => Quoted::Escape,
            (Quoted::Inside, b'"') | (Quoted::Outside, _) => Quoted::Outside,
            (Quoted::Inside, _) => Quoted::Inside,
        };
        !outside || byte == b'"'
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn white_space_goes_between_tokens_and_stays_in_strings() {
        for (text, want) in [
            (r#" { "a b" : [ 1 , "\" x" ] } "#, r#"{"a b":[1,"\" x"]}"#),
            ("[1,\t2]", "[1,2]"),
            (r#"{"é ":"ä ö"}"#, r#"{"é ":"ä ö"}"#),
            (r#"[ "é ä\\", 1 ]"#, r#"["é ä\\",1]"#),
        ] {
            assert_eq!(compact(text).as_deref(), Some(want));
        }
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(compact(&nested(NESTING_MAX)).is_some());
        assert!(compact(&nested(NESTING_MAX + 1)).is_none());
    }

    #[test]
    fn a_long_value_shows_its_beginning() {
        assert_eq!(shown(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(shown(&"é".repeat(81)), "é".repeat(79) + "…");
        assert_eq!(shown("[1,\n2]"), "[1, 2]");
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_cursor(text in r#"[\[\]{},:"\\ 1aé]{0,20}"#) {
            let mut cursor = Cursor::new(&text);
            while cursor.value().is_ok() {}
            let _ = (cursor.key(), cursor.another(b']', true), cursor.is_at_end(), compact(&text));
        }
    }
}
