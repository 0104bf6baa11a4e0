//! A JSON value taken apart so far that it can be compared, hashed and written anew. Numbers stay
//! the text they came with, members their order.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::hidden::is_hidden;
use crate::json::{JsonError, Kind, Scanner, write_string};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTree<'a> {
    /// `null`, a boolean or a number, as its text.
    Literal(&'a str),
    /// The characters of a string.
    String(Cow<'a, str>),
    /// The elements.
    Array(Vec<JsonTree<'a>>),
    /// The members, in the order they came; of one name there may be several.
    Object(Vec<(Cow<'a, str>, JsonTree<'a>)>),
}

/// What stands for half of a character.
const HALF: char = '\u{fffd}';

impl<'a> JsonTree<'a> {
    /// Reads text that must hold exactly one JSON value.
    pub fn parse(text: &'a str) -> Result<JsonTree<'a>, JsonError> {
        let mut scanner = Scanner::new(text);
        let value = scanner.value()?;
        scanner.end()?;
        Ok(TreeReader { text: value, at: 0 }.value())
    }

    /// The same value; each of its texts is what `change` makes of it.
    #[must_use]
    pub fn with_texts(self, change: &dyn Fn(&str) -> Option<String>) -> JsonTree<'a> {
        let changed = |text: Cow<'a, str>| match change(&text) {
            Some(changed) => Cow::Owned(changed),
            None => text,
        };
        match self {
            JsonTree::Literal(_) => self,
            JsonTree::String(text) => JsonTree::String(changed(text)),
            JsonTree::Array(elements) => JsonTree::Array(
                elements.into_iter().map(|value| value.with_texts(change)).collect(),
            ),
            JsonTree::Object(members) => {
                let member = |(name, value): (Cow<'a, str>, JsonTree<'a>)| {
                    (changed(name), value.with_texts(change))
                };
                JsonTree::Object(members.into_iter().map(member).collect())
            }
        }
    }

    /// Shows each text in it, names of members too.
    pub fn each_text(&self, see: &mut dyn FnMut(&str)) {
        match self {
            JsonTree::Literal(_) => {}
            JsonTree::String(text) => see(text),
            JsonTree::Array(elements) => elements.iter().for_each(|value| value.each_text(see)),
            JsonTree::Object(members) => {
                for (name, value) in members {
                    see(name);
                    value.each_text(see);
                }
            }
        }
    }

    /// Appends it without blanks, its members in their order.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_by(out, false);
    }

    /// Appends it in canonical form: members sorted by the bytes of their names.
    pub fn write_canonically(&self, out: &mut Vec<u8>) {
        self.write_by(out, true);
    }

    fn write_by(&self, out: &mut Vec<u8>, is_sorted: bool) {
        match self {
            JsonTree::Literal(text) => out.extend_from_slice(text.as_bytes()),
            JsonTree::String(text) => write_string(out, text),
            JsonTree::Array(elements) => {
                out.push(b'[');
                for (index, element) in elements.iter().enumerate() {
                    if 0 < index {
                        out.push(b',');
                    }
                    element.write_by(out, is_sorted);
                }
                out.push(b']');
            }
            JsonTree::Object(members) => {
                let mut ordered: Vec<_> = members.iter().collect();
                if is_sorted {
                    ordered.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
                }
                out.push(b'{');
                for (index, (name, value)) in ordered.into_iter().enumerate() {
                    if 0 < index {
                        out.push(b',');
                    }
                    write_string(out, name);
                    out.push(b':');
                    value.write_by(out, is_sorted);
                }
                out.push(b'}');
            }
        }
    }

    /// Is it an array or an object with something in it?
    fn is_filled(&self) -> bool {
        match self {
            JsonTree::Literal(_) | JsonTree::String(_) => false,
            JsonTree::Array(elements) => !elements.is_empty(),
            JsonTree::Object(members) => !members.is_empty(),
        }
    }

    fn holds_filled(&self) -> bool {
        match self {
            JsonTree::Literal(_) | JsonTree::String(_) => false,
            JsonTree::Array(elements) => elements.iter().any(JsonTree::is_filled),
            JsonTree::Object(members) => members.iter().any(|(_, value)| value.is_filled()),
        }
    }
}

/// How many characters a line of a value may have that is written on one line.
const LINE_MAX: usize = 100;

/// Appends a value as it stands in the file; the line it begins on has `used` characters already.
pub(super) fn write_pretty(out: &mut String, value: &JsonTree<'_>, indent: usize, used: usize) {
    let fits = |line: &str| used + line.chars().count() <= LINE_MAX;
    if !value.is_filled() {
        return out.push_str(&one_line(value));
    }
    if !value.holds_filled() {
        let line = one_line(value);
        if fits(&line) {
            return out.push_str(&line);
        }
    }
    let inner = indent + 2;
    let begin = |out: &mut String, index: usize| {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n(' ', inner));
    };
    let closing = match value {
        JsonTree::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                begin(out, index);
                write_pretty(out, element, inner, inner);
            }
            ']'
        }
        JsonTree::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                begin(out, index);
                let mut key = String::new();
                write_text(&mut key, name);
                key.push_str(": ");
                out.push_str(&key);
                write_pretty(out, member, inner, inner + key.chars().count());
            }
            '}'
        }
        JsonTree::Literal(_) | JsonTree::String(_) => return,
    };
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(closing);
}

/// The value on one line, as it stands in the file.
pub fn one_line(value: &JsonTree<'_>) -> String {
    let mut out = String::new();
    write_one_line(&mut out, value, &write_text);
    out
}

/// The same for people: what cannot be seen is still there.
pub fn one_line_unescaped(value: &JsonTree<'_>) -> String {
    let mut out = String::new();
    write_one_line(&mut out, value, &|out, text| {
        let mut raw = Vec::new();
        write_string(&mut raw, text);
        out.push_str(str::from_utf8(&raw).unwrap_or_default());
    });
    out
}

fn write_one_line(out: &mut String, value: &JsonTree<'_>, write_text: &dyn Fn(&mut String, &str)) {
    match value {
        JsonTree::Literal(text) => out.push_str(text),
        JsonTree::String(text) => write_text(out, text),
        JsonTree::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_one_line(out, element, write_text);
            }
            out.push(']');
        }
        JsonTree::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_text(out, name);
                out.push_str(": ");
                write_one_line(out, member, write_text);
            }
            out.push('}');
        }
    }
}

/// Appends a string so that what cannot be seen is, and so that no three apostrophes follow each
/// other, which would end the text in the file.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            _ if c < ' '
                || c == '\u{7f}'
                || is_hidden(before, c, rest.peek().copied())
                || c == '\'' && before == Some('\'') =>
            {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(c),
        }
        before = Some(c);
    }
    out.push('"');
}

/// Takes text apart that is known to be JSON.
struct TreeReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> TreeReader<'a> {
    fn value(&mut self) -> JsonTree<'a> {
        self.blanks();
        let from = self.at;
        let Some(first) = self.peek() else { return JsonTree::Literal("null") };
        match Kind::of(first) {
            Kind::String => JsonTree::String(self.string()),
            Kind::Array => {
                self.at += 1;
                let mut elements = Vec::new();
                while self.is_more(b']') {
                    elements.push(self.value());
                }
                JsonTree::Array(elements)
            }
            Kind::Object => {
                self.at += 1;
                let mut members = Vec::new();
                while self.is_more(b'}') {
                    self.blanks();
                    let name = self.string();
                    self.blanks();
                    // The colon.
                    self.at += 1;
                    members.push((name, self.value()));
                }
                JsonTree::Object(members)
            }
            Kind::Null | Kind::Bool | Kind::Number => {
                let is_over = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t'..=b'\r');
                let rest = &self.text.as_bytes()[from..];
                self.at += rest.iter().position(is_over).unwrap_or(rest.len());
                JsonTree::Literal(&self.text[from..self.at])
            }
        }
    }

    /// Steps over the comma before the next entry, or over the end.
    fn is_more(&mut self, closing: u8) -> bool {
        self.blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                true
            }
            Some(byte) if byte == closing => {
                self.at += 1;
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    fn string(&mut self) -> Cow<'a, str> {
        // The opening quote.
        self.at += 1;
        let from = self.at;
        let bytes = self.text.as_bytes();
        let mut is_escaped = false;
        while let Some(next) = memchr::memchr2(b'"', b'\\', &bytes[self.at..]) {
            self.at += next;
            if bytes[self.at] == b'"' {
                break;
            }
            is_escaped = true;
            self.at = (self.at + 2).min(bytes.len());
        }
        let raw = &self.text[from..self.at];
        self.at = (self.at + 1).min(bytes.len());
        if is_escaped { Cow::Owned(unescaped(raw)) } else { Cow::Borrowed(raw) }
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// The characters of what stands between the quotes of a string.
fn unescaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let Some(letter) = behind.chars().next() else { return out };
        rest = &behind[letter.len_utf8()..];
        match letter {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let unit = take_unit(&mut rest).unwrap_or(0);
                let second = rest.strip_prefix("\\u").and_then(|mut behind| {
                    let second = take_unit(&mut behind)?;
                    let is_pair =
                        (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(&second);
                    is_pair.then_some((second, behind))
                });
                match second {
                    Some((second, behind)) => {
                        rest = behind;
                        let code = 0x1_0000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                        out.push(char::from_u32(code).unwrap_or(HALF));
                    }
                    None => out.push(char::from_u32(unit).unwrap_or(HALF)),
                }
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    out
}

fn take_unit(rest: &mut &str) -> Option<u32> {
    let digits = rest.get(..4)?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    *rest = &rest[4..];
    Some(unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::edit::tests::any_json;

    fn anew(text: &str) -> String {
        let mut out = Vec::new();
        JsonTree::parse(text).unwrap().write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_read_to_the_last_escape() {
        for (text, expected) in [
            (r#""\u0041\/\ud83d\ude00""#, r#""A/😀""#),
            (r#""\ud83d""#, "\"\u{fffd}\""),
            (r#""\ud83d\u0041\udc00x""#, "\"\u{fffd}A\u{fffd}x\""),
            (r#""\\\"\b\f\n\r\t\u0001""#, r#""\\\"\b\f\n\r\t\u0001""#),
            (r#"{ "a" : [ 1.0e1 , {} , [ ] ] , "a":null }"#, r#"{"a":[1.0e1,{},[]],"a":null}"#),
            (" true ", "true"),
        ] {
            assert_eq!(anew(text), expected, "{text}");
        }
        assert!(JsonTree::parse("{\"a\":}").is_err());
        assert!(JsonTree::parse(&"[".repeat(500)).is_err());
    }

    #[test]
    fn only_what_is_short_and_flat_stands_on_one_line() {
        let pretty = |text: &str| {
            let mut out = String::new();
            write_pretty(&mut out, &JsonTree::parse(text).unwrap(), 0, 0);
            out
        };
        assert_eq!(pretty(r#"{"a":{},"b":[]}"#), r#"{"a": {}, "b": []}"#);
        assert_eq!(pretty(r#"{"a":{"b":1}}"#), "{\n  \"a\": {\"b\": 1}\n}");
        // With its indentation and key the line of `k` has 100 characters, then 101.
        for (len, lines) in [(89, 3), (90, 5)] {
            let text = format!(r#"{{"k":["{}"]}}"#, "x".repeat(len));
            assert_eq!(pretty(&text).lines().count(), lines, "{len}");
        }
        assert_eq!(
            pretty(r#"["'''\u007f\u202e😀\udb40\udc01"]"#),
            r#"["'\u0027\u0027\u007f\u202e😀\udb40\udc01"]"#
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_the_same_value(text in any_json()) {
            let value = JsonTree::parse(&text).unwrap();
            let mut pretty = String::new();
            write_pretty(&mut pretty, &value, 0, 0);
            prop_assert_eq!(&JsonTree::parse(&pretty).unwrap(), &value);
            let (line, anew) = (one_line(&value), anew(&text));
            prop_assert_eq!(&JsonTree::parse(&line).unwrap(), &value);
            prop_assert_eq!(&JsonTree::parse(&anew).unwrap(), &value);
        }
    }
}
