//! The serving end over HTTP: many clients of both eras behind one path
//! (`docs/protocols/mcp.md` 2.8).
//!
//! Each legacy session is a conversation, and so is each modern exchange. What a
//! conversation says to a place is written to the exchange of that place: as plain JSON if
//! the answer is the first thing said, else as a stream. `streams` is how it looks to the hands,
//! `pair` the transport of 2024-11-05.

mod exchange;
mod kept;
mod pair;
mod requests;
mod saying;
mod session;
mod streams;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use self::exchange::{Arriving, Exchange, PLAIN_FOR, Stage, Unsent};
use self::session::{IDLE_FOR, Kind, Session, Talk};
use super::entrance::{Answer, EXPOSED, Entrance, Verb};
use super::inputs::Inputs;
use crate::channel::{Asked, Notice, StreamId, Ticket};
use crate::frame::sse;
use crate::http::{Cors, RequestHead, ResponseHead};
use crate::mcp::conversation::{self, Behind, Conversation};
use crate::tool::{CallerId, ToolSpec, What};

/// How many sessions there may be.
const SESSIONS_MAX: usize = 1024;
/// What is kept of the streams of all sessions, in bytes. Over it those of the session that
/// has most are forgotten, the oldest first.
const KEPT_BYTES_MAX: usize = 32 << 20;
const SESSION_HEADER: &str = "Mcp-Session-Id";

/// The status of an answer that must not even say that it has no body.
const NO_CONTENT: u16 = 204;

/// What can be set about the serving end over HTTP.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Our version, as clients are told.
    pub version: String,
    /// Who answers.
    pub behind: Behind,
    /// What is asked of every request.
    pub entrance: Entrance,
    /// Callers are told apart by numbers from this one on.
    pub first_caller: u64,
}

/// All conversations over one path.
pub struct Endpoint {
    settings: Settings,
    /// Who we are and how our tools are to be used, if not as usual.
    about: Option<(String, Option<String>)>,
    /// Makes ids of sessions that cannot be guessed.
    fresh: Box<dyn FnMut() -> String>,
    talks: HashMap<u64, Talk>,
    by_name: HashMap<String, u64>,
    /// The sessions of the old pair, by their names.
    pairs: HashMap<String, u64>,
    arriving: HashMap<StreamId, Arriving>,
    /// Requests of pages of other sites that are let in and not answered yet.
    cors: HashMap<StreamId, Cors>,
    exchanges: HashMap<StreamId, Exchange>,
    calls: HashMap<Ticket, Forwarded>,
    /// What the hub offers.
    tools: Option<Arc<[ToolSpec]>>,
    /// What the tools of a server take; lists that pass tell.
    inputs: Inputs,
    /// Are tools listed before the headers of a call are compared?
    lists_first: bool,
    next_talk: u64,
    /// Counted over all conversations.
    next_ticket: u64,
    ups: VecDeque<(Ticket, Asked)>,
    unsent: HashMap<StreamId, Unsent>,
    /// What is kept of the streams of all sessions.
    kept_bytes: usize,
    ready: VecDeque<StreamId>,
    /// No more requests follow: who only listens goes with the last that waits for an answer.
    is_closing: bool,
    notices: VecDeque<Notice>,
    /// Nothing has to be looked at earlier; perhaps not even then.
    wake_at: Option<Instant>,
}

/// A call that was passed on.
#[derive(Debug, Clone, Copy)]
struct Forwarded {
    /// Whose it is.
    talk: u64,
    /// A server is asked for its tools.
    lists_tools: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("talks", &self.talks).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// No client has come yet. `fresh` makes ids that cannot be guessed.
    pub fn new(settings: Settings, fresh: impl FnMut() -> String + 'static) -> Endpoint {
        Endpoint {
            settings,
            about: None,
            fresh: Box::new(fresh),
            talks: HashMap::new(),
            by_name: HashMap::new(),
            pairs: HashMap::new(),
            arriving: HashMap::new(),
            cors: HashMap::new(),
            exchanges: HashMap::new(),
            calls: HashMap::new(),
            tools: None,
            inputs: Inputs::default(),
            lists_first: false,
            next_talk: 0,
            next_ticket: 0,
            ups: VecDeque::new(),
            unsent: HashMap::new(),
            kept_bytes: 0,
            ready: VecDeque::new(),
            is_closing: false,
            notices: VecDeque::new(),
            wake_at: None,
        }
    }

    /// The same, as clients know it by this name, with how its tools are to be used.
    #[must_use]
    pub fn introduced_as(self, name: &str, instructions: Option<&str>) -> Endpoint {
        Endpoint { about: Some((name.to_owned(), instructions.map(str::to_owned))), ..self }
    }

    /// Lists the tools before the headers of a call are compared, if they never were.
    #[must_use]
    pub fn listing_first(self) -> Endpoint {
        Endpoint { lists_first: true, ..self }
    }

    /// What the hub offers; the arguments that headers repeat are known by it.
    pub fn set_tools(&mut self, tools: Arc<[ToolSpec]>) {
        self.tools = Some(tools);
    }

    /// A request is here, its body whole.
    fn handle_request(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        verb: Verb,
        body: &Bytes,
    ) {
        let handled = match verb {
            Verb::Post => self.handle_post(now, stream, head, body),
            Verb::OpenPair => self.open_pair(now, stream),
            Verb::PostPair => self.post_to_pair(now, stream, head, body),
            verb => self.handle_other(now, stream, head, verb),
        };
        if let Err(answer) = handled {
            self.answer(stream, answer);
        }
    }

    /// The client of an exchange went away. A modern request is cancelled by that, and so is what
    /// a session of the old pair has under way; other legacy requests belong to their session and
    /// go on.
    fn handle_gone(&mut self, now: Instant, stream: StreamId) {
        let Some(Exchange { talk, stage, .. }) = self.exchanges.remove(&stream) else { return };
        match (self.talks.get_mut(&talk), stage) {
            (Some(Talk { kind: Kind::Modern | Kind::Pair { .. }, .. }), _) => self.end_talk(talk),
            (
                Some(Talk { kind: Kind::Legacy(session), .. }),
                Stage::Streaming { stream: Some(number), .. },
            ) => {
                session.used = now;
                if let Some(kept) = session.stream(number) {
                    kept.leave(now);
                    let forget_at = kept.forget_at();
                    forget_at.into_iter().for_each(|at| self.wake(at));
                }
            }
            _ => {}
        }
    }

    /// The whole answer.
    fn answer(&mut self, stream: StreamId, mut answer: Answer) {
        if answer.head.status != NO_CONTENT {
            answer.head.headers.push("Content-Length", answer.body.len().to_string());
        }
        self.begin(stream, answer.head);
        self.put(stream, &answer.body);
        self.finish(stream);
    }

    fn begin(&mut self, stream: StreamId, mut head: ResponseHead) {
        if let Some(cors) = self.cors.remove(&stream) {
            cors.add_to(&mut head, Some(EXPOSED));
        }
        self.unsent(stream).head = Some(head);
    }

    fn put(&mut self, stream: StreamId, piece: &Bytes) {
        self.unsent(stream).out.put_shared(piece);
    }

    fn finish(&mut self, stream: StreamId) {
        self.unsent(stream).ends = true;
    }

    /// Where to write what the hands will ask for.
    fn unsent(&mut self, stream: StreamId) -> &mut Unsent {
        // Told once for what belongs together.
        if self.ready.back() != Some(&stream) {
            self.ready.push_back(stream);
        }
        self.unsent.entry(stream).or_default()
    }

    /// Ends what nothing will be said to any more, well or not: the front stops.
    fn end_exchanges(&mut self) {
        let mut open: Vec<_> = self.exchanges.drain().collect();
        open.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, exchange) in open {
            match exchange.stage {
                Stage::Streaming { .. } => self.finish(stream),
                Stage::Pending { .. } => self.answer(stream, Answer::empty(503)),
            }
        }
    }

    /// Once we are to stop, those who only listen wait for those who wait for an answer.
    fn settle(&mut self) {
        let is_owed = |exchange: &Exchange| match self.talks.get(&exchange.talk) {
            Some(Talk { conversation, kind: Kind::Pair { .. } }) => 0 < conversation.in_flight(),
            _ => exchange.is_owed,
        };
        if self.is_closing && !self.exchanges.values().any(is_owed) {
            self.end_exchanges();
        }
    }

    fn expire(&mut self, now: Instant) {
        let is_late = |arriving: &Arriving| arriving.late_at() <= now;
        let late: Vec<_> = self.arriving.extract_if(|_, arriving| is_late(arriving)).collect();
        for (stream, arriving) in late {
            let is_silent = arriving.silent_at <= now;
            self.answer(stream, if is_silent { Answer::empty(408) } else { Answer::too_slow() });
        }
        let due = |exchange: &Exchange| exchange.wake_at().is_some_and(|at| at <= now);
        let late = self.exchanges.iter().filter(|(_, exchange)| due(exchange));
        let mut late: Vec<_> = late.map(|(stream, exchange)| (*stream, exchange.stage)).collect();
        late.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, stage) in late {
            match stage {
                Stage::Pending { .. } => self.begin_stream(now, stream),
                Stage::Streaming { .. } => {
                    self.write_piece(now, stream, Bytes::from_static(sse::KEEP_ALIVE));
                }
            }
        }
        let busy: HashSet<_> = self.exchanges.values().map(|exchange| exchange.talk).collect();
        let mut idle = Vec::new();
        for (key, talk) in &mut self.talks {
            let Kind::Legacy(session) = &mut talk.kind else { continue };
            self.kept_bytes -= session.kept_bytes();
            session.expire(now);
            self.kept_bytes += session.kept_bytes();
            if busy.contains(key) {
                session.used = now;
            } else if session.used + IDLE_FOR <= now {
                idle.push(*key);
            }
        }
        idle.into_iter().for_each(|talk| self.end_talk(talk));
        let arriving = self.arriving.values().map(Arriving::late_at);
        let exchanges = self.exchanges.values().filter_map(Exchange::wake_at);
        let sessions = self.talks.values().filter_map(|talk| match &talk.kind {
            Kind::Legacy(session) => session.wake_at(),
            Kind::Modern | Kind::Pair { .. } => None,
        });
        self.wake_at = arriving.chain(exchanges).chain(sessions).min();
    }

    /// A session kept so much of its streams before, and keeps so much now.
    fn kept(&mut self, before: usize, after: usize) {
        self.kept_bytes = self.kept_bytes - before + after;
        if self.kept_bytes <= KEPT_BYTES_MAX {
            return;
        }
        // Some may have forgotten streams of their own accord.
        self.kept_bytes = self.sessions_mut().map(|session| session.kept_bytes()).sum();
        while KEPT_BYTES_MAX < self.kept_bytes {
            let most = self.sessions_mut().max_by_key(|session| session.kept_bytes());
            let Some(most) = most else { return };
            let before = most.kept_bytes();
            most.forget_oldest();
            let less = before - most.kept_bytes();
            if less == 0 {
                return;
            }
            self.kept_bytes -= less;
        }
    }

    fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.talks.values_mut().filter_map(|talk| match &mut talk.kind {
            Kind::Legacy(session) => Some(session),
            Kind::Modern | Kind::Pair { .. } => None,
        })
    }

    fn begin_talk(&mut self, now: Instant, kind: Kind) -> u64 {
        let talk = self.next_talk;
        self.next_talk += 1;
        let caller = CallerId(self.settings.first_caller + talk);
        let mut settings =
            conversation::Settings::new(&*self.settings.version, caller, self.settings.behind);
        if let Some((name, instructions)) = &self.about {
            settings.name.clone_from(name);
            settings.instructions.clone_from(instructions);
        }
        settings.lists_first = self.lists_first;
        let mut conversation = Conversation::new(settings);
        if let Some(tools) = &self.tools {
            conversation.set_tools(tools.clone());
        }
        self.talks.insert(talk, Talk { conversation, kind });
        self.wake(now + IDLE_FOR);
        talk
    }

    /// Cancels what the conversation has under way and closes its streams.
    fn end_talk(&mut self, key: u64) {
        let Some(mut talk) = self.talks.remove(&key) else { return };
        if let Kind::Legacy(session) = &talk.kind {
            self.kept_bytes -= session.kept_bytes();
        }
        talk.conversation.handle_gone();
        self.pass_up(key, &mut talk.conversation);
        self.calls.retain(|_, passed| passed.talk != key);
        match &talk.kind {
            Kind::Legacy(Session { name: Some(name), .. }) => drop(self.by_name.remove(name)),
            Kind::Pair { name, .. } => drop(self.pairs.remove(name)),
            _ => {}
        }
        let open = self.exchanges.extract_if(|_, exchange| exchange.talk == key);
        let mut open: Vec<_> = open.map(|(id, exchange)| (id, exchange.stage)).collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        for (id, stage) in open {
            match stage {
                Stage::Streaming { .. } => self.finish(id),
                // No error: it is the client that has ended its session.
                Stage::Pending { .. } => self.answer(id, Answer::empty(202)),
            }
        }
    }

    /// Is there room for another session? Where there are as many as there may be, the one that
    /// was idle longest ends, if one is: its client begins another when it comes back. One that
    /// listens or waits for an answer is not.
    fn make_room(&mut self) -> bool {
        if self.by_name.len() + self.pairs.len() < SESSIONS_MAX {
            return true;
        }
        let busy: HashSet<_> = self.exchanges.values().map(|exchange| exchange.talk).collect();
        let idle = self.by_name.values().filter_map(|key| match self.talks.get(key)? {
            Talk { conversation, kind: Kind::Legacy(session) }
                if conversation.in_flight() == 0 && !busy.contains(key) =>
            {
                Some((session.used, *key))
            }
            _ => None,
        });
        let oldest = idle.min();
        if let Some((_, key)) = oldest {
            self.end_talk(key);
        }
        oldest.is_some()
    }

    fn begin_exchange(
        &mut self,
        now: Instant,
        stream: StreamId,
        talk: u64,
        takes_stream: bool,
        opens: bool,
    ) {
        // A stream could no longer carry the id of the session in its head.
        let until = (!opens).then(|| now + PLAIN_FOR);
        let stage = Stage::Pending { until };
        let exchange = Exchange { talk, takes_stream, is_owed: true, opens, stage };
        self.exchanges.insert(stream, exchange);
        self.wake(now + PLAIN_FOR);
    }

    /// Lets a conversation go on and passes on what it wants.
    fn with(&mut self, now: Instant, key: u64, act: impl FnOnce(&mut Conversation)) {
        let Some(mut talk) = self.talks.remove(&key) else { return };
        talk.conversation.next_ticket = self.next_ticket;
        act(&mut talk.conversation);
        self.next_ticket = talk.conversation.next_ticket;
        self.pass_up(key, &mut talk.conversation);
        let said: Vec<_> = std::iter::from_fn(|| talk.conversation.poll_said()).collect();
        while let Some(notice) = talk.conversation.poll_notice() {
            self.notices.push_back(notice);
        }
        self.talks.insert(key, talk);
        for said in said {
            self.say(now, key, said);
        }
    }

    fn pass_up(&mut self, key: u64, conversation: &mut Conversation) {
        while let Some((ticket, asked)) = conversation.poll_up() {
            if let Asked::Call(call) = &asked {
                let lists_tools =
                    matches!(&call.what, What::Native { method, .. } if method == "tools/list");
                self.calls.insert(ticket, Forwarded { talk: key, lists_tools });
            }
            if self.calls.contains_key(&ticket) {
                self.ups.push_back((ticket, asked));
            }
        }
    }

    fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }
}
