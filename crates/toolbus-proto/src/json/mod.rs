//! One JSON value as its own text, and the scanner that finds where values begin and end.
//!
//! Arguments and results cross the bus as [`Json`]: checked once when they arrive, cut out
//! of the read buffer without a copy, never parsed again unless a wire has to look inside.

pub mod edit;
pub(crate) mod known;
pub(crate) mod looks;
mod scan;

use std::borrow::Cow;
use std::fmt;

use bytes::{BufMut, Bytes};
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use thiserror::Error;

pub use scan::{DEPTH_MAX, Kind, Scanner};

/// One JSON value, kept as the text it arrived in: digits, key order and escapes included.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    /// Takes text that must hold exactly one JSON value; blanks around it are dropped.
    pub fn parse(text: impl Into<Bytes>) -> Result<Json, JsonError> {
        let text = text.into();
        let value = {
            let whole = std::str::from_utf8(&text).map_err(|_| JsonError::NotUtf8)?;
            let mut scanner = Scanner::new(whole);
            let value = scanner.value()?;
            scanner.end()?;
            value
        };
        Ok(Json(text.slice_ref(value.as_bytes())))
    }

    /// A part of `whole` that a [`Scanner`] has already found to be one value. Shares the buffer.
    ///
    /// Panics if `value` is not a part of `whole`: that would be our own mistake.
    pub fn part_of(whole: &Bytes, value: &str) -> Json {
        Json(whole.slice_ref(value.as_bytes()))
    }

    /// Text that a [`Scanner`] has found to be one value, and that is known to be UTF-8.
    pub(crate) fn of_scanned(text: Bytes) -> Json {
        debug_assert!(Json::parse(text.clone()).is_ok(), "not JSON: {text:?}");
        Json(text)
    }

    /// The JSON of anything that can be written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Json {
        let text = serde_json::to_vec(value).expect("our own types have string keys");
        Json(text.into())
    }

    /// The JSON of anything that may be written as JSON, or why it cannot be: a map whose keys
    /// are no strings, for one.
    pub fn try_of<T: Serialize + ?Sized>(value: &T) -> Result<Json, serde_json::Error> {
        Ok(Json(serde_json::to_vec(value)?.into()))
    }

    /// Text that was put together by us, piece by valid piece.
    pub fn from_trusted(text: impl Into<Bytes>) -> Json {
        let text = text.into();
        debug_assert!(Json::parse(text.clone()).is_ok(), "not JSON: {text:?}");
        Json(text)
    }

    /// The value `null`.
    pub const fn null() -> Json {
        Json(Bytes::from_static(b"null"))
    }

    /// The value as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("checked when the value was made")
    }

    /// The text as bytes that share the value's buffer.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Which of the six kinds of JSON value it is.
    pub fn kind(&self) -> Kind {
        Kind::of(self.0[0])
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// Reads the value into a type, borrowing from its text where the type can.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The characters of a JSON string, or `None` if the value is none.
    pub fn string(&self) -> Option<String> {
        if self.kind() != Kind::String {
            return None;
        }
        self.read().ok()
    }

    /// The same value without blanks between its tokens; itself if it has none.
    #[must_use]
    pub fn compact(&self) -> Json {
        match scan::compact(self.as_str()) {
            Some(text) => Json(text.into()),
            None => self.clone(),
        }
    }

    /// How a wire that has only text shows it: a string is itself, anything else its compact JSON.
    pub fn shown(&self) -> String {
        self.string().unwrap_or_else(|| self.compact().as_str().to_owned())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Written by serde_json as the text that it is, also inside of other values.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = self.read().map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Why some text is not one JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JsonError {
    /// Bytes that are no UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Something else than what JSON allows stands here.
    #[error("not JSON: unexpected {found} at byte {offset}")]
    Unexpected {
        /// What stands there, for people.
        found: Found,
        /// Where, counted from the beginning of the text.
        offset: usize,
    },
    /// Arrays and objects inside each other beyond [`DEPTH_MAX`].
    #[error("nested deeper than {DEPTH_MAX}")]
    TooDeep,
}

/// What the scanner met where it expected something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The text ended.
    End,
    /// This byte.
    Byte(u8),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::End => f.write_str("end"),
            Found::Byte(byte) if byte.is_ascii_graphic() => write!(f, "`{}`", *byte as char),
            Found::Byte(byte) => write!(f, "byte 0x{byte:02x}"),
        }
    }
}

/// Valid JSON without the blanks between its tokens.
pub fn compact(text: &str) -> Cow<'_, str> {
    match scan::compact(text) {
        Some(text) => Cow::Owned(String::from_utf8(text).expect("blanks are whole characters")),
        None => Cow::Borrowed(text),
    }
}

/// Writes `text` as a JSON string, quotes included. Characters beyond ASCII stay as they are.
pub fn write_string(out: &mut impl BufMut, text: &str) {
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, behind) = rest.split_at(scan::plain_prefix(rest));
        out.put_slice(plain);
        let Some((&byte, behind)) = behind.split_first() else { break };
        write_escape(out, byte);
        rest = behind;
    }
    out.put_u8(b'"');
}

fn write_escape(out: &mut impl BufMut, byte: u8) {
    let escape = match byte {
        b'\n' => b'n',
        b'"' | b'\\' => byte,
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => return out.put_slice(format!("\\u{byte:04x}").as_bytes()),
    };
    out.put_slice(&[b'\\', escape]);
}

#[cfg(test)]
mod tests;
