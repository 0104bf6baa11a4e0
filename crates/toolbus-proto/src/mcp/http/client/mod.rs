//! The calling end over HTTP: each message is a request of its own (`docs/protocols/mcp.md` 2.9).
//!
//! What is said is decided by a [`MessageClient`], as on a pipe. Here each of its messages is
//! posted on a stream of its own, and whatever comes back there, as a body or as events,
//! becomes messages again. `streams` is how it looks to the hands, `again` is what is asked
//! once more, `answer` reads bodies, `beginning` is the order of a session's first messages, `pair` is the transport of 2024-11-05.

mod again;
mod answer;
mod beginning;
mod pair;
mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use self::again::{Unshaken, has_wrong_headers, may_be_pair};
use self::answer::{Heard, Reading, hear, learn, refused};
use self::beginning::Beginning;
use self::pair::Pair;
use super::headers::mirror_of;
use super::inputs::Inputs;
use crate::channel::{Calling as _, Notice, Outbox, Readiness, StreamId, Ticket};
use crate::counted::CountedSet;
use crate::http::RequestHead;
use crate::json::{Json, edit};
use crate::mcp::calling::{self, MessageClient, Outgoing, RequestId};
use crate::mcp::wire::{self, Era, Revision};
use crate::tool::{Failure, FailureKind, LastWords};

/// After how long a stream that broke is resumed, unless the server says.
const RESUME_AFTER: Duration = Duration::from_secs(1);

/// How many answers to a server's questions are posted at a time, and how many more may wait
/// before it is heard no further.
const ANSWERS_MAX: usize = 16;

/// What can be set about the calling end over HTTP.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// What can be set about any.
    pub calling: calling::Settings,
    /// Where on the server it is, with a query if there is one.
    pub path: String,
    /// `https://host:port`: it follows redirects there, and nowhere else.
    pub origin: String,
    /// The server speaks the old pair of HTTP+SSE, and this is where its stream is opened.
    pub sse: bool,
    /// How long until the server must have introduced itself.
    pub start_timeout: Duration,
}

/// Our end of a conversation with a server that is reached over HTTP.
#[derive(Debug)]
pub struct HttpClient {
    client: MessageClient,
    settings: ClientSettings,
    /// Until when the server must have introduced itself, once it was asked.
    start_until: Option<Instant>,
    /// When the conversation turned out to be one that cannot go on.
    broken_at: Option<Instant>,
    session: Option<String>,
    beginning: Beginning,
    /// The old pair, where that is spoken.
    pair: Option<Pair>,
    /// The `initialize` that was sent, for when the server has forgotten the session.
    greeting: Option<Outgoing>,
    requests: BTreeMap<StreamId, Request>,
    /// What their messages weigh.
    posted_bytes: usize,
    /// Answers to the server's questions that wait until it has taken others.
    owed: VecDeque<Outgoing>,
    owed_bytes: usize,
    /// The streams that are not read until it has.
    unheard: Vec<StreamId>,
    /// Requests that are made anew when there is a session again.
    repeated: Vec<Request>,
    /// Calls that are made anew when the tools have been listed again.
    refused: Vec<Request>,
    resumes: Vec<(Instant, Request)>,
    /// By which arguments are repeated in headers.
    inputs: Inputs,
    /// Calls that ask for tools in the wire's own words.
    lists: CountedSet<Ticket>,
    /// Are tools listed before one of them is called with arguments?
    lists_first: bool,
    /// The tools were listed, or could not be.
    was_listed: bool,
    next_stream: u64,
    opens: VecDeque<(StreamId, RequestHead)>,
    ready: VecDeque<StreamId>,
    /// Notices of our own; the client has others.
    notices: VecDeque<Notice>,
    parting: Parting,
    /// What may be told of a server that does not introduce itself.
    strange: Option<LastWords>,
}

/// How far the end of the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parting {
    /// Nothing is known of it.
    No,
    /// No answer is wanted any more.
    Lost,
    /// The same, and the session is to be ended.
    Leaving,
    /// That was said.
    Left,
}

/// A request that was made, or is to be made again.
#[derive(Debug)]
struct Request {
    purpose: Purpose,
    /// What is posted; `GET` and `DELETE` have none.
    message: Option<Outgoing>,
    /// The message as it is written, until it is handed out.
    body: Option<Outbox>,
    reading: Reading,
    /// Where a redirect sent it, and how many there were.
    path: Option<String>,
    redirects: u32,
    /// It was made before, and the server had forgotten the session.
    is_repeated: bool,
    /// How often it was made again with another token.
    renewals: u32,
    resumed: u32,
    /// The last event that was seen, and how long to wait before asking for more.
    seen: Option<String>,
    retry: Duration,
    /// Why there was no handshake, unless the server turns out to be too old for it.
    why: Option<Unshaken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The request of this id.
    Ask(u64),
    /// The handshake once more; the client has had its answer already.
    Reopen,
    /// The list of tools once more; only we have asked for it.
    Relist { page: usize },
    /// `notifications/initialized`: behind it the session's own stream is opened.
    Initialized,
    /// Anything else that gets no answer.
    Tell,
    /// The session's own stream.
    Listen,
    /// Does a server that would not take the handshake of this id speak HTTP+SSE?
    LookForEvents(u64),
    /// The stream of the old pair, on which all answers come.
    Events,
    /// A message to the old pair; its id, if it is to be answered.
    Post(Option<u64>),
    /// The end of the session.
    Leave,
}

impl Request {
    fn new(purpose: Purpose, message: Option<Outgoing>) -> Request {
        Request {
            purpose,
            message,
            body: None,
            reading: Reading::Nothing,
            path: None,
            redirects: 0,
            is_repeated: false,
            renewals: 0,
            resumed: 0,
            seen: None,
            retry: RESUME_AFTER,
            why: None,
        }
    }

    /// The same request, to be made once more.
    fn again(self) -> Request {
        Request { is_repeated: true, ..Request::new(self.purpose, self.message) }
    }

    fn is_answer(&self) -> bool {
        matches!(self.message, Some(Outgoing::Answer(_)))
    }

    /// Does it tell the server to give up a request?
    fn is_cancel(&self) -> bool {
        matches!(self.message, Some(Outgoing::Notification { cancels: Some(_), .. }))
    }

    fn weight(&self) -> usize {
        self.message.as_ref().map_or(0, Outgoing::weight)
    }

    fn asks(&self, method: &str) -> bool {
        self.message.as_ref().is_some_and(|message| message.method() == method)
    }
}

impl HttpClient {
    /// A conversation that has not begun.
    pub fn new(settings: ClientSettings) -> HttpClient {
        let memory = &settings.calling.memory;
        if settings.sse {
            memory.learn_pair();
        }
        HttpClient {
            client: MessageClient::new(settings.calling.clone()),
            pair: memory.is_pair().then(Pair::default),
            settings,
            start_until: None,
            broken_at: None,
            session: None,
            beginning: Beginning::Over,
            greeting: None,
            requests: BTreeMap::new(),
            posted_bytes: 0,
            owed: VecDeque::new(),
            owed_bytes: 0,
            unheard: Vec::new(),
            repeated: Vec::new(),
            refused: Vec::new(),
            resumes: Vec::new(),
            inputs: Inputs::default(),
            lists: CountedSet::default(),
            lists_first: false,
            was_listed: false,
            next_stream: 1,
            opens: VecDeque::new(),
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            parting: Parting::No,
            strange: None,
        }
    }

    /// Lists the tools before one of them is called with arguments, so that it is known from the
    /// first call on which of them headers repeat.
    #[must_use]
    pub fn listing_first(self) -> HttpClient {
        HttpClient { lists_first: true, ..self }
    }

    /// The input schema of a tool, as the server listed it.
    pub fn set_input(&mut self, tool: &str, schema: &Json) {
        self.inputs.set(tool, schema.as_str());
    }

    /// Has the server ever introduced itself?
    pub fn was_open(&self) -> bool {
        self.client.revision().is_some()
    }

    /// When the conversation broke, and why.
    pub fn broken(&self) -> Option<(Instant, Failure)> {
        match self.client.readiness() {
            Readiness::Broken(fault) => {
                Some((self.broken_at?, self.with_strange(fault.failure.clone())))
            }
            _ => None,
        }
    }

    /// Makes requests of what the client wants to say. If it can go on no more, nothing that
    /// is under way is wanted.
    fn settle(&mut self, now: Instant) {
        self.open_pair();
        while self.may_send()
            && let Some(message) = self.client.poll_message()
        {
            match message {
                Outgoing::Answer(_) => {
                    self.owed_bytes += message.weight();
                    self.owed.push_back(message);
                }
                message => self.send(message),
            }
        }
        self.send_owed();
        if let Readiness::Broken(_) = self.client.readiness() {
            self.broken_at.get_or_insert(now);
            self.owed.clear();
            self.owed_bytes = 0;
            self.abort(|_| true);
        }
        self.part();
    }

    /// Ends what is not wanted any more once the conversation is over. What the server is told to
    /// give up it must hear before its session ends: each message has a stream of its own, and
    /// may be overtaken.
    fn part(&mut self) {
        if self.parting == Parting::No {
            return;
        }
        let waits = self.requests.values().any(Request::is_cancel);
        self.abort_all(|request| match request.purpose {
            // The session of the old pair ends with its stream.
            Purpose::Events => !waits,
            Purpose::Leave => false,
            _ => !request.is_cancel(),
        });
        if self.parting == Parting::Leaving && !waits {
            self.parting = Parting::Left;
            if self.session.is_some() {
                self.open(Request::new(Purpose::Leave, None));
            }
        }
    }

    /// Posts answers to the server's questions, a few at a time. A server that asks and takes no
    /// answers is not listened to.
    fn send_owed(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let is_answer = |request: &&Request| request.is_answer();
        let posted = self.requests.values().filter(is_answer).count();
        for _ in posted..ANSWERS_MAX {
            let Some(answer) = self.owed.pop_front() else { break };
            self.owed_bytes -= answer.weight();
            self.send(answer);
        }
        if !self.owes_much() {
            self.ready.extend(self.unheard.drain(..));
        }
    }

    fn owes_much(&self) -> bool {
        ANSWERS_MAX <= self.owed.len()
    }

    fn send(&mut self, message: Outgoing) {
        if self.pair.is_some() {
            return self.post(message);
        }
        let purpose = match &message {
            Outgoing::Notification { cancels: Some(id), .. } => {
                let asked = Purpose::Ask(*id);
                if self.give_up(asked) {
                    return;
                }
                // Closing it tells a modern server.
                if self.client.revision() == Some(Revision::MODERN) {
                    return self.abort(|other| other == asked);
                }
                Purpose::Tell
            }
            Outgoing::Request { id: RequestId::Number(id), .. } => Purpose::Ask(*id),
            _ if message.method() == "notifications/initialized" => {
                self.beginning = Beginning::Telling;
                Purpose::Initialized
            }
            _ => Purpose::Tell,
        };
        if message.method() == "initialize" {
            self.greeting = Some(message.clone());
        }
        let request = Request::new(purpose, Some(message));
        match self.needs_list(&request) {
            true => self.open_when_listed(request),
            false => self.open(request),
        }
    }

    fn open(&mut self, mut request: Request) {
        let stream = StreamId::Ours(self.next_stream);
        self.next_stream += 1;
        let mut head = self.head(&request);
        if let Some(message) = &request.message {
            let mut body = Outbox::new();
            message.write(&mut body);
            head.headers.push("Content-Length", body.len().to_string());
            request.body = Some(body);
        }
        self.opens.push_back((stream, head));
        self.posted_bytes += request.weight();
        self.requests.insert(stream, request);
    }

    /// The request of a stream, which is over.
    fn take(&mut self, stream: StreamId) -> Option<Request> {
        let request = self.requests.remove(&stream)?;
        self.posted_bytes -= request.weight();
        Some(request)
    }

    fn head(&self, request: &Request) -> RequestHead {
        let verb = match (&request.message, request.purpose) {
            (Some(_), _) => "POST",
            (None, Purpose::Leave) => "DELETE",
            (None, _) => "GET",
        };
        let path = request.path.as_ref().unwrap_or(&self.settings.path);
        let mut head = RequestHead::new(verb, path.clone());
        let headers = &mut head.headers;
        if self.pair.is_some() {
            match verb {
                "POST" => headers.push("Content-Type", "application/json"),
                _ => headers.push("Accept", "text/event-stream"),
            }
            return head;
        }
        match verb {
            "POST" => {
                headers.push("Content-Type", "application/json");
                headers.push("Accept", "application/json, text/event-stream");
            }
            "GET" => headers.push("Accept", "text/event-stream"),
            _ => {}
        }
        if !request.asks("initialize") {
            headers.extend(self.session.as_ref().map(|session| ("Mcp-Session-Id", session)));
            let revision = self.client.revision();
            let legacy = revision.filter(|revision| revision.era() == Era::Legacy);
            headers.extend(legacy.map(|legacy| ("MCP-Protocol-Version", legacy.as_str())));
        }
        match &request.message {
            Some(message) => headers.extend(self.mirror(message)),
            None => headers.extend(request.seen.as_ref().map(|seen| ("Last-Event-ID", seen))),
        }
        head
    }

    /// The headers that repeat what a message says.
    fn mirror(&self, message: &Outgoing) -> Vec<(String, String)> {
        let (method, params) = (message.method(), message.params());
        if wire::era(method, params) == Era::Legacy {
            return Vec::new();
        }
        let tool = params.and_then(|params| edit::text(params, "name"));
        let input = tool.and_then(|tool| self.inputs.of(&tool));
        mirror_of(Revision::MODERN.as_str(), method, params, input)
    }

    /// Gives up the streams of requests whose answers are not wanted any more.
    fn abort(&mut self, is_it: impl Fn(Purpose) -> bool) {
        self.abort_all(|request| is_it(request.purpose));
    }

    fn abort_all(&mut self, is_it: impl Fn(&Request) -> bool) {
        let found = self.requests.extract_if(.., |_, request| is_it(request));
        for (stream, request) in found {
            self.posted_bytes -= request.weight();
            match self.opens.iter().position(|(opening, _)| *opening == stream) {
                Some(at) => drop(self.opens.remove(at)),
                None => self.ready.push_back(stream),
            }
        }
    }

    /// Takes what was heard on a stream that goes on.
    fn handle_heard(&mut self, now: Instant, stream: StreamId, heard: Vec<Heard>) {
        let Some(request) = self.requests.get_mut(&stream) else { return };
        let purpose = request.purpose;
        for heard in &heard {
            if let Heard::Event { id, retry, .. } = heard {
                request.seen = id.clone().or(request.seen.take());
                request.retry = retry.unwrap_or(request.retry);
            }
            learn(&mut self.inputs, request, heard);
            self.was_listed |= request.asks("tools/list") && heard.result().is_some();
        }
        match purpose {
            Purpose::Relist { .. } if heard.iter().any(|heard| heard.result().is_some()) => {
                if let Some(request) = self.take(stream) {
                    self.relisted(&request, &heard);
                }
            }
            Purpose::LookForEvents(_) | Purpose::Events => self.hear_events(now, stream, heard),
            _ => heard.into_iter().for_each(|heard| hear(&mut self.client, now, purpose, heard)),
        }
    }

    /// The answer to a request is over, well or not.
    fn handle_end(&mut self, now: Instant, request: Request, ended: Result<Vec<Heard>, Failure>) {
        let status = request.reading.status();
        let is_stream = request.reading.is_stream();
        match (ended, request.purpose) {
            (ended, Purpose::Events) => self.events_ended(&request, ended),
            (_, Purpose::Post(id)) => {
                if let (Some(id), false) = (id, matches!(status, 200 | 202)) {
                    self.client.fail(now, id, refused(status));
                }
            }
            (Ok(heard), Purpose::Ask(_)) if may_be_pair(&request, status, &heard) => {
                self.look_for_events(request, Unshaken::of(status, heard));
            }
            (_, Purpose::Ask(_)) if status == 404 && self.has_forgotten(&request) => {
                self.reopen(request);
            }
            (Ok(_), Purpose::Reopen) if status == 200 => self.reopened(),
            (Err(failure), Purpose::Reopen) => self.not_reopened(now, &failure),
            (Ok(_), Purpose::Reopen) => {
                let message = "the server has forgotten the session and begins no other";
                self.not_reopened(now, &Failure::new(FailureKind::Unavailable, message));
            }
            (Ok(heard), Purpose::Ask(_))
                if status == 400 && has_wrong_headers(&request, &heard) =>
            {
                self.relist(request);
            }
            (Ok(heard), Purpose::Relist { .. }) => {
                heard.iter().for_each(|heard| learn(&mut self.inputs, &request, heard));
                self.relisted(&request, &heard);
            }
            (Err(_), Purpose::Relist { .. }) => self.relisted(&request, &[]),
            (Ok(heard), purpose) => {
                for heard in heard {
                    learn(&mut self.inputs, &request, &heard);
                    self.was_listed |= request.asks("tools/list") && heard.result().is_some();
                    hear(&mut self.client, now, purpose, heard);
                }
                match purpose {
                    Purpose::Initialized => self.told_initialized(now),
                    Purpose::Ask(id) if self.client.waits_for(id) => {
                        self.broke_off(now, request, id, is_stream);
                    }
                    Purpose::Listen if is_stream => self.put_off(now, request),
                    Purpose::LookForEvents(id) => {
                        self.no_events(now, id, request.why);
                    }
                    _ => {}
                }
            }
            (Err(failure), Purpose::Ask(_)) if may_be_pair(&request, status, &[]) => {
                self.look_for_events(request, Unshaken::Failed(failure));
            }
            (Err(failure), _) => self.handle_failed(now, request, failure),
        }
    }

    /// The request got no answer that means anything.
    fn handle_failed(&mut self, now: Instant, request: Request, failure: Failure) {
        match request.purpose {
            Purpose::Ask(id) | Purpose::Post(Some(id)) => self.client.fail(now, id, failure),
            Purpose::Events => self.break_pair(failure),
            Purpose::LookForEvents(id) => self.no_events(now, id, request.why),
            Purpose::Reopen => self.not_reopened(now, &failure),
            Purpose::Relist { .. } => self.relisted(&request, &[]),
            // Servers need not offer a stream of their own, nor the end of a session.
            Purpose::Initialized => self.begun(),
            Purpose::Listen => self.listens(),
            Purpose::Tell | Purpose::Post(None) | Purpose::Leave => {}
        }
    }
}
