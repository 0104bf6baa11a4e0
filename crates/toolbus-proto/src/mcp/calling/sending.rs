//! How a call goes out: the handshake, native calls as they are, tools translated.

use bytes::Bytes;

use super::crossing::{Crossing, LegacyCaller, empty};
use super::{
    EVERYTHING, Form, Greeting, Introduction, MessageClient, Outgoing, Page, Purpose, RequestId,
    Sent, Session, Then, User, counted_from, era_of, params_of, request_of,
};
use crate::channel::{Down, Ticket};
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::mcp::translate::with_last;
use crate::mcp::wire::{
    CAPABILITIES_KEY, CLIENT_KEY, Era, Level, Meta, Revision, VERSION_KEY, put_member, quoted,
};
use crate::outstanding::Waiting;
use crate::tool::{Call, CallOptions, Failure, FailureKind, Outcome, Trace, What};

/// A request that is about to leave.
pub(super) struct Request {
    pub(super) method: Bytes,
    pub(super) params: Option<Bytes>,
    pub(super) token: Option<u64>,
    pub(super) level: Option<Level>,
    pub(super) purpose: Purpose,
    pub(super) crossing: Option<Box<Crossing>>,
}

/// What a call without arguments has.
const NO_ARGUMENTS: &str = "{}";

impl MessageClient {
    pub(super) fn send_opening(&mut self, method: &'static str, params: Bytes) {
        let id = self.requests.give_out();
        if let Some(opening) = &mut self.opening {
            opening.sent(id);
        }
        let method = Bytes::from_static(method.as_bytes());
        let (id, params) = (RequestId::Number(id), Some(params));
        self.outgoing.push_back(Outgoing::Request { id, method, params });
    }

    pub(super) fn initialize_params(&self) -> Bytes {
        let (capabilities, client) = match &self.settings.introduction {
            Introduction::AsOurselves(capabilities) => (capabilities.clone(), self.us.clone()),
            Introduction::AsUser(user) => (user.capabilities(), self.us.clone()),
            Introduction::AsCaller => {
                self.first_client().unwrap_or_else(|| (self.without_client(), self.us.clone()))
            }
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
        let params = self.desk.queue.calls().find_map(|call| match &call.what {
            What::Native { method, body, .. } if method == "initialize" => Some(body),
            _ => None,
        })?;
        Some(self.introduced(params))
    }

    /// What the `initialize` of a client says that it can do, and who it is.
    fn introduced(&self, params: &Bytes) -> (Json, Json) {
        let raw = params_of(params).unwrap_or("{}");
        let part = |name: &str| Some(Json::part_of(params, edit::member(raw, name)?));
        let capabilities = part("capabilities").unwrap_or_else(|| Json::from_trusted("{}"));
        (capabilities, part("clientInfo").unwrap_or_else(|| self.us.clone()))
    }

    /// What we say that we can do where no legacy client waits: what one or the other modern
    /// client can, or nothing.
    fn without_client(&self) -> Json {
        let is_modern = |call: &Call| {
            let is_native = matches!(&call.what, What::Native { .. }) || call.request.is_some();
            is_native || call.asks().is_some()
        };
        let is_modern = self.desk.queue.calls().any(is_modern);
        Json::from_trusted(if is_modern { EVERYTHING } else { "{}" })
    }

    /// Who can be asked, if it is a user of the command line.
    pub(super) fn user(&self) -> Option<&User> {
        match &self.settings.introduction {
            Introduction::AsUser(user) => Some(user),
            Introduction::AsCaller | Introduction::AsOurselves(_) => None,
        }
    }

    /// What the callers can do who do not say so themselves.
    pub(super) fn own_capabilities(&self) -> Json {
        self.user().map_or_else(|| Json::from_trusted("{}"), User::capabilities)
    }

    /// Is it asked as a modern server where callers do not speak MCP? They count as modern, so one
    /// that speaks both eras is, whatever the handshake was.
    fn speaks_modern(&self) -> bool {
        let era = self.greeting.as_ref().map(Greeting::era);
        era == Some(Era::Modern) || (self.carries_both && self.speaks_both)
    }

    /// One connection may carry both eras.
    pub(super) fn carrying_both(self) -> MessageClient {
        MessageClient { carries_both: true, ..self }
    }

    /// The `_meta` of a modern request of our own.
    pub(super) fn modern_meta(&self, capabilities: &str) -> String {
        let mut meta = vec![b'{'];
        put_member(&mut meta, VERSION_KEY, quoted(Revision::MODERN.as_str()));
        put_member(&mut meta, CAPABILITIES_KEY, capabilities);
        put_member(&mut meta, CLIENT_KEY, self.us.as_bytes());
        meta.push(b'}');
        String::from_utf8(meta).expect("made of text")
    }

    /// Sends the call whose turn it is; tells whether there was one.
    pub(super) fn send_next(&mut self) -> bool {
        if !self.desk.is_open() || !self.requests.has_room() {
            return false;
        }
        let Some(Waiting { ticket, call, .. }) = self.desk.queue.pop() else { return false };
        match &call.what {
            What::Tools => {
                let page = Page::first(request_of(&call).cloned(), Then::Reply);
                self.send_list(ticket, &call, None, page);
            }
            What::Tool { name, args } => {
                if !self.pass_tool(ticket, &call, name.as_str()) {
                    self.send_tool(ticket, &call, name.as_str(), args.as_ref());
                }
            }
            What::Native { method, body, .. } => {
                self.send_native(ticket, &call, method.clone(), body.clone());
            }
        }
        true
    }

    /// Sends a call of a tool as its caller wrote it, under the tool's own name; tells whether
    /// there is such a text.
    fn pass_tool(&mut self, ticket: Ticket, call: &Call, name: &str) -> bool {
        let Some(request) = request_of(call) else { return false };
        let own = String::from_utf8(quoted(name)).unwrap_or_default();
        let named = edit::replaced(params_of(request).unwrap_or("{}"), "name", &own);
        let Some(params) = named.map(with_arguments) else { return false };
        self.passed_tools.insert(ticket);
        self.send_native(ticket, call, Bytes::from_static(b"tools/call"), params.into());
        true
    }

    /// Is a request of the era that the server speaks?
    fn is_spoken(&self, request: &Bytes) -> bool {
        let speaks = self.greeting.as_ref().map(Greeting::era);
        speaks == Some(Meta::in_body(request).era(""))
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
        // Where there are none: many servers refuse a call without an object.
        let args = args.map_or_else(|| Json::from_trusted(NO_ARGUMENTS), Json::compact);
        put_member(&mut params, "arguments", args.as_bytes());
        let token = call.options.progress.then(|| self.new_token(ticket));
        self.put_meta(&mut params, token, call.trace.as_ref(), call.asks());
        params.push(b'}');
        let form = Form::wanted_by(call);
        let (task, params) = self.as_task(name, form, params);
        let method = Bytes::from_static(b"tools/call");
        let user = self.user().filter(|_| form != Form::Native).map(User::capabilities);
        let user = call.asks().cloned().or(user);
        let user = user.map(|can| LegacyCaller::user(method.clone(), params.clone(), can));
        let user = user.map(Box::new);
        let purpose = Purpose::Tool { name: name.to_owned(), form, user, task };
        let params = Some(params);
        let request = Request { method, params, token, level: None, purpose, crossing: None };
        self.send(ticket, call, request);
    }

    /// The `_meta` of a call of the hub, where it needs one.
    pub(super) fn put_meta(
        &self,
        params: &mut Vec<u8>,
        token: Option<u64>,
        trace: Option<&Trace>,
        asks: Option<&Json>,
    ) {
        let mut meta = match self.speaks_modern() {
            true => {
                let own = asks.cloned().unwrap_or_else(|| self.own_capabilities());
                let capabilities = self.with_tasks(own.as_str());
                self.modern_meta(&capabilities).into_bytes()
            }
            false => b"{}".to_vec(),
        };
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
        match page.request.as_ref().filter(|request| self.is_spoken(request)) {
            // The client that asks says who it is and what it can do.
            Some(request) => {
                let meta = params_of(request).and_then(|params| edit::member(params, "_meta"));
                let meta = meta.map(|meta| edit::without(meta, "progressToken"));
                if let Some(meta) = meta.filter(|meta| meta != "{}") {
                    put_member(&mut params, "_meta", meta);
                }
            }
            None => self.put_meta(&mut params, None, None, None),
        }
        params.push(b'}');
        let params = Some(Bytes::from(params)).filter(|params| params != "{}");
        let request = Request {
            method: Bytes::from_static(b"tools/list"),
            params,
            token: None,
            level: None,
            purpose: Purpose::List(page),
            crossing: None,
        };
        self.send(ticket, call, request);
    }

    fn send_native(&mut self, ticket: Ticket, call: &Call, method: Bytes, body: Bytes) {
        let name = str::from_utf8(&method).unwrap_or_default();
        let Some(speaks) = self.greeting.as_ref().map(Greeting::era) else { return };
        let era = era_of(call);
        match (name, self.greeting_for(era)) {
            ("initialize", Some(greeting)) => {
                return self.begin_session(ticket, call, &body, greeting);
            }
            ("server/discover", Some(greeting)) => {
                return self.done(ticket, Ok(Outcome::Native(greeting.as_bytes().clone())));
            }
            _ => {}
        }
        if era == Era::Legacy && speaks == Era::Modern {
            self.hear_session(call);
        }
        if name.starts_with("notifications/") {
            // What legacy clients tell their server, modern ones do not; and we have shaken hands
            // with ours already.
            if era == speaks && name != "notifications/initialized" {
                let params = Some(body).filter(|body| !body.is_empty());
                let told = Outgoing::Notification { method, params, cancels: None };
                self.outgoing.push_back(told);
            }
            return self.done(ticket, empty());
        }
        if era != speaks {
            return self.send_across(ticket, call, era, method, body);
        }
        if matches!(name, "resources/subscribe" | "resources/unsubscribe")
            && self.keeps_subscription(call.caller, name, &body)
        {
            return self.done(ticket, empty());
        }
        let (level, has_token) = extras(&call.options, &body);
        let token = has_token.then(|| self.new_token(ticket));
        let body = match name {
            "logging/setLevel" => self.most_talkative(call, body),
            _ => body,
        };
        let with_token = token.and_then(|token| with_token(params_of(&body)?, token));
        let body = with_token.map_or(body, Bytes::from);
        let purpose = match name {
            "subscriptions/listen" => {
                self.expect_agreement(self.now(call.deadline.asked), ticket, &body);
                Purpose::Listen
            }
            _ => Purpose::Pass,
        };
        let params = Some(body).filter(|body| !body.is_empty());
        let crossing = None;
        self.send(ticket, call, Request { method, params, token, level, purpose, crossing });
    }

    fn begin_session(&mut self, ticket: Ticket, call: &Call, body: &Bytes, greeting: Json) {
        let (capabilities, client) = self.introduced(body);
        let version = params_of(body).and_then(|params| edit::text(params, "protocolVersion"));
        let revision = version.and_then(|version| Revision::legacy(&version));
        let revision = revision.unwrap_or(Revision::LAST_LEGACY);
        let (level, uris, is_heard) = (None, Vec::new(), false);
        let session = Session { ticket, revision, capabilities, client, level, uris, is_heard };
        self.sessions.insert(call.caller, session);
        self.desk.downs.push_back((ticket, Down::Begin { head: Some(greeting), parts: None }));
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
    pub(super) fn send(&mut self, ticket: Ticket, call: &Call, request: Request) {
        let Request { method, params, token, level, purpose, crossing } = request;
        let deadline = self.deadline(call);
        let from = counted_from(self.desk.opened, call.deadline.asked);
        let (caller, since) = (call.caller, self.silence.since());
        let sent = Sent { id: 0, ticket, caller, deadline, since, token, level, purpose, crossing };
        let id = RequestId::Number(self.requests.ask(from.max(deadline.asked), sent));
        self.outgoing.push_back(Outgoing::Request { id, method, params });
    }

    pub(super) fn new_token(&mut self, ticket: Ticket) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.tokens.insert(token, ticket);
        token
    }
}

/// From which level on the caller of a native request hears log messages, and whether it wants to
/// hear of progress. The serving end may have read it already.
fn extras(options: &CallOptions, body: &[u8]) -> (Option<Level>, bool) {
    if let Some(known) = options.known {
        return (known.log_level.and_then(Level::numbered), options.progress);
    }
    let meta = Meta::in_body(body);
    let level = meta.log_level.and_then(|raw| Level::read("", Some(raw)).ok());
    (level, meta.progress_token.is_some())
}

/// The parameters of a call with an object as its arguments, where there were none.
fn with_arguments(params: String) -> String {
    match edit::member(&params, "arguments") {
        None => with_last(&params, "arguments", NO_ARGUMENTS),
        Some("null") => edit::replaced(&params, "arguments", NO_ARGUMENTS).unwrap_or(params),
        Some(_) => params,
    }
}

/// The parameters with our own token in the place of the caller's.
pub(super) fn with_token(params: &str, token: u64) -> Option<String> {
    edit::replaced_inside(params, "_meta", "progressToken", &token.to_string())
}
