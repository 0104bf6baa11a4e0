//! The JSON-RPC 2.0 envelope: read without a copy, written member by member.
//!
//! Several wires wrap their messages in it and differ in small things. What differs is one
//! [`Rules`] const a wire, in that wire's room; what is the same is here, once.

use std::borrow::Cow;
use std::fmt::Write;

use bytes::Bytes;
use thiserror::Error;

use crate::channel::Outbox;
use crate::json::{Json, JsonError, Kind, Scanner, write_string};

/// Where the wires that use this envelope differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `null` is an id like any other; else it is none.
    pub null_id: bool,
    /// Parameters may be anything; else an object, or `null`, which counts as absent.
    pub any_params: bool,
}

/// One message, borrowing from its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// To be echoed byte for byte.
        id: Id,
        /// What is asked.
        method: Cow<'a, str>,
        /// The raw value, if there is one.
        params: Option<&'a str>,
    },
    /// Wants none.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// The raw value, if there is one.
        params: Option<&'a str>,
    },
    /// An answer; both members may be absent, and both may be there.
    Response {
        /// The id of the question, as the other side wrote it.
        id: Id,
        /// The raw value, if there is one.
        result: Option<&'a str>,
        /// The raw value, if there is one.
        error: Option<&'a str>,
    },
}

/// A request's id as its text. Ids are compared as text: `"0"` does not answer `0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(Bytes);

impl Id {
    /// The id `null`.
    pub const NULL: Id = Id(Bytes::from_static(b"null"));

    /// A small number, as we give them out.
    pub fn number(number: u64) -> Id {
        Id(number.to_string().into())
    }

    /// A raw value inside `whole` that names a request, or `None` if it is of a kind that
    /// is no id. Shares the buffer.
    pub fn part_of(whole: &Bytes, raw: &str) -> Option<Id> {
        let is_id = matches!(kind(raw), Kind::String | Kind::Number);
        is_id.then(|| Id(whole.slice_ref(raw.as_bytes())))
    }

    /// The text, quotes and escapes included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Is it `null`?
    pub fn is_null(&self) -> bool {
        &self.0[..] == b"null"
    }

    /// The number, if it is written just as we write ours.
    pub fn as_number(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let canonical = text == "0" || text.starts_with(|first| matches!(first, '1'..='9'));
        canonical.then(|| text.parse().ok()).flatten()
    }

    /// The id as it goes into an error report.
    pub fn to_json(&self) -> Json {
        Json::from_trusted(self.0.clone())
    }
}

/// Why a line is no message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Invalid {
    /// What is wrong.
    pub why: Why,
    /// The id an answer can carry, if the line had one that is valid.
    pub id: Option<Id>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Why {
    /// Not JSON at all.
    #[error("{0}")]
    NotJson(JsonError),
    /// An array: several messages at once.
    #[error("batches are not supported")]
    Batch,
    /// A JSON value that is no object.
    #[error("a message must be an object")]
    NotAnObject,
    /// `jsonrpc` is missing or another version.
    #[error("`jsonrpc` must be \"2.0\"")]
    Version,
    /// An id of a kind that is no id.
    #[error("`id` must be a string or a number")]
    Id,
    /// The method is no string.
    #[error("`method` must be a string")]
    Method,
    /// Parameters of a kind that this wire does not have.
    #[error("`params` must be an object")]
    Params,
    /// Neither a request nor an answer.
    #[error("a message needs `method`, or `id` with `result` or `error`")]
    Neither,
    /// An answer that does not say to what.
    #[error("an answer needs an `id`")]
    NoId,
    /// A member of the envelope stands twice.
    #[error("`{0}` stands twice")]
    Repeated(&'static str),
}

impl Why {
    /// Is the fault in the text itself, rather than in what it says?
    pub fn is_parse_error(self) -> bool {
        matches!(self, Why::NotJson(_))
    }
}

const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of the envelope as they stand in the text.
#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

impl Rules {
    /// Reads one line, which holds one message.
    pub fn read<'a>(&self, line: &'a Bytes) -> Result<Message<'a>, Invalid> {
        self.read_picking(line, []).map(|(message, [])| message)
    }

    /// Like [`Rules::read`], and picks members of the parameters on the way, each raw: for who
    /// would have to look through them a second time. Of two of a name it is the last.
    pub fn read_picking<'a, const N: usize>(
        &self,
        line: &'a Bytes,
        names: [&str; N],
    ) -> Result<(Message<'a>, [Option<&'a str>; N]), Invalid> {
        let fault = |why| Invalid { why, id: None };
        let text =
            std::str::from_utf8(line).map_err(|_| fault(Why::NotJson(JsonError::NotUtf8)))?;
        let mut picked = [None; N];
        let members = Members::read(text, |key, value| {
            if let Some(at) = which(key, &names) {
                picked[at] = Some(value);
            }
        });
        let message = self.message(line, members.map_err(fault)?)?;
        Ok((message, picked))
    }

    fn message<'a>(&self, line: &'a Bytes, members: Members<'a>) -> Result<Message<'a>, Invalid> {
        let fault = |why| Invalid { why, id: None };

        let id = match members.id.map(|id| self.id(line, id)) {
            Some(Some(id)) => Some(id),
            Some(None) => return Err(fault(Why::Id)),
            None => None,
        };
        let fault = |why| Invalid { why, id: id.clone() };
        let is_ours = |raw: &str| raw == "\"2.0\"" || string(raw).as_deref() == Some("2.0");
        if !members.jsonrpc.is_some_and(is_ours) {
            return Err(fault(Why::Version));
        }
        let Some(method) = members.method else {
            let Members { result, error, .. } = members;
            return match id.clone() {
                Some(id) => Ok(Message::Response { id, result, error }),
                None if result.is_some() || error.is_some() => Err(fault(Why::NoId)),
                None => Err(fault(Why::Neither)),
            };
        };
        let method = string(method).ok_or_else(|| fault(Why::Method))?;
        let params = self.params(members.params).map_err(fault)?;
        Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        })
    }

    fn id(&self, line: &Bytes, raw: &str) -> Option<Id> {
        if self.null_id && kind(raw) == Kind::Null {
            return Some(Id::NULL);
        }
        Id::part_of(line, raw)
    }

    fn params<'a>(&self, raw: Option<&'a str>) -> Result<Option<&'a str>, Why> {
        match raw.map(kind) {
            _ if self.any_params => Ok(raw),
            None | Some(Kind::Null) => Ok(None),
            Some(Kind::Object) => Ok(raw),
            Some(_) => Err(Why::Params),
        }
    }
}

impl<'a> Members<'a> {
    /// Shows the members of the parameters on the way.
    fn read(text: &'a str, mut see: impl FnMut(&'a str, &'a str)) -> Result<Members<'a>, Why> {
        let mut members = Members::default();
        let mut scanner = Scanner::new(text);
        if !scanner.enter_object() {
            let value = scanner.value().and_then(|value| scanner.end().map(|()| value));
            return Err(match value.map_err(Why::NotJson)? {
                array if array.starts_with('[') => Why::Batch,
                _ => Why::NotAnObject,
            });
        }
        let mut repeated = None;
        let mut first = true;
        while let Some(key) = scanner.key(first).map_err(Why::NotJson)? {
            first = false;
            let name = which(key, &MEMBERS).map(|at| MEMBERS[at]);
            let value = match name {
                Some("params") => scanner.value_with_members(&mut see),
                _ => scanner.value(),
            };
            let value = value.map_err(Why::NotJson)?;
            let Some((name, place)) = name.and_then(|name| members.place(name)) else {
                continue;
            };
            if place.replace(value).is_some() {
                repeated.get_or_insert(name);
            }
        }
        scanner.end().map_err(Why::NotJson)?;
        // Only now: text that is no JSON at all is the graver fault.
        repeated.map_or(Ok(members), |name| Err(Why::Repeated(name)))
    }

    fn place(&mut self, name: &'static str) -> Option<(&'static str, &mut Option<&'a str>)> {
        let place = match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return None,
        };
        Some((name, place))
    }
}

/// Which of the names a raw key spells. Hardly anybody escapes a key, so that is looked for
/// last.
fn which(key: &str, names: &[&str]) -> Option<usize> {
    let inner = key.get(1..key.len() - 1)?;
    let plain = names.iter().position(|name| *name == inner);
    if plain.is_some() || names.is_empty() || !inner.contains('\\') {
        return plain;
    }
    let spelled = string(key)?;
    names.iter().position(|name| *name == spelled)
}

/// The kind of a raw value that a scanner has found to be valid.
pub fn kind(raw: &str) -> Kind {
    Kind::of(raw.as_bytes()[0])
}

/// The characters of a raw JSON string, or `None` if the value is none (a lone surrogate
/// escape stands for no character, so such a string is none either).
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// Writes a request as one line, up to its parameters; the caller appends those and `}\n`.
pub fn begin_request(out: &mut Outbox, id: u64, method: &str) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    // An outbox takes whatever it is given.
    let _ = write!(out, "{id}");
    out.put(br#","method":""#);
    out.put(method.as_bytes());
    out.put(br#"","params":"#);
}

/// Writes a notification without parameters as one line.
pub fn write_notification(out: &mut Outbox, method: &str) {
    out.put(br#"{"jsonrpc":"2.0","method":""#);
    out.put(method.as_bytes());
    out.put(b"\"}\n");
}

/// Writes a good answer as one line.
pub fn write_result(out: &mut Outbox, id: &Id, result: &Bytes) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    out.put(id.as_bytes());
    out.put(br#","result":"#);
    out.put_shared(result);
    out.put(b"}\n");
}

/// Writes a refusal as one line.
pub fn write_error(out: &mut Outbox, id: &Id, code: i64, message: &str, data: Option<&Json>) {
    let mut line = Vec::with_capacity(96 + message.len());
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    line.extend_from_slice(id.as_bytes());
    line.extend_from_slice(br#","error":{"code":"#);
    line.extend_from_slice(code.to_string().as_bytes());
    line.extend_from_slice(br#","message":"#);
    write_string(&mut line, message);
    if let Some(data) = data {
        line.extend_from_slice(br#","data":"#);
        line.extend_from_slice(data.as_bytes());
    }
    line.extend_from_slice(b"}}\n");
    out.put(&line);
}

#[cfg(test)]
mod tests;
