//! The secrets of one run, and text without them.
//!
//! Every string in a sensitive value is a secret. Whatever text leaves us goes through
//! [`Secrets::masked`]; the wires carry the real values. A look at a text costs as much as the
//! text is long, however many secrets there are.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::Range;

use toolbus_engine::secrets::{in_json, longest_first};

use crate::value::Value;

/// What stands in place of a secret.
pub const MASK: &str = "(sensitive)";

/// Shorter ones are hidden by taint only: half of all text would be masked.
const CHARS_MIN: usize = 4;

/// A secret has at least as many bytes as characters, so each has so many at its beginning.
const HEAD_BYTES: usize = CHARS_MIN;

/// The secrets that are known.
#[derive(Debug, Default)]
pub struct Secrets {
    /// All the ways in which they may be written, by their first bytes, the longest first.
    by_head: RefCell<HashMap<[u8; HEAD_BYTES], Vec<String>>>,
}

impl Secrets {
    /// None yet.
    pub fn new() -> Secrets {
        Secrets::default()
    }

    /// From now on the strings in this value are masked.
    pub fn hide(&self, value: &Value) {
        if let Some(text) = value.as_str() {
            self.hide_text(text);
        }
        value.elements().into_iter().flatten().for_each(|element| self.hide(element));
        let members = value.members().into_iter().flatten();
        members.for_each(|(_, member)| self.hide(member));
    }

    /// From now on the strings in the sensitive parts of this value are masked.
    pub fn hide_sensitive(&self, value: &Value) {
        if value.is_sensitive() {
            return self.hide(value);
        }
        if value.contains_sensitive() {
            let elements = value.elements().into_iter().flatten();
            elements.for_each(|element| self.hide_sensitive(element));
            let members = value.members().into_iter().flatten();
            members.for_each(|(_, member)| self.hide_sensitive(member));
        }
    }

    /// From now on this text is masked, also where it stands in JSON.
    pub fn hide_text(&self, text: &str) {
        if text.chars().count() < CHARS_MIN {
            return;
        }
        let mut by_head = self.by_head.borrow_mut();
        for spelling in [text.to_owned(), in_json(text), in_ascii_json(text)] {
            let head = spelling.as_bytes().first_chunk::<HEAD_BYTES>();
            let Some(head) = head else { continue };
            let spellings = by_head.entry(*head).or_default();
            let longer = |known: &String| spelling.len() < known.len();
            if !spellings.contains(&spelling) {
                spellings.insert(spellings.partition_point(longer), spelling);
            }
        }
    }

    /// The text, without the secrets in it.
    pub fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for Range { start, end } in found {
            masked.push_str(&text[from..start]);
            masked.push_str(MASK);
            from = end;
        }
        masked.push_str(&text[from..]);
        Cow::Owned(masked)
    }

    /// Does a secret stand in this text?
    pub fn are_in(&self, text: &str) -> bool {
        !self.find(text).is_empty()
    }

    /// The value, in which every string that has a secret in it is sensitive.
    #[must_use]
    pub fn tainted(&self, value: Value) -> Value {
        if self.by_head.borrow().is_empty() || !self.are_in_strings(&value) {
            return value;
        }
        taint(&value, &|text| self.are_in(text))
    }

    fn are_in_strings(&self, value: &Value) -> bool {
        value.as_str().is_some_and(|text| self.are_in(text))
            || value.elements().is_some_and(|all| all.iter().any(|one| self.are_in_strings(one)))
            || value.members().is_some_and(|all| {
                all.iter().any(|(name, one)| self.are_in(name) || self.are_in_strings(one))
            })
    }

    /// Where secrets stand, in order. Of those that overlap the longest is taken, and of two as
    /// long the first.
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        let by_head = self.by_head.borrow();
        let mut found: Vec<Range<usize>> = Vec::new();
        if by_head.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        for (at, head) in bytes.windows(HEAD_BYTES).enumerate() {
            let head: &[u8; HEAD_BYTES] = head.try_into().expect("windows are of that length");
            let Some(spellings) = by_head.get(head) else { continue };
            let fits = |spelling: &&String| bytes[at..].starts_with(spelling.as_bytes());
            let fitting = spellings.iter().filter(fits);
            found.extend(fitting.map(|spelling| at..at + spelling.len()));
        }
        longest_first(found)
    }
}

/// Taints the strings that `is_secret`; a member whose name is, is tainted as a whole.
fn taint(value: &Value, is_secret: &dyn Fn(&str) -> bool) -> Value {
    use crate::value::Kind;
    let elements = |all: &[Value]| all.iter().map(|one| taint(one, is_secret)).collect::<Vec<_>>();
    let members = |all: &BTreeMap<String, Value>| {
        let one = |(name, one): (&String, &Value)| {
            (name.clone(), taint(one, is_secret).with_sensitive(is_secret(name)))
        };
        all.iter().map(one).collect()
    };
    let tainted = match value.kind() {
        Kind::String(text) => return value.clone().with_sensitive(is_secret(text)),
        Kind::List(all) => Value::list(all.element().clone(), elements(all.items())),
        Kind::Set(all) => Value::set(all.element().clone(), elements(all.items())),
        Kind::Tuple(all) => Value::tuple(elements(all.items())),
        Kind::Map(all) => Value::map(all.element().clone(), members(all.items())),
        Kind::Object(all) => Value::object(members(all.items())),
        _ => return value.clone(),
    };
    tainted.with_sensitive(value.is_sensitive())
}

/// As it stands between the quotes of a JSON string of nothing but ASCII.
fn in_ascii_json(text: &str) -> String {
    let mut ascii = String::new();
    for char in in_json(text).chars() {
        if char.is_ascii() {
            ascii.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Written to a `String`, which cannot fail.
            let _ = write!(ascii, "\\u{unit:04x}");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knowing(secrets: &[&str]) -> Secrets {
        let known = Secrets::new();
        secrets.iter().for_each(|secret| known.hide_text(secret));
        known
    }

    #[test]
    fn secrets_are_masked_in_text_and_in_json() {
        let known = knowing(&["s3cr3t", "p\"q\u{e4}r", "abc"]);
        for (text, expected) in [
            ("a s3cr3t, a s3cr3ts3cr3t", "a (sensitive), a (sensitive)(sensitive)"),
            ("p\"q\u{e4}r", "(sensitive)"),
            (r#"{"x":"p\"qär"}"#, r#"{"x":"(sensitive)"}"#),
            (r#"{"x":"p\"q\u00e4r"}"#, r#"{"x":"(sensitive)"}"#),
            ("abc s3cr3", "abc s3cr3"),
            ("", ""),
        ] {
            assert_eq!(known.masked(text), expected, "{text}");
        }
    }

    #[test]
    fn of_secrets_that_overlap_the_longest_is_taken_first() {
        for (secrets, text, expected) in [
            (
                &["token", "token-of-mine", "mine-alone"][..],
                "a token, a token-of-mine-alone!",
                "a (sensitive), a (sensitive)-alone!",
            ),
            (&["abcd", "bcdefgh"], "abcdefgh abcd", "a(sensitive) (sensitive)"),
            (&["abcde", "cdefghi", "hijklmnop"], "abcdefghijklmnop", "(sensitive)fg(sensitive)"),
            (&["s3cr3t", "cr3t-l0ng"], "s3cr3t-l0ng", "s3(sensitive)"),
            (&["aaaa"], "aaaaaaaaa", "(sensitive)(sensitive)a"),
        ] {
            assert_eq!(knowing(secrets).masked(text), expected, "{text}");
        }
    }

    #[test]
    fn what_has_a_secret_in_it_is_tainted() {
        let known = knowing(&["s3cr3t"]);
        let members = BTreeMap::from([
            ("a".to_owned(), Value::string("plain")),
            ("b".to_owned(), Value::tuple(vec![Value::string("with s3cr3t"), Value::bool(true)])),
        ]);
        let tainted = known.tainted(Value::object(members));
        assert_eq!(tainted.shown(), r#"{"a":"plain","b":[(sensitive),true]}"#);
    }

    #[test]
    fn every_string_of_a_sensitive_value_is_a_secret() {
        let known = Secrets::new();
        let inner = BTreeMap::from([("p".to_owned(), Value::string("hunter22"))]);
        known.hide_sensitive(&Value::tuple(vec![
            Value::string("shown"),
            Value::object(inner).sensitive(),
        ]));
        assert_eq!(known.masked("shown hunter22"), "shown (sensitive)");
    }
}
