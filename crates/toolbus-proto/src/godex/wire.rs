//! Events as they stand on the wire: their members as raw JSON, and lines as we write them.

use std::borrow::Cow;

use crate::json::{JsonError, Kind, Scanner, write_string};
use crate::jsonrpc::{kind, string};

/// What an event is about, as far as we look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    TextDelta,
    TextDone,
    PartAdded,
    ItemAdded,
    ItemDone,
    ArgumentsDelta,
    ArgumentsDone,
    RefusalDelta,
    RefusalDone,
    Completed,
    Failed,
    Incomplete,
    Error,
    Other,
}

impl About {
    pub(super) fn named(name: &str) -> About {
        match name {
            "response.output_text.delta" => About::TextDelta,
            "response.output_text.done" => About::TextDone,
            "response.content_part.added" => About::PartAdded,
            "response.output_item.added" => About::ItemAdded,
            "response.output_item.done" => About::ItemDone,
            "response.function_call_arguments.delta" => About::ArgumentsDelta,
            "response.function_call_arguments.done" => About::ArgumentsDone,
            "response.refusal.delta" => About::RefusalDelta,
            "response.refusal.done" => About::RefusalDone,
            "response.completed" | "response.done" => About::Completed,
            "response.failed" => About::Failed,
            "response.incomplete" => About::Incomplete,
            "error" => About::Error,
            _ => About::Other,
        }
    }
}

/// The members of an event that a run looks at, each as its raw JSON; of one that stands
/// twice the last.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Members<'a> {
    pub(super) kind: Option<&'a str>,
    pub(super) delta: Option<&'a str>,
    pub(super) text: Option<&'a str>,
    pub(super) refusal: Option<&'a str>,
    pub(super) arguments: Option<&'a str>,
    pub(super) item: Option<&'a str>,
    pub(super) part: Option<&'a str>,
    pub(super) response: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) param: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) item_id: Option<&'a str>,
    pub(super) output_index: Option<&'a str>,
    pub(super) content_index: Option<&'a str>,
    pub(super) sequence_number: Option<&'a str>,
}

impl<'a> Members<'a> {
    /// Reads one JSON object; anything else is an error.
    pub(super) fn read(text: &'a str) -> Result<Members<'a>, JsonError> {
        let mut members = Members::default();
        let mut scanner = Scanner::new(text);
        if !scanner.enter_object() {
            // Says what is wrong with it, if it is no JSON at all.
            scanner.value()?;
            return Err(JsonError::Unexpected {
                found: crate::json::Found::Byte(text.trim_start().as_bytes()[0]),
                offset: 0,
            });
        }
        let mut first = true;
        while let Some((key, value)) = scanner.member(first)? {
            first = false;
            let name = &key[1..key.len() - 1];
            // Servers hardly ever escape a key.
            if !members.put(name, value) && name.contains('\\') {
                members.put(&string(key).unwrap_or_default(), value);
            }
        }
        scanner.end()?;
        Ok(members)
    }

    /// Tells whether a run looks at such a member.
    #[inline]
    fn put(&mut self, name: &str, value: &'a str) -> bool {
        let place = match name {
            "type" => &mut self.kind,
            "delta" => &mut self.delta,
            "text" => &mut self.text,
            "refusal" => &mut self.refusal,
            "arguments" => &mut self.arguments,
            "item" => &mut self.item,
            "part" => &mut self.part,
            "response" => &mut self.response,
            "message" => &mut self.message,
            "code" => &mut self.code,
            "param" => &mut self.param,
            "error" => &mut self.error,
            "item_id" => &mut self.item_id,
            "output_index" => &mut self.output_index,
            "content_index" => &mut self.content_index,
            "sequence_number" => &mut self.sequence_number,
            _ => return false,
        };
        *place = Some(value);
        true
    }

    /// Its own type, if it has one.
    pub(super) fn own_type(&self) -> Option<Cow<'a, str>> {
        self.kind.and_then(string)
    }
}

/// The value if it is a string, still as raw JSON. A member of another kind counts as absent.
pub(super) fn a_string(raw: Option<&str>) -> Option<&str> {
    raw.filter(|raw| kind(raw) == Kind::String)
}

/// The value if it is a number, still as raw JSON.
pub(super) fn a_number(raw: Option<&str>) -> Option<&str> {
    raw.filter(|raw| kind(raw) == Kind::Number)
}

/// The value if it is an object, still as raw JSON.
pub(super) fn an_object(raw: Option<&str>) -> Option<&str> {
    raw.filter(|raw| kind(raw) == Kind::Object)
}

/// The characters of the value if it is a string with any.
pub(super) fn some_text(raw: Option<&str>) -> Option<Cow<'_, str>> {
    a_string(raw).map(characters).filter(|text| !text.is_empty())
}

/// Is it a string with any characters?
pub(super) fn is_some_text(raw: Option<&str>) -> bool {
    a_string(raw).is_some_and(|raw| raw.len() > 2)
}

/// The characters of a raw JSON string. An escape that stands for no character, such as half of a
/// pair that was cut between two deltas, becomes U+FFFD.
pub(super) fn characters(raw: &str) -> Cow<'_, str> {
    string(raw).unwrap_or_else(|| Cow::Owned(lossy(raw)))
}

#[cold]
fn lossy(raw: &str) -> String {
    let mut mended = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        mended.push_str(&rest[..at]);
        let escape = &rest[at..];
        let unit = |text: &str| {
            let digits = text.strip_prefix("\\u")?.get(..4)?;
            u32::from_str_radix(digits, 16).ok()
        };
        let len = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.push('\u{fffd}');
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        mended.push_str(&escape[..len]);
        rest = &escape[len..];
    }
    mended.push_str(rest);
    string(&mended).map(Cow::into_owned).unwrap_or_default()
}

/// A JSON object in the making, in a buffer that may hold others before it.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, is_empty: true }
    }

    /// One of our lines; its type is a plain word.
    pub(super) fn line(out: &'a mut Vec<u8>, kind: &str) -> Object<'a> {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        Object { out, is_empty: false }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// A member whose value is valid JSON.
    pub(super) fn raw(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.out.extend_from_slice(value.as_bytes());
        self
    }

    /// The same, if there is one.
    pub(super) fn maybe(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.raw(name, value);
        }
        self
    }

    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        write_string(self.out, value);
        self
    }

    pub(super) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.raw(name, &value.to_string())
    }

    /// A member that is an object itself.
    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        self.name(name);
        let mut inner = Object::begin(self.out);
        fill(&mut inner);
        inner.end();
        self
    }

    /// Where the event stands in its answer, as far as the server said.
    pub(super) fn place(&mut self, of: &Members<'_>) -> &mut Self {
        self.maybe("output_index", a_number(of.output_index));
        self.maybe("content_index", a_number(of.content_index))
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    pub(super) fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_becomes_a_replacement_character() {
        for (raw, expected) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00\n""#, "\u{fffd}\n"),
            (r#""\ud83d\ude00\ud83d\ud83d\ude00""#, "😀\u{fffd}😀"),
            (r#""\\ud83d\ud83d""#, "\\ud83d\u{fffd}"),
            (r#""é""#, "é"),
        ] {
            assert_eq!(characters(raw), expected, "{raw}");
        }
    }

    #[test]
    fn only_an_object_is_an_event() {
        for text in ["", "1", "\"a\"", "[]", "{", "{\"a\":1} x", "{\"a\"}", "null"] {
            assert!(Members::read(text).is_err(), "{text}");
        }
        let members = Members::read(r#" { "\u0074ype" : "a" , "delta":"x","delta":1 } "#).unwrap();
        assert_eq!(members.own_type().as_deref(), Some("a"));
        assert_eq!(members.delta, Some("1"));
        assert_eq!(a_string(members.delta), None);
    }
}
