//! Orchard's frames as they stand on the wire: one JSON object a line.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;

use crate::channel::Outbox;
use crate::json::{JsonError, Kind, Scanner, edit, write_string};
use crate::jsonrpc::{kind, string};

/// A request, as a host wrote it. Members of `params` that the methods know stand beside it.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) params: Option<&'a str>,
    pub(super) action: Option<&'a str>,
    pub(super) attrs: Option<&'a str>,
    pub(super) config: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// Reads a line in one look; `None` if it is no JSON object.
    pub(super) fn read(line: &'a [u8]) -> Option<Request<'a>> {
        let text = std::str::from_utf8(line).ok()?;
        let mut scanner = Scanner::new(text);
        let mut request = Request::default();
        if !scanner.enter_object() {
            return None;
        }
        let mut first = true;
        while let Some(key) = scanner.key(first).ok()? {
            first = false;
            match &*name(key) {
                "id" => request.id = Some(scanner.value().ok()?),
                "method" => request.method = Some(scanner.value().ok()?),
                "params" => {
                    let (mut action, mut attrs, mut config) = (None, None, None);
                    let params = scanner.value_with_members(|key, value| match &*name(key) {
                        "action" => action = Some(value),
                        "attrs" => attrs = Some(value),
                        "config" => config = Some(value),
                        _ => {}
                    });
                    let params = Some(params.ok()?);
                    request = Request { params, action, attrs, config, ..request };
                }
                _ => drop(scanner.value().ok()?),
            }
        }
        scanner.end().ok()?;
        Some(request)
    }

    /// The id of a line of which only the beginning is there.
    pub(super) fn id_in_front(head: &'a [u8]) -> Option<&'a str> {
        let text = head.utf8_chunks().next()?.valid();
        let mut scanner = Scanner::new(text);
        let mut first = scanner.enter_object();
        while let Ok(Some((key, value))) = scanner.member(first) {
            first = false;
            if name(key) == "id" {
                return Some(value);
            }
        }
        None
    }
}

/// An answer, as a provider wrote it. `null` stands for nothing.
#[derive(Debug, Default)]
pub(super) struct Response<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) result: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// `result` stands there as `null`.
    pub(super) result_is_null: bool,
    /// `error` stands there as `null`.
    pub(super) error_is_null: bool,
    /// The member `schema` of the result.
    pub(super) schema: Option<&'a str>,
    /// The member `outputs` of the result.
    pub(super) outputs: Option<&'a str>,
    /// A member that an answer does not have.
    pub(super) extra: Option<Cow<'a, str>>,
}

impl<'a> Response<'a> {
    /// Reads a line in one look.
    pub(super) fn read(line: &'a [u8]) -> Result<Response<'a>, JsonError> {
        let text = std::str::from_utf8(line).map_err(|_| JsonError::NotUtf8)?;
        let mut scanner = Scanner::new(text);
        let mut response = Response::default();
        if !scanner.enter_object() {
            // For the error: what begins otherwise is no frame, and not brought here.
            scanner.value()?;
            return Ok(response);
        }
        let mut first = true;
        while let Some(key) = scanner.key(first)? {
            first = false;
            match name(key) {
                name if name == "id" => response.id = Some(scanner.value()?),
                name if name == "error" => {
                    let error = scanner.value()?;
                    response.error_is_null = kind(error) == Kind::Null;
                    response.error = not_null(error);
                }
                name if name == "result" => {
                    let (mut schema, mut outputs) = (None, None);
                    let result =
                        scanner.value_with_members(|key, value| match &*self::name(key) {
                            "schema" => schema = not_null(value),
                            "outputs" => outputs = not_null(value),
                            _ => {}
                        })?;
                    let is_null = kind(result) == Kind::Null;
                    response.result = not_null(result);
                    response = Response { result_is_null: is_null, schema, outputs, ..response };
                }
                name => {
                    scanner.value()?;
                    response.extra = Some(name);
                }
            }
        }
        scanner.end()?;
        Ok(response)
    }
}

/// What the `error` of an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal<'a> {
    pub(super) code: Cow<'a, str>,
    pub(super) message: Cow<'a, str>,
    pub(super) detail: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    /// Reads the `error` member; `None` unless it is an object with a string `code`.
    pub(super) fn read(error: &'a str) -> Option<Refusal<'a>> {
        let [code, message, detail] = edit::pick(error, ["code", "message", "detail"]);
        Some(Refusal {
            code: code.and_then(string)?,
            message: message.and_then(string).unwrap_or_default(),
            detail: detail.and_then(not_null),
        })
    }
}

/// Writes one request; `params` is the text of an object.
pub(super) fn write_request(out: &mut Outbox, id: u64, method: &str, params: &Bytes) {
    begin_request(out, id, method);
    out.put_shared(params);
    out.put(b"}\n");
}

/// Writes a `configure`.
pub(super) fn write_configure(out: &mut Outbox, id: u64, config: &Bytes) {
    begin_request(out, id, "configure");
    out.put(br#"{"config":"#);
    out.put_shared(config);
    out.put(b"}}\n");
}

/// Writes an `execute`.
pub(super) fn write_execute(out: &mut Outbox, id: u64, action: &str, attrs: &Bytes) {
    begin_request(out, id, "execute");
    out.put(br#"{"action":"#);
    out.put_string(action);
    out.put(br#","attrs":"#);
    out.put_shared(attrs);
    out.put(b"}}\n");
}

fn begin_request(out: &mut Outbox, id: u64, method: &str) {
    // An outbox takes whatever it is given.
    let _ = write!(out, r#"{{"id":{id},"method":"{method}","params":"#);
}

/// Writes a good answer around the text of its result: `open`, `inner`, `close`.
pub(super) fn write_result(out: &mut Outbox, id: i64, open: &str, inner: &Bytes, close: &str) {
    let _ = write!(out, r#"{{"id":{id},"result":{open}"#);
    out.put_shared(inner);
    out.put(close.as_bytes());
    out.put(b"}\n");
}

/// Writes a refusal.
pub(super) fn write_error(
    out: &mut Outbox,
    id: i64,
    code: &str,
    message: &str,
    detail: Option<&str>,
) {
    let mut line = format!(r#"{{"id":{id},"error":{{"code":"#).into_bytes();
    write_string(&mut line, code);
    line.extend_from_slice(br#","message":"#);
    write_string(&mut line, message);
    if let Some(detail) = detail {
        line.extend_from_slice(br#","detail":"#);
        write_string(&mut line, detail);
    }
    line.extend_from_slice(b"}}\n");
    out.put(&line);
}

/// A line without the carriage return of those who end lines by two characters.
pub(super) fn without_return(line: &Bytes) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

pub(super) fn not_null(raw: &str) -> Option<&str> {
    (kind(raw) != Kind::Null).then_some(raw)
}

/// The name that a raw key spells; no name we know has an escape that stands for no character.
fn name(key: &str) -> Cow<'_, str> {
    string(key).unwrap_or_default()
}
