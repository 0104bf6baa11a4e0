//! One life of a program: from the spawn to the last words.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Goodbye, Notice, Proof, Readiness, Ticket,
};
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords};

use super::{Judge, Order, Why};
use crate::child::{Abrupt, Patience, diagnose, stderr::Tail, wait_is_told};

/// How often a session that outlives its leader is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is kept of what a process writes before it has shown that it speaks its wire.
const SAID_BYTES_MAX: usize = 16 * 1024;

pub(super) struct Run<C> {
    name: String,
    patience: Patience,
    pub(super) machine: C,
    state: RunState,
    was_ready: bool,
    /// Since when it has been ready.
    ready_at: Option<Instant>,
    /// It is spoken to elsewhere: it has no input that could be closed, and no output.
    is_elsewhere: bool,
    /// Its owner wants to know when it is of no use any more.
    tells_departure: bool,
    departure: DepartureTold,
    /// It was not ready in time.
    is_late: bool,
    /// It died of a question about its protocol; the next process is asked another one.
    asked_amiss: bool,
    readiness_told: bool,
    /// When the user is told what is waited for, if it still is.
    tell_wait_at: Option<Instant>,
    /// The user was told, and not yet that it is over.
    is_wait_told: bool,
    notice: Option<Notice>,
    /// Why the conversation could not go on, if its own end is not the reason.
    pub(super) fault: Option<Failure>,
    stdout_open: bool,
    stderr_open: bool,
    exit: Option<Exit>,
    /// It was killed because it lost the right to a goodbye: how it ended is no news.
    was_killed: bool,
    /// We have asked it to end by a signal.
    was_terminated: bool,
    tail: Tail,
    /// What it wrote so far, until it has shown that it speaks its wire.
    said: Option<BytesMut>,
    /// How many bytes of the input that is at hand were looked at before.
    looked_at: usize,
    /// Knows by what a process says that it speaks another wire.
    judge: Option<Judge>,
    /// Those of our environment variables that it did not get.
    held_back: Arc<[String]>,
    /// Calls that were never written and go to the next run.
    moving_on: Vec<(Ticket, Call)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    /// Too many starts failed of late.
    PutOff {
        until: Instant,
    },
    Starting {
        until: Instant,
    },
    Serving,
    /// Its output has ended; its exit is near.
    Ending {
        until: Instant,
    },
    /// The goodbye was said, and its answer is awaited.
    Parting {
        until: Instant,
    },
    /// The goodbye was said, and its input is closed.
    Stopping {
        until: Instant,
    },
    Terminated {
        until: Instant,
    },
    Killed {
        until: Instant,
    },
    /// The leader is gone, its session is not.
    Leaderless {
        kill_at: Option<Instant>,
        until: Instant,
        look_at: Instant,
    },
    /// Every process of the session is gone; what it wrote last is being read.
    Exited {
        until: Instant,
    },
    Over,
}

/// Has the owner of a program learned that its process is of no use?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DepartureTold {
    /// It is of use.
    NotDue,
    /// When what it says last is in, and then at the latest.
    By(Instant),
    Yes,
}

impl<C: Calling + Channel> Run<C> {
    pub(super) fn new(
        name: String,
        patience: Patience,
        machine: C,
        held_back: Arc<[String]>,
        put_off: Instant,
    ) -> Self {
        Run {
            name,
            held_back,
            patience,
            machine,
            state: RunState::PutOff { until: put_off },
            was_ready: false,
            ready_at: None,
            is_elsewhere: false,
            tells_departure: false,
            departure: DepartureTold::NotDue,
            is_late: false,
            asked_amiss: false,
            readiness_told: false,
            tell_wait_at: None,
            is_wait_told: false,
            notice: None,
            fault: None,
            stdout_open: false,
            stderr_open: false,
            exit: None,
            was_killed: false,
            was_terminated: false,
            tail: Tail::new(),
            said: Some(BytesMut::new()),
            looked_at: 0,
            judge: None,
            moving_on: Vec::new(),
        }
    }

    fn spawn(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        self.state = RunState::Starting { until: now + self.patience.start };
        self.tell_wait_at = self.patience.waits_for.map(|_| now + wait_is_told());
        self.stdout_open = !self.is_elsewhere;
        self.stderr_open = true;
        order(Order::Spawn);
    }

    pub(super) fn set_elsewhere(&mut self, is_elsewhere: bool) {
        self.is_elsewhere = is_elsewhere;
    }

    pub(super) fn tell_departure(&mut self, tells_departure: bool) {
        self.tells_departure = tells_departure;
    }

    /// Its start came a step further.
    pub(super) fn advance(&mut self, now: Instant) {
        if let RunState::Starting { until } = &mut self.state {
            *until = now + self.patience.start;
        }
    }

    /// How long it has been ready, if it ever was.
    pub(super) fn served(&self, now: Instant) -> Option<Duration> {
        self.ready_at.map(|ready_at| now.duration_since(ready_at))
    }

    /// Once: why it is of no use any more, and its last words.
    pub(super) fn take_departure(&mut self, now: Instant) -> Option<(Why, LastWords)> {
        let DepartureTold::By(by) = self.departure else { return None };
        if self.stderr_open && now < by {
            return None;
        }
        self.departure = DepartureTold::Yes;
        let why = match (&self.fault, self.exit) {
            _ if self.is_late => Why::Late,
            (Some(fault), _) => Why::Unfit(fault.clone()),
            (None, exit) => Why::Exited(exit.unwrap_or(Exit::Code(-1))),
        };
        let stderr = self.tail.lines().map(str::to_owned).collect();
        let hint = self.exit.and_then(diagnose::early_exit).filter(|_| !self.was_ready);
        let words = LastWords { exit: self.exit, stderr, hint, ..self.proof() };
        Some((why, words))
    }

    /// It is of no use from now on, and told so at that time at the latest.
    fn depart_by(&mut self, by: Instant) {
        if self.tells_departure && self.departure == DepartureTold::NotDue {
            self.departure = DepartureTold::By(by);
        }
    }

    pub(super) fn set_judge(&mut self, judge: Option<Judge>) {
        self.judge = judge;
    }

    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    pub(super) fn takes_calls(&self) -> bool {
        matches!(
            self.state,
            RunState::PutOff { .. } | RunState::Starting { .. } | RunState::Serving
        )
    }

    /// Did the start fail? One that died of a question which the next one is not asked does
    /// not count.
    pub(super) fn failed_to_start(&self) -> bool {
        !self.was_ready && !self.asked_amiss
    }

    /// True once: when the conversation has opened.
    pub(super) fn became_ready(&mut self) -> bool {
        self.was_ready && !std::mem::replace(&mut self.readiness_told, true)
    }

    pub(super) fn take_moving_on(&mut self) -> Vec<(Ticket, Call)> {
        std::mem::take(&mut self.moving_on)
    }

    pub(super) fn is_over(&self, _now: Instant) -> bool {
        self.state == RunState::Over
    }

    pub(super) fn spawn_failed(&mut self, now: Instant, failure: &Failure) {
        self.fault = Some(failure.clone());
        self.depart_by(now);
        self.stdout_open = false;
        self.stderr_open = false;
        self.state = RunState::Over;
    }

    pub(super) fn bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if let Some(said) = &mut self.said {
            let new = input.get(self.looked_at..).unwrap_or_default();
            let room = SAID_BYTES_MAX - said.len();
            said.extend_from_slice(&new[..room.min(new.len())]);
        }
        let flow = self.machine.handle_bytes(now, input);
        if flow == Flow::Close {
            // Its output is read no further, so its end will not be seen: it is not waited for.
            self.stdout_open = false;
        }
        self.looked_at = input.len();
        if self.said.is_some() && self.is_proven() {
            self.said = None;
        }
        flow
    }

    /// Breaks off if what it said so far shows that it speaks another wire.
    pub(super) fn be_judged(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        let (Some(judge), Some(said)) = (&self.judge, &self.said) else { return };
        let errors: Vec<&str> = self.tail.lines().collect();
        if self.takes_calls() && judge(said, &errors, self.exit) {
            let message = format!("`{}` speaks another protocol", self.name);
            self.cut_off(now, &Failure::new(FailureKind::BrokeProtocol, message), order);
        }
    }

    pub(super) fn eof(&mut self, now: Instant, input: &mut BytesMut) {
        self.stdout_open = false;
        self.machine.handle_eof(now, input);
        if self.takes_calls() {
            self.end(now);
        }
    }

    /// Our writing failed. What it wrote before may still be in the pipe, so reading goes on;
    /// but nothing new is asked.
    pub(super) fn deaf(&mut self, now: Instant) {
        if self.takes_calls() {
            self.end(now);
        }
    }

    fn end(&mut self, now: Instant) {
        self.state = RunState::Ending { until: now + self.patience.exit };
        self.move_on();
    }

    pub(super) fn stderr(&mut self, bytes: &[u8], log: impl FnMut(&str)) {
        self.tail.push(bytes, log);
    }

    pub(super) fn stderr_closed(&mut self, log: impl FnMut(&str)) {
        self.tail.finish(log);
        self.stderr_open = false;
    }

    pub(super) fn exited(
        &mut self,
        now: Instant,
        exit: Exit,
        session_left: bool,
        order: &mut dyn FnMut(Order),
    ) {
        self.exit = Some(exit);
        self.be_judged(now, order);
        self.depart_by(now + self.patience.last_words);
        self.move_on();
        if !session_left {
            self.state = RunState::Exited { until: now + self.patience.last_words };
            return;
        }
        // The session is where its leader was on the ladder, but for the goodbye, which is over.
        let signal = self.patience.signal;
        let (kill_at, until) = match self.state {
            RunState::Killed { until } => (None, until),
            RunState::Terminated { until } => (Some(until), until + signal),
            _ => {
                order(Order::Terminate);
                (Some(now + signal), now + signal * 2)
            }
        };
        self.state = RunState::Leaderless { kill_at, until, look_at: now + LOOK_AGAIN };
    }

    pub(super) fn session(&mut self, now: Instant, session_left: bool) {
        if let RunState::Leaderless { .. } = self.state
            && !session_left
        {
            self.state = RunState::Exited { until: now + self.patience.last_words };
        }
    }

    pub(super) fn stop(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        match self.state {
            RunState::PutOff { .. } => {
                self.close(now);
                self.state = RunState::Over;
            }
            // It has not said that it listens, so there is no goodbye it could hear.
            RunState::Starting { .. } if !self.is_elsewhere => {
                self.close(now);
                self.part(now, Farewell::Abrupt, order);
            }
            RunState::Starting { .. } => self.terminate(now, order),
            RunState::Serving => self.part(now, Farewell::Goodbye, order),
            _ => drop(self.close(now)),
        }
    }

    /// Ends its calls at once, and it too.
    pub(super) fn cut_off(&mut self, now: Instant, why: &Failure, order: &mut dyn FnMut(Order)) {
        self.fault.get_or_insert_with(|| why.clone());
        self.machine.handle_lost(now, why);
        if self.takes_calls() {
            self.depart_by(now);
            self.part(now, Farewell::Abrupt, order);
        }
    }

    pub(super) fn kill(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        self.close(now);
        match self.state {
            RunState::PutOff { .. } => self.state = RunState::Over,
            RunState::Exited { .. } | RunState::Over | RunState::Killed { .. } => {}
            RunState::Leaderless { .. } => {
                order(Order::Kill);
                let until = now + self.patience.signal;
                self.state = RunState::Leaderless { kill_at: None, until, look_at: now };
            }
            _ => {
                order(Order::Kill);
                self.was_terminated = true;
                self.state = RunState::Killed { until: now + self.patience.signal };
            }
        }
    }

    pub(super) fn timeout(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        let signal = self.patience.signal;
        match self.state {
            RunState::PutOff { until } if until <= now => self.spawn(now, order),
            RunState::Starting { until } if until <= now => {
                let message =
                    format!("`{}` was not ready within {:?}", self.name, self.patience.start);
                self.fault = Some(Failure::new(FailureKind::TimedOut, message));
                self.is_late = true;
                self.depart_by(now);
                self.part(now, Farewell::Abrupt, order);
            }
            RunState::Starting { .. } if self.wait_told_at().is_some_and(|at| at <= now) => {
                let (name, Patience { start, .. }) = (self.name.clone(), self.patience);
                let is_stranger = self.judge.is_some();
                self.tell_wait(|what| match is_stranger {
                    true => format!("`{name}` {what}, it has {start:?} for that"),
                    false => format!("{what}, `{name}` has {start:?} for that"),
                });
            }
            RunState::Serving if self.wait_told_at().is_some_and(|at| at <= now) => {
                self.tell_wait(str::to_owned);
            }
            RunState::Ending { until } if until <= now => self.part(now, Farewell::Abrupt, order),
            RunState::Parting { until } if until <= now => self.close_stdin(now, order),
            RunState::Stopping { until } if until <= now => self.terminate(now, order),
            RunState::Terminated { until } if until <= now => {
                order(Order::Kill);
                self.state = RunState::Killed { until: now + signal };
            }
            RunState::Killed { until } | RunState::Exited { until } if until <= now => {
                self.state = RunState::Over;
            }
            RunState::Leaderless { until, .. } if until <= now => self.state = RunState::Over,
            RunState::Leaderless { kill_at, until, look_at } if look_at <= now => {
                let is_due = kill_at.is_some_and(|kill_at| kill_at <= now);
                if is_due {
                    order(Order::Kill);
                }
                let kill_at = kill_at.filter(|_| !is_due);
                self.state = RunState::Leaderless { kill_at, until, look_at: now + LOOK_AGAIN };
                order(Order::LookAtSession);
            }
            _ => {}
        }
        if self.machine.poll_timeout().is_some_and(|until| until <= now) {
            self.machine.handle_timeout(now);
        }
    }

    /// When the user is told what is waited for, if it is.
    fn wait_told_at(&self) -> Option<Instant> {
        self.tell_wait_at.filter(|_| self.is_waited_for())
    }

    fn is_waited_for(&self) -> bool {
        match self.state {
            RunState::Starting { .. } => true,
            RunState::Serving => self.machine.proof() == Proof::Awaited,
            _ => false,
        }
    }

    fn tell_wait(&mut self, told: impl Fn(&str) -> String) {
        self.tell_wait_at = None;
        self.is_wait_told = true;
        self.notice = self.patience.waits_for.map(|what| Notice::Waiting(Some(told(what))));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let state = match self.state {
            RunState::Starting { until } => Some(self.wait_told_at().unwrap_or(until).min(until)),
            RunState::Serving => self.wait_told_at(),
            RunState::PutOff { until }
            | RunState::Ending { until }
            | RunState::Parting { until }
            | RunState::Stopping { until }
            | RunState::Terminated { until }
            | RunState::Killed { until }
            | RunState::Exited { until } => Some(until),
            RunState::Leaderless { until, look_at, .. } => Some(until.min(look_at)),
            RunState::Over => None,
        };
        let departure = match self.departure {
            DepartureTold::By(by) => Some(by),
            DepartureTold::NotDue | DepartureTold::Yes => None,
        };
        [state, departure, self.machine.poll_timeout()].into_iter().flatten().min()
    }

    /// What the user should hear of.
    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        if self.is_wait_told && !self.is_waited_for() {
            self.is_wait_told = false;
            return Some(Notice::Waiting(None));
        }
        self.notice.take()
    }

    /// Looks how the conversation stands after an event.
    pub(super) fn settle(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        match self.machine.readiness() {
            Readiness::Open if !self.was_ready => {
                self.was_ready = true;
                self.ready_at = Some(now);
                // It was asked in a way that it does not know; what it said to that is no last
                // word of a process that came to terms with us.
                if self.machine.proof() == Proof::ReadyAtLast {
                    self.tail.clear();
                }
                if let RunState::Starting { .. } = self.state {
                    self.state = RunState::Serving;
                }
            }
            Readiness::Broken(fault) => {
                let Fault { failure, farewell } = fault.clone();
                // Often its death is heard of before its last line is read, which says why. That
                // it is gone is no reason: how it went says more.
                if failure.kind != FailureKind::Gone {
                    self.fault.get_or_insert(failure);
                }
                if self.takes_calls() {
                    self.depart_by(now);
                    self.move_on();
                    self.part(now, farewell, order);
                }
            }
            _ => {}
        }
        if let RunState::Parting { .. } = self.state
            && (self.machine.is_finished() || !(self.stdout_open || self.is_elsewhere))
        {
            self.close_stdin(now, order);
        }
        if let RunState::Exited { .. } = self.state
            && !self.stdout_open
            && !self.stderr_open
        {
            self.state = RunState::Over;
        }
    }

    /// Ends the calls that the machine still has, with how the process ended.
    pub(super) fn tell_the_waiting(&mut self, now: Instant) {
        let is_news = |exit: &Exit| !self.was_killed && !self.is_late && !self.is_our_doing(*exit);
        let exit = self.exit.filter(is_news);
        let failure = self.fault.take().unwrap_or_else(|| {
            let name = &self.name;
            let how = exit.map_or(String::new(), |exit| format!(" with {exit}"));
            if self.was_ready {
                let message = format!("`{name}` ended{how} before it answered");
                Failure::new(FailureKind::Gone, message)
            } else {
                let message = format!("`{name}` ended{how} before it was ready");
                Failure::new(FailureKind::Unavailable, message)
            }
        });
        let hint = failure.last_words.as_ref().and_then(|words| words.hint.clone());
        let failure = failure.with_last_words(LastWords {
            exit,
            stderr: self.tail.lines().map(str::to_owned).collect(),
            hint: hint.or_else(|| exit.and_then(|exit| self.diagnosis(exit))),
            ..self.proof()
        });
        self.machine.handle_lost(now, &failure);
    }

    /// Did it end by a signal that we have sent? Then how it ended is no news.
    pub(super) fn is_our_doing(&self, exit: Exit) -> bool {
        // A shell, and programs that put things in order first, tell a signal by a status.
        self.was_terminated && matches!(exit, Exit::Signal(9 | 15) | Exit::Code(137 | 143))
    }

    /// Has it shown that it speaks its wire?
    fn is_proven(&self) -> bool {
        self.was_ready && !matches!(self.machine.proof(), Proof::None | Proof::Awaited)
    }

    /// Whether it has shown that, and if not, what it has said instead.
    fn proof(&self) -> LastWords {
        let is_unproven = !self.is_proven();
        let said = self.said.as_ref().filter(|_| is_unproven);
        let said = said.map_or(Bytes::new(), |said| Bytes::copy_from_slice(said));
        LastWords { is_unproven, said, ..LastWords::default() }
    }

    /// What the exit suggests, if it came before the process was of use.
    fn diagnosis(&self, exit: Exit) -> Option<String> {
        // One that ends well lacks nothing.
        let held_back = || match self.is_proven() || exit == Exit::Code(0) {
            true => None,
            false => diagnose::held_back(&self.held_back, self.tail.lines()),
        };
        diagnose::early_exit(exit).or_else(held_back)
    }

    /// What we found wrong with a process that lives on is told with what it said of late.
    pub(super) fn with_tail(&self, down: Down) -> Down {
        match down {
            Down::Done(Err(failure)) if wants_tail(&failure) => {
                let stderr = self.tail.lines().map(str::to_owned).collect();
                let words = failure.last_words.as_deref().cloned().unwrap_or_default();
                let LastWords { is_unproven, said, .. } = self.proof();
                let words = LastWords { stderr, is_unproven, said, ..words };
                Down::Done(Err(failure.with_last_words(words)))
            }
            Down::Done(Err(mut failure)) if !failure.from_peer && !self.is_proven() => {
                if let Some(words) = &mut failure.last_words {
                    let LastWords { is_unproven, said, .. } = self.proof();
                    (words.is_unproven, words.said) = (is_unproven, said);
                }
                Down::Done(Err(failure))
            }
            down => down,
        }
    }

    /// Calls that were never written may try another process; but only if this one had been
    /// ready, or knows why it was not, or a program that cannot start would be started for ever.
    /// One that was only slow did not die of what it was asked.
    fn move_on(&mut self) {
        self.asked_amiss |= self.machine.proof() == Proof::AskAnother && self.fault.is_none();
        if self.was_ready || self.asked_amiss {
            self.moving_on.extend(self.machine.take_unsent());
        }
    }

    fn part(&mut self, now: Instant, farewell: Farewell, order: &mut dyn FnMut(Order)) {
        let Patience { stop, signal, abrupt, .. } = self.patience;
        self.state = match (farewell, abrupt) {
            (Farewell::Goodbye, _) if self.close(now) == Goodbye::Asked => {
                RunState::Parting { until: now + stop }
            }
            (Farewell::Goodbye | Farewell::Patient, _) if self.is_elsewhere => {
                return self.terminate(now, order);
            }
            (Farewell::Goodbye | Farewell::Patient, _) => {
                order(Order::CloseStdin);
                RunState::Stopping { until: now + stop }
            }
            (Farewell::Abrupt, Abrupt::Terminate) => {
                order(Order::CloseStdin);
                order(Order::Terminate);
                self.was_terminated = true;
                RunState::Terminated { until: now + signal }
            }
            (Farewell::Abrupt, Abrupt::Kill) => {
                self.was_killed = true;
                self.was_terminated = true;
                order(Order::Kill);
                RunState::Killed { until: now + signal }
            }
        };
    }

    fn close(&mut self, now: Instant) -> Goodbye {
        self.machine.close(now, self.patience.stop)
    }

    /// The goodbye was answered, or waited for long enough.
    fn close_stdin(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        if self.is_elsewhere {
            return self.terminate(now, order);
        }
        order(Order::CloseStdin);
        self.state = RunState::Stopping { until: now + self.patience.signal };
    }
}

impl<C> Run<C> {
    fn terminate(&mut self, now: Instant, order: &mut dyn FnMut(Order)) {
        self.was_terminated = true;
        order(Order::Terminate);
        self.state = RunState::Terminated { until: now + self.patience.signal };
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
