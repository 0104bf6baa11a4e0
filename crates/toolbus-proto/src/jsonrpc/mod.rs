//! The JSON-RPC 2.0 envelope: read without a copy, written member by member.
//!
//! Several wires wrap their messages in it and differ in small things. What differs is one
//! [`Rules`] const a wire, in that wire's room; what is the same is here, once.

mod batches;
mod id;

use std::borrow::Cow;

use bytes::Bytes;
use thiserror::Error;

use crate::channel::Outbox;
use crate::json::{Json, JsonError, Kind, Scanner, write_string};

pub use batches::Batches;
pub use id::Id;

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
    /// Wants no answer.
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

/// The members of the envelope as they stand in the text, each raw and not judged yet; of two
/// of one name it is the last.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct Members<'a> {
    pub jsonrpc: Option<&'a str>,
    pub id: Option<&'a str>,
    pub method: Option<&'a str>,
    pub params: Option<&'a str>,
    pub result: Option<&'a str>,
    pub error: Option<&'a str>,
    /// One that stands twice.
    repeated: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
}

impl Rules {
    /// Reads one line, which holds one message.
    pub fn read<'a>(&self, line: &'a Bytes) -> Result<Message<'a>, Invalid> {
        let read = Members::read(line, []);
        let (members, []) = read.map_err(|why| Invalid { why, id: None })?;
        self.message(line, &members)
    }

    /// The message that these members of `line` make.
    pub fn message<'a>(
        &self,
        line: &'a Bytes,
        members: &Members<'a>,
    ) -> Result<Message<'a>, Invalid> {
        let fault = |why| Invalid { why, id: None };
        if let Some(name) = members.repeated {
            return Err(fault(Why::Repeated(name)));
        }
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
            let Members { result, error, .. } = *members;
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
    /// Reads one line, and picks members of the parameters on the way, each raw: for a caller
    /// that would have to look through them a second time.
    pub fn read<const N: usize>(
        line: &'a Bytes,
        names: [&str; N],
    ) -> Result<(Members<'a>, [Option<&'a str>; N]), Why> {
        let text = str::from_utf8(line).map_err(|_| Why::NotJson(JsonError::NotUtf8))?;
        let (mut members, mut picked) = (Members::default(), [None; N]);
        let mut scanner = Scanner::new(text);
        if !scanner.enter_object() {
            let value = scanner.value().and_then(|value| scanner.end().map(|()| value));
            return Err(match value.map_err(Why::NotJson)? {
                array if array.starts_with('[') => Why::Batch,
                _ => Why::NotAnObject,
            });
        }
        let mut first = true;
        while let Some(key) = scanner.key(first).map_err(Why::NotJson)? {
            first = false;
            let member = Member::of_key(key);
            let value = match member {
                Some(Member::Params) => {
                    picked = [None; N];
                    scanner.value_with_members(|key, value| {
                        if let Some(at) = which(key, &names) {
                            picked[at] = Some(value);
                        }
                    })
                }
                _ => scanner.value(),
            };
            let value = value.map_err(Why::NotJson)?;
            let Some(member) = member else { continue };
            if members.place(member).replace(value).is_some() {
                members.repeated.get_or_insert(member.name());
            }
        }
        scanner.end().map_err(Why::NotJson)?;
        Ok((members, picked))
    }

    fn place(&mut self, member: Member) -> &mut Option<&'a str> {
        match member {
            Member::Jsonrpc => &mut self.jsonrpc,
            Member::Id => &mut self.id,
            Member::Method => &mut self.method,
            Member::Params => &mut self.params,
            Member::Result => &mut self.result,
            Member::Error => &mut self.error,
        }
    }
}

impl Member {
    /// The one that a raw key spells. Hardly any peer escapes a key, so that is looked for last.
    #[inline]
    fn of_key(key: &str) -> Option<Member> {
        let inner = key.get(1..key.len() - 1)?;
        let plain = Member::named(inner);
        if plain.is_some() || !inner.contains('\\') {
            return plain;
        }
        Member::named(&string(key)?)
    }

    #[inline]
    fn named(name: &str) -> Option<Member> {
        Some(match name {
            "jsonrpc" => Member::Jsonrpc,
            "id" => Member::Id,
            "method" => Member::Method,
            "params" => Member::Params,
            "result" => Member::Result,
            "error" => Member::Error,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Member::Jsonrpc => "jsonrpc",
            Member::Id => "id",
            Member::Method => "method",
            Member::Params => "params",
            Member::Result => "result",
            Member::Error => "error",
        }
    }
}

/// Which of the names a raw key spells. Hardly any peer escapes a key, so that is looked for
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
    out.put_number(id);
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
