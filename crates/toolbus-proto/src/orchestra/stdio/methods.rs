//! What a request asks for.

use std::time::Instant;

use bytes::Bytes;

use super::{
    Asking, INTERNAL_ERROR, INVALID_PARAMS, InFlight, METHOD_NOT_FOUND, Origin, Profile, Refusal,
    Revision, Transport,
};
use crate::channel::{Asked, Notice, Up};
use crate::json::{Kind, edit};
use crate::jsonrpc::{Id, kind, string};
use crate::orchestra::envelope::request_with_id;
use crate::orchestra::structure::Struct;
use crate::orchestra::wire::{ListToolsRequest, Request, ToolRequest};

/// What waits for the hub's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    Tools,
    Tool,
    Prompts,
    Prompt,
    /// Resources of one kind, to be gathered with the others.
    Resources {
        gather: u64,
        kind: usize,
    },
    Resource {
        uri: String,
    },
    Events,
}

impl Purpose {
    /// What the hub was asked, as errors call it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Purpose::Tools => "list_tools",
            Purpose::Tool => "tool_call",
            Purpose::Prompts => "list_prompts",
            Purpose::Prompt => "prompt_get",
            Purpose::Resources { .. } => "storage_list",
            Purpose::Resource { .. } => "storage_read",
            Purpose::Events => "subscribe",
        }
    }
}

/// How much of a client's id becomes part of ours.
const ID_BYTES_MAX: usize = 128;

/// The parameters of a request, its members raw.
pub(super) struct Params<'a>(Option<&'a str>);

pub(super) fn invalid(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(INVALID_PARAMS, format!("invalid params: {why}"))
}

pub(super) fn missing(name: &str) -> Refusal {
    Refusal::new(INVALID_PARAMS, format!("missing required parameter: {name}"))
}

impl<'a> Params<'a> {
    pub(super) fn read(raw: Option<&'a str>) -> Result<Params<'a>, Refusal> {
        match raw.map(kind) {
            None | Some(Kind::Null) => Ok(Params(None)),
            Some(Kind::Object) => Ok(Params(raw)),
            Some(_) => Err(invalid("params must be an object")),
        }
    }

    /// A member that is there and not null.
    pub(super) fn member(&self, name: &str) -> Option<&'a str> {
        let member = self.0.and_then(|object| edit::member(object, name));
        member.filter(|raw| kind(raw) != Kind::Null)
    }

    /// A text that must be there and not empty.
    pub(super) fn text(&self, name: &str) -> Result<String, Refusal> {
        let raw = self.member(name).ok_or_else(|| missing(name))?;
        let text = string(raw).ok_or_else(|| invalid(format!("{name} must be a string")))?;
        match text.is_empty() {
            true => Err(missing(name)),
            false => Ok(text.into_owned()),
        }
    }
}

impl Transport {
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        line: &Bytes,
        origin: &Origin,
        method: &str,
        params: Option<&str>,
    ) -> Result<(), Refusal> {
        match method {
            "initialize" => self.initialize(origin, params),
            "ping" => {
                self.answer(origin, &b"{}"[..]);
                Ok(())
            }
            "tools/list" => self.ask_for(now, origin, Purpose::Tools, ListToolsRequest::default()),
            "tools/call" => self.call_tool(now, line, origin, params),
            _ if self.settings.profile == Profile::Full => {
                self.handle_more(now, origin, method, params)
            }
            _ => Err(unknown(method)),
        }
    }

    fn initialize(&mut self, origin: &Origin, params: Option<&str>) -> Result<(), Refusal> {
        let version = Params::read(params)?.member("protocolVersion");
        self.revision = match version {
            None => Revision::V2024_11_05,
            Some(raw) => {
                let name = string(raw);
                let name = name.ok_or_else(|| invalid("protocolVersion must be a string"))?;
                Revision::named(&name)
            }
        };
        let version = self.revision.as_str();
        let (capabilities, session) = match self.settings.profile {
            Profile::Tools => (r#"{"tools":{}}"#, String::new()),
            Profile::Full => (
                r#"{"tools":{"listChanged":true},"prompts":{},"logging":{},"resources":{}}"#,
                format!(r#","_sessionId":"{}""#, self.settings.session_id),
            ),
        };
        self.answer(
            origin,
            format!(
                r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"serverInfo":{{"name":"orchestra","version":"1.0.0"}}{session}}}"#
            ),
        );
        Ok(())
    }

    fn call_tool(
        &mut self,
        now: Instant,
        line: &Bytes,
        origin: &Origin,
        params: Option<&str>,
    ) -> Result<(), Refusal> {
        let params = Params::read(params)?;
        let tool_name = params.text("name")?;
        let arguments = params.member("arguments").map(Struct::of_json).transpose();
        let arguments = arguments.map_err(|why| invalid(format!("arguments {why}")))?;
        let meta = Params(params.member("_meta").filter(|raw| kind(raw) == Kind::Object));
        let text = |name| meta.member(name).and_then(string).unwrap_or_default().into_owned();
        let token = meta.member("progressToken");
        let token = token.filter(|raw| matches!(kind(raw), Kind::String | Kind::Number));
        let session_id = match self.settings.profile {
            Profile::Tools => String::new(),
            Profile::Full => self.settings.session_id.clone(),
        };
        let request = ToolRequest {
            tool_name,
            arguments,
            caller_plugin: "transport.stdio".to_owned(),
            trace_parent: text("traceparent"),
            provider: text("toolbus/provider"),
            session_id,
            ..ToolRequest::default()
        };
        let token = token.map(|raw| line.slice_ref(raw.as_bytes()));
        self.send(now, origin, Purpose::Tool, request.into(), token)
    }

    pub(super) fn ask_for(
        &mut self,
        now: Instant,
        origin: &Origin,
        purpose: Purpose,
        request: impl Into<Request>,
    ) -> Result<(), Refusal> {
        self.send(now, origin, purpose, request.into(), None)
    }

    fn send(
        &mut self,
        now: Instant,
        origin: &Origin,
        purpose: Purpose,
        request: Request,
        progress_token: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let limit = self.settings.in_flight_max;
        if limit <= self.in_flight.len() {
            let message = format!("too many calls in flight (limit {limit})");
            return Err(Refusal::new(INTERNAL_ERROR, message));
        }
        let id = text_of(&origin.id);
        let request_id = match &purpose {
            Purpose::Tools => format!("stdio-lt-{id}"),
            Purpose::Tool => format!("stdio-tc-{id}"),
            Purpose::Prompts => format!("stdio-lp-{id}"),
            Purpose::Prompt => format!("stdio-pg-{id}"),
            Purpose::Resources { kind, .. } => {
                format!("stdio-rl-{id}-{}", super::full::KINDS[*kind].0)
            }
            Purpose::Resource { .. } => format!("stdio-rr-{id}"),
            Purpose::Events => format!("stdio-ev-{id}"),
        };
        let method = Request::name_of(request.number()).unwrap_or_default();
        let body = request_with_id(&request_id, request);
        // Kept until the hub answers, which the line they came with need not be.
        let origin = Origin { id: origin.id.detached(), batch: origin.batch };
        let progress_token = progress_token.map(|token| Bytes::copy_from_slice(&token));
        let in_flight = InFlight { origin, purpose, progress_token };
        self.ask(now, Asking { method, body, in_flight });
        Ok(())
    }

    /// Logged, and nothing else; but for the one that takes a request back.
    pub(super) fn handle_notification(&mut self, now: Instant, method: &str, params: Option<&str>) {
        self.notices.push_back(Notice::Ignored(format!("notification `{method}`")));
        if method != "notifications/cancelled" {
            return;
        }
        let params = Params::read(params).unwrap_or(Params(None));
        let Some(meant) = params.member("requestId") else { return };
        let is_meant = |in_flight: &InFlight| is_same(&in_flight.origin.id, meant);
        let found = self.in_flight.iter().filter(|(_, in_flight)| is_meant(in_flight));
        let mut cancelled: Vec<_> = found.map(|(ticket, _)| *ticket).collect();
        cancelled.sort_unstable();
        for ticket in cancelled {
            self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
            if let Some(in_flight) = self.take_in_flight(ticket) {
                self.forget_gather(&in_flight.purpose);
                if let Some(batch) = in_flight.origin.batch {
                    self.settle_batch(batch, None);
                }
            }
        }
        self.settle(now);
    }
}

pub(super) fn unknown(method: &str) -> Refusal {
    Refusal::new(METHOD_NOT_FOUND, format!("method not found: {method}"))
}

/// Are they the same id, though a text may be escaped otherwise?
fn is_same(id: &Id, raw: &str) -> bool {
    let own = std::str::from_utf8(id.as_bytes()).unwrap_or_default();
    own == raw || string(own).is_some_and(|own| string(raw).is_some_and(|raw| own == raw))
}

/// The text of an id: strings unquoted, and of a long one the beginning.
fn text_of(id: &Id) -> String {
    let raw = std::str::from_utf8(id.as_bytes()).unwrap_or_default();
    let text = string(raw).unwrap_or(raw.into());
    let end = (0..=ID_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
