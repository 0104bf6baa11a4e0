//! Keeps a program alive for its callers: when to start it, when to part from it, what to
//! tell callers that waited. Pure decisions: what is to be spawned, signalled and reaped
//! leaves as [`Order`]s.
//!
//! Each life of the program is a `Run`: one process, one conversation. At most one run
//! takes calls; others are on their way out and end by themselves. A call that died with its
//! process is never repeated; one that was not yet written moves on to the next run.
//!
//! A program may also be spoken to elsewhere, over connections: [`Elsewhere`].

mod elsewhere;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Calling, Channel, Down, Flow, Notice, Outbox, Ticket, Up};
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind};

use super::{Meanwhile, Patience};
use run::Run;

pub use elsewhere::{Departure, Elsewhere, Next, Why};

/// Names one life of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// Knows by what a process has written to its standard output and its standard error, and by how
/// it ended, that it speaks another wire than the one it is spoken to in.
pub type Judge = Arc<dyn Fn(&[u8], &[&str], Option<Exit>) -> bool + Send + Sync>;

/// What the hands are to do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Start the process.
    Spawn,
    /// Close its input, once what waits to be written is written.
    CloseStdin,
    /// SIGTERM to the session.
    Terminate,
    /// SIGKILL to the session.
    Kill,
    /// Look whether its session has living members, and say so by [`Supervisor::handle_session`].
    LookAtSession,
    /// Reap it and forget it.
    Forget,
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

/// Keeps one program alive for its callers.
pub struct Supervisor<C> {
    /// What people call the program.
    name: String,
    make: Box<dyn FnMut() -> C + Send>,
    patience: Patience,
    restart: Restart,
    /// Those of our environment variables that it does not get.
    held_back: Arc<[String]>,
    judge: Option<Judge>,
    runs: Vec<(RunId, Run<C>)>,
    next_run: u64,
    starts_failed: u32,
    /// A failing program is not started before this.
    not_before: Option<Instant>,
    /// How often it was away without having served for long in between.
    absences: u32,
    /// When it is started again by itself.
    restart_at: Option<Instant>,
    /// It is spoken to over connections, not over its pipes.
    is_elsewhere: bool,
    departures: VecDeque<Departure>,
    stopping: bool,
    /// A program has become ready, and that was not told yet.
    is_newly_ready: bool,
    downs: VecDeque<(Ticket, Down)>,
    notices: VecDeque<Notice>,
    orders: VecDeque<(RunId, Order)>,
}

impl<C: Calling + Channel> Supervisor<C> {
    /// Starts nothing yet: the first call does. `make` gives our end of each new conversation.
    pub fn new(
        name: impl Into<String>,
        patience: Patience,
        restart: Restart,
        make: impl FnMut() -> C + Send + 'static,
    ) -> Supervisor<C> {
        Supervisor {
            name: name.into(),
            make: Box::new(make),
            patience,
            restart,
            held_back: Arc::default(),
            judge: None,
            runs: Vec::new(),
            next_run: 0,
            starts_failed: 0,
            not_before: None,
            absences: 0,
            restart_at: None,
            is_elsewhere: false,
            departures: VecDeque::new(),
            stopping: false,
            is_newly_ready: false,
            downs: VecDeque::new(),
            notices: VecDeque::new(),
            orders: VecDeque::new(),
        }
    }

    /// Did the process end by a signal of ours?
    pub fn is_our_doing(&self, id: RunId, exit: Exit) -> bool {
        self.find(id).is_some_and(|at| self.runs[at].1.is_our_doing(exit))
    }

    /// Has a program become ready since this was last asked?
    pub fn take_ready(&mut self) -> bool {
        std::mem::take(&mut self.is_newly_ready)
    }

    /// Those of our environment variables that the program does not get: if it dies at its start,
    /// the user is told of them.
    pub fn set_held_back(&mut self, names: Vec<String>) {
        self.held_back = names.into();
    }

    /// A process of which `judge` says so is left at once: it is asked nothing more, and its calls
    /// end with what it has said.
    pub fn set_judge(&mut self, judge: Judge) {
        self.judge = Some(judge);
    }

    /// Asks; starts the program if it does not run.
    pub fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        match self.current_or_start(now) {
            Ok(at) => {
                self.runs[at].1.machine.call(now, ticket, call);
                self.settle(now, at);
            }
            Err(failure) => self.downs.push_back((ticket, Down::Done(Err(failure)))),
        }
    }

    /// Starts the program if it does not run, without a call.
    pub fn wake(&mut self, now: Instant) -> Result<RunId, Failure> {
        self.current_or_start(now).map(|at| self.runs[at].0)
    }

    /// Goes on with a call that runs.
    pub fn up(&mut self, now: Instant, ticket: Ticket, up: &Up) {
        for at in (0..self.runs.len()).rev() {
            self.runs[at].1.machine.up(now, ticket, up.clone());
            self.settle(now, at);
        }
    }

    /// No call will follow: says goodbye to every process that runs, and cancels what is under way.
    pub fn stop(&mut self, now: Instant) {
        self.stopping = true;
        self.restart_at = None;
        self.each(now, |run, orders| run.stop(now, orders));
    }

    /// Each step of a goodbye that begins after this takes at most `limit`.
    pub fn hurry(&mut self, limit: Duration) {
        self.patience = self.patience.at_most(limit);
        self.runs.iter_mut().for_each(|(_, run)| run.set_patience(self.patience));
    }

    /// The patience is over: kills every process that is left.
    pub fn stop_at_once(&mut self, now: Instant) {
        self.stopping = true;
        self.restart_at = None;
        self.each(now, |run, orders| run.kill(now, orders));
    }

    /// The program takes more than there is room for: its calls end with `why`, and the process
    /// has to go. The next call may start another.
    pub fn cut_off(&mut self, now: Instant, why: &Failure) {
        self.each(now, |run, orders| run.cut_off(now, why, orders));
    }

    /// What our ends of its conversations keep for it.
    pub fn weight(&self) -> usize {
        self.runs.iter().map(|(_, run)| run.machine.weight()).sum()
    }

    /// Is no process left?
    pub fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }

    /// Our end of the conversation that takes calls, if there is one.
    pub fn current(&self) -> Option<(RunId, &C)> {
        let (id, run) = self.runs.last()?;
        run.takes_calls().then_some((*id, &run.machine))
    }

    /// The program could not be started.
    pub fn handle_spawn_failed(&mut self, now: Instant, id: RunId, failure: &Failure) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.spawn_failed(now, failure);
        self.settle(now, at);
    }

    /// Bytes arrived from the program.
    pub fn handle_bytes(&mut self, now: Instant, id: RunId, input: &mut BytesMut) -> Flow {
        let Some(at) = self.find(id) else { return Flow::Close };
        let run = &mut self.runs[at].1;
        let flow = run.bytes(now, input);
        run.be_judged(now, &mut orders(id, &mut self.orders));
        self.settle(now, at);
        flow
    }

    /// The program closed its output.
    pub fn handle_eof(&mut self, now: Instant, id: RunId, input: &mut BytesMut) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.eof(now, input);
        self.settle(now, at);
    }

    /// The program wrote to its standard error; whole lines go to `log` as well.
    pub fn handle_stderr(&mut self, id: RunId, bytes: &[u8], log: impl FnMut(&str)) {
        if let Some(at) = self.find(id) {
            self.runs[at].1.stderr(bytes, log);
        }
    }

    /// Is there one who knows other wires by what a process says?
    pub fn has_judge(&self) -> bool {
        self.judge.is_some()
    }

    /// Leaves the process if what it said so far shows that it speaks another wire.
    pub fn be_judged(&mut self, now: Instant, id: RunId) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.be_judged(now, &mut orders(id, &mut self.orders));
        self.settle(now, at);
    }

    /// The program closed its standard error.
    pub fn handle_stderr_closed(&mut self, now: Instant, id: RunId, log: impl FnMut(&str)) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.stderr_closed(log);
        self.settle(now, at);
    }

    /// The process ended; `session_left` if members of its session live on.
    pub fn handle_exited(&mut self, now: Instant, id: RunId, exit: Exit, session_left: bool) {
        let Some(at) = self.find(id) else { return };
        let run = &mut self.runs[at].1;
        run.exited(now, exit, session_left, &mut orders(id, &mut self.orders));
        self.settle(now, at);
    }

    /// What was seen at [`Order::LookAtSession`].
    pub fn handle_session(&mut self, now: Instant, id: RunId, session_left: bool) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.session(now, session_left);
        self.settle(now, at);
    }

    /// Our writing to the program failed: it does not listen any more.
    pub fn handle_write_failed(&mut self, now: Instant, id: RunId) {
        let Some(at) = self.find(id) else { return };
        self.runs[at].1.deaf(now);
        self.settle(now, at);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.each(now, |run, orders| run.timeout(now, orders));
        if self.restart_at.is_some_and(|restart_at| restart_at <= now) {
            self.start(now);
        }
    }

    /// When to call [`Supervisor::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let runs = self.runs.iter().filter_map(|(_, run)| run.poll_timeout());
        runs.chain(self.restart_at).min()
    }

    /// What is to be written to this run.
    pub fn poll_transmit(&mut self, id: RunId, out: &mut Outbox) {
        let Some(at) = self.find(id) else { return };
        let machine = &mut self.runs[at].1.machine;
        machine.poll_transmit(out);
        // What cannot be said on the wire is refused when its turn comes.
        while let Some(down) = machine.poll_down() {
            self.downs.push_back(down);
        }
    }

    /// All that was to be written to this run has been written.
    pub fn handle_sent(&mut self, now: Instant, id: RunId) {
        if let Some(at) = self.find(id) {
            self.runs[at].1.machine.handle_sent(now);
        }
    }

    /// What comes back to the callers.
    pub fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop_front()
    }

    /// What is worth a line in the log.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// What the hands are to do next.
    pub fn poll_order(&mut self) -> Option<(RunId, Order)> {
        self.orders.pop_front()
    }

    fn find(&self, id: RunId) -> Option<usize> {
        self.runs.iter().position(|(found, _)| *found == id)
    }

    fn current_or_start(&mut self, now: Instant) -> Result<usize, Failure> {
        if self.stopping {
            let message = format!("`{}` is being stopped", self.name);
            return Err(Failure::new(FailureKind::Cancelled, message));
        }
        if let Some((_, run)) = self.runs.last()
            && run.takes_calls()
        {
            return Ok(self.runs.len() - 1);
        }
        if self.restart == Restart::Never && self.next_run > 0 {
            let message = format!("`{}` has ended and is not to be started again", self.name);
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        if let (Meanwhile::Refuse, Some(not_before)) = (self.patience.meanwhile, self.not_before)
            && now < not_before
        {
            let (name, starts) = (&self.name, self.starts_failed);
            let millis = not_before.duration_since(now).as_millis();
            let message =
                format!("`{name}` failed to start {starts} times; next try in {millis} ms");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        Ok(self.start(now))
    }

    fn start(&mut self, now: Instant) -> usize {
        let id = RunId(self.next_run);
        self.next_run += 1;
        self.restart_at = None;
        let put_off = self.not_before.map_or(now, |not_before| not_before.max(now));
        let (name, held_back) = (self.name.clone(), self.held_back.clone());
        let mut run = Run::new(name, self.patience, (self.make)(), held_back, put_off);
        run.set_elsewhere(self.is_elsewhere);
        run.set_judge(self.judge.clone());
        run.tell_departure(self.tells_departures());
        run.timeout(now, &mut orders(id, &mut self.orders));
        self.runs.push((id, run));
        self.runs.len() - 1
    }

    fn each(&mut self, now: Instant, act: impl Fn(&mut Run<C>, &mut dyn FnMut(Order))) {
        for at in (0..self.runs.len()).rev() {
            let (id, run) = &mut self.runs[at];
            act(run, &mut orders(*id, &mut self.orders));
            self.settle(now, at);
        }
    }

    /// Looks what the last event made of a run: passes on what its machine has to say, and
    /// buries it when it is over.
    fn settle(&mut self, now: Instant, at: usize) {
        let (id, run) = &mut self.runs[at];
        let id = *id;
        run.settle(now, &mut orders(id, &mut self.orders));
        self.notices.extend(run.take_notice());
        while let Some(notice) = run.machine.poll_notice() {
            self.notices.push_back(notice);
        }
        if run.became_ready() {
            self.is_newly_ready = true;
            self.starts_failed = 0;
            self.not_before = None;
        }
        let moving_on = run.take_moving_on();
        let is_over = run.is_over(now);
        let departed = run.take_departure(now);
        if let Some((why, last_words)) = departed {
            let served = run.served(now);
            let next = self.departed(now, served);
            self.departures.push_back(Departure { run: id, why, last_words, next });
        }
        let tells_departures = self.tells_departures();
        let run = &mut self.runs[at].1;
        if is_over {
            run.tell_the_waiting(now);
            // Where its departure is told, it was counted then.
            if run.failed_to_start() && !tells_departures {
                self.starts_failed += 1;
                self.not_before = Some(now + self.patience.back_off(self.starts_failed));
            }
        }
        while let Some((ticket, down)) = run.machine.poll_down() {
            self.downs.push_back((ticket, run.with_tail(down)));
        }
        if is_over {
            self.runs.remove(at);
            self.orders.push_back((id, Order::Forget));
        }
        for (ticket, call) in moving_on {
            self.call(now, ticket, call);
        }
    }
}

impl<C> Supervisor<C> {
    /// Which process became of no use; told of a program that is spoken to elsewhere, or started
    /// again by itself.
    pub fn poll_departure(&mut self) -> Option<Departure> {
        self.departures.pop_front()
    }

    fn tells_departures(&self) -> bool {
        self.is_elsewhere || matches!(self.restart, Restart::Always(_))
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
                    self.not_before = Some(now + self.patience.back_off(self.starts_failed));
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

/// Hands out the orders of one run.
fn orders(id: RunId, queue: &mut VecDeque<(RunId, Order)>) -> impl FnMut(Order) {
    move |order| queue.push_back((id, order))
}
