//! Values as JSON: what is sent, what came, and what people are shown.

use std::collections::BTreeMap;
use std::fmt::Write;

use thiserror::Error;
use toolbus_proto::json::{Json, Kind as JsonKind, Scanner, write_string};

use super::{ELEMENTS_MAX, Kind, Misfit, Mismatch, Number, Type, Value, convert};

/// A part of the value is known only after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a part of the value is known only after the run")]
pub struct Unknown;

impl Value {
    /// The value itself, as it is sent: compact, keys sorted, nothing hidden.
    pub fn to_json(&self) -> Result<Json, Unknown> {
        if self.contains_unknown() {
            return Err(Unknown);
        }
        let mut out = String::new();
        write_plain(&mut out, self);
        Ok(Json::from_trusted(out))
    }

    /// As people are shown it: compact JSON with `(known after run)` and `(sensitive)` in place
    /// of such parts.
    pub fn shown(&self) -> String {
        let mut out = String::new();
        write(&mut out, self, &|out: &mut String, value: &Value| {
            let words = match value.is_sensitive() {
                true => "(sensitive)",
                false if value.is_unknown() => "(known after run)",
                false => return false,
            };
            out.push_str(words);
            true
        });
        out
    }

    /// What came as JSON, brought to a type.
    pub fn from_json(ty: &Type, json: &Json) -> Result<Value, Mismatch> {
        convert(&from_any_json(json)?, ty)
    }
}

fn write_plain(out: &mut String, value: &Value) {
    write(out, value, &|_, _| false);
}

/// `instead` may write something in place of a part; it then says so.
fn write(out: &mut String, value: &Value, instead: &dyn Fn(&mut String, &Value) -> bool) {
    if instead(out, value) {
        return;
    }
    match value.kind() {
        Kind::Null | Kind::Unknown(_) => out.push_str("null"),
        Kind::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Kind::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Kind::String(text) => quote(out, text),
        Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => {
            out.push('[');
            for (index, element) in all.items().iter().enumerate() {
                if 0 < index {
                    out.push(',');
                }
                write(out, element, instead);
            }
            out.push(']');
        }
        Kind::Map(all) | Kind::Object(all) => {
            out.push('{');
            for (index, (name, member)) in all.items().iter().enumerate() {
                if 0 < index {
                    out.push(',');
                }
                quote(out, name);
                out.push(':');
                write(out, member, instead);
            }
            out.push('}');
        }
    }
}

fn quote(out: &mut String, text: &str) {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    write_string(&mut quoted, text);
    out.push_str(&String::from_utf8_lossy(&quoted));
}

/// What JSON means by itself: arrays are tuples, objects are objects. Of a key that stands
/// twice the last value counts.
pub fn from_any_json(json: &Json) -> Result<Value, Mismatch> {
    let mut reader = Reader { scanner: Scanner::new(json.as_str()), elements: 0 };
    reader.value().map_err(|fault| Mismatch { path: String::new(), fault })
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    elements: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, Misfit> {
        let first = self.scanner.next_byte().unwrap_or(b'n');
        match first {
            b'[' => {
                self.scanner.enter_array();
                let mut elements = Vec::new();
                while self.scanner.more(elements.is_empty(), b']').map_err(Misfit::NotJson)? {
                    elements.push(self.element()?);
                }
                Ok(Value::tuple(elements))
            }
            b'{' => {
                self.scanner.enter_object();
                let mut members = BTreeMap::new();
                let mut is_first = true;
                while let Some(key) = self.scanner.key(is_first).map_err(Misfit::NotJson)? {
                    is_first = false;
                    members.insert(text(key), self.element()?);
                }
                Ok(Value::object(members))
            }
            _ => {
                let raw = self.scanner.value().map_err(Misfit::NotJson)?;
                match first {
                    b'"' => Ok(Value::string(text(raw))),
                    b't' => Ok(Value::bool(true)),
                    b'f' => Ok(Value::bool(false)),
                    b'n' => Ok(Value::NULL),
                    _ => Number::parse(raw).map(Value::number).map_err(|_| Misfit::TooManyDigits),
                }
            }
        }
    }

    /// Counted before it is kept: sixteen million zeros are far more than their text.
    fn element(&mut self) -> Result<Value, Misfit> {
        self.elements += 1;
        match self.elements <= ELEMENTS_MAX {
            true => self.value(),
            false => Err(Misfit::TooManyElements),
        }
    }
}

/// What a raw JSON string spells; one with an escape that stands for no character is kept as it
/// is written.
fn text(raw: &str) -> String {
    let json = Json::from_trusted(raw.to_owned());
    debug_assert_eq!(json.kind(), JsonKind::String);
    json.string().unwrap_or_else(|| raw.trim_matches('"').to_owned())
}
