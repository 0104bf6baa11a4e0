//! The serving end over HTTP: many clients of both eras behind one path (`specs` 2.8).
//!
//! Each legacy session is a conversation, and so is each modern exchange. What a
//! conversation says to a place is written to the exchange of that place: as plain JSON if
//! the answer is the first thing said, else as a stream.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::exchange::{Exchange, ExchangeId, PLAIN_FOR, Stage, Write};
use super::gate::{Admission, Answer, Head, Verb};
use super::inputs::Inputs;
use super::session::{IDLE_FOR, Kind, Session, Talk};
use crate::channel::{Asked, Down, Notice, Ticket};
use crate::frame::sse;
use crate::jsonrpc::Id;
use crate::mcp::conversation::{self, Behind, Conversation};
use crate::mcp::wire::INVALID_REQUEST;
use crate::tool::{CallerId, Outcome, ToolSpec, What};

/// How many sessions there may be.
pub(super) const SESSIONS_MAX: usize = 1024;
pub(super) const SESSION_HEADER: &str = "Mcp-Session-Id";

/// What can be set about the serving end over HTTP.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Our version, as clients are told.
    pub version: String,
    /// Who answers.
    pub behind: Behind,
    /// What is asked of everybody.
    pub gate: Admission,
    /// Callers are told apart by numbers from this one on.
    pub first_caller: u64,
}

/// All conversations over one path.
pub struct Endpoint {
    settings: Settings,
    /// Makes ids of sessions that nobody can guess.
    pub(super) fresh: Box<dyn FnMut() -> String>,
    pub(super) talks: HashMap<u64, Talk>,
    pub(super) by_name: HashMap<String, u64>,
    pub(super) exchanges: HashMap<ExchangeId, Exchange>,
    calls: HashMap<Ticket, Forwarded>,
    tickets: HashMap<(u64, Ticket), Ticket>,
    /// What the hub offers.
    tools: Option<Arc<[ToolSpec]>>,
    /// What the tools of a server take; lists that pass tell.
    pub(super) inputs: Inputs,
    next_talk: u64,
    next_ticket: u64,
    ups: VecDeque<(Ticket, Asked)>,
    pub(super) writes: VecDeque<(ExchangeId, Write)>,
    notices: VecDeque<Notice>,
    /// Nothing has to be looked at earlier; perhaps not even then.
    wake_at: Option<Instant>,
}

/// A call that was passed on.
#[derive(Debug, Clone, Copy)]
struct Forwarded {
    /// Whose it is, and what it is called there.
    talk: u64,
    own: Ticket,
    /// A server is asked for its tools.
    lists_tools: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("talks", &self.talks).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Nobody has come yet. `fresh` makes ids that nobody can guess.
    pub fn new(settings: Settings, fresh: impl FnMut() -> String + 'static) -> Endpoint {
        Endpoint {
            settings,
            fresh: Box::new(fresh),
            talks: HashMap::new(),
            by_name: HashMap::new(),
            exchanges: HashMap::new(),
            calls: HashMap::new(),
            tickets: HashMap::new(),
            tools: None,
            inputs: Inputs::default(),
            next_talk: 0,
            next_ticket: 0,
            ups: VecDeque::new(),
            writes: VecDeque::new(),
            notices: VecDeque::new(),
            wake_at: None,
        }
    }

    /// What is asked of everybody: the hands judge heads by it before they read bodies.
    pub fn gate(&self) -> &Admission {
        &self.settings.gate
    }

    /// What the hub offers; the arguments that headers repeat are known by it.
    pub fn set_tools(&mut self, tools: Arc<[ToolSpec]>) {
        self.tools = Some(tools);
    }

    /// A request is here, its body whole.
    pub fn handle_request(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        head: &Head<'_>,
        body: &Bytes,
    ) {
        let handled = match self.settings.gate.admit(head) {
            Ok(Verb::Post) => self.handle_post(now, exchange, head, body),
            Ok(verb) => self.handle_other(now, exchange, head, verb),
            Err(answer) => Err(answer),
        };
        if let Err(answer) = handled {
            self.writes.push_back((exchange, Write::Whole(answer)));
        }
    }

    /// The client of an exchange went away. A modern request is cancelled by that; a legacy
    /// one belongs to its session and goes on.
    pub fn handle_gone(&mut self, now: Instant, exchange: ExchangeId) {
        let Some(Exchange { talk, stage, .. }) = self.exchanges.remove(&exchange) else { return };
        match (self.talks.get_mut(&talk), stage) {
            (Some(Talk { kind: Kind::Modern, .. }), _) => self.end_talk(talk),
            (
                Some(Talk { kind: Kind::Legacy(session), .. }),
                Stage::Streaming { stream: Some(number), .. },
            ) => {
                session.used = now;
                if let Some(stream) = session.stream(number) {
                    stream.leave(now);
                    let forget_at = stream.forget_at();
                    forget_at.into_iter().for_each(|at| self.wake(at));
                }
            }
            _ => {}
        }
    }

    /// Goes on with the reply to `ticket`. Nothing happens if that call is over.
    pub fn down(&mut self, now: Instant, ticket: Ticket, down: Down) {
        if let Down::Done(Ok(Outcome::Tools(tools))) = &down {
            self.tools = Some(tools.clone());
        }
        let Some(&Forwarded { talk, own, lists_tools }) = self.calls.get(&ticket) else { return };
        if let Down::Done(Ok(Outcome::Native(page))) = &down
            && lists_tools
        {
            self.inputs.learn(str::from_utf8(page).unwrap_or_default());
        }
        if let Down::Done(_) = down {
            self.calls.remove(&ticket);
            self.tickets.remove(&(talk, own));
        }
        self.with(now, talk, |conversation| conversation.down(now, own, down));
    }

    /// Something changed behind; whoever wants to know is told.
    pub fn tell(&mut self, now: Instant, notice: &Notice) {
        if *notice == Notice::ToolsChanged {
            self.tools = None;
        }
        let talks: Vec<_> = self.talks.keys().copied().collect();
        for talk in talks {
            self.with(now, talk, |conversation| conversation.tell(notice));
        }
    }

    /// No more requests follow: who only listens is told that this is over.
    pub fn close(&mut self, now: Instant) {
        let talks: Vec<_> = self.talks.keys().copied().collect();
        for talk in talks {
            self.with(now, talk, Conversation::handle_end);
        }
    }

    /// A new call, or more of one that runs.
    pub fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    /// What to write next, and where.
    pub fn poll_write(&mut self) -> Option<(ExchangeId, Write)> {
        self.writes.pop_front()
    }

    /// Something for the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When to call [`Endpoint::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.wake_at.is_none_or(|at| now < at) {
            return;
        }
        let due = |exchange: &Exchange| exchange.wake_at().is_some_and(|at| at <= now);
        let mut late: Vec<_> = self
            .exchanges
            .iter()
            .filter(|(_, exchange)| due(exchange))
            .map(|(id, _)| *id)
            .collect();
        late.sort_unstable();
        for exchange in late {
            match self.exchanges[&exchange].stage {
                Stage::Pending { .. } => self.begin_stream(now, exchange),
                Stage::Streaming { .. } => {
                    self.write_piece(now, exchange, Bytes::from_static(sse::KEEP_ALIVE));
                }
            }
        }
        let busy: HashSet<_> = self.exchanges.values().map(|exchange| exchange.talk).collect();
        let mut idle = Vec::new();
        for (key, talk) in &mut self.talks {
            let Kind::Legacy(session) = &mut talk.kind else { continue };
            session.expire(now);
            if busy.contains(key) {
                session.used = now;
            } else if session.used + IDLE_FOR <= now {
                idle.push(*key);
            }
        }
        idle.into_iter().for_each(|talk| self.end_talk(talk));
        let exchanges = self.exchanges.values().filter_map(Exchange::wake_at);
        let sessions = self.talks.values().filter_map(|talk| match &talk.kind {
            Kind::Legacy(session) => session.wake_at(),
            Kind::Modern => None,
        });
        self.wake_at = exchanges.chain(sessions).min();
    }

    pub(super) fn begin_talk(&mut self, now: Instant, kind: Kind) -> u64 {
        let talk = self.next_talk;
        self.next_talk += 1;
        let caller = CallerId(self.settings.first_caller + talk);
        let settings =
            conversation::Settings::new(&*self.settings.version, caller, self.settings.behind);
        let mut conversation = Conversation::new(settings);
        if let Some(tools) = &self.tools {
            conversation.set_tools(tools.clone());
        }
        self.talks.insert(talk, Talk { conversation, kind });
        self.wake(now + IDLE_FOR);
        talk
    }

    /// Cancels what the conversation has under way and closes its streams.
    pub(super) fn end_talk(&mut self, key: u64) {
        let Some(mut talk) = self.talks.remove(&key) else { return };
        talk.conversation.handle_gone();
        self.pass_up(key, &mut talk.conversation);
        self.tickets.retain(|(talk, _), _| *talk != key);
        self.calls.retain(|_, passed| passed.talk != key);
        if let Kind::Legacy(Session { name: Some(name), .. }) = &talk.kind {
            self.by_name.remove(name);
        }
        let open = self.exchanges.extract_if(|_, exchange| exchange.talk == key);
        let mut open: Vec<_> = open.map(|(id, exchange)| (id, exchange.stage)).collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        for (id, stage) in open {
            let write = match stage {
                Stage::Streaming { .. } => Write::End,
                Stage::Pending { .. } => {
                    let message = "the session has ended";
                    let answer = Answer::refusal(404, &Id::NULL, INVALID_REQUEST, message);
                    Write::Whole(answer)
                }
            };
            self.writes.push_back((id, write));
        }
    }

    pub(super) fn begin_exchange(
        &mut self,
        now: Instant,
        exchange: ExchangeId,
        talk: u64,
        takes_stream: bool,
        opens: bool,
    ) {
        // A stream could no longer carry the id of the session in its head.
        let until = (!opens).then(|| now + PLAIN_FOR);
        let stage = Stage::Pending { until };
        self.exchanges.insert(exchange, Exchange { talk, takes_stream, opens, stage });
        self.wake(now + PLAIN_FOR);
    }

    /// Lets a conversation go on and passes on what it wants.
    pub(super) fn with(&mut self, now: Instant, key: u64, act: impl FnOnce(&mut Conversation)) {
        let Some(mut talk) = self.talks.remove(&key) else { return };
        act(&mut talk.conversation);
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
        while let Some((own, asked)) = conversation.poll_up() {
            let ticket = match &asked {
                Asked::Call(call) => {
                    let ticket = Ticket(self.next_ticket);
                    self.next_ticket += 1;
                    let lists_tools = matches!(
                        &call.what,
                        What::Native { method, .. } if method == "tools/list"
                    );
                    self.calls.insert(ticket, Forwarded { talk: key, own, lists_tools });
                    self.tickets.insert((key, own), ticket);
                    ticket
                }
                Asked::Up(_) => match self.tickets.get(&(key, own)) {
                    Some(ticket) => *ticket,
                    None => continue,
                },
            };
            self.ups.push_back((ticket, asked));
        }
    }

    pub(super) fn wake(&mut self, at: Instant) {
        self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
    }
}
