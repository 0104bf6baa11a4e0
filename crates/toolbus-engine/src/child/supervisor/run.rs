//! One life of a program: from the spawn to the last words.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{Farewell, Fault, Goodbye, Notice, Proof, Readiness};
use toolbus_proto::tool::{Exit, Failure, FailureKind, LastWords};

use super::{Event, Judge, Order, RunId, Why};
use crate::child::{Abrupt, Patience, diagnose, stderr::Tail, wait_is_told};

/// How often a session that outlives its leader is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is kept of what a process writes before it has shown that it speaks its wire.
const SAID_BYTES_MAX: usize = 16 * 1024;

/// What leaves the runs of a program.
#[derive(Default)]
pub(super) struct Out {
    pub(super) orders: VecDeque<(RunId, Order)>,
    pub(super) notices: VecDeque<Notice>,
    /// A process has become ready.
    pub(super) is_newly_ready: bool,
}

/// What all runs of a program have in common.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) patience: Patience,
    /// Those of our environment variables that it does not get.
    pub(super) held_back: Arc<[String]>,
    /// Knows by what a process says that it speaks another wire.
    pub(super) judge: Option<Judge>,
    /// It has an input and an output. Else it is spoken to over connections.
    pub(super) has_pipes: bool,
}

pub(super) struct Run {
    pub(super) id: RunId,
    setup: Setup,
    state: RunState,
    /// Since when it has been ready.
    ready_at: Option<Instant>,
    proof: Proof,
    departure: DepartureTold,
    blame: Blame,
    wait: Wait,
    stdout_open: bool,
    stderr_open: bool,
    exit: Option<Exit>,
    signalled: Signalled,
    tail: Tail,
    /// What it wrote so far, until it has shown that it speaks its wire.
    said: Option<BytesMut>,
}

/// How far it is, and until when that may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    /// Too many starts failed of late.
    PutOff(Instant),
    Starting(Instant),
    Serving,
    /// Its output has ended; its exit is near.
    Ending(Instant),
    /// The goodbye is said, and its answer is awaited.
    Parting(Instant),
    /// The goodbye was said, and its input is closed.
    Stopping(Instant),
    Terminated(Instant),
    Killed(Instant),
    /// The leader is gone, its session is not.
    Leaderless {
        kill_at: Option<Instant>,
        until: Instant,
        look_at: Instant,
    },
    /// Every process of the session is gone; what it wrote last is being read.
    Exited(Instant),
    Over,
    /// What is left of it has been ordered to be forgotten.
    Buried,
}

/// Has the owner of a program learned that its process is of no use?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DepartureTold {
    /// It does not want to know.
    Never,
    /// It is of use.
    NotDue,
    /// When what it says last is in, and then at the latest.
    By(Instant),
    Yes,
}

/// Why the conversation could not go on, if its own end is not the reason.
enum Blame {
    None,
    /// It died of a question about its protocol; the next process is asked another one.
    AskedAmiss,
    Unfit(Failure),
    /// It was not ready in time.
    Late(Failure),
}

/// Is the user told what is waited for?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// No, or not any more.
    Untold,
    /// At that time, if it still is.
    ToldAt(Instant),
    /// Yes, and not yet that it is over.
    Told,
}

/// Which signal of ours made it end?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signalled {
    No,
    /// It was asked to.
    Asked,
    /// It lost the right to a goodbye: how it ended is no news.
    Outlawed,
}

impl Run {
    pub(super) fn new(id: RunId, setup: Setup, departure: DepartureTold, put_off: Instant) -> Run {
        Run {
            id,
            setup,
            state: RunState::PutOff(put_off),
            ready_at: None,
            proof: Proof::Ready,
            departure,
            blame: Blame::None,
            wait: Wait::Untold,
            stdout_open: false,
            stderr_open: false,
            exit: None,
            signalled: Signalled::No,
            tail: Tail::new(),
            said: Some(BytesMut::new()),
        }
    }

    fn order(&self, out: &mut Out, order: Order) {
        out.orders.push_back((self.id, order));
    }

    fn spawn(&mut self, now: Instant, out: &mut Out) {
        let Setup { patience, has_pipes, .. } = self.setup;
        self.state = RunState::Starting(now + patience.start);
        if patience.waits_for.is_some() {
            self.wait = Wait::ToldAt(now + wait_is_told());
        }
        self.stdout_open = has_pipes;
        self.stderr_open = true;
        self.order(out, Order::Spawn);
    }

    /// Something happened to it or to its conversation.
    pub(super) fn handle(&mut self, now: Instant, event: Event<'_>, out: &mut Out) {
        let patience = self.setup.patience;
        match (event, self.state) {
            (Event::SpawnFailed(failure), _) => {
                self.blame = Blame::Unfit(failure.clone());
                self.depart_by(now);
                (self.stdout_open, self.stderr_open) = (false, false);
                self.state = RunState::Over;
            }
            (Event::Advanced, RunState::Starting(_)) => {
                self.state = RunState::Starting(now + patience.start);
            }
            (Event::Stands(readiness, proof), _) => self.stands(now, readiness, proof, out),
            (Event::Goodbye(Goodbye::Said), RunState::Parting(_)) => {
                self.close_stdin(now, patience.stop, out);
            }
            (Event::Finished, _) => self.finished(now, out),
            (Event::Unread, _) => self.stdout_open = false,
            (Event::Eof(readiness, proof), _) => {
                self.stdout_open = false;
                self.proof = proof;
                self.deaf(now, out);
                if self.exit.is_some() {
                    // Only its last words show what it died of.
                    self.move_on(out);
                }
                self.stands(now, readiness, proof, out);
            }
            (Event::Deaf, _) => self.deaf(now, out),
            (Event::Exited(exit, session_left), _) => self.exited(now, exit, session_left, out),
            (Event::Session { is_left: false }, RunState::Leaderless { .. }) => {
                self.state = RunState::Exited(now + patience.last_words);
            }
            (Event::Advanced | Event::Goodbye(_) | Event::Session { .. }, _) => {}
        }
    }

    /// How long it has been ready, if it ever was.
    pub(super) fn served(&self, now: Instant) -> Option<Duration> {
        self.ready_at.map(|ready_at| now.duration_since(ready_at))
    }

    /// Once: why it is of no use any more, and its last words.
    pub(super) fn take_departure(&mut self, now: Instant) -> Option<(Why, LastWords)> {
        let DepartureTold::By(by) = self.departure else { return None };
        if (self.stdout_open || self.stderr_open) && now < by {
            return None;
        }
        self.departure = DepartureTold::Yes;
        let why = match &self.blame {
            Blame::Late(_) => Why::Late,
            Blame::Unfit(fault) => Why::Unfit(fault.clone()),
            Blame::None | Blame::AskedAmiss => Why::Exited(self.exit.unwrap_or(Exit::Code(-1))),
        };
        let hint = self.exit.and_then(diagnose::early_exit).filter(|_| self.ready_at.is_none());
        let words = LastWords { exit: self.exit, stderr: self.stderr_lines(), hint, ..self.said() };
        Some((why, words))
    }

    /// It is of no use from now on, and told so at that time at the latest.
    fn depart_by(&mut self, by: Instant) {
        if self.departure == DepartureTold::NotDue {
            self.departure = DepartureTold::By(by);
        }
    }

    fn blame(&mut self, failure: &Failure) {
        if let Blame::None = self.blame {
            self.blame = Blame::Unfit(failure.clone());
        }
    }

    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.setup.patience = patience;
    }

    pub(super) fn takes_calls(&self) -> bool {
        matches!(self.state, RunState::PutOff(_) | RunState::Starting(_) | RunState::Serving)
    }

    /// Has it not shown yet that it is ready?
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.state, RunState::PutOff(_) | RunState::Starting(_))
    }

    /// Did the start fail? One that died of a question which the next one is not asked does
    /// not count.
    pub(super) fn failed_to_start(&self) -> bool {
        self.ready_at.is_none() && !matches!(self.blame, Blame::AskedAmiss)
    }

    /// True once: when there is nothing left to wait for.
    pub(super) fn bury(&mut self) -> bool {
        let is_over = self.state == RunState::Over;
        if is_over {
            self.state = RunState::Buried;
        }
        is_over
    }

    /// It wrote this to its output.
    pub(super) fn output(&mut self, bytes: &[u8]) {
        if let Some(said) = &mut self.said {
            let room = SAID_BYTES_MAX - said.len();
            said.extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
    }

    /// Breaks off if what it said so far shows that it speaks another wire.
    fn be_judged(&mut self, now: Instant, out: &mut Out) {
        let (Some(judge), Some(said)) = (&self.setup.judge, &self.said) else { return };
        let errors: Vec<&str> = self.tail.lines().collect();
        if self.takes_calls() && judge(said, &errors, self.exit) {
            let message = format!("`{}` speaks another protocol", self.setup.name);
            // The end of it may be what it was known by.
            let stderr = self.stderr_lines();
            let words = LastWords { exit: self.exit, stderr, ..self.said() };
            let failure = Failure::new(FailureKind::BrokeProtocol, message).with_last_words(words);
            self.cut_off(now, &failure, out);
        }
    }

    /// Nothing new is asked of it. What it wrote before may still be in the pipe, so reading goes
    /// on.
    fn deaf(&mut self, now: Instant, out: &mut Out) {
        if self.takes_calls() {
            self.state = RunState::Ending(now + self.setup.patience.exit);
            self.move_on(out);
        }
    }

    pub(super) fn stderr(
        &mut self,
        now: Instant,
        bytes: &[u8],
        log: impl FnMut(&str),
        out: &mut Out,
    ) {
        self.tail.push(bytes, log);
        self.be_judged(now, out);
    }

    pub(super) fn stderr_closed(&mut self, log: impl FnMut(&str)) {
        self.tail.finish(log);
        self.stderr_open = false;
    }

    fn exited(&mut self, now: Instant, exit: Exit, session_left: bool, out: &mut Out) {
        let Patience { last_words, signal, .. } = self.setup.patience;
        self.exit = Some(exit);
        self.be_judged(now, out);
        self.depart_by(now + last_words);
        self.move_on(out);
        if !session_left {
            self.state = RunState::Exited(now + last_words);
            return;
        }
        // The session is where its leader was on the ladder, but for the goodbye, which is over.
        let (kill_at, until) = match self.state {
            RunState::Killed(until) => (None, until),
            RunState::Terminated(until) => (Some(until), until + signal),
            _ => {
                self.order(out, Order::Terminate);
                (Some(now + signal), now + signal * 2)
            }
        };
        self.state = RunState::Leaderless { kill_at, until, look_at: now + LOOK_AGAIN };
    }

    pub(super) fn stop(&mut self, now: Instant, out: &mut Out) {
        match self.state {
            RunState::PutOff(_) => {
                self.close(out);
                self.state = RunState::Over;
            }
            // It has not said that it listens, so there is no goodbye it could hear.
            RunState::Starting(_) if self.setup.has_pipes => {
                self.close(out);
                self.part(now, Farewell::Abrupt, out);
            }
            RunState::Starting(_) => self.terminate(now, out),
            RunState::Serving => self.part(now, Farewell::Goodbye, out),
            _ => self.close(out),
        }
    }

    /// Ends its calls at once, and it too.
    pub(super) fn cut_off(&mut self, now: Instant, why: &Failure, out: &mut Out) {
        self.blame(why);
        self.order(out, Order::Fail(why.clone()));
        if self.takes_calls() {
            self.depart_by(now);
            self.part(now, Farewell::Abrupt, out);
        }
    }

    pub(super) fn kill(&mut self, now: Instant, out: &mut Out) {
        self.close(out);
        let until = now + self.setup.patience.signal;
        match self.state {
            RunState::PutOff(_) => self.state = RunState::Over,
            RunState::Exited(_) | RunState::Over | RunState::Buried | RunState::Killed(_) => {}
            RunState::Leaderless { .. } => {
                self.order(out, Order::Kill);
                self.state = RunState::Leaderless { kill_at: None, until, look_at: now };
            }
            _ => {
                self.order(out, Order::Kill);
                self.was_signalled(Signalled::Asked);
                self.state = RunState::Killed(until);
            }
        }
    }

    pub(super) fn timeout(&mut self, now: Instant, out: &mut Out) {
        let Setup { name, patience: Patience { start, signal, .. }, .. } = &self.setup;
        let (start, signal) = (*start, *signal);
        match self.state {
            RunState::PutOff(until) if until <= now => self.spawn(now, out),
            RunState::Starting(until) if until <= now => {
                let message = format!("`{name}` was not ready within {start:?}");
                self.blame = Blame::Late(Failure::new(FailureKind::TimedOut, message));
                self.depart_by(now);
                self.part(now, Farewell::Abrupt, out);
            }
            RunState::Starting(_) if self.wait_told_at().is_some_and(|at| at <= now) => {
                let (name, is_stranger) = (name.clone(), self.setup.judge.is_some());
                self.tell_wait(out, |what| match is_stranger {
                    true => format!("`{name}` {what}, it has {start:?} for that"),
                    false => format!("{what}, `{name}` has {start:?} for that"),
                });
            }
            RunState::Serving if self.wait_told_at().is_some_and(|at| at <= now) => {
                self.tell_wait(out, str::to_owned);
            }
            RunState::Ending(until) if until <= now => self.part(now, Farewell::Abrupt, out),
            RunState::Parting(until) if until <= now => self.finished(now, out),
            RunState::Stopping(until) if until <= now => self.terminate(now, out),
            RunState::Terminated(until) if until <= now => {
                self.order(out, Order::Kill);
                self.state = RunState::Killed(now + signal);
            }
            RunState::Killed(until)
            | RunState::Exited(until)
            | RunState::Leaderless { until, .. }
                if until <= now =>
            {
                self.state = RunState::Over;
            }
            RunState::Leaderless { kill_at, until, look_at } if look_at <= now => {
                let is_due = kill_at.is_some_and(|kill_at| kill_at <= now);
                if is_due {
                    self.order(out, Order::Kill);
                }
                let kill_at = kill_at.filter(|_| !is_due);
                self.state = RunState::Leaderless { kill_at, until, look_at: now + LOOK_AGAIN };
                self.order(out, Order::LookAtSession);
            }
            _ => {}
        }
    }

    /// When the user is told what is waited for, if it is.
    fn wait_told_at(&self) -> Option<Instant> {
        match self.wait {
            Wait::ToldAt(at) if self.is_waited_for() => Some(at),
            _ => None,
        }
    }

    fn is_waited_for(&self) -> bool {
        match self.state {
            RunState::Starting(_) => true,
            RunState::Serving => self.proof == Proof::Awaited,
            _ => false,
        }
    }

    fn tell_wait(&mut self, out: &mut Out, told: impl Fn(&str) -> String) {
        self.wait = Wait::Told;
        let what = self.setup.patience.waits_for;
        out.notices.extend(what.map(|what| Notice::Waiting(Some(told(what)))));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let state = match self.state {
            RunState::Starting(until) => Some(self.wait_told_at().unwrap_or(until).min(until)),
            RunState::Serving => self.wait_told_at(),
            RunState::PutOff(until)
            | RunState::Ending(until)
            | RunState::Parting(until)
            | RunState::Stopping(until)
            | RunState::Terminated(until)
            | RunState::Killed(until)
            | RunState::Exited(until) => Some(until),
            RunState::Leaderless { until, look_at, .. } => Some(until.min(look_at)),
            RunState::Over | RunState::Buried => None,
        };
        let departure = match self.departure {
            DepartureTold::By(by) => Some(by),
            _ => None,
        };
        state.into_iter().chain(departure).min()
    }

    /// Is there something new about a conversation that stands like this?
    #[inline]
    pub(super) fn is_news(&self, readiness: &Readiness, proof: Proof) -> bool {
        let is_as_before = matches!(readiness, Readiness::Open) && proof == self.proof;
        !is_as_before || self.state != RunState::Serving || self.said.is_some()
    }

    /// How the conversation stands.
    fn stands(&mut self, now: Instant, readiness: &Readiness, proof: Proof, out: &mut Out) {
        self.proof = proof;
        if self.is_proven() {
            self.said = None;
        }
        self.be_judged(now, out);
        match readiness {
            Readiness::Open if self.ready_at.is_none() => {
                self.ready_at = Some(now);
                // It was asked in a way that it does not know; what it said to that is no last
                // word of a process that came to terms with us.
                if proof == Proof::ReadyAtLast {
                    self.tail.clear();
                }
                if let RunState::Starting(_) = self.state {
                    self.state = RunState::Serving;
                }
                out.is_newly_ready = true;
            }
            Readiness::Broken(Fault { failure, farewell }) => {
                // Often its death is heard of before its last line is read, which says why. That
                // it is gone is no reason: how it went says more.
                if failure.kind != FailureKind::Gone {
                    self.blame(failure);
                }
                if self.takes_calls() {
                    self.depart_by(now);
                    self.move_on(out);
                    self.part(now, *farewell, out);
                }
            }
            _ => {}
        }
    }

    /// Looks what the last event made of it.
    pub(super) fn settle(&mut self, now: Instant, out: &mut Out) {
        if let RunState::Parting(_) = self.state
            && self.setup.has_pipes
            && !self.stdout_open
        {
            self.finished(now, out);
        }
        if let RunState::Exited(_) = self.state
            && !self.stdout_open
            && !self.stderr_open
        {
            self.state = RunState::Over;
        }
        if self.wait == Wait::Told && !self.is_waited_for() {
            self.wait = Wait::Untold;
            out.notices.push_back(Notice::Waiting(None));
        }
    }

    /// What is told to those who still wait when it is over.
    pub(super) fn last_failure(&self) -> Failure {
        let is_late = matches!(self.blame, Blame::Late(_));
        let is_outlawed = self.signalled == Signalled::Outlawed;
        let is_news = |exit: &Exit| !is_outlawed && !is_late && !self.is_our_doing(*exit);
        let exit = self.exit.filter(is_news);
        let failure = match &self.blame {
            Blame::Unfit(failure) | Blame::Late(failure) => failure.clone(),
            Blame::None | Blame::AskedAmiss => {
                let name = &self.setup.name;
                let how = exit.map_or(String::new(), |exit| format!(" with {exit}"));
                let (kind, before) = match self.ready_at {
                    Some(_) => (FailureKind::Gone, "it answered"),
                    None => (FailureKind::Unavailable, "it was ready"),
                };
                Failure::new(kind, format!("`{name}` ended{how} before {before}"))
            }
        };
        let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
        failure.with_last_words(LastWords {
            exit,
            stderr: self.stderr_lines(),
            hint: hint.or_else(|| exit.and_then(|exit| self.diagnosis(exit))),
            ..self.said()
        })
    }

    /// Did it end by a signal that we have sent? Then how it ended is no news.
    pub(super) fn is_our_doing(&self, exit: Exit) -> bool {
        // A shell, and programs that put things in order first, tell a signal by a status.
        self.signalled != Signalled::No
            && matches!(exit, Exit::Signal(9 | 15) | Exit::Code(137 | 143))
    }

    /// Has it shown that it speaks its wire?
    fn is_proven(&self) -> bool {
        self.ready_at.is_some() && !matches!(self.proof, Proof::None | Proof::Awaited)
    }

    /// Whether it has shown that, and if not, what it has said instead.
    fn said(&self) -> LastWords {
        let is_unproven = !self.is_proven();
        let said = self.said.as_ref().filter(|_| is_unproven);
        let said = said.map_or(Bytes::new(), |said| Bytes::copy_from_slice(said));
        LastWords { is_unproven, said, ..LastWords::default() }
    }

    fn stderr_lines(&self) -> Vec<String> {
        self.tail.lines().map(str::to_owned).collect()
    }

    /// What the exit suggests, if it came before the process was of use.
    fn diagnosis(&self, exit: Exit) -> Option<String> {
        // One that ends well lacks nothing.
        let held_back = || match self.is_proven() || exit == Exit::Code(0) {
            true => None,
            false => diagnose::held_back(&self.setup.held_back, self.tail.lines()),
        };
        diagnose::early_exit(exit).or_else(held_back)
    }

    /// What we found wrong with a process that lives on is told with what it said of late.
    pub(super) fn with_tail(&self, mut failure: Failure) -> Failure {
        let LastWords { is_unproven, said, .. } = self.said();
        let wants_tail = wants_tail(&failure);
        if wants_tail {
            failure.last_words.get_or_insert_default().stderr = self.stderr_lines();
        }
        if let Some(words) = &mut failure.last_words
            && (wants_tail || (is_unproven && !failure.from_peer))
        {
            (words.is_unproven, words.said) = (is_unproven, said);
        }
        failure
    }

    /// Calls that were never written may try another process; but only if this one had been
    /// ready, or knows why it was not, or a program that cannot start would be started for ever.
    /// One that was only slow did not die of what it was asked.
    fn move_on(&mut self, out: &mut Out) {
        if let (Proof::AskAnother, Blame::None) = (self.proof, &self.blame) {
            self.blame = Blame::AskedAmiss;
        }
        if self.ready_at.is_some() || matches!(self.blame, Blame::AskedAmiss) {
            self.order(out, Order::MoveOn);
        }
    }

    fn part(&mut self, now: Instant, farewell: Farewell, out: &mut Out) {
        let Patience { stop, signal, abrupt, .. } = self.setup.patience;
        match (farewell, abrupt) {
            (Farewell::Goodbye, _) => {
                self.close(out);
                self.state = RunState::Parting(now + stop);
            }
            (Farewell::Patient, _) => self.close_stdin(now, stop, out),
            (Farewell::Abrupt, Abrupt::Terminate) => {
                if self.setup.has_pipes {
                    self.order(out, Order::CloseStdin);
                }
                self.terminate(now, out);
            }
            (Farewell::Abrupt, Abrupt::Kill) => {
                self.was_signalled(Signalled::Outlawed);
                self.order(out, Order::Kill);
                self.state = RunState::Killed(now + signal);
            }
        }
    }

    fn close(&self, out: &mut Out) {
        self.order(out, Order::Close(self.setup.patience.stop));
    }

    /// The goodbye was answered, or waited for long enough.
    pub(super) fn finished(&mut self, now: Instant, out: &mut Out) {
        if let RunState::Parting(_) = self.state {
            self.close_stdin(now, self.setup.patience.signal, out);
        }
    }

    fn close_stdin(&mut self, now: Instant, patience: Duration, out: &mut Out) {
        if !self.setup.has_pipes {
            return self.terminate(now, out);
        }
        self.order(out, Order::CloseStdin);
        self.state = RunState::Stopping(now + patience);
    }

    fn terminate(&mut self, now: Instant, out: &mut Out) {
        self.was_signalled(Signalled::Asked);
        self.order(out, Order::Terminate);
        self.state = RunState::Terminated(now + self.setup.patience.signal);
    }

    fn was_signalled(&mut self, signalled: Signalled) {
        if self.signalled != Signalled::Outlawed {
            self.signalled = signalled;
        }
    }
}

/// Is this a fault of the process that we found, and told without its last words?
fn wants_tail(failure: &Failure) -> bool {
    let is_ours = !failure.from_peer && failure.kind != FailureKind::Cancelled;
    is_ours
        && match &failure.last_words {
            None => true,
            // A hint alone, beside what the process did wrong.
            Some(words) => {
                let is_its_fault =
                    matches!(failure.kind, FailureKind::BrokeProtocol | FailureKind::TimedOut);
                is_its_fault && words.exit.is_none() && words.stderr.is_empty()
            }
        }
}
