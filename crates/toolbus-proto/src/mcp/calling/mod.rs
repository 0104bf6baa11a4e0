//! The calling end of MCP, message by message (`docs/protocols/mcp.md` 2.3 to 2.6, 2.10).
//!
//! Messages of the server come in by [`MessageClient::handle_message`], those for it come out
//! of [`MessageClient::poll_message`]; [`Client`] puts them on a pipe, `http` on exchanges.
//! Calls of the hub are translated, native ones pass as they are or, by `crossing`, to the other
//! era; and the long native call `initialize` is one legacy session of a front: what the server
//! says to no request in particular goes to those.

mod answers;
mod asks;
mod crossing;
mod glimpse;
mod holds;
mod listens;
mod notes;
mod opening;
mod outgoing;
mod own_listen;
mod pipe;
mod requests;
mod rounds;
mod sending;
mod settings;
mod tasks;

pub mod offers;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::asks::Asks;
use self::crossing::{Crossing, LegacyCaller};
use self::holds::Holds;
use self::listens::Listens;
use self::opening::{Opening, Step};
use self::requests::Requests;
use self::rounds::Round;
use self::tasks::{AsTask, Task, Tasks};
use super::WIRE;
use super::wire::{self, Era, INTERNAL_ERROR, Level, Meta, Refusal, Revision};
use crate::channel::{
    Calling, Down, Farewell, Goodbye, Machine, Notice, Outbox, Proof, Readiness, Ticket, Up,
};
use crate::counted::{Counted, CountedSet};
use crate::json::Json;
use crate::outstanding::{Desk, Silence, Since, Waiting, earlier};
use crate::tool::{
    Call, CallOptions, CallerId, Deadline, Failure, FailureKind, Outcome, ToolSpec, What,
};

pub use self::opening::Memory;
pub use self::outgoing::{Outgoing, RequestId};
pub use self::pipe::Client;
pub use self::settings::{EVERYTHING, Introduction, Settings, Tokens, User};

/// What we may owe a server that asks and does not read before it is read no more.
const OWED_BYTES_MAX: usize = 1 << 20;
/// Tickets of requests that we make for ourselves. The hands never count so far.
const OWN_TICKETS: u64 = 1 << 63;

/// Our end of a conversation with a server, whatever carries its messages.
#[derive(Debug)]
pub struct MessageClient {
    settings: Settings,
    us: Json,
    desk: Desk,
    opening: Option<Opening>,
    greeting: Option<Greeting>,
    /// Was it asked whether it is modern?
    was_discovered: bool,
    /// May one connection carry both eras, as a pipe may?
    carries_both: bool,
    /// Has it said of itself that it is modern, though the handshake was legacy?
    speaks_both: bool,
    /// What it was asked when it ended, if another process may do better.
    died_of: Option<Era>,
    requests: Requests,
    silence: Silence,
    /// Whose progress a token of ours is about.
    tokens: Counted<u64, Ticket>,
    next_token: u64,
    sessions: HashMap<CallerId, Session>,
    asks: Asks,
    /// Calls of tools that are passed on as their callers wrote them. The bus knows them as those
    /// of tools, so that an error is told as one.
    passed_tools: CountedSet<Ticket>,
    /// Calls whose callers are to be answered with the questions of the server, and since when.
    holding: VecDeque<(Ticket, Instant)>,
    holds: Holds,
    /// Calls that are made once more when their callers have answered.
    rounds: Counted<Ticket, Round>,
    /// Calls that servers carry out as tasks.
    tasks: Tasks,
    /// How many web pages a legacy client was sent to for a modern server.
    elicitations: u64,
    listens: Listens,
    next_own: u64,
    /// When something last happened.
    latest: Option<Instant>,
    /// The request whose answer brings what is just being heard, if the transport knows.
    heard_for: Option<u64>,
    /// The names of the server's tools, once they were listed and until they change.
    tools: Option<Vec<ToolSpec>>,
    outgoing: VecDeque<Outgoing>,
    /// What the answers among them weigh.
    owed_bytes: usize,
}

/// What the server said of itself.
#[derive(Debug)]
struct Greeting {
    revision: Revision,
    raw: Json,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Sent {
    id: u64,
    ticket: Ticket,
    caller: CallerId,
    deadline: Deadline,
    since: Since,
    token: Option<u64>,
    /// The level of log messages that a modern request asked for.
    level: Option<Level>,
    purpose: Purpose,
    /// Who asks, if the server is of another era.
    crossing: Option<Box<Crossing>>,
}

impl Sent {
    /// Who is asked about a call of a tool, if it is one that can be.
    fn user(&self) -> Option<&LegacyCaller> {
        match &self.purpose {
            Purpose::Tool { user, .. } => user.as_deref(),
            _ => None,
        }
    }
}

/// What is to become of the answer to a request.
#[derive(Debug)]
enum Purpose {
    /// It goes back as it is.
    Pass,
    /// It goes back as it is, and so does what is said under its id meanwhile.
    Listen,
    /// It becomes a reply, or stays as it is for a caller who speaks MCP, too.
    Tool { name: String, form: Form, user: Option<Box<LegacyCaller>>, task: AsTask },
    /// It says how far the task is that a call of a tool became.
    Task(Box<Task>),
    /// It is a page of tools.
    List(Page),
    /// It is for us alone.
    Own,
}

/// What a caller makes of the result of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing: it speaks MCP, too.
    Native,
    Reply,
    /// The text blocks, where there are some.
    Text,
    /// What the tool's output schema says that a text is.
    Typed,
}

impl Form {
    fn wanted_by(call: &Call) -> Form {
        match call.options {
            CallOptions { native: Some(WIRE), .. } => Form::Native,
            CallOptions { text: true, .. } => Form::Text,
            CallOptions { typed: true, .. } => Form::Typed,
            _ => Form::Reply,
        }
    }
}

/// A list of tools that is being read.
#[derive(Debug)]
struct Page {
    /// Those of the pages before, and what they took on the wire.
    tools: Vec<ToolSpec>,
    bytes: usize,
    number: usize,
    /// How the client asked, if it speaks MCP.
    request: Option<Bytes>,
    then: Then,
}

impl Page {
    fn first(request: Option<Bytes>, then: Then) -> Page {
        Page { tools: Vec::new(), bytes: 0, number: 1, request, then }
    }
}

/// Who wanted the list.
#[derive(Debug)]
enum Then {
    Reply,
    /// A call was refused for its parameters: is there such a tool at all?
    Judge {
        name: String,
        failure: Failure,
    },
    /// A text came, and is the JSON of something else: does the tool's schema say so?
    Read {
        name: String,
        text: String,
    },
}

impl Then {
    /// How the call ends if there is no list after all.
    fn unlisted(self, failure: Failure) -> Result<Outcome, Failure> {
        match self {
            Then::Reply => Err(failure),
            Then::Judge { failure, .. } => Err(failure),
            Then::Read { text, .. } => Ok(Outcome::Text(text)),
        }
    }
}

/// A legacy session of a front.
#[derive(Debug)]
struct Session {
    ticket: Ticket,
    revision: Revision,
    capabilities: Json,
    client: Json,
    level: Option<Level>,
    /// The resources that it has subscribed to.
    uris: Vec<String>,
    /// Its client has said something since: there is someone to tell of changes.
    is_heard: bool,
}

impl MessageClient {
    /// A conversation that has not begun; the first call decides which era is tried first.
    pub fn new(settings: Settings) -> MessageClient {
        MessageClient {
            us: wire::introduction("toolbus", &settings.version),
            desk: Desk::new(settings.calls_max, "this server"),
            opening: None,
            greeting: None,
            was_discovered: false,
            carries_both: false,
            speaks_both: false,
            died_of: None,
            requests: Requests::new(settings.calls_max),
            silence: Silence::default(),
            tokens: Counted::default(),
            next_token: 1,
            sessions: HashMap::new(),
            asks: Asks::default(),
            passed_tools: CountedSet::default(),
            holding: VecDeque::new(),
            holds: Holds::default(),
            rounds: Counted::default(),
            tasks: Tasks::default(),
            elicitations: 0,
            listens: Listens::default(),
            next_own: OWN_TICKETS,
            latest: None,
            heard_for: None,
            tools: None,
            outgoing: VecDeque::new(),
            owed_bytes: 0,
            settings,
        }
    }

    /// What the server speaks, once that is known.
    pub fn revision(&self) -> Option<Revision> {
        self.greeting.as_ref().map(|greeting| greeting.revision)
    }

    /// The next message to the server. A call leaves its line only then: until it is really
    /// about to be written another process could still take it.
    pub fn poll_message(&mut self) -> Option<Outgoing> {
        while self.outgoing.is_empty() && self.send_next() {}
        let message = self.outgoing.pop_front();
        if let Some(Outgoing::Answer(answer)) = &message {
            self.owed_bytes -= answer.len();
        }
        message
    }

    /// Do so many answers wait for the server that it should take some before it asks on?
    pub(super) fn owes_much(&self) -> bool {
        OWED_BYTES_MAX <= self.owed_bytes
    }

    /// Drops the cancels of requests that the server need not be told of.
    pub(super) fn skip_cancels(&mut self, mut is_unknown: impl FnMut(u64) -> bool) {
        self.outgoing.retain(|message| match message {
            Outgoing::Notification { cancels: Some(id), .. } => !is_unknown(*id),
            _ => true,
        });
    }

    /// The server will say no more.
    pub fn handle_end(&mut self) {
        if let Some(opening) = self.opening.take() {
            self.died_of = opening.handle_lost();
        }
    }

    /// Is the answer to `id` awaited?
    pub(super) fn waits_for(&self, id: u64) -> bool {
        let is_asked = self.opening.as_ref().is_some_and(|opening| opening.waits_for(id));
        is_asked || self.requests.get(id).is_some()
    }

    /// The request `id` will not be answered, and `failure` says why.
    pub(super) fn fail(&mut self, now: Instant, id: u64, failure: Failure) {
        self.latest = Some(now);
        if let Some(opening) = &mut self.opening {
            // Who cannot come in at all need not ask otherwise.
            let step = match failure.last_words.is_some() {
                true => Step::Fail(failure),
                false => {
                    let refusal = Refusal::new(INTERNAL_ERROR, failure.message).to_json();
                    let raw = str::from_utf8(&refusal).unwrap_or("{}");
                    opening.answered(&refusal, id, Err(raw))
                }
            };
            return self.take_step(now, step);
        }
        if let Some(sent) = self.take_sent(id) {
            self.end(sent, failure);
        }
    }

    fn take_step(&mut self, now: Instant, step: Step) {
        match step {
            Step::Wait => {}
            Step::Discover => {
                self.was_discovered = true;
                let params = format!("{{\"_meta\":{}}}", self.modern_meta("{}"));
                self.send_opening("server/discover", params.into());
            }
            Step::Initialize => {
                let params = self.initialize_params();
                self.send_opening("initialize", params);
            }
            Step::OpenBoth(revision, greeting) => {
                self.speaks_both = true;
                self.take_step(now, Step::Open(revision, greeting));
            }
            Step::Open(revision, greeting) => {
                if revision.era() == Era::Legacy {
                    let method = "notifications/initialized";
                    self.outgoing.push_back(Outgoing::notification(method, None));
                }
                self.greeting = Some(Greeting { revision, raw: Json::from_trusted(greeting) });
                self.learn_of_tasks();
                self.opening = None;
                let timeout_total = self.settings.timeout_total;
                self.desk.open(now, |call| limits(Some(now), timeout_total, call));
            }
            Step::Fail(failure) => self.break_off(failure),
        }
    }

    /// The server is stopped, or hangs: whoever holds us is to try another.
    fn leave_hanging(&mut self) {
        self.desk.notice(Notice::Hangs);
        let message = "stopped because calls in a row got no answer in time";
        self.opening = None;
        self.desk.break_off(Farewell::Abrupt, Failure::new(FailureKind::Gone, message));
    }

    /// The conversation cannot go on.
    pub(super) fn break_off(&mut self, failure: Failure) {
        self.opening = None;
        self.desk.break_off(Farewell::Patient, failure);
    }

    /// Who calls first decides which era is tried first; who does not speak MCP is modern.
    fn begin(&mut self, now: Instant) {
        let Some(first) = self.desk.queue.calls().next().map(era_of) else { return };
        let memory = self.settings.memory.clone();
        let (opening, step) = Opening::new(now, memory, self.settings.probe_timeout, first);
        self.opening = Some(opening);
        self.take_step(now, step);
    }

    fn done(&mut self, ticket: Ticket, outcome: Result<Outcome, Failure>) {
        for refused in self.asks.give_up(ticket, "the call it belongs to is over") {
            self.answer(refused);
        }
        let outcome = match self.passed_tools.remove(&ticket) {
            true => outcome.map_err(as_of_tool),
            false => outcome,
        };
        match is_own(ticket) {
            true => self.own_done(ticket, outcome),
            false => self.desk.done(ticket, outcome),
        }
    }

    /// A ticket for something that no caller waits for.
    fn own_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_own);
        self.next_own += 1;
        ticket
    }

    /// About what time it is, for a call that was asked then.
    fn now(&self, asked: Instant) -> Instant {
        self.latest.map_or(asked, |latest| latest.max(asked))
    }

    /// A request that is not answered as it should be ends its call, unless that has its answer
    /// already.
    fn end(&mut self, sent: Sent, failure: Failure) {
        let ticket = sent.ticket;
        let outcome = match sent.purpose {
            Purpose::List(Page { then: then @ Then::Read { .. }, .. }) => then.unlisted(failure),
            _ => Err(failure),
        };
        self.done(ticket, outcome);
    }

    /// Takes a request out, whose answer is here or will not be awaited.
    fn take_sent(&mut self, id: u64) -> Option<Sent> {
        let sent = self.requests.take(id)?;
        self.forget(&sent);
        Some(sent)
    }

    /// The same for the request of this ticket.
    fn take_sent_of(&mut self, ticket: Ticket) -> Option<Sent> {
        let sent = self.requests.take_of(ticket)?;
        self.forget(&sent);
        Some(sent)
    }

    /// A request was taken out.
    fn forget(&mut self, sent: &Sent) {
        if let Some(token) = sent.token {
            self.tokens.remove(&token);
        }
        self.listens.forget(sent.ticket);
    }

    fn answer(&mut self, mut answer: Outbox) {
        self.owed_bytes += answer.len();
        self.outgoing.push_back(Outgoing::Answer(answer.take()));
    }

    fn cancel(&mut self, id: u64, reason: Option<&[u8]>) {
        let mut params = format!("{{\"requestId\":{id}").into_bytes();
        if let Some(reason) = reason {
            wire::put_member(&mut params, "reason", reason);
        }
        params.push(b'}');
        let method = Bytes::from_static(b"notifications/cancelled");
        let params = Some(params.into());
        self.outgoing.push_back(Outgoing::Notification { method, params, cancels: Some(id) });
    }

    /// When a call has waited long enough, once the server is ready.
    fn deadline(&self, call: &Call) -> Deadline {
        limits(self.desk.opened, self.settings.timeout_total, call)
    }
}

impl Machine for MessageClient {
    fn handle_timeout(&mut self, now: Instant) {
        self.latest = Some(now);
        if let Some(opening) = &mut self.opening {
            let step = opening.handle_timeout(now);
            self.take_step(now, step);
        }
        self.expire_asks(now);
        self.expire_holds(now);
        self.expire_rounds(now);
        self.expire_tasks(now);
        self.expire_listens(now);
        for Waiting { ticket, call, .. } in self.desk.queue.expire(now) {
            let deadline = self.deadline(&call);
            self.done(ticket, Err(missed(now, &deadline)));
        }
        let mut hangs = false;
        for sent in self.requests.take_late(now) {
            self.forget(&sent);
            let id = sent.id;
            hangs |= self.silence.timed_out(sent.since);
            let failure = missed(now, &sent.deadline);
            self.cancel_task_of(now, &sent.purpose);
            self.end(sent, failure);
            self.cancel(id, Some(b"\"timed out\""));
        }
        if hangs && self.desk.is_open() {
            self.leave_hanging();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let calls = earlier(self.desk.queue.poll_timeout(), self.requests.poll_timeout());
        // Asked often: mostly there is nothing else.
        let is_plain = self.opening.is_none()
            && self.asks.is_empty()
            && self.holds.is_empty()
            && self.listens.is_empty()
            && self.rounds.is_empty()
            && self.tasks.is_empty();
        if is_plain {
            return calls;
        }
        let opening = self.opening.as_ref().and_then(Opening::poll_timeout);
        let (asks, tasks) = (self.asks.poll_timeout(), self.tasks.poll_timeout());
        let (holds, listens) = (self.holds.poll_timeout(), self.listens.poll_timeout());
        let rounds = self.rounds.values().filter_map(Round::at).min();
        let all = [calls, opening, asks, holds, listens, rounds, tasks];
        all.into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.desk.queue.weight() + self.owed_bytes + self.holds.weight()
    }
}

impl Calling for MessageClient {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.latest = Some(now);
        let limits = self.deadline(&call);
        let waits = self.desk.wait(ticket, call, &limits);
        if waits && self.desk.readiness == Readiness::Opening && self.opening.is_none() {
            self.begin(now);
        }
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.latest = Some(now);
        match up {
            Up::Answer(ask, answer) => self.handle_answered(now, ticket, ask, &answer),
            Up::Cancel(reason) => self.handle_cancel(ticket, reason.as_ref()),
            // Arguments of a tool are one message; nothing follows them.
            Up::Part(_) | Up::End(_) => {}
        }
    }

    fn close(&mut self, now: Instant, _patience: Duration) -> Goodbye {
        self.opening = None;
        self.handle_lost(now, &Failure::cancelled());
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.desk.downs.pop_front().or_else(|| self.hold_next())
    }

    fn readiness(&self) -> &Readiness {
        &self.desk.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        // They are for another process, which is to be asked otherwise.
        if let Some(era) = self.died_of.take() {
            self.settings.memory.learn(era, false);
        }
        self.desk.take_unsent()
    }

    fn proof(&self) -> Proof {
        let speaks = self.greeting.as_ref().map(Greeting::era);
        match self.died_of {
            Some(_) => Proof::AskAnother,
            None if self.was_discovered && speaks == Some(Era::Legacy) && !self.speaks_both => {
                Proof::ReadyAtLast
            }
            None => Proof::Ready,
        }
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        self.handle_end();
        // What was asked for ourselves is asked of the next, if it is still wanted.
        let sent = self.requests.take_all().filter(|sent| !is_own(sent.ticket));
        self.tokens.clear();
        let sessions = self.sessions.drain().map(|(_, session)| session.ticket);
        let rounds = self.rounds.drain().map(|(ticket, _)| ticket);
        let rounds = rounds.chain(self.tasks.take_all());
        let mut lost: Vec<_> = sessions.chain(rounds).chain(self.listens.take_all()).collect();
        lost.sort_unstable();
        for sent in sent {
            self.end(sent, why.clone());
        }
        for ticket in lost {
            self.desk.done(ticket, Err(why.clone()));
        }
        self.desk.lost(why);
        self.asks = Asks::default();
        self.passed_tools.clear();
        (self.holds, self.holding) = (Holds::default(), VecDeque::new());
    }
}

/// Is this a ticket that only we know of?
fn is_own(ticket: Ticket) -> bool {
    OWN_TICKETS <= ticket.0
}

/// The failure of a tool that was called as its caller wrote it. What failures of tools have as
/// their detail is not the error itself, so that is told by a name.
fn as_of_tool(failure: Failure) -> Failure {
    let raw = failure.detail.as_ref().filter(|_| failure.from_peer);
    let detail = raw.map(|raw| {
        let mut detail = vec![b'{'];
        wire::put_member(&mut detail, wire::ERROR_KEY, raw.compact().as_bytes());
        detail.push(b'}');
        Json::from_trusted(detail)
    });
    Failure { detail: detail.or(failure.detail), ..failure }
}

/// The era that a call is made in; callers that do not speak MCP count as modern.
pub fn era_of(call: &Call) -> Era {
    let (method, request) = match &call.what {
        What::Native { method, body, .. } => (&**method, Some(body)),
        What::Tool { .. } | What::Tools => (&b""[..], request_of(call)),
    };
    match (request, call.options.known) {
        (None, _) => Era::Modern,
        (Some(_), Some(known)) => Era::of(known),
        // It does not come from a front of ours, or was made in the place of one that does.
        (Some(request), None) => {
            Meta::in_body(request).era(str::from_utf8(method).unwrap_or_default())
        }
    }
}

/// The request of a tool or of tools as its caller wrote it, if that is MCP.
fn request_of(call: &Call) -> Option<&Bytes> {
    call.request.as_ref().filter(|_| call.options.native == Some(WIRE))
}

/// Who listens to a server does so for ever. What the caller allows in all is counted from when
/// it asked, the start included; our own limit only from when the server was ready.
fn limits(opened: Option<Instant>, timeout_total: Option<Duration>, call: &Call) -> Deadline {
    let Deadline { asked, quiet, total } = call.deadline;
    if matches!(&call.what, What::Native { method, .. } if method == "subscriptions/listen") {
        return Deadline::never(asked);
    }
    if total.is_some() || opened.is_none() {
        return call.deadline;
    }
    let total = timeout_total.or_else(|| quiet.map(|quiet| quiet * 10));
    Deadline { asked: counted_from(opened, asked), quiet, total }
}

/// No call can be quiet before the server was ready.
fn counted_from(opened: Option<Instant>, asked: Instant) -> Instant {
    opened.map_or(asked, |opened| opened.max(asked))
}

fn missed(now: Instant, deadline: &Deadline) -> Failure {
    let is_total = deadline.total.is_some_and(|total| deadline.asked + total <= now);
    let limit = if is_total { deadline.total } else { deadline.quiet };
    let millis = limit.unwrap_or_default().as_millis();
    let shown = match millis % 1000 {
        0 => format!("{} s", millis / 1000),
        _ => format!("{millis} ms"),
    };
    let in_all = if is_total && deadline.quiet.is_some() { " in all" } else { "" };
    Failure::new(FailureKind::TimedOut, format!("timed out after {shown}{in_all}"))
}

impl Greeting {
    fn era(&self) -> Era {
        self.revision.era()
    }
}

/// The body of a native call as parameters.
fn params_of(body: &Bytes) -> Option<&str> {
    str::from_utf8(body).ok().filter(|params| !params.is_empty())
}
