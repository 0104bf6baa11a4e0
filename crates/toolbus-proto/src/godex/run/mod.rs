//! One run of `godex exec`: a request, its answer, tools and further turns, until it ends once.
//!
//! It is a machine like any other: each exchange with a server is a stream that it opens, one at a
//! time, and the tools it calls are calls that go up. Besides, it has something to show, which
//! [`Run::said`] holds. What is retried, renewed, waited for, asked and printed is decided here; the
//! clock is told.

mod exchange;
mod tools;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};

use super::EVENT_BYTES_MAX;
use super::auth::{Credential, Secrets};
use super::base_url::BaseUrl;
use super::error::RunError;
use super::mock::{self, Mode};
use super::notes::Note;
use super::request::Request;
use super::said::{Said, Wanted};
use super::turn::{Completed, Turn, TurnEnd, quoted};
use super::usage::Usage;
use crate::chance::Random;
use crate::channel::{Asked, Machine, Notice, StreamId, Ticket, Up};
use crate::frame::sse::Events;
use crate::http::RequestHead;
use crate::json::Json;
use crate::tool::ToolName;

use exchange::Asking;
use tools::Running;

/// All that can be set about a run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// What is asked.
    pub request: Request,
    /// What the caller makes use of.
    pub wanted: Wanted,
    /// Where.
    pub base_url: BaseUrl,
    /// What we call ourselves there: `toolbus/1.0`.
    pub user_agent: String,
    /// What shows the server who the caller is.
    pub credential: Credential,
    /// Tokens may be renewed, here.
    pub refresh_url: Option<BaseUrl>,
    /// How long all of it may take.
    pub timeout: Option<Duration>,
    /// How long the server may be silent.
    pub idle_timeout: Duration,
    /// How often a request is made again.
    pub retries: u32,
    /// How many requests a tool loop may make.
    pub max_turns: u32,
    /// How long each tool may take.
    pub tool_timeout: Duration,
    /// The user is asked before a tool runs that may change something.
    pub asks_user: bool,
    /// No server is asked: this stands in for it.
    pub mock: Option<Mode>,
}

/// One run.
pub struct Run {
    settings: RunSettings,
    said: Said,
    stage: RunStage,
    /// When all of it must be done.
    deadline: Option<Instant>,
    spent_before: Duration,
    /// Tries of the current request that failed.
    failed: u32,
    /// Which turn it is, counted from 1.
    turn_number: u32,
    turn: Turn,
    events: Events,
    /// Some event of the current answer has come.
    is_begun: bool,
    /// What the turns that are complete cost.
    spent: Option<Usage>,
    was_refreshed: bool,
    /// How many exchanges there were. Only the last counts.
    exchanges: u64,
    /// Whom to ask in the next, if that has not begun.
    opening: Option<(Target, RequestHead)>,
    /// What is to be written of the last.
    body: Bytes,
    /// One that was given up, or that is to be read on.
    stirred: Option<StreamId>,
    /// Calls to be made, or cancelled.
    asked: VecDeque<(Ticket, Asked)>,
    /// How many calls there were.
    tickets: u64,
    /// The call of this turn that the user is being asked about.
    question: Option<usize>,
    /// Tools that the user has allowed for good.
    allowed: HashSet<ToolName>,
    /// Since when it is being shown what was said.
    showing: Option<Instant>,
    /// When it began, and what time of day that was.
    begun: Option<(Instant, SystemTime)>,
    /// What the first tool of the turn before said, for the mock.
    last_output: Option<String>,
    random: Box<dyn Random>,
    secrets: Secrets,
}

#[derive(Debug)]
enum RunStage {
    /// Not begun.
    Idle,
    /// A request is out.
    Asking(Asking),
    /// The next try is due then.
    Waiting {
        until: Instant,
    },
    /// Tools run.
    Tools(Running),
    Ended(Ended),
}

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The server.
    Server,
    /// Who renews tokens.
    Refresh,
}

/// A tool that is called, or would be if the user allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The server's id of it.
    pub call_id: String,
    /// The tool.
    pub tool: ToolName,
    /// Its arguments.
    pub args: Json,
}

/// What the user says when asked whether a tool may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Not this time.
    No,
    /// This time.
    Once,
    /// Each time.
    Always,
}

/// What the user sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `SIGINT`.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The status that the program exits with.
    pub exit: u8,
    /// The last message, of a run that went well.
    pub last_message: Option<String>,
}

impl Run {
    /// A run that has not begun.
    pub fn new(settings: RunSettings, random: impl Random + 'static) -> Run {
        let wanted = Wanted { items: settings.request.runs_tools, ..settings.wanted };
        Run {
            said: Said::new(wanted),
            stage: RunStage::Idle,
            deadline: None,
            spent_before: Duration::ZERO,
            failed: 0,
            turn_number: 0,
            turn: Turn::new(0),
            events: Events::new(EVENT_BYTES_MAX),
            is_begun: false,
            spent: None,
            was_refreshed: false,
            exchanges: 0,
            opening: None,
            body: Bytes::new(),
            stirred: None,
            asked: VecDeque::new(),
            tickets: 0,
            question: None,
            allowed: HashSet::new(),
            showing: None,
            begun: None,
            last_output: None,
            random: Box::new(random),
            secrets: settings.credential.secrets(),
            settings,
        }
    }

    /// So much of its time has passed before it begins: tools had to be listed, for one.
    pub fn has_taken(&mut self, spent: Duration) {
        self.spent_before = spent;
    }

    /// Begins; `wall` is the time of day, for servers that name one.
    pub fn start(&mut self, now: Instant, wall: SystemTime) {
        self.begun = Some((now, wall));
        let left = |timeout: Duration| timeout.saturating_sub(self.spent_before);
        self.deadline = self.settings.timeout.map(|timeout| now + left(timeout));
        if self.said.wanted.lines && self.said.wanted.all_events {
            let session = quoted(&self.settings.request.session_id);
            let model = quoted(&self.settings.request.model);
            let line = format!(
                "{{\"type\":\"toolbus.session\",\"session_id\":{session},\"model\":{model}}}\n"
            );
            self.said.lines.extend_from_slice(line.as_bytes());
        }
        self.next_turn(now);
    }

    /// What is to be written, and what is to be told. As long as there is some, or it is
    /// [being shown](Run::handle_taken), nothing is read and no tool is called.
    pub fn said(&mut self) -> &mut Said {
        &mut self.said
    }

    /// What was said has been taken, and is being shown until [`Run::handle_shown`]. That may take
    /// its time, which is not the run's.
    pub fn handle_taken(&mut self, now: Instant) {
        self.showing = Some(now);
    }

    /// What was taken has been shown.
    pub fn handle_shown(&mut self, now: Instant) {
        let Some(since) = self.showing.take() else { return };
        let waited = now.saturating_duration_since(since);
        self.deadline = self.deadline.map(|deadline| deadline + waited);
        if let RunStage::Asking(asking) = &mut self.stage {
            asking.heard += waited;
            self.stirred = Some(asking.stream);
        }
        for (_, asked) in &mut self.asked {
            if let Asked::Call(call) = asked {
                call.deadline.asked = now;
            }
        }
    }

    /// Is there something that was not shown yet?
    pub fn is_untold(&self) -> bool {
        self.showing.is_some() || 0 < self.said.len()
    }

    /// What must not be shown, in whatever is written about this run.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            RunStage::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// The user wants it to end.
    pub fn interrupt(&mut self, signal: Signal) {
        self.fail(RunError::interrupted(signal));
    }

    /// Ends the run with an error, unless it has ended.
    pub fn fail(&mut self, error: RunError) {
        if self.ended().is_some() {
            return;
        }
        let mut error = error.map_texts(|text| self.secrets.masked(text).into_owned());
        error.usage = match (&self.spent, error.usage) {
            (Some(spent), Some(usage)) => Some(Box::new(spent.plus(&usage))),
            (spent, usage) => usage.or_else(|| spent.clone().map(Box::new)),
        };
        if self.said.wanted.lines {
            error.write_line(&mut self.said.lines);
        }
        self.said.notes.push_back(Note::Error(error.message));
        if error.status == Some(404) {
            let url = self.settings.base_url.responses_url();
            let hint = format!("there is nothing at {url}; `--base-url` says where the server is");
            self.said.notes.push_back(Note::Hint(hint));
        }
        self.end(Ended { exit: error.exit, last_message: None });
    }

    fn end(&mut self, ended: Ended) {
        self.opening = None;
        self.asked.clear();
        if let RunStage::Tools(running) = &self.stage {
            let cancelled = running.tickets().map(|ticket| (ticket, Asked::Up(Up::Cancel(None))));
            self.asked.extend(cancelled);
        }
        self.enter(RunStage::Ended(ended));
    }

    /// Whatever exchange there was is given up.
    fn enter(&mut self, stage: RunStage) {
        if let RunStage::Asking(asking) = &self.stage {
            self.stirred = Some(asking.stream);
        }
        self.stage = stage;
    }

    /// Is there something for its owner: to be shown or asked, or that it has ended?
    pub fn has_news(&self) -> bool {
        0 < self.untold() || self.ended().is_some()
    }

    /// What time of day it is.
    fn wall(&self, now: Instant) -> WallTime {
        self.begun.map_or(WallTime::UNIX_EPOCH, |(begun, wall)| {
            wall + now.saturating_duration_since(begun)
        })
    }

    /// One more request, which is not a try of the one before.
    fn next_turn(&mut self, now: Instant) {
        self.turn_number += 1;
        self.failed = 0;
        let body = self.settings.request.body();
        self.said.notes.push_back(Note::Request(body));
        self.begin_answer();
        let Some(mode) = self.settings.mock else { return self.ask(now) };
        let output = self.last_output.take();
        for event in mock::events(mode, &self.settings.request, output.as_deref()) {
            self.turn.handle_event(None, event.as_bytes(), &mut self.said);
        }
        self.handle_turn_end(now);
    }

    fn begin_answer(&mut self) {
        self.turn = Turn::new(self.turn_number);
        self.events = Events::new(EVENT_BYTES_MAX);
        self.is_begun = false;
    }

    /// The answer has said its last, if it has.
    fn handle_turn_end(&mut self, now: Instant) {
        match self.turn.end() {
            Some(TurnEnd::Failed(error)) => self.fail(error.clone()),
            Some(TurnEnd::Completed(completed)) => {
                let completed = completed.clone();
                self.handle_completed(now, &completed);
            }
            None => {}
        }
    }

    fn handle_completed(&mut self, now: Instant, completed: &Completed) {
        let usage = completed.usage().cloned().unwrap_or_default();
        let sum = self.spent.as_ref().map(|spent| spent.plus(&usage));
        if let Some(running) = self.running() {
            self.spent = Some(sum.unwrap_or(usage));
            if self.settings.max_turns <= self.turn_number {
                let turns = self.settings.max_turns;
                let message = format!("the model still asks for tools after {turns} turns");
                return self.fail(RunError::new(1, "max_turns", message));
            }
            return self.run_tools(now, running);
        }
        if self.said.wanted.text {
            for call in self.turn.calls() {
                let (name, arguments) = (call.name.clone(), call.arguments.clone());
                self.said.notes.push_back(Note::Call { name, arguments });
            }
        }
        if self.said.wanted.lines {
            let all_events = self.said.wanted.all_events;
            completed.write_line(&mut self.said.lines, all_events, sum.as_ref());
        }
        let refusal = Some(self.turn.refusal()).filter(|refusal| !refusal.is_empty());
        let last_message = self.said.text.last_message(self.turn_number).or(refusal);
        let last_message = last_message.map(str::to_owned);
        self.end(Ended { exit: 0, last_message });
    }
}

impl Machine for Run {
    fn handle_timeout(&mut self, now: Instant) {
        if let RunStage::Ended(_) = self.stage {
            return;
        }
        if let Some(timeout) = self.settings.timeout
            && self.deadline.is_some_and(|deadline| deadline <= now)
        {
            return self.fail(RunError::not_in_time(timeout));
        }
        let idle_timeout = self.settings.idle_timeout;
        match &self.stage {
            RunStage::Asking(asking) if asking.heard + idle_timeout <= now => self.handle_silence(),
            RunStage::Waiting { until } if *until <= now => self.ask(now),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.showing.is_some() {
            return None;
        }
        let next = match &self.stage {
            RunStage::Asking(asking) => Some(asking.heard + self.settings.idle_timeout),
            RunStage::Waiting { until } => Some(*until),
            RunStage::Idle | RunStage::Tools(_) => None,
            RunStage::Ended(_) => return None,
        };
        [next, self.deadline].into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    fn weight(&self) -> usize {
        self.said.lines.len() + self.said.text.last_message_len() + self.body.len()
    }

    fn untold(&self) -> usize {
        self.said.len() + usize::from(self.next_question().is_some())
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Where the answer that is being read goes.
#[derive(Debug)]
enum Reading {
    /// The head is not there.
    Head,
    /// Events.
    Events,
    /// A refusal, or what is no stream: why, and its body so far.
    Refusal { refusal: exchange::Refusal, body: BytesMut },
    /// New tokens, after this refusal.
    Tokens { is_granted: bool, body: BytesMut, refused: Box<RunError> },
}

/// The time of day when an answer came, for servers that name one.
type WallTime = SystemTime;
