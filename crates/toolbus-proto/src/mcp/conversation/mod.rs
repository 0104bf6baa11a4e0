//! The serving end of MCP, message by message: both eras, whichever back or bus stands behind.
//!
//! A conversation is one stdio pipe, one legacy HTTP session or one modern HTTP exchange.
//! Messages come in by [`Conversation::handle_message`], each from a [`Place`]; what is to
//! be said comes out of [`Conversation::poll_said`] for the place it belongs to. How
//! messages are cut out of bytes is known to [`Server`](super::Server) and `http`.

mod batch;
mod calls;
mod compare;
mod hub;
mod modern;
mod native;
mod replies;
mod requests;
mod session;

pub(super) use modern::unsupported;
pub(super) use requests::{Read, id_in_front};

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use self::calls::Calls;
use self::session::{Listen, Opening, Session};
use super::http::Mirror;
use super::translate::Blocks;
use super::wire::{self, Level, Refusal, Revision};
use crate::channel::{AskId, Asked, Notice, Outbox, Ticket, Up};
use crate::json::Json;
use crate::jsonrpc::{Batches, Id};
use crate::mcp::WIRE;
use crate::tool::{
    Call, CallOptions, CallerId, Known, Outcome, Provenance, ToolName, ToolSpec, Trace, What,
};

/// How many empty texts are kept for answers.
const SPARE_MAX: usize = 16;

/// What can be set about the serving end.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we are, as clients are told where no single MCP server stands behind.
    pub name: String,
    /// Our version, as clients are told.
    pub version: String,
    /// How our tools are to be used, as clients are told where no single MCP server stands behind.
    pub instructions: Option<String>,
    /// Who the calls come from: one id a pipe, session or modern exchange.
    pub caller: CallerId,
    /// Who answers.
    pub behind: Behind,
    /// The longest line or body of a client.
    pub line_bytes_max: usize,
    /// How many calls of a client run at a time; then no more is read from it.
    pub calls_max: usize,
    /// Are tools listed before the headers of a call are compared, if they never were?
    pub lists_first: bool,
}

impl Settings {
    /// The defaults, for what stands `behind`.
    pub fn new(version: impl Into<String>, caller: CallerId, behind: Behind) -> Settings {
        let version = version.into();
        let name = "toolbus".to_owned();
        Settings {
            name,
            version,
            instructions: None,
            caller,
            behind,
            line_bytes_max: 16 << 20,
            calls_max: 1024,
            lists_first: false,
        }
    }
}

/// Who answers the calls of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The tools of the hub, whatever wires they speak.
    Hub,
    /// Tools of the hub, and what several MCP servers have besides: what is no tool passes as it
    /// is, and [`Several`](super::several::Several) makes one of what they say.
    Several,
    /// One MCP server: what is said in its era passes as it is.
    Server,
}

/// Where a message came from and its answers go. Means nothing on a pipe; over HTTP it is
/// the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(pub u64);

impl Place {
    /// What belongs to no request: the pipe itself, or the session's own stream.
    pub const SESSION: Place = Place(0);
}

/// One message to be said.
#[derive(Debug)]
pub struct Said {
    /// Where it belongs.
    pub place: Place,
    /// What it is.
    pub what: Saying,
    /// The message, without a newline.
    pub text: Outbox,
}

/// What a message is to the place it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saying {
    /// The answer that the place was waiting for.
    Answer,
    /// The same, and it says no.
    Error {
        /// With this code; 0 if the server that said no gave none.
        code: i64,
        /// Does it name the request? What could not be read has no name.
        has_id: bool,
    },
    /// The place was waiting for an answer and gets none: the request was cancelled.
    Silence,
    /// Something before the answer.
    Note,
    /// Something that a server said without naming a call; the place is a guess.
    Guess,
    /// A question of that kind, with its id.
    Question(u64),
}

impl Saying {
    /// Does the place wait for nothing more after it?
    fn is_answer(self) -> bool {
        matches!(self, Saying::Answer | Saying::Error { .. })
    }
}

/// Our end of one conversation with a client.
#[derive(Debug)]
pub struct Conversation {
    settings: Settings,
    /// Who we say we are where no single MCP server stands behind.
    us: Json,
    session: Option<Session>,
    /// An `initialize` that is being answered.
    opening: Option<Opening>,
    /// Requests that came behind it, to be looked at when it is.
    waiting: VecDeque<Waiting>,
    calls: Calls,
    batches: Batches,
    listens: Vec<Listen>,
    /// Questions to the client, by the id we gave them.
    questions: HashMap<u64, (Ticket, AskId)>,
    /// The tools of the hub, as they were last heard.
    tools: Option<Arc<[ToolSpec]>>,
    /// Those of them whose arguments are no object, so that clients wrap them.
    wrapped: BTreeSet<ToolName>,
    /// The tool that was called last; the next call is likely one of the same.
    called: Option<ToolName>,
    pub(super) next_ticket: u64,
    next_question: u64,
    ups: VecDeque<(Ticket, Asked)>,
    said: VecDeque<Said>,
    /// What the answers among those weigh.
    untold: usize,
    /// Empty ones with room in them, for the next answers: as many as may be told together.
    spare: Vec<Outbox>,
    notices: VecDeque<Notice>,
}

/// Where the answer to a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    place: Place,
    batch: Option<u64>,
}

/// A request that came while `initialize` was being answered.
#[derive(Debug)]
struct Waiting {
    origin: Origin,
    id: Id,
    line: Bytes,
}

/// A request that a back is busy with.
#[derive(Debug)]
struct InFlight {
    id: Id,
    origin: Origin,
    revision: Revision,
    job: Job,
}

/// What is to become of the reply to a request.
#[derive(Debug)]
enum Job {
    /// It opens a session. The parameters, for opening it once more.
    Initialize { params: Bytes },
    /// Answers `server/discover`: capabilities, server info and instructions in one result.
    Discover,
    /// It is a page of the hub's tools, from this one on.
    ListTools { from: usize },
    /// A tool of the hub.
    CallTool { name: ToolName, blocks: Blocks, progress: Option<Progress>, level: Option<Level> },
    /// A tool of the hub that may have to be unwrapped: first its schema must be known.
    LookUpTool(ToolCall),
    /// A tool of the hub has answered in parts: whether they are shown collected, too, is to be
    /// found in its schema.
    LookUpOutput { name: ToolName, blocks: Blocks, end: Outcome },
    /// A call over HTTP whose headers can be compared only when the tools are known.
    Compare(Box<Compare>),
    /// Passed on as it is.
    Pass(Pass),
    /// Said to a server by the way: no client waits for the answer.
    Aside,
}

/// A call of a tool of the hub, as it was asked.
#[derive(Debug)]
struct ToolCall {
    name: ToolName,
    args: Option<Json>,
    token: Option<Bytes>,
    trace: Option<Trace>,
    /// The level of log messages that a modern request asked for.
    level: Option<Level>,
    /// As the client wrote it, for a back that speaks MCP, too.
    request: Option<Bytes>,
    /// What the client answers while the call runs.
    asks: Option<Json>,
}

/// A call that waits for the list of tools.
#[derive(Debug)]
struct Compare {
    line: Bytes,
    mirror: Mirror,
    /// How many pages were read.
    pages: usize,
}

/// The progress of a call whose caller gave it a token.
#[derive(Debug)]
struct Progress {
    token: Bytes,
    count: u64,
}

/// What has to be put back into what comes of a request that was passed on.
#[derive(Debug, Default)]
struct Pass {
    token: Option<Bytes>,
    /// The level of log messages that a modern request asked for.
    level: Option<Level>,
    /// It stays until cancelled, and its notifications carry its id.
    listening: Option<Listening>,
    memo: Option<session::Memo>,
}

/// A client that listens to a server.
#[derive(Debug)]
struct Listening {
    params: Bytes,
    is_acknowledged: bool,
    /// How often the server was lost meanwhile.
    losses: u32,
}

impl Conversation {
    /// A conversation in which nothing has been said.
    pub fn new(settings: Settings) -> Conversation {
        Conversation {
            us: wire::introduction(&settings.name, &settings.version),
            settings,
            session: None,
            opening: None,
            waiting: VecDeque::new(),
            calls: Calls::default(),
            batches: Batches::default(),
            listens: Vec::new(),
            questions: HashMap::new(),
            tools: None,
            wrapped: BTreeSet::new(),
            called: None,
            next_ticket: 1,
            next_question: 1,
            ups: VecDeque::new(),
            said: VecDeque::new(),
            untold: 0,
            spare: Vec::new(),
            notices: VecDeque::new(),
        }
    }

    /// Takes one message, or a batch of them, from `place`; tells whether an answer will
    /// follow.
    pub fn handle_message(&mut self, now: Instant, place: Place, line: &Bytes) -> bool {
        if line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return self.handle_batch(now, place, line);
        }
        self.handle_one(now, Origin { place, batch: None }, line)
    }

    /// Takes one message that was read already. `mirror` are the headers of a modern HTTP
    /// request.
    pub(super) fn handle_read(
        &mut self,
        now: Instant,
        place: Place,
        read: &Read<'_>,
        mirror: Option<&Mirror>,
    ) -> bool {
        self.handle(now, Origin { place, batch: None }, read, mirror)
    }

    /// A message that is too long to be kept.
    pub fn handle_too_long(&mut self, place: Place) {
        let bytes_max = self.settings.line_bytes_max;
        let message = format!("line is longer than the limit of {bytes_max} bytes");
        let refusal = Refusal::new(wire::INVALID_REQUEST, message);
        self.refuse(Origin { place, batch: None }, &Id::NULL, &refusal);
    }

    /// Nothing more will be said by the client: who only listens is told that this is over.
    pub fn handle_end(&mut self) {
        for Listen { id, place, .. } in std::mem::take(&mut self.listens) {
            self.end_listening(&id, place);
        }
        let listening = self.calls.iter().filter(|(_, call)| call.listens());
        let listening: Vec<_> = listening.map(|(ticket, _)| ticket).collect();
        for ticket in listening {
            if let Some(call) = self.forget(ticket) {
                self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
                self.end_listening(&call.id, call.origin.place);
            }
        }
    }

    /// Ends all that is still under way, without an answer.
    pub fn cancel_all(&mut self) {
        self.waiting.clear();
        self.opening = None;
        let link = self.session.take().and_then(|session| session.link);
        let tickets = self.calls.take_all();
        self.batches = Batches::default();
        self.questions.clear();
        let cancelled = tickets.chain(link);
        self.ups.extend(cancelled.map(|ticket| (ticket, Asked::Up(Up::Cancel(None)))));
    }

    /// The client of a modern exchange went away: what it asked for is over.
    pub fn handle_gone(&mut self) {
        self.listens.clear();
        self.cancel_all();
    }

    /// Where the request came from that a call was made for.
    pub fn place_of(&self, ticket: Ticket) -> Option<Place> {
        self.calls.get(ticket).map(|call| call.origin.place)
    }

    /// How many requests wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.calls.len() + self.waiting.len()
    }

    /// How many bytes are kept of replies that have come in part.
    pub fn collected(&self) -> usize {
        self.calls.weight()
    }

    /// How many bytes of answers are to be said.
    pub fn untold(&self) -> usize {
        self.untold
    }

    /// Is there room for another request?
    pub fn has_room(&self) -> bool {
        self.in_flight() < self.settings.calls_max
    }

    /// The client cannot be asked this question after all: the server that asked is told.
    pub fn decline(&mut self, question: u64) {
        if let Some((ticket, ask)) = self.questions.remove(&question) {
            let why = r#"{"error":{"code":-32601,"message":"the caller cannot be asked"}}"#;
            let answer = Up::Answer(ask, Json::from_trusted(why));
            self.ups.push_back((ticket, Asked::Up(answer)));
        }
    }

    /// The revision of the session, once there is one.
    pub fn revision(&self) -> Option<Revision> {
        self.session.as_ref().map(|session| session.revision)
    }

    /// The next thing to be said.
    pub fn poll_said(&mut self) -> Option<Said> {
        let said = self.said.pop_front()?;
        if said.what.is_answer() {
            self.untold -= said.text.len();
        }
        Some(said)
    }

    /// Takes back a text of which all has been taken, so that the next needs no room of its own.
    pub(super) fn reuse(&mut self, text: Outbox) {
        debug_assert!(text.is_empty());
        if self.spare.len() < SPARE_MAX {
            self.spare.push(text);
        }
    }

    /// Does something wait to be taken by [`Conversation::poll_up`]?
    pub fn has_asked(&self) -> bool {
        !self.ups.is_empty()
    }

    /// A new call, or more of one that runs.
    pub fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    /// Something for the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Asks what stands behind.
    fn ask(
        &mut self,
        now: Instant,
        call: Box<InFlight>,
        what: What,
        trace: Option<Trace>,
    ) -> Ticket {
        self.ask_as(now, call, what, trace, None)
    }

    /// Asks what stands behind; `request` is how the client asked.
    fn ask_as(
        &mut self,
        now: Instant,
        call: Box<InFlight>,
        what: What,
        trace: Option<Trace>,
        request: Option<Bytes>,
    ) -> Ticket {
        self.push(call, Call { trace, request, ..Call::of(now, what) })
    }

    /// Calls a tool of the hub.
    fn ask_tool(&mut self, call: Box<InFlight>, asks: Option<Json>, asked: Call) {
        let provenance = asks.map(|asks| {
            let provenance = Provenance { asks: Some(asks), ..Provenance::default() };
            Box::new(provenance)
        });
        self.push(call, Call { provenance, ..asked });
    }

    /// Asks for the tools because of this one: the other backs are not waited for.
    fn look_up(
        &mut self,
        now: Instant,
        call: Box<InFlight>,
        tool: ToolName,
        request: Option<Bytes>,
    ) -> Ticket {
        self.push(call, Call { sought: Some(tool), request, ..Call::of(now, What::Tools) })
    }

    fn push(&mut self, call: Box<InFlight>, asked: Call) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let options = call.options();
        self.calls.push(ticket, call);
        let asked = Asked::Call(Call { caller: self.settings.caller, options, ..asked });
        self.ups.push_back((ticket, asked));
        ticket
    }

    /// The request is over: nothing that is said to it is passed on any more.
    fn forget(&mut self, ticket: Ticket) -> Option<Box<InFlight>> {
        let call = self.calls.remove(ticket)?;
        self.questions.retain(|_, (asking, _)| *asking != ticket);
        Some(call)
    }

    fn is_in_flight(&self, id: &Id) -> bool {
        self.calls.named(id).is_some()
            || self.waiting.iter().any(|waiting| waiting.id == *id)
            || self.listens.iter().any(|listen| listen.id == *id)
    }

    fn refuse(&mut self, origin: Origin, id: &Id, refusal: &Refusal) {
        self.notices.push_back(Notice::Refused(refusal.message.to_string()));
        self.answer_error(origin, id, refusal.code, refusal.answer(id));
    }

    fn answer(&mut self, origin: Origin, text: Outbox) {
        self.answer_as(origin, Saying::Answer, text);
    }

    fn answer_error(&mut self, origin: Origin, id: &Id, code: i64, text: Outbox) {
        self.answer_as(origin, Saying::Error { code, has_id: *id != Id::NULL }, text);
    }

    /// `what` is an answer.
    fn say_answer(&mut self, place: Place, what: Saying, text: Outbox) {
        self.untold += text.len();
        self.said.push_back(Said { place, what, text });
    }

    fn say(&mut self, place: Place, text: Outbox) {
        self.said.push_back(Said { place, what: Saying::Note, text });
    }

    fn ignore(&mut self, what: impl Into<String>) {
        self.notices.push_back(Notice::Ignored(what.into()));
    }
}

impl InFlight {
    fn listens(&self) -> bool {
        matches!(&self.job, Job::Pass(pass) if pass.listening.is_some())
    }

    /// What is known of the request, so that the calling end need not look for it again. Of one
    /// that we make in its place nothing is.
    fn options(&self) -> CallOptions {
        let (progress, level) = match &self.job {
            Job::CallTool { progress, level, .. } => (progress.is_some(), *level),
            Job::Pass(pass) => (pass.token.is_some(), pass.level),
            _ => return CallOptions { native: Some(WIRE), ..CallOptions::default() },
        };
        CallOptions {
            progress,
            native: Some(WIRE),
            known: Some(Known {
                revision: self.revision as u8,
                log_level: level.map(|level| level as u8),
            }),
            ..CallOptions::default()
        }
    }
}
