//! A JSON object written member by member: what is not there is left out and never null.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::json::write_string;
use crate::time::rfc3339;

/// An object that is being written.
pub struct JsonMembers<'a> {
    out: &'a mut Vec<u8>,
    has_any: bool,
}

impl<'a> JsonMembers<'a> {
    /// Begins one at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>) -> JsonMembers<'a> {
        out.push(b'{');
        JsonMembers { out, has_any: false }
    }

    /// Begins a member: its value is written behind.
    pub fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.has_any, true) {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// A text.
    pub fn text(&mut self, name: &str, text: &str) {
        write_string(self.key(name), text);
    }

    /// A text, if there is one.
    pub fn text_if(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// A whole number.
    pub fn number(&mut self, name: &str, number: u64) {
        // Writing to a vector cannot fail.
        let _ = write!(self.key(name), "{number}");
    }

    /// True or false.
    pub fn bool(&mut self, name: &str, is: bool) {
        self.raw(name, if is { "true" } else { "false" });
    }

    /// JSON as it is.
    pub fn raw(&mut self, name: &str, json: &str) {
        self.key(name).extend_from_slice(json.as_bytes());
    }

    /// A duration in milliseconds.
    pub fn millis(&mut self, name: &str, duration: Duration) {
        write_millis(self.key(name), micros(duration));
    }

    /// A time of the wall clock.
    pub fn time(&mut self, name: &str, wall: u64) {
        let text = rfc3339(wall_time(wall));
        self.text(name, &text);
    }

    /// An object.
    pub fn object(&mut self, name: &str, write: impl FnOnce(&mut JsonMembers<'_>)) {
        let mut inner = JsonMembers::begin(self.key(name));
        write(&mut inner);
        inner.end();
    }

    /// An array; each element is written by itself.
    pub fn array<T>(
        &mut self,
        name: &str,
        elements: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) {
        let out = self.key(name);
        out.push(b'[');
        for (at, element) in elements.into_iter().enumerate() {
            if 0 < at {
                out.push(b',');
            }
            write(out, element);
        }
        out.push(b']');
    }

    /// That was the last.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// A time of the wall clock, from its milliseconds since 1970.
pub(super) fn wall_time(wall: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(wall)
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds as milliseconds with three decimals.
pub fn write_millis(out: &mut Vec<u8>, micros: u64) {
    let _ = write!(out, "{}.{:03}", micros / 1000, micros % 1000);
}
