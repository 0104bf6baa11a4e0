//! Keeps a program alive for its callers: when to start it, when to part from it, what to
//! tell callers that waited. Pure decisions: what is to be spawned, signalled and reaped
//! leaves as [`Order`]s.
//!
//! Each life of the program is a `Run`: one process, one conversation. At most one run
//! takes calls; others are on their way out and end by themselves. A call that died with its
//! process is never repeated; one that was not yet written moves on to the next run.
//!
//! What is said in a conversation is of no interest here, only how it stands. Who speaks to the
//! program over its pipes has [`Conversations`]; a program may also be spoken to over
//! connections.

mod conversations;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Down, Goodbye, Notice, Proof, Readiness};
use toolbus_proto::tool::{Exit, Failure, FailureKind, LastWords};

use super::{Meanwhile, Patience};
use run::{DepartureTold, Out, Run, Setup};

pub use conversations::Conversations;

/// Names one life of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// Knows by what a process has written to its standard output and its standard error, and by how
/// it ended, that it speaks another wire than the one it is spoken to in.
pub type Judge = Arc<dyn Fn(&[u8], &[&str], Option<Exit>) -> bool + Send + Sync>;

/// What is to be done with a process and its conversation, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Start the process.
    Spawn,
    /// Say goodbye, which it has so long to answer, and say what follows by [`Event::Goodbye`].
    Close(Duration),
    /// Its calls of which nothing was written are for the next process.
    MoveOn,
    /// Its calls end with this.
    Fail(Failure),
    /// Close its input, once what waits to be written is written.
    CloseStdin,
    /// SIGTERM to the session.
    Terminate,
    /// SIGKILL to the session.
    Kill,
    /// Look whether its session has living members, and say so by [`Event::Session`].
    LookAtSession,
    /// Reap it and forget it.
    Forget,
}

/// What happened to a process, or to the conversation with it.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// It could not be started.
    SpawnFailed(&'a Failure),
    /// Its start came a step further: it has the time of a start once more.
    Advanced,
    /// The conversation stands like this.
    Stands(&'a Readiness, Proof),
    /// The goodbye was said, after [`Order::Close`].
    Goodbye(Goodbye),
    /// The goodbye was answered, or will not be.
    Finished,
    /// Its output is read no further, so its end will not be seen: it is not waited for.
    Unread,
    /// It closed its output, and the conversation stands like this with what it said last.
    Eof(&'a Readiness, Proof),
    /// Our writing to it failed: it does not listen any more.
    Deaf,
    /// It ended; members of its session may be left.
    Exited(Exit, bool),
    /// What was seen at [`Order::LookAtSession`].
    Session {
        /// Does a member of its session live?
        is_left: bool,
    },
}

/// May a program that died be started again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// By the next call.
    OnDemand,
    /// Once dead, it is unavailable.
    Never,
    /// By itself.
    Always(Comeback),
}

/// How a program is started again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comeback {
    /// How long until it is, at first; doubled each time.
    pub first: Duration,
    /// How long at most.
    pub longest: Duration,
    /// A process that served so long makes it begin with the shortest wait again.
    pub proven: Duration,
    /// After so many failed starts in a row it is given up.
    pub starts_max: u32,
}

impl Comeback {
    /// How long it is away for the time after `absences` others.
    fn delay(&self, absences: u32) -> Duration {
        let factor = 1u32.checked_shl(absences).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// A process that is of no use any more, and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Which it was.
    pub run: RunId,
    /// Why it is of no use.
    pub why: Why,
    /// How it ended, if it has, and what it said last.
    pub last_words: LastWords,
    /// Is there another?
    pub next: Next,
}

/// Why a process is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It cannot be started, or its conversation cannot go on.
    Unfit(Failure),
    /// It has ended.
    Exited(Exit),
    /// It was not ready in time.
    Late,
}

/// Whether another process follows the one that departed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// By itself, after so long.
    In(Duration),
    /// When it is asked for.
    OnDemand,
    /// No more, after so many failed starts in a row.
    GivenUp(u32),
    /// No.
    Never,
}

/// Before the time after which a program is started again.
const NEXT_TRY: &str = "; next try in ";

/// Does it only say that a program was not started again so soon, and not what is wrong with it?
pub fn is_too_soon(failure: &Failure) -> bool {
    failure.kind == FailureKind::Unavailable
        && !failure.from_peer
        && failure.message.contains(NEXT_TRY)
}

/// Keeps one program alive for its callers.
pub struct Supervisor {
    setup: Setup,
    restart: Restart,
    runs: Vec<Run>,
    next_run: u64,
    starts_failed: u32,
    /// A failing program is not started before this.
    not_before: Option<Instant>,
    /// How often it was away without having served for long in between.
    absences: u32,
    /// When it is started again by itself.
    restart_at: Option<Instant>,
    departures: VecDeque<Departure>,
    stopping: bool,
    /// It was told goodbye because nothing was asked of it: the next call may start it again.
    is_resting: bool,
    /// A program has become ready, and that was not told yet.
    is_newly_ready: bool,
    /// How often something happened that may have moved the timeout.
    moves: u64,
    out: Out,
}

impl Supervisor {
    /// Starts nothing yet: the first call does. `name` is what people call the program.
    pub fn new(name: impl Into<String>, patience: Patience, restart: Restart) -> Supervisor {
        let (name, held_back) = (name.into(), Arc::default());
        Supervisor {
            setup: Setup { name, patience, held_back, judge: None, has_pipes: true },
            restart,
            runs: Vec::new(),
            next_run: 0,
            starts_failed: 0,
            not_before: None,
            absences: 0,
            restart_at: None,
            departures: VecDeque::new(),
            stopping: false,
            is_resting: false,
            is_newly_ready: false,
            moves: 0,
            out: Out::default(),
        }
    }

    /// The program is spoken to over connections: the null device is its standard input and
    /// output. What its owner has to know comes by [`Supervisor::poll_departure`].
    pub fn without_pipes(mut self) -> Self {
        self.setup.has_pipes = false;
        self
    }

    /// Those of our environment variables that the program does not get: if it dies at its start,
    /// the user is told of them.
    pub fn set_held_back(&mut self, names: Vec<String>) {
        self.setup.held_back = names.into();
    }

    /// A process of which `judge` says so is left at once: it is asked nothing more, and its calls
    /// end with what it has said.
    pub fn set_judge(&mut self, judge: Judge) {
        self.setup.judge = Some(judge);
    }

    /// The process that takes calls; starts the program if there is none.
    pub fn wake(&mut self, now: Instant) -> Result<RunId, Failure> {
        if self.stopping {
            let message = format!("`{}` is being stopped", self.setup.name);
            return Err(Failure::new(FailureKind::Cancelled, message));
        }
        if let Some(run) = self.current() {
            return Ok(run);
        }
        if self.restart == Restart::Never && self.next_run > 0 && !self.is_resting {
            let message = format!("`{}` has ended and is not to be started again", self.setup.name);
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        if let (Meanwhile::Refuse, Some(not_before)) =
            (self.setup.patience.meanwhile, self.not_before)
            && now < not_before
        {
            let (name, starts) = (&self.setup.name, self.starts_failed);
            let millis = not_before.duration_since(now).as_millis();
            let message = format!("`{name}` failed to start {starts} times{NEXT_TRY}{millis} ms");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        Ok(self.start(now))
    }

    fn start(&mut self, now: Instant) -> RunId {
        let id = RunId(self.next_run);
        self.next_run += 1;
        self.is_resting = false;
        self.restart_at = None;
        let put_off = self.not_before.map_or(now, |not_before| not_before.max(now));
        let departure = match self.tells_departures() {
            true => DepartureTold::NotDue,
            false => DepartureTold::Never,
        };
        let mut run = Run::new(id, self.setup.clone(), departure, put_off);
        run.timeout(now, &mut self.out);
        self.runs.push(run);
        self.moves += 1;
        id
    }

    /// No call will follow: says goodbye to every process that runs, and cancels what is under way.
    pub fn stop(&mut self, now: Instant) {
        self.moves += 1;
        self.stopping = true;
        self.restart_at = None;
        self.each(now, |run, out| run.stop(now, out));
    }

    /// Nothing was asked of it for long: says goodbye to a program that serves. The next call
    /// starts it again, whatever was said of that. Tells whether there was one.
    pub fn rest(&mut self, now: Instant) -> bool {
        if self.stopping || !matches!(self.restart, Restart::OnDemand | Restart::Never) {
            return false;
        }
        let is_there = self.current().is_some();
        if is_there {
            self.is_resting = true;
            self.each(now, |run, out| run.stop(now, out));
        }
        is_there
    }

    /// Each step of a goodbye that begins after this takes at most `limit`.
    pub fn hurry(&mut self, limit: Duration) {
        self.moves += 1;
        self.setup.patience = self.setup.patience.at_most(limit);
        self.runs.iter_mut().for_each(|run| run.set_patience(self.setup.patience));
    }

    /// The patience is over: kills every process that is left.
    pub fn stop_at_once(&mut self, now: Instant) {
        self.moves += 1;
        self.stopping = true;
        self.restart_at = None;
        self.each(now, |run, out| run.kill(now, out));
    }

    /// The program takes more than there is room for: its calls end with `why`, and the process
    /// has to go. The next call may start another.
    pub fn cut_off(&mut self, now: Instant, why: &Failure) {
        self.each(now, |run, out| run.cut_off(now, why, out));
    }

    /// Is no process left?
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    /// The process that takes calls, if there is one.
    pub fn current(&self) -> Option<RunId> {
        self.runs.last().filter(|run| run.takes_calls()).map(|run| run.id)
    }

    /// Is there one that takes calls and has not shown yet that it is ready?
    pub fn is_starting(&self) -> bool {
        self.runs.last().is_some_and(|run| run.takes_calls() && run.is_starting())
    }

    /// Did the process end by a signal of ours?
    pub fn is_our_doing(&self, id: RunId, exit: Exit) -> bool {
        self.runs.iter().any(|run| run.id == id && run.is_our_doing(exit))
    }

    /// Has a program become ready since this was last asked?
    pub fn take_ready(&mut self) -> bool {
        std::mem::take(&mut self.is_newly_ready)
    }

    /// Something happened to this process or to its conversation.
    pub fn handle(&mut self, now: Instant, id: RunId, event: Event<'_>) {
        self.with(now, id, |run, out| run.handle(now, event, out));
    }

    /// Is there something new about a conversation that stands like this? Asked for every
    /// message, so that nothing else has to be done for most of them.
    #[inline]
    pub fn is_news(&self, id: RunId, readiness: &Readiness, proof: Proof) -> bool {
        self.runs.iter().any(|run| run.id == id && run.is_news(readiness, proof))
    }

    /// Every process that was told goodbye has answered, or will not.
    pub fn handle_all_finished(&mut self, now: Instant) {
        self.each(now, |run, out| run.handle(now, Event::Finished, out));
    }

    /// The program wrote this to its output.
    pub fn handle_output(&mut self, id: RunId, bytes: &[u8]) {
        let run = self.runs.iter_mut().find(|run| run.id == id);
        run.into_iter().for_each(|run| run.output(bytes));
    }

    /// The program wrote to its standard error; whole lines go to `log` as well.
    pub fn handle_stderr(&mut self, now: Instant, id: RunId, bytes: &[u8], log: impl FnMut(&str)) {
        self.with(now, id, |run, out| run.stderr(now, bytes, log, out));
    }

    /// The program closed its standard error.
    pub fn handle_stderr_closed(&mut self, now: Instant, id: RunId, log: impl FnMut(&str)) {
        self.with(now, id, |run, _| run.stderr_closed(log));
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.each(now, |run, out| run.timeout(now, out));
        if self.restart_at.is_some_and(|restart_at| restart_at <= now) {
            self.start(now);
        }
    }

    /// How often [`Supervisor::poll_timeout`] may have changed: for those who are told of each
    /// message, and would ask in vain.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// When to call [`Supervisor::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.runs.iter().filter_map(Run::poll_timeout).chain(self.restart_at).min()
    }

    /// What is worth a line in the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.out.notices.pop_front()
    }

    /// What is to be done next.
    pub fn poll_order(&mut self) -> Option<(RunId, Order)> {
        let (id, order) = self.out.orders.pop_front()?;
        if order == Order::Forget {
            self.moves += 1;
            self.runs.retain(|run| run.id != id);
        }
        Some((id, order))
    }

    /// Which process became of no use; told of a program that is spoken to over connections, or
    /// started again by itself.
    pub fn poll_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    /// What came from this process for a caller, with its last words if they say why.
    #[inline]
    pub fn with_last_words(&self, id: RunId, down: Down) -> Down {
        match (down, self.runs.iter().find(|run| run.id == id)) {
            (Down::Done(Err(failure)), Some(run)) => Down::Done(Err(run.with_tail(failure))),
            (down, _) => down,
        }
    }

    fn with(&mut self, now: Instant, id: RunId, act: impl FnOnce(&mut Run, &mut Out)) {
        if let Some(at) = self.runs.iter().position(|run| run.id == id) {
            act(&mut self.runs[at], &mut self.out);
            self.settle(now, at);
        }
    }

    fn each(&mut self, now: Instant, act: impl Fn(&mut Run, &mut Out)) {
        for at in (0..self.runs.len()).rev() {
            act(&mut self.runs[at], &mut self.out);
            self.settle(now, at);
        }
    }

    /// Looks what the last event made of a run, and buries it when it is over.
    fn settle(&mut self, now: Instant, at: usize) {
        self.moves += 1;
        let run = &mut self.runs[at];
        let id = run.id;
        run.settle(now, &mut self.out);
        if std::mem::take(&mut self.out.is_newly_ready) {
            self.is_newly_ready = true;
            self.starts_failed = 0;
            self.not_before = None;
        }
        if let Some((why, last_words)) = run.take_departure(now) {
            let served = run.served(now);
            let next = self.departed(now, served);
            self.departures.push_back(Departure { run: id, why, last_words, next });
        }
        let run = &mut self.runs[at];
        if run.bury() {
            let orders = [Order::Fail(run.last_failure()), Order::Forget];
            self.out.orders.extend(orders.map(|order| (id, order)));
            // Where its departure is told, it was counted then.
            if run.failed_to_start() && !self.tells_departures() {
                self.put_off(now);
            }
        }
    }

    fn put_off(&mut self, now: Instant) {
        self.starts_failed += 1;
        self.not_before = Some(now + self.setup.patience.back_off(self.starts_failed));
    }

    fn tells_departures(&self) -> bool {
        !self.setup.has_pipes || matches!(self.restart, Restart::Always(_))
    }

    /// Decides what follows a process that is of no use any more, and served for so long.
    fn departed(&mut self, now: Instant, served: Option<Duration>) -> Next {
        if served.is_none() {
            self.starts_failed += 1;
        }
        match self.restart {
            _ if self.stopping => Next::Never,
            Restart::Never => Next::Never,
            Restart::OnDemand => {
                if served.is_none() {
                    self.not_before = Some(now + self.setup.patience.back_off(self.starts_failed));
                }
                Next::OnDemand
            }
            Restart::Always(comeback) if comeback.starts_max <= self.starts_failed => {
                Next::GivenUp(self.starts_failed)
            }
            Restart::Always(comeback) => {
                if served.is_some_and(|served| comeback.proven <= served) {
                    self.absences = 0;
                }
                let delay = comeback.delay(self.absences);
                self.absences += 1;
                self.restart_at = Some(now + delay);
                Next::In(delay)
            }
        }
    }
}
