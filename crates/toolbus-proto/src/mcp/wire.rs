//! MCP's messages as they stand on the wire: revisions, codes, keys, and how we write them.
//!
//! A message here has no newline: lines end it on stdio, events and bodies over HTTP.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memchr2;

use crate::channel::Outbox;
use crate::json::known::Rare;
use crate::json::{Json, JsonError, Kind, edit, looks, write_string};
use crate::jsonrpc::{Id, Invalid, Rules, Why, kind, string};
use crate::tool::Trace;

pub use super::revision::{Era, Level, Revision};

/// How MCP reads the envelope: ids are texts or numbers, parameters an object.
pub const RULES: Rules = Rules { null_id: false, any_params: false };

/// How much a server may say at once: a line, a body, an event.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// Not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// Not a valid request.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method.
pub const UNKNOWN_METHOD: i64 = -32601;
/// Parameters that the method does not take; also an unknown tool.
pub const INVALID_PARAMS: i64 = -32602;
/// Something went wrong on our side.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no such resource; legacy only.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The user must have seen a web page first; legacy only.
pub const URL_REQUIRED: i64 = -32042;
/// A header says something else than the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// The caller cannot answer what would have to be asked.
pub const MISSING_CAPABILITY: i64 = -32021;
/// A version that we do not speak.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The key in `_meta` that makes a request modern.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// What the caller of a modern request can do.
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who the caller of a modern request is.
pub const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
/// Who answers a modern request.
pub const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// From which level on a modern request wants to hear log messages.
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
/// Which listening a notification belongs to.
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Where the failure of a call that was passed on keeps the error of the server, raw.
pub const ERROR_KEY: &str = "dev.toolbus/error";
/// Where a failure of a tool keeps what `content` cannot say.
pub const FAILURE_KEY: &str = "dev.toolbus/failure";

/// What the `_meta` of a request says, each value raw.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meta<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) capabilities: Option<&'a str>,
    pub(super) log_level: Option<&'a str>,
    pub(super) progress_token: Option<&'a str>,
    trace_parent: Option<&'a str>,
    trace_state: Option<&'a str>,
}

impl<'a> Meta<'a> {
    /// Reads the `_meta` of parameters that were checked when they arrived.
    pub(super) fn in_body(params: &'a [u8]) -> Meta<'a> {
        static META: LazyLock<Rare> = LazyLock::new(|| Rare::new("_meta"));
        Meta::of(META.find(params).and_then(|raw| str::from_utf8(raw).ok()))
    }

    /// Reads it.
    pub(super) fn of(raw: Option<&'a str>) -> Meta<'a> {
        let mut meta = Meta::default();
        let Some(raw) = raw else { return meta };
        for (key, value) in edit::members(raw) {
            let place = match &*key {
                VERSION_KEY => &mut meta.version,
                CAPABILITIES_KEY => &mut meta.capabilities,
                LOG_LEVEL_KEY => &mut meta.log_level,
                "progressToken" => &mut meta.progress_token,
                "traceparent" => &mut meta.trace_parent,
                "tracestate" => &mut meta.trace_state,
                _ => continue,
            };
            *place = Some(value);
        }
        // Anything else cannot be given back to its owner under the same name.
        let is_token = |raw: &&str| matches!(kind(raw), Kind::String | Kind::Number);
        meta.progress_token = meta.progress_token.filter(is_token);
        meta
    }

    pub(super) fn trace(&self) -> Option<Trace> {
        let state = self.trace_state.and_then(string);
        Trace::read(&self.trace_parent.and_then(string)?, state.as_deref())
    }

    /// Which era a request for `method` with this `_meta` is of.
    pub(super) fn era(&self, method: &str) -> Era {
        match method {
            "server/discover" | "subscriptions/listen" => Era::Modern,
            _ if self.version.is_some() => Era::Modern,
            _ => Era::Legacy,
        }
    }
}

/// Which era a request belongs to. `params` are raw.
pub fn era(method: &str, params: Option<&str>) -> Era {
    Meta::in_body(params.unwrap_or_default().as_bytes()).era(method)
}

/// What is wrong with a message, as we say it.
pub(super) fn said(invalid: &Invalid) -> (i64, Cow<'static, str>) {
    let message = match invalid.why {
        Why::NotJson(error @ JsonError::TooDeep) => error.to_string().into(),
        Why::NotJson(error) => return (PARSE_ERROR, format!("parse error: {error}").into()),
        Why::Batch => "batches are not part of this revision".into(),
        Why::NotAnObject => "a message is an object".into(),
        Why::Version => "jsonrpc must be \"2.0\"".into(),
        Why::Id => "id must be a string or a number".into(),
        Why::Method | Why::Neither | Why::NoId => "method must be a string".into(),
        Why::Params => "params must be an object".into(),
        Why::Repeated(name) => format!("{name} stands twice").into(),
    };
    (INVALID_REQUEST, message)
}

/// A request or a notification; without an id it is the latter.
pub(super) fn request(id: Option<u64>, method: &str, params: Option<&Bytes>) -> Outbox {
    let mut out = Outbox::new();
    put_request(&mut out, id, method, params);
    out
}

/// Writes a request or a notification behind what waits already.
pub(super) fn put_request(out: &mut Outbox, id: Option<u64>, method: &str, params: Option<&Bytes>) {
    out.reserve(MESSAGE_BYTES);
    out.put(br#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        out.put(br#","id":"#);
        out.put_number(id);
    }
    put_call(out, method, params);
}

/// Writes the rest of a request or a notification behind its id.
pub(super) fn put_call(out: &mut Outbox, method: &str, params: Option<&Bytes>) {
    out.put(br#","method":"#);
    out.put_string(method);
    if let Some(params) = params {
        out.put(br#","params":"#);
        out.put_shared(params);
    }
    out.put(b"}");
}

/// A notification.
pub(super) fn notification(method: &str, params: Option<&Bytes>) -> Outbox {
    request(None, method, params)
}

/// A good answer.
pub(super) fn result(id: &Id, result: &Bytes) -> Outbox {
    let mut out = Outbox::new();
    put_result(&mut out, id, result);
    out
}

/// Writes a good answer behind what waits already.
pub(super) fn put_result(out: &mut Outbox, id: &Id, result: &Bytes) {
    begin_result(out, id);
    out.put_shared(result);
    out.put(b"}");
}

/// A good answer up to its result; the caller appends that and `}`.
pub(super) fn begin_result(out: &mut Outbox, id: &Id) {
    begin_response(out, id);
    out.put(br#","result":"#);
}

/// An answer that says no, the error raw.
pub(super) fn error(id: &Id, error: &Bytes) -> Outbox {
    let mut out = Outbox::new();
    begin_response(&mut out, id);
    out.put(br#","error":"#);
    out.put_shared(error);
    out.put(b"}");
    out
}

fn begin_response(out: &mut Outbox, id: &Id) {
    out.reserve(MESSAGE_BYTES);
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    out.put(id.as_bytes());
}

/// Most messages that are no long text fit into so much.
const MESSAGE_BYTES: usize = 256;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its number.
    pub code: i64,
    /// What is wrong, for people.
    pub message: Cow<'static, str>,
    /// What is wrong, for programs.
    pub data: Option<Json>,
}

impl Refusal {
    /// A refusal without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, message: message.into(), data: None }
    }

    /// The error object.
    pub(super) fn to_json(&self) -> Bytes {
        let mut error = format!("{{\"code\":{},\"message\":", self.code).into_bytes();
        write_string(&mut error, &self.message);
        if let Some(data) = &self.data {
            error.extend_from_slice(br#","data":"#);
            error.extend_from_slice(data.as_bytes());
        }
        error.push(b'}');
        error.into()
    }

    /// The whole message.
    pub(super) fn answer(&self, id: &Id) -> Outbox {
        error(id, &self.to_json())
    }
}

/// Writes `"name":value` behind whatever members stand there already.
pub(super) fn put_member(object: &mut Vec<u8>, name: &str, value: impl AsRef<[u8]>) {
    if object.last() != Some(&b'{') {
        object.push(b',');
    }
    write_string(object, name);
    object.push(b':');
    object.extend_from_slice(value.as_ref());
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
}

/// Who we are, as both sides introduce themselves.
pub fn introduction(name: &str, version: &str) -> Json {
    let mut info = vec![b'{'];
    put_member(&mut info, "name", quoted(name));
    put_member(&mut info, "version", quoted(version));
    info.push(b'}');
    Json::from_trusted(info)
}

/// Raw text as it may stand in a line: what came in a body with line breaks loses its blanks.
pub(super) fn in_a_line(raw: &Bytes, value: &str) -> Bytes {
    let json = Json::part_of(raw, value);
    let json = if has_line_breaks(value.as_bytes()) { json.compact() } else { json };
    json.as_bytes().clone()
}

/// Would it be more than one line on a wire that is made of lines?
pub(super) fn has_line_breaks(text: &[u8]) -> bool {
    let found = memchr2(b'\n', b'\r', text);
    looks::add(found.unwrap_or(text.len()));
    found.is_some()
}
