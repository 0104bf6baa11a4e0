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
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::exchange::{AnswerState, Arriving, Exchange, Unsent};
use self::session::{IDLE_FOR, Kind, Session, Talk};
use super::entrance::{Answer, EXPOSED, Entrance, Verb};
use super::inputs::Inputs;
use crate::channel::{Asked, Notice, StreamId, Ticket};
use crate::counted::Counted;
use crate::frame::sse;
use crate::http::{Cors, RequestHead, ResponseHead, Visit};
use crate::json::{Json, edit};
use crate::mcp::conversation::{self, Behind, Conversation};
use crate::tool::{CallerId, ToolSpec, What};

/// How many sessions there may be where nothing else is said.
pub const SESSIONS_MAX: usize = 16_384;
/// So many of those that were idle longest are known at once: to find them is to look at all.
const IDLEST_MAX: usize = 256;
/// What is kept of the streams of all sessions, in bytes. Over it those of the session that
/// has most are forgotten, the oldest first.
const KEPT_BYTES_MAX: usize = 32 << 20;
const SESSION_HEADER: &str = "Mcp-Session-Id";

/// How often is looked whether a session has calls under way, whose token has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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
    /// The same for sessions that other machines know too.
    shared: Option<Box<dyn FnMut() -> Option<String>>>,
    /// Tells a request by a token that it has a call of this tool.
    judge: Option<CallJudge>,
    /// In boxes: they are large, and taken out to be spoken to.
    talks: Counted<u64, Box<Talk>>,
    by_name: HashMap<String, u64>,
    /// The sessions of the old pair, by their names.
    pairs: HashMap<String, u64>,
    /// Sessions that are next to make room, and since when they are idle. One that was used since
    /// is not.
    idlest: VecDeque<(Instant, u64)>,
    /// How many sessions there may be.
    sessions_max: usize,
    /// One had to make room before, and that was told.
    has_made_room: bool,
    arriving: Counted<StreamId, Arriving>,
    /// Requests of pages of other sites that are let in and not answered yet.
    cors: Counted<StreamId, Cors>,
    exchanges: Counted<StreamId, Exchange>,
    calls: Counted<Ticket, Forwarded>,
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
    unsent: Counted<StreamId, Unsent>,
    /// What is kept of the streams of all sessions.
    kept_bytes: usize,
    ready: VecDeque<StreamId>,
    /// No more requests follow: who only listens goes with the last that waits for an answer.
    is_closing: bool,
    notices: VecDeque<Notice>,
    /// Nothing has to be looked at earlier; perhaps not even then.
    wake_at: Option<Instant>,
}

/// Notes in a request whether its token suffices for a call of this tool with these arguments.
type CallJudge = Box<dyn Fn(&str, Option<&Json>, &Arc<Visit>)>;

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
            shared: None,
            judge: None,
            talks: Counted::default(),
            by_name: HashMap::new(),
            pairs: HashMap::new(),
            idlest: VecDeque::new(),
            sessions_max: SESSIONS_MAX,
            has_made_room: false,
            arriving: Counted::default(),
            cors: Counted::default(),
            exchanges: Counted::default(),
            calls: Counted::default(),
            tools: None,
            inputs: Inputs::default(),
            lists_first: false,
            next_talk: 0,
            next_ticket: 0,
            ups: VecDeque::new(),
            unsent: Counted::default(),
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

    /// The same, with ids of sessions that other machines know too; without one for now a session
    /// is ours alone.
    #[must_use]
    pub fn naming_sessions(self, shared: impl FnMut() -> Option<String> + 'static) -> Endpoint {
        Endpoint { shared: Some(Box::new(shared)), ..self }
    }

    /// The same, with what is asked of each call where a request has several: none of them is made if
    /// the token of the request does not suffice for all.
    #[must_use]
    pub fn judging_calls(
        self,
        judge: impl Fn(&str, Option<&Json>, &Arc<Visit>) + 'static,
    ) -> Endpoint {
        Endpoint { judge: Some(Box::new(judge)), ..self }
    }

    /// Is there a session of this id?
    pub fn has_session(&self, id: &str) -> bool {
        self.by_name.contains_key(id)
    }

    /// Lists the tools before the headers of a call are compared, if they never were.
    #[must_use]
    pub fn listing_first(self) -> Endpoint {
        Endpoint { lists_first: true, ..self }
    }

    /// With room for so many sessions.
    #[must_use]
    pub fn with_room_for(self, sessions_max: usize) -> Endpoint {
        Endpoint { sessions_max, ..self }
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
        if let Some(lacking) = self.judge_batch(head, body) {
            return self.answer(stream, lacking);
        }
        let handled = match verb {
            Verb::Post => self.handle_post(now, stream, head, body),
            Verb::OpenPair => self.open_pair(now, stream, head),
            Verb::PostPair => self.post_to_pair(now, stream, head, body),
            verb => self.handle_other(now, stream, head, verb),
        };
        if let Err(answer) = handled {
            self.answer(stream, answer);
        }
    }

    /// Why no call of a batch is made, if one of them needs more than the token of the request has.
    fn judge_batch(&self, head: &RequestHead, body: &[u8]) -> Option<Answer> {
        let (judge, visit) = (self.judge.as_ref()?, head.visit()?);
        let text = str::from_utf8(body).ok()?.trim_ascii_start();
        if !text.starts_with('[') {
            return None;
        }
        for message in edit::elements(text) {
            if edit::text(message, "method").as_deref() != Some("tools/call") {
                continue;
            }
            let params = edit::member(message, "params").unwrap_or("{}");
            let args = edit::member(params, "arguments");
            let args = args.and_then(|args| Json::parse(args.to_owned()).ok());
            if let Some(name) = edit::text(params, "name") {
                judge(&name, args.as_ref(), visit);
            }
        }
        Some(Answer::by_token(visit.lacking()?))
    }

    /// The client of an exchange went away. A modern request is cancelled by that, and so is what
    /// a session of the old pair has under way; other legacy requests belong to their session and
    /// go on.
    fn handle_gone(&mut self, now: Instant, stream: StreamId) {
        let Some(Exchange { talk, stage, .. }) = self.exchanges.remove(&stream) else { return };
        match (self.talks.get_mut(&talk).map(|talk| &mut **talk), stage) {
            (Some(Talk { kind: Kind::Modern | Kind::Pair { .. }, .. }), _) => self.end_talk(talk),
            (
                Some(Talk { kind: Kind::Legacy(session), .. }),
                AnswerState::Streaming { stream: Some(number), .. },
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
                AnswerState::Streaming { .. } => self.finish(stream),
                AnswerState::Pending { .. } => self.answer(stream, Answer::empty(503)),
            }
        }
    }

    /// Once we are to stop, those who only listen wait for those who wait for an answer.
    fn settle(&mut self) {
        let is_owed = |exchange: &Exchange| match self.talks.get(&exchange.talk).map(|talk| &**talk)
        {
            Some(Talk { conversation, kind: Kind::Pair { .. }, .. }) => {
                0 < conversation.in_flight()
            }
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
        self.end_with_tokens(now);
        let due = |exchange: &Exchange| exchange.wake_at().is_some_and(|at| at <= now);
        let late = self.exchanges.iter().filter(|(_, exchange)| due(exchange));
        let mut late: Vec<_> = late.map(|(stream, exchange)| (*stream, exchange.stage)).collect();
        late.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, stage) in late {
            match stage {
                AnswerState::Pending { .. } => self.begin_stream(now, stream),
                AnswerState::Streaming { .. } => {
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

    /// Ends the streams whose tokens have ended. A session of the old pair ends with its stream,
    /// once the calls are answered that it has under way.
    fn end_with_tokens(&mut self, now: Instant) {
        let is_over = |exchange: &Exchange| exchange.ends_at.is_some_and(|at| at <= now);
        let over = self.exchanges.iter().filter(|(_, exchange)| is_over(exchange));
        let mut over: Vec<_> = over.map(|(stream, exchange)| (*stream, exchange.talk)).collect();
        over.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, key) in over {
            let talk = self.talks.get(&key).map(|talk| &**talk);
            if let Some(Talk { conversation, kind: Kind::Pair { .. }, .. }) = talk
                && 0 < conversation.in_flight()
            {
                if let Some(exchange) = self.exchanges.get_mut(&stream) {
                    exchange.ends_at = Some(now + LOOK_AGAIN);
                }
                continue;
            }
            self.handle_gone(now, stream);
            self.finish(stream);
        }
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

    fn begin_talk(&mut self, now: Instant, kind: Kind, head: &RequestHead) -> u64 {
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
        let holder = head.holder().cloned();
        self.talks.insert(talk, Box::new(Talk { conversation, kind, holder }));
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
        self.pass_up(key, &mut talk);
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
                AnswerState::Streaming { .. } => self.finish(id),
                // No error: it is the client that has ended its session.
                AnswerState::Pending { .. } => self.answer(id, Answer::empty(202)),
            }
        }
    }

    /// Is there room for another session? Where there are as many as there may be, the one that
    /// was idle longest ends, if one is: its client begins another when it comes back. One that
    /// listens or waits for an answer is not.
    fn make_room(&mut self) -> bool {
        let sessions_max = self.sessions_max;
        if self.by_name.len() + self.pairs.len() < sessions_max {
            return true;
        }
        let Some(key) = self.next_idlest() else { return false };
        self.end_talk(key);
        if !std::mem::replace(&mut self.has_made_room, true) {
            self.notices.push_back(Notice::Warning(format!(
                "there are {sessions_max} sessions, as many as there may be (`sessions_max`): for \
                 each new one the one that was idle longest ends, which is counted from now on"
            )));
        }
        self.notices.push_back(Notice::MadeRoom);
        true
    }

    /// Takes out the session that was idle longest.
    fn next_idlest(&mut self) -> Option<u64> {
        if let Some(key) = self.take_known_idlest() {
            return Some(key);
        }
        let busy: HashSet<_> = self.exchanges.values().map(|exchange| exchange.talk).collect();
        let idle = self.by_name.values().filter_map(|key| match &**self.talks.get(key)? {
            Talk { conversation, kind: Kind::Legacy(session), .. }
                if conversation.in_flight() == 0 && !busy.contains(key) =>
            {
                Some((session.used, *key))
            }
            _ => None,
        });
        let mut idle: Vec<_> = idle.collect();
        if IDLEST_MAX < idle.len() {
            idle.select_nth_unstable(IDLEST_MAX);
            idle.truncate(IDLEST_MAX);
        }
        idle.sort_unstable();
        self.idlest = idle.into();
        self.take_known_idlest()
    }

    /// The same of those that are known, as far as they were not used since.
    fn take_known_idlest(&mut self) -> Option<u64> {
        loop {
            let (since, key) = self.idlest.pop_front()?;
            let talk = self.talks.get(&key).map(|talk| &**talk);
            let Some(Talk { conversation, kind: Kind::Legacy(session), .. }) = talk else {
                continue;
            };
            let is_busy = || self.exchanges.values().any(|exchange| exchange.talk == key);
            if session.used == since && conversation.in_flight() == 0 && !is_busy() {
                return Some(key);
            }
        }
    }

    fn begin_exchange(&mut self, stream: StreamId, exchange: Exchange) {
        exchange.wake_at().into_iter().for_each(|at| self.wake(at));
        self.exchanges.insert(stream, exchange);
    }

    /// Lets a conversation go on and passes on what it wants.
    fn with(&mut self, now: Instant, key: u64, act: impl FnOnce(&mut Conversation)) {
        let Some(mut talk) = self.talks.remove(&key) else { return };
        talk.conversation.next_ticket = self.next_ticket;
        act(&mut talk.conversation);
        self.next_ticket = talk.conversation.next_ticket;
        self.pass_up(key, &mut talk);
        let said: Vec<_> = std::iter::from_fn(|| talk.conversation.poll_said()).collect();
        while let Some(notice) = talk.conversation.poll_notice() {
            self.notices.push_back(notice);
        }
        self.talks.insert(key, talk);
        for said in said {
            self.say(now, key, said);
        }
    }

    fn pass_up(&mut self, key: u64, talk: &mut Talk) {
        while let Some((ticket, mut asked)) = talk.conversation.poll_up() {
            if let Asked::Call(call) = &mut asked {
                call.visit = self.visit_of(ticket, talk);
                let lists_tools =
                    matches!(&call.what, What::Native { method, .. } if method == "tools/list");
                self.calls.insert(ticket, Forwarded { talk: key, lists_tools });
            }
            if self.calls.contains_key(&ticket) {
                self.ups.push_back((ticket, asked));
            }
        }
    }

    /// The request that a call is a part of.
    fn visit_of(&self, ticket: Ticket, talk: &Talk) -> Option<Arc<Visit>> {
        match &talk.kind {
            Kind::Pair { visit, .. } => visit.clone(),
            Kind::Legacy(_) | Kind::Modern => {
                let place = talk.conversation.place_of(ticket)?;
                self.exchanges.get(&exchange::stream_of(place))?.visit.clone()
            }
        }
    }

    fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }
}
