//! The id of a request, which is whatever text the other side wrote.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

use super::kind;
use crate::json::{Json, Kind};

/// A request's id as its text. Ids are compared as text: `"0"` does not answer `0`.
#[derive(Clone)]
pub struct Id(Text);

/// Nearly all ids are short. Those are kept here and not in the buffer they came in, which
/// would have to be counted with every copy.
#[derive(Clone)]
enum Text {
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Bytes),
}

/// What fits beside the mark that tells it from a long one.
const SHORT_BYTES_MAX: usize = 23;

impl Id {
    /// The id `null`.
    pub const NULL: Id = Id(Text::Long(Bytes::from_static(b"null")));

    /// A small number, as we give them out.
    pub fn number(number: u64) -> Id {
        Id::short(number.to_string().as_bytes()).expect("a number has at most 20 digits")
    }

    /// A raw value inside `whole` that names a request, or `None` if it is of a kind that
    /// is no id. A long one shares the buffer.
    pub fn part_of(whole: &Bytes, raw: &str) -> Option<Id> {
        let is_id = matches!(kind(raw), Kind::String | Kind::Number);
        let raw = raw.as_bytes();
        is_id.then(|| Id::short(raw).unwrap_or_else(|| Id(Text::Long(whole.slice_ref(raw)))))
    }

    fn short(text: &[u8]) -> Option<Id> {
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Id(Text::Short { len: text.len() as u8, bytes }))
    }

    /// The same in a buffer of its own, for those who keep it longer than the message it came
    /// with.
    pub fn detached(&self) -> Id {
        match &self.0 {
            Text::Short { .. } => self.clone(),
            Text::Long(bytes) => Id(Text::Long(Bytes::copy_from_slice(bytes))),
        }
    }

    /// The text, quotes and escapes included.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { len, bytes } => &bytes[..usize::from(*len)],
            Text::Long(bytes) => bytes,
        }
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        self.as_bytes() == b"null"
    }

    /// The number, if it is written just as we write ours.
    pub fn as_number(&self) -> Option<u64> {
        let text = std::str::from_utf8(self.as_bytes()).ok()?;
        let canonical = text == "0" || text.starts_with(|first| matches!(first, '1'..='9'));
        canonical.then(|| text.parse().ok()).flatten()
    }

    /// The id as it goes into an error report.
    pub fn to_json(&self) -> Json {
        match &self.0 {
            Text::Short { .. } => Json::from_trusted(Bytes::copy_from_slice(self.as_bytes())),
            Text::Long(bytes) => Json::from_trusted(bytes.clone()),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.as_bytes().escape_ascii())
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Id {}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: &'static str) -> Id {
        Id::part_of(&Bytes::from_static(raw.as_bytes()), raw).unwrap()
    }

    #[test]
    fn only_ids_written_as_ours_are_numbers() {
        assert_eq!(id("0").as_number(), Some(0));
        assert_eq!(id("17").as_number(), Some(17));
        let others =
            ["00", "01", "+1", "-0", "1.0", "1e0", "\"1\"", "99999999999999999999"].map(id);
        for other in others.into_iter().chain([Id::NULL]) {
            assert_eq!(other.as_number(), None, "{other:?}");
        }
    }

    #[test]
    fn ids_of_any_length_keep_their_text() {
        let texts = ["7", "\"21 characters of text\"", "\"22 characters in a text\""];
        for text in texts {
            assert_eq!(id(text).as_bytes(), text.as_bytes());
            assert_eq!(id(text).to_json().as_str(), text);
            assert_eq!(id(text), id(text).clone());
            assert!(texts.iter().filter(|other| id(other) == id(text)).count() == 1);
        }
        assert_eq!(size_of::<Id>(), size_of::<Bytes>());
        assert_eq!(Id::part_of(&Bytes::from_static(b"[]"), "[]"), None);
    }
}
