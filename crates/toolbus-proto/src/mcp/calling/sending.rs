//! How a call goes out: the handshake, native calls as they are, tools translated.

use std::time::Instant;

use bytes::Bytes;

use super::{Client, Introduction, Page, Purpose, Sent, Session, Then, era_of, params_of};
use crate::channel::{Down, Readiness, Ticket};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::mcp::WIRE;
use crate::mcp::wire::{
    self, CAPABILITIES_KEY, CLIENT_KEY, Era, Level, Meta, Revision, VERSION_KEY, put_member, quoted,
};
use crate::tool::{Call, Deadline, Failure, FailureKind, Outcome, Trace, What};

/// A request that is about to leave.
struct Request<'a> {
    method: &'a str,
    params: Option<Bytes>,
    token: Option<u64>,
    level: Option<Level>,
    purpose: Purpose,
}

impl Client {
    pub(super) fn send_opening(&mut self, now: Instant, method: &str, params: &Bytes) {
        let id = self.outstanding.ask(Ticket(u64::MAX), Deadline::never(now));
        self.outstanding.take(id);
        if let Some(opening) = &mut self.opening {
            opening.sent(id);
        }
        self.write(wire::request(Some(id), method, Some(params)));
    }

    pub(super) fn initialize_params(&self) -> Bytes {
        let nothing = Json::from_trusted("{}");
        let (capabilities, client) = match &self.settings.introduction {
            Introduction::AsOurselves(capabilities) => (capabilities.clone(), self.us.clone()),
            Introduction::AsCaller => self.first_client().unwrap_or((nothing, self.us.clone())),
        };
        let mut params = vec![b'{'];
        put_member(&mut params, "protocolVersion", quoted(Revision::LAST_LEGACY.as_str()));
        put_member(&mut params, "capabilities", capabilities.as_bytes());
        put_member(&mut params, "clientInfo", client.as_bytes());
        params.push(b'}');
        params.into()
    }

    /// What the legacy client that waits for us said of itself, raw.
    fn first_client(&self) -> Option<(Json, Json)> {
        let params = self.queue.iter().find_map(|(_, call)| match &call.what {
            What::Native { method, body, .. } if method == "initialize" => Some(body),
            _ => None,
        })?;
        let raw = params_of(params).unwrap_or("{}");
        let part = |name: &str| Some(Json::part_of(params, edit::member(raw, name)?));
        let capabilities = part("capabilities").unwrap_or_else(|| Json::from_trusted("{}"));
        Some((capabilities, part("clientInfo").unwrap_or_else(|| self.us.clone())))
    }

    /// The `_meta` of a modern request of our own.
    pub(super) fn modern_meta(&self) -> String {
        let mut meta = vec![b'{'];
        put_member(&mut meta, VERSION_KEY, quoted(Revision::MODERN.as_str()));
        put_member(&mut meta, CAPABILITIES_KEY, "{}");
        put_member(&mut meta, CLIENT_KEY, self.us.as_bytes());
        meta.push(b'}');
        String::from_utf8(meta).expect("made of text")
    }

    /// Only when they are really about to be written: until then another process could still
    /// take them.
    pub(super) fn send_waiting(&mut self) {
        while self.readiness == Readiness::Open && self.outstanding.has_room() {
            let Some((ticket, call)) = self.queue.pop_front() else { return };
            match call.what.clone() {
                What::Tools => self.send_list(ticket, &call, None, Page::first(Then::Reply)),
                What::Tool { name, args } => {
                    self.send_tool(ticket, &call, name.as_str(), args.as_ref());
                }
                What::Native { method, body, .. } => {
                    let method = String::from_utf8_lossy(&method).into_owned();
                    self.send_native(ticket, &call, &method, body);
                }
            }
        }
    }

    fn send_tool(&mut self, ticket: Ticket, call: &Call, name: &str, args: Option<&Json>) {
        let args = args.filter(|args| !args.is_null());
        if args.is_some_and(|args| args.kind() != Kind::Object) {
            let message = "the arguments of an MCP tool must be an object";
            let failure = Failure::new(FailureKind::InvalidArguments, message);
            return self.done(ticket, Err(failure));
        }
        let mut params = vec![b'{'];
        put_member(&mut params, "name", quoted(name));
        if let Some(args) = args {
            put_member(&mut params, "arguments", args.compact().as_bytes());
        }
        let token = call.options.progress.then(|| self.new_token(ticket));
        self.put_meta(&mut params, token, call.trace.as_ref());
        params.push(b'}');
        let is_native = call.options.native == Some(WIRE);
        let purpose = Purpose::Tool { name: name.to_owned(), is_native };
        let params = Some(params.into());
        let request = Request { method: "tools/call", params, token, level: None, purpose };
        self.send(ticket, call, request);
    }

    /// The `_meta` of a call of the hub, where it needs one.
    fn put_meta(&self, params: &mut Vec<u8>, token: Option<u64>, trace: Option<&Trace>) {
        let is_modern =
            self.greeting.as_ref().is_some_and(|greeting| greeting.era() == Era::Modern);
        let mut meta = if is_modern { self.modern_meta().into_bytes() } else { b"{}".to_vec() };
        meta.pop();
        if let Some(token) = token {
            put_member(&mut meta, "progressToken", token.to_string());
        }
        if let Some(trace) = trace {
            put_member(&mut meta, "traceparent", quoted(trace.parent()));
            if let Some(state) = trace.state() {
                put_member(&mut meta, "tracestate", quoted(state));
            }
        }
        if meta.len() > 1 {
            meta.push(b'}');
            put_member(params, "_meta", meta);
        }
    }

    /// Asks for a page of tools.
    pub(super) fn send_list(
        &mut self,
        ticket: Ticket,
        call: &Call,
        cursor: Option<&str>,
        page: Page,
    ) {
        let mut params = vec![b'{'];
        if let Some(cursor) = cursor {
            put_member(&mut params, "cursor", cursor);
        }
        self.put_meta(&mut params, None, None);
        params.push(b'}');
        let params = Some(Bytes::from(params)).filter(|params| params != "{}");
        let request = Request {
            method: "tools/list",
            params,
            token: None,
            level: None,
            purpose: Purpose::List(page),
        };
        self.send(ticket, call, request);
    }

    fn send_native(&mut self, ticket: Ticket, call: &Call, method: &str, body: Bytes) {
        let Some(greeting) = &self.greeting else { return };
        let raw = greeting.raw.clone();
        let speaks = greeting.era();
        let params = params_of(&body);
        match method {
            "initialize" if speaks == Era::Legacy => {
                return self.begin_session(ticket, call, params, &body, raw);
            }
            // A client that knows both eras asks this first: told no, it speaks the other.
            "server/discover" if speaks == Era::Modern => {
                return self.done(ticket, Ok(Outcome::Native(raw.as_bytes().clone())));
            }
            _ => {}
        }
        if method.starts_with("notifications/") {
            let params = params.is_some().then_some(&body);
            self.write(wire::notification(method, params));
            return self.done(ticket, Ok(Outcome::Native(Bytes::from_static(b"{}"))));
        }
        let era = era_of(call);
        if era != speaks {
            let message = format!("this server speaks only {speaks} MCP, the call is {era}");
            return self.done(ticket, Err(Failure::new(FailureKind::Unavailable, message)));
        }
        let body = match method {
            "logging/setLevel" => self.most_talkative(call, body),
            _ => body,
        };
        let meta = Meta::read(params_of(&body));
        let level = Level::read("", meta.log_level).ok();
        let token = meta.progress_token.is_some().then(|| self.new_token(ticket));
        let with_token = token.and_then(|token| with_token(params_of(&body)?, token));
        let body = with_token.map_or(body, Bytes::from);
        let purpose = match method {
            "subscriptions/listen" => Purpose::Listen,
            _ => Purpose::Pass,
        };
        let params = Some(body).filter(|body| !body.is_empty());
        self.send(ticket, call, Request { method, params, token, level, purpose });
    }

    fn begin_session(
        &mut self,
        ticket: Ticket,
        call: &Call,
        params: Option<&str>,
        body: &Bytes,
        greeting: Json,
    ) {
        let capabilities = params.and_then(|params| edit::member(params, "capabilities"));
        let capabilities =
            capabilities.map_or_else(|| Json::from_trusted("{}"), |raw| Json::part_of(body, raw));
        let session = Session { ticket, capabilities, level: None };
        self.sessions.insert(call.caller, session);
        self.downs.push_back((ticket, Down::Begin { head: Some(greeting), parts: None }));
    }

    /// The server is told the most talkative level of all sessions; each session hears what
    /// it asked for.
    fn most_talkative(&mut self, call: &Call, body: Bytes) -> Bytes {
        let params = params_of(&body).unwrap_or("{}");
        let Ok(level) = Level::read("", edit::member(params, "level")) else { return body };
        if let Some(session) = self.sessions.get_mut(&call.caller) {
            session.level = Some(level);
        }
        let levels = self.sessions.values().filter_map(|session| session.level);
        match levels.min().filter(|least| *least < level) {
            Some(least) => {
                let least = format!("\"{}\"", least.as_str());
                edit::replaced(params, "level", &least).map_or(body.clone(), Bytes::from)
            }
            None => body,
        }
    }

    /// Where all requests leave.
    fn send(&mut self, ticket: Ticket, call: &Call, request: Request<'_>) {
        let Request { method, params, token, level, purpose } = request;
        let deadline = match purpose {
            Purpose::Listen => Deadline::never(call.deadline.asked),
            _ => self.deadline(call),
        };
        let id = self.outstanding.ask(ticket, deadline);
        self.write(wire::request(Some(id), method, params.as_ref()));
        let caller = call.caller;
        self.sent.insert(ticket, Sent { id, caller, deadline, token, level, purpose });
    }

    /// The start has a patience of its own: until the server is ready no call is late.
    fn deadline(&self, call: &Call) -> Deadline {
        let Deadline { asked, quiet, total } = call.deadline;
        let asked = self.opened.map_or(asked, |opened| opened.max(asked));
        let ten_times = || quiet.map(|quiet| quiet * 10);
        let total = total.or(self.settings.timeout_total).or_else(ten_times);
        Deadline { asked, quiet, total }
    }

    fn new_token(&mut self, ticket: Ticket) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.tokens.insert(token, ticket);
        token
    }
}

/// The parameters with our own token in the place of the caller's.
fn with_token(params: &str, token: u64) -> Option<String> {
    let meta = edit::member(params, "_meta")?;
    let meta = edit::replaced(meta, "progressToken", &token.to_string())?;
    edit::replaced(params, "_meta", &meta)
}
