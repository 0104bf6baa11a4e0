//! The calling end over HTTP: each message is a request of its own (`specs` 2.9).
//!
//! What is said is decided by a [`Client`], as on a pipe. Here each of its lines becomes a
//! `POST`, and whatever comes back, as a body or as events, becomes its lines again.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::exchange::ExchangeId;
use super::gate::Verb;
use super::headers::mirror_of;
use super::inputs::Inputs;
use super::remote_again::{has_wrong_headers, too_old};
use super::remote_answer::{Heard, Reading};
use crate::channel::{Calling, Down, Machine, Notice, Outbox, Readiness, Ticket, Up};
use crate::json::Json;
use crate::json::edit;
use crate::mcp::calling::{MessageClient, Outgoing, Settings};
use crate::mcp::wire::{self, Era, Revision};
use crate::tool::{Call, Failure, FailureKind, LastWords};

/// After how long a stream that broke is resumed, unless the server says.
const RESUME_AFTER: Duration = Duration::from_secs(1);

/// A request to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// How.
    pub verb: Verb,
    /// The headers that the protocol asks for.
    pub headers: Vec<(String, String)>,
    /// One message, or nothing.
    pub body: Bytes,
}

/// Our end of a conversation with a server that is reached over HTTP.
#[derive(Debug)]
pub struct Remote {
    pub(super) client: MessageClient,
    bytes_max: usize,
    pub(super) session: Option<String>,
    /// The `initialize` that was sent, for when the server has forgotten the session.
    pub(super) greeting: Option<Bytes>,
    pub(super) exchanges: HashMap<ExchangeId, Sent>,
    /// Requests that are made anew when there is a session again.
    pub(super) repeated: Vec<Sent>,
    /// Calls that are made anew when the tools have been listed again.
    pub(super) refused: Vec<Sent>,
    pub(super) resumes: Vec<(Instant, Sent)>,
    /// By which arguments are repeated in headers.
    inputs: Inputs,
    next_exchange: u64,
    requests: VecDeque<(ExchangeId, Request)>,
    aborts: VecDeque<ExchangeId>,
}

/// A request that was made.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) purpose: Purpose,
    pub(super) body: Bytes,
    /// It was made before, and the server had forgotten the session.
    pub(super) is_repeated: bool,
    pub(super) resumed: u32,
    /// The last event that was seen, and how long to wait before asking for more.
    pub(super) seen: Option<String>,
    pub(super) retry: Duration,
    pub(super) reading: Reading,
    /// Why there was no handshake, unless the server turns out to be too old for it.
    pub(super) why: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The request of this id.
    Ask(u64),
    /// The handshake once more; the client has had its answer already.
    Reopen,
    /// The list of tools once more; nobody but us has asked for it.
    Relist { page: usize },
    /// `notifications/initialized`: behind it the session's own stream is opened.
    Initialized,
    /// Anything else that gets no answer.
    Tell,
    /// The session's own stream.
    Listen,
    /// Does a server that would not take the handshake of this id speak HTTP+SSE?
    LookForEvents(u64),
    /// The end of the session.
    Leave,
}

impl Remote {
    /// A conversation that has not begun.
    pub fn new(settings: Settings) -> Remote {
        Remote {
            bytes_max: settings.line_bytes_max,
            client: MessageClient::new(settings),
            session: None,
            greeting: None,
            exchanges: HashMap::new(),
            repeated: Vec::new(),
            refused: Vec::new(),
            resumes: Vec::new(),
            inputs: Inputs::default(),
            next_exchange: 1,
            requests: VecDeque::new(),
            aborts: VecDeque::new(),
        }
    }

    /// The input schema of a tool, as the server listed it.
    pub fn set_input(&mut self, tool: &str, schema: &Json) {
        self.inputs.set(tool, schema.as_str());
    }

    /// Asks; see [`Calling::call`].
    pub fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.client.call(now, ticket, call);
        self.send();
    }

    /// Goes on with a call that runs; see [`Calling::up`].
    pub fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.client.up(now, ticket, up);
        self.send();
    }

    /// Ends the session; no call follows.
    pub fn close(&mut self, now: Instant) {
        self.client.close(now);
        if self.session.is_some() {
            self.request(Verb::Delete, Purpose::Leave, Bytes::new(), Vec::new());
        }
    }

    /// What comes back; see [`Calling::poll_down`].
    pub fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.client.poll_down()
    }

    /// Something for the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.client.poll_notice()
    }

    /// Can calls go out, not yet, or never again?
    pub fn readiness(&self) -> &Readiness {
        self.client.readiness()
    }

    /// The next request to be made.
    pub fn poll_request(&mut self) -> Option<(ExchangeId, Request)> {
        self.requests.pop_front()
    }

    /// An exchange whose answer nobody wants any more; closing it tells the server.
    pub fn poll_abort(&mut self) -> Option<ExchangeId> {
        self.aborts.pop_front()
    }

    /// When to call [`Remote::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let resumes = self.resumes.iter().map(|(at, _)| *at);
        resumes.chain(self.client.poll_timeout()).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.client.handle_timeout(now);
        let due: Vec<_> = self.resumes.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, sent) in due {
            self.resume(sent);
        }
        self.send();
    }

    /// The head of an answer.
    pub fn handle_head(&mut self, exchange: ExchangeId, status: u16, headers: &[(&str, &str)]) {
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let Some(sent) = self.exchanges.get_mut(&exchange) else { return };
        let kind = header("Content-Type").unwrap_or_default();
        sent.reading = Reading::new(status, kind, self.bytes_max);
        let is_greeting =
            sent.purpose == Purpose::Reopen || Some(&sent.body) == self.greeting.as_ref();
        if is_greeting && status == 200 {
            self.session = header("Mcp-Session-Id").map(str::to_owned);
        }
    }

    /// A piece of the body of an answer.
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, input: &mut BytesMut) {
        let Some(sent) = self.exchanges.get_mut(&exchange) else { return input.clear() };
        let heard = sent.reading.read(input);
        for heard in &heard {
            if let Heard::Event { id, retry, .. } = heard {
                sent.seen = id.clone().or(sent.seen.take());
                sent.retry = retry.unwrap_or(sent.retry);
            }
            learn(&mut self.inputs, &sent.body, heard);
        }
        if let Purpose::Relist { .. } = sent.purpose {
            if heard.iter().any(|heard| heard.result().is_some())
                && let Some(sent) = self.exchanges.remove(&exchange)
            {
                self.relisted(&sent, &heard);
            }
            return;
        }
        let purpose = sent.purpose;
        if let Purpose::LookForEvents(id) = purpose {
            if !heard.is_empty() {
                self.abort(|other| other == purpose);
                self.client.fail(now, id, too_old());
            }
            return;
        }
        heard.into_iter().for_each(|heard| hear(&mut self.client, now, purpose, heard));
        self.send();
    }

    /// The answer is over, well or not.
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId) {
        let Some(mut sent) = self.exchanges.remove(&exchange) else { return };
        let is_stream = sent.reading.is_stream();
        let status = sent.reading.status();
        match (sent.reading.end(), sent.purpose) {
            (_, Purpose::Ask(_)) if status == 404 && self.has_forgotten(&sent) => {
                self.reopen(sent);
            }
            (Ok(_), Purpose::Reopen) if status == 200 => self.reopened(),
            (Err(failure), Purpose::Reopen) => self.not_reopened(now, &failure),
            (Ok(_), Purpose::Reopen) => {
                let message = "the server has forgotten the session and begins no other";
                self.not_reopened(now, &Failure::new(FailureKind::Unavailable, message));
            }
            (Ok(heard), Purpose::Ask(_)) if status == 400 && has_wrong_headers(&sent, &heard) => {
                self.relist(sent);
            }
            (Ok(heard), Purpose::Relist { .. }) => {
                heard.iter().for_each(|heard| learn(&mut self.inputs, &sent.body, heard));
                self.relisted(&sent, &heard);
            }
            (Err(_), Purpose::Relist { .. }) => self.relisted(&sent, &[]),
            (Ok(heard), purpose) => {
                for heard in heard {
                    learn(&mut self.inputs, &sent.body, &heard);
                    hear(&mut self.client, now, purpose, heard);
                }
                match purpose {
                    Purpose::Initialized => self.listen(),
                    Purpose::Ask(id) if self.client.waits_for(id) => {
                        self.broken(now, sent, id, is_stream);
                    }
                    Purpose::Listen if is_stream => self.put_off(now, sent),
                    Purpose::LookForEvents(id) => {
                        self.client.fail(now, id, sent.why.unwrap_or_else(too_old));
                    }
                    _ => {}
                }
            }
            (Err(failure), Purpose::Ask(_)) if self.may_be_too_old(&sent, status) => {
                self.look_for_events(sent, failure);
            }
            (Err(failure), Purpose::Ask(id)) => self.client.fail(now, id, failure),
            (Err(failure), Purpose::LookForEvents(id)) => {
                self.client.fail(now, id, sent.why.unwrap_or(failure));
            }
            // Servers need not offer a stream of their own, nor the end of a session.
            (Err(_), _) => {}
        }
        self.send();
    }

    /// The request could not be made, or nothing came back for it.
    pub fn handle_failed(&mut self, now: Instant, exchange: ExchangeId, failure: Failure) {
        let Some(sent) = self.exchanges.remove(&exchange) else { return };
        match sent.purpose {
            Purpose::Ask(id) => self.client.fail(now, id, failure),
            Purpose::LookForEvents(id) => {
                self.client.fail(now, id, sent.why.unwrap_or(failure));
            }
            Purpose::Reopen => self.not_reopened(now, &failure),
            Purpose::Relist { .. } => self.relisted(&sent, &[]),
            _ => {}
        }
        self.send();
    }

    fn listen(&mut self) {
        let is_listening = self.exchanges.values().any(|sent| sent.purpose == Purpose::Listen);
        if !is_listening {
            self.request(Verb::Get, Purpose::Listen, Bytes::new(), Vec::new());
        }
    }

    /// Makes requests of what the client wants to say.
    fn send(&mut self) {
        while let Some(message) = self.client.poll_message() {
            let mut out = Outbox::new();
            message.write(&mut out);
            let body = out.take();
            let purpose = match &message {
                Outgoing::Notification { cancels: Some(id), .. } => {
                    let purpose = Purpose::Ask(*id);
                    if self.give_up(purpose) {
                        continue;
                    }
                    if self.is_modern() {
                        self.abort(|other| other == purpose);
                        continue;
                    }
                    Purpose::Tell
                }
                Outgoing::Request { id, .. } => Purpose::Ask(*id),
                _ if message.method() == "notifications/initialized" => Purpose::Initialized,
                _ => Purpose::Tell,
            };
            if message.method() == "initialize" {
                self.greeting = Some(body.clone());
            }
            let mirror = self.mirror(message.method(), message.params());
            self.request(Verb::Post, purpose, body, mirror);
        }
    }

    /// The headers that repeat what a request says.
    pub(super) fn mirror(&self, method: &str, params: Option<&str>) -> Vec<(String, String)> {
        if wire::era(method, params) == Era::Legacy {
            return Vec::new();
        }
        let tool = params.and_then(|params| edit::text(params, "name"));
        let input = tool.and_then(|tool| self.inputs.of(&tool));
        mirror_of(Revision::MODERN.as_str(), method, params, input)
    }

    fn is_modern(&self) -> bool {
        self.client.revision() == Some(Revision::MODERN)
    }

    pub(super) fn abort(&mut self, is_it: impl Fn(Purpose) -> bool) {
        let found = self.exchanges.extract_if(|_, sent| is_it(sent.purpose));
        self.aborts.extend(found.map(|(exchange, _)| exchange));
    }

    pub(super) fn request(
        &mut self,
        verb: Verb,
        purpose: Purpose,
        body: Bytes,
        more: Vec<(String, String)>,
    ) -> ExchangeId {
        let mut headers = Vec::new();
        let mut put = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        match verb {
            Verb::Post => {
                put("Content-Type", "application/json");
                put("Accept", "application/json, text/event-stream");
            }
            Verb::Get => put("Accept", "text/event-stream"),
            Verb::Delete => {}
        }
        let is_greeting = purpose == Purpose::Reopen || Some(&body) == self.greeting.as_ref();
        if let Some(session) = self.session.as_ref().filter(|_| !is_greeting) {
            put("Mcp-Session-Id", session);
        }
        let revision = self.client.revision().filter(|revision| revision.era() == Era::Legacy);
        if let Some(revision) = revision.filter(|_| !is_greeting) {
            put("MCP-Protocol-Version", revision.as_str());
        }
        headers.extend(more);
        let exchange = ExchangeId(self.next_exchange);
        self.next_exchange += 1;
        self.requests.push_back((exchange, Request { verb, headers, body: body.clone() }));
        let sent = Sent {
            purpose,
            body,
            is_repeated: false,
            resumed: 0,
            seen: None,
            retry: RESUME_AFTER,
            reading: Reading::Nothing,
            why: None,
        };
        self.exchanges.insert(exchange, sent);
        exchange
    }
}

/// Gives the client what was heard; an error without an id is that of the request.
fn hear(client: &mut MessageClient, now: Instant, purpose: Purpose, heard: Heard) {
    match (heard, purpose) {
        (
            _,
            Purpose::Reopen | Purpose::Relist { .. } | Purpose::LookForEvents(_) | Purpose::Leave,
        ) => {}
        (Heard::TooLong, Purpose::Ask(id)) => {
            let message = "the server's answer is over the limit";
            client.fail(now, id, Failure::new(FailureKind::TooLarge, message));
        }
        (Heard::TooLong, _) => {}
        // The body of a refusal, e.g. of the stream that not every server offers. The error in
        // it names no request, and must not end the one that happens to be under way.
        (Heard::Message(_), Purpose::Initialized | Purpose::Tell | Purpose::Listen) => {}
        (Heard::Event { message, .. } | Heard::Message(message), purpose) => {
            let message = match purpose {
                Purpose::Ask(id) => named(&message, id).map_or(message, Bytes::from),
                _ => message,
            };
            if !message.iter().all(u8::is_ascii_whitespace) {
                client.handle_message(now, &message);
            }
        }
    }
}

/// Reads a list of tools, whoever asked for it.
fn learn(inputs: &mut Inputs, asked: &Bytes, heard: &Heard) {
    let asked = str::from_utf8(asked).unwrap_or_default();
    if edit::text(asked, "method").as_deref() == Some("tools/list")
        && let Some(page) = heard.result()
    {
        inputs.learn(page);
    }
}

/// An error that names no request, with the id of the one it came back for.
fn named(message: &Bytes, id: u64) -> Option<String> {
    let text = str::from_utf8(message).ok()?;
    edit::member(text, "error")?;
    let is_nameless = edit::member(text, "id").is_none_or(|id| id == "null");
    is_nameless.then(|| edit::with_first(text, "id", &id.to_string()))
}

/// Why a server will not have us.
pub(super) fn forbidden(status: u16) -> Failure {
    let message = format!("the server answered with HTTP status {status}");
    let hint = Some("set `token_env` to the variable that holds the token".to_owned());
    let words = LastWords { hint, ..LastWords::default() };
    Failure::new(FailureKind::Unavailable, message).with_last_words(words)
}
