//! A back that is a program: a supervised process, and our end of the conversation with it,
//! whatever wire the program speaks.
//!
//! The supervisor decides; here its orders are carried out and what happens to the process is
//! told to it. One task a process moves its bytes, one reads its standard error, one waits
//! for its end, and one keeper for all of them looks at the clock.

mod conversation;
#[cfg(feature = "quic")]
mod detached;
mod processes;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Calling, Channel, Down, Notice, Ticket, Up};
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords};

use crate::account::{Account, CutOff};
use crate::child::stderr::SHOWN;
use crate::child::supervisor::{Conversations, Order, RunId, Supervisor};
use crate::child::{Pipes, Process, Program, SpawnError};
use crate::engine::calls::{Answerer, Answers, Calls, Pressure, ReplyTo, RunningCall, Sharing};
use crate::engine::drive::{Closing, Forwarded};
use crate::engine::lane::Lane;
use conversation::Conversation;
#[cfg(feature = "quic")]
pub use detached::{DetachedOptions, DetachedProgram, Life};
use processes::{Owner, Processes};

/// A program behind the bus. Dropping it kills the process and ends its calls.
pub struct Child<C: Calling + Channel + 'static> {
    inner: Rc<Inner<C>>,
}

/// Who sees the lines of a process's standard error, besides those who listen.
#[derive(Clone, Copy)]
enum Shown {
    /// The log.
    Log,
    /// People, in any case, as this makes each line.
    People(fn(&str) -> String),
    /// No other.
    Listeners,
}

struct Inner<C: Calling + Channel + 'static> {
    processes: Processes<Inner<C>>,
    conversations: RefCell<Conversations<C, Rc<RefCell<C>>>>,
    /// The joint of each conversation that is not over, the one that takes calls last.
    joints: RefCell<Vec<Rc<Conversation<C>>>>,
    calls: Calls,
    shown: Cell<Shown>,
    /// The alarm is set by what the supervisor has heard until then.
    alarm_set_at: Cell<u64>,
    account: Account,
}

impl<C: Calling + Channel + 'static> Child<C> {
    /// Starts nothing yet; `make` gives our end of each new conversation. Must be called inside
    /// a `LocalSet` or a local runtime.
    pub fn new(
        name: String,
        program: Program,
        sharing: Sharing,
        mut supervisor: Supervisor,
        make: impl FnMut() -> C + Send + 'static,
    ) -> Child<C> {
        supervisor.set_held_back(program.held_back());
        let account = Account::new(format!("`{name}`"));
        let unspawned = Box::new(SpawnError::to_failure);
        let inner = Rc::new_cyclic(|this| Inner {
            calls: Calls::new(name.clone(), sharing),
            processes: Processes::new(this.clone(), name, program, Pipes::All, unspawned),
            conversations: RefCell::new(Conversations::new(supervisor, make)),
            joints: RefCell::default(),
            shown: Cell::new(Shown::Log),
            alarm_set_at: Cell::new(0),
            account: account.clone(),
        });
        let end: Weak<Inner<C>> = Rc::downgrade(&inner);
        account.on_cut(end);
        inner.processes.keep();
        Child { inner }
    }

    /// Its standard error is not only logged: people are shown each line, as `shown` makes it.
    pub fn show_stderr(&self, shown: fn(&str) -> String) {
        self.inner.shown.set(Shown::People(shown));
    }

    /// Its standard error and the warnings about it are told to those who listen and to no other:
    /// they show them to people, and know what of it may be shown.
    pub fn tell_listeners_only(&self) {
        self.inner.shown.set(Shown::Listeners);
        self.inner.calls.keep_warnings();
    }

    /// Calls this with all that the program tells besides answers, the lines of its standard
    /// error among it.
    pub fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.inner.calls.listen(hear);
    }

    /// Starts a call, and the program if it is not there.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let account = &self.inner.account;
        if account.is_full() {
            let refusal = match self.is_starting() {
                true => account.waiting_refusal(),
                false => account.refusal(),
            };
            let _ = down.send(Down::Done(Err(refusal)));
            return RunningCall::ended();
        }
        let ticket = self.inner.calls.insert(down);
        self.inner.say(|conversations| conversations.call(Instant::now(), ticket, call));
        self.inner.wake();
        RunningCall::new(self.inner.clone(), ticket)
    }

    /// Says goodbye to the program, and waits until nothing is left of it.
    pub async fn shutdown(&self) {
        // The goodbye has to be written, and its answer may be awaited.
        self.inner.act(Supervisor::stop);
        let is_idle = || self.inner.conversations.borrow().supervisor().is_idle();
        self.inner.processes.gone(is_idle).await;
    }

    /// Calls this whenever the program says that its tools have changed.
    pub fn watch(&self, changed: Rc<dyn Fn()>) {
        self.inner.calls.watch(changed);
    }

    /// The number of the process that takes calls, if there is one.
    pub fn run(&self) -> Option<u64> {
        self.inner.conversations.borrow().supervisor().current().map(|run| run.0)
    }

    /// How often it was started again.
    pub fn restarts(&self) -> u64 {
        self.inner.processes.restarts()
    }

    /// Is a process starting that has not shown yet that it is ready?
    pub fn is_starting(&self) -> bool {
        self.inner.conversations.borrow().supervisor().is_starting()
    }

    /// How the process ended that was started last, and what it said last, if it died.
    pub fn last_words(&self) -> Option<LastWords> {
        self.inner.processes.last_words()
    }

    /// Nothing was asked of it for long: it is told goodbye, and started again by the next call.
    /// Tells whether it was there.
    pub fn rest(&self) -> bool {
        let is_told = self.inner.act(Supervisor::rest);
        self.inner.processes.rests.set(self.inner.processes.rests.get() + u64::from(is_told));
        is_told
    }

    /// Each step of the goodbye takes at most `limit` from now on.
    pub fn hurry(&self, limit: Duration) {
        self.inner.tell(|supervisor, _| supervisor.hurry(limit));
    }

    /// Kills what is left of it.
    pub fn kill(&self) {
        self.inner.act(Supervisor::stop_at_once);
    }
}

impl<C: Calling + Channel + 'static> Drop for Child<C> {
    fn drop(&mut self) {
        self.inner.processes.let_go();
        for joint in self.inner.joints.take() {
            joint.let_go();
        }
        let message = format!("`{}` was let go", self.inner.processes.name);
        self.inner.calls.end_all(&Failure::new(FailureKind::Cancelled, message));
    }
}

impl<C: Calling + Channel + 'static> Inner<C> {
    /// Says something in the conversations, and does what that makes necessary.
    fn say(&self, say: impl FnOnce(&mut Conversations<C, Rc<RefCell<C>>>)) {
        say(&mut self.conversations.borrow_mut());
        let current = self.conversations.borrow().supervisor().current();
        if let Some(run) = current {
            self.joint(run);
        }
        for joint in &*self.joints.borrow() {
            joint.lanes.weigh(&joint.machine);
        }
        self.settle_last();
    }

    /// The joint of the conversation with this process, made if need be.
    fn joint(&self, run: RunId) -> Option<Rc<Conversation<C>>> {
        let found = self.joints.borrow().iter().rev().find(|joint| joint.run == run).cloned();
        found.or_else(|| {
            // None is made for a back that is being dropped.
            let joint = Conversation::new(self.processes.owner.upgrade()?, run);
            self.joints.borrow_mut().push(joint.clone());
            Some(joint)
        })
    }

    fn settle_last(&self) {
        let lane = self.joints.borrow().last().map(|joint| joint.lanes.only.clone());
        if self.settle_on(lane.as_ref()) == Forwarded::EnoughForNow {
            self.processes.alarm.ring();
        }
    }

    /// Does whatever the machines and the supervisor want done; answers may have come on `lane`.
    /// Nothing stays borrowed meanwhile: a reply may make its caller ask again at once.
    fn settle_on(&self, lane: Option<&Rc<Lane>>) -> Forwarded {
        let mut passed = self.calls.deliver(self, lane);
        loop {
            let order = self.conversations.borrow_mut().poll_order();
            let Some((run, order)) = order else { break };
            self.carry_out(run, &order);
            if passed != Forwarded::EnoughForNow {
                passed = passed.max(self.calls.deliver(self, lane));
            }
        }
        if self.conversations.borrow_mut().take_ready() {
            tracing::info!(peer = self.processes.name, "ready");
        }
        self.set_alarm();
        passed
    }

    /// Has the keeper look at the clock in time. A conversation that is driven does so itself, so
    /// that a message which is no news to the supervisor moves nothing.
    fn set_alarm(&self) {
        let moves = self.conversations.borrow().supervisor().moves();
        let are_driven = self.joints.borrow().iter().all(|joint| joint.is_driven());
        if self.alarm_set_at.replace(moves) != moves || !are_driven {
            self.processes.alarm.set(self.poll_timeout());
        }
    }

    fn carry_out(&self, run: RunId, order: &Order) {
        let joint = self.joints.borrow().iter().find(|joint| joint.run == run).cloned();
        match (order, joint) {
            (Order::CloseStdin, Some(joint)) => joint.close_stdin(Closing::AfterWriting),
            (Order::Terminate | Order::Kill, Some(joint)) => joint.close_stdin(Closing::Now),
            (Order::Forget, Some(joint)) => {
                self.joints.borrow_mut().retain(|joint| joint.run != run);
                joint.let_go();
            }
            _ => {}
        }
        self.processes.carry_out(run, order);
    }

    /// Something new may have to be written, or may now be read: mostly there is one process,
    /// and one that is on its way out may still have callers.
    fn wake(&self) {
        self.joints.borrow().iter().for_each(|joint| joint.lanes.only.wake.ring());
    }
}

impl<C: Calling + Channel + 'static> Owner for Inner<C> {
    fn processes(&self) -> &Processes<Inner<C>> {
        &self.processes
    }

    fn tell<T>(&self, tell: impl FnOnce(&mut Supervisor, Instant) -> T) -> T {
        let now = Instant::now();
        self.conversations.borrow_mut().act(now, |supervisor| tell(supervisor, now))
    }

    fn settle(&self) {
        self.settle_last();
        self.wake();
    }

    fn turn_passed(&self) {
        self.joints.borrow().iter().for_each(|joint| joint.lanes.only.turn_passed());
    }

    /// The loops of those that are spoken to look at the clock for their machines.
    fn poll_timeout(&self) -> Option<Instant> {
        let joints = self.joints.borrow();
        let alone = joints.iter().filter(|joint| !joint.is_driven());
        let machines = alone.filter_map(|joint| joint.machine.borrow().poll_timeout());
        machines.chain(self.conversations.borrow().supervisor().poll_timeout()).min()
    }

    fn time_passed(&self) {
        self.say(|conversations| conversations.handle_timeout(Instant::now()));
        self.wake();
    }

    fn begin(&self, run: RunId, process: &mut Process) -> io::Result<()> {
        self.joint(run).map_or(Ok(()), |joint| joint.begin(process))
    }

    fn spawned(&self, _run: RunId, pid: i32) {
        let again = if 0 < self.processes.restarts() { " again" } else { "" };
        tracing::info!(peer = self.processes.name, "started{again}, process {pid}");
    }

    fn lines(&self, _run: RunId, lines: Vec<String>) {
        let peer = &*self.processes.name;
        for line in lines {
            match self.shown.get() {
                Shown::People(shown) => tracing::warn!(target: SHOWN, peer, "{}", shown(&line)),
                Shown::Log => tracing::info!(peer, "{line}"),
                Shown::Listeners => {}
            }
            self.processes.has_said(&line);
            self.calls.hear(&Notice::Stderr(line));
        }
    }

    fn exited(&self, run: RunId, exit: Exit) {
        let is_ours = self.conversations.borrow().supervisor().is_our_doing(run, exit);
        match is_ours {
            true => tracing::info!(peer = self.processes.name, "ended, as we asked"),
            false => {
                self.processes.has_died(exit);
                tracing::info!(peer = self.processes.name, "ended with {exit}");
            }
        }
    }
}

impl<C: Calling + Channel + 'static> Answers for Inner<C> {
    fn poll_down(&self) -> Option<(Ticket, Down)> {
        self.conversations.borrow_mut().poll_down()
    }

    fn poll_notice(&self) -> Option<Notice> {
        self.conversations.borrow_mut().poll_notice()
    }

    fn up(&self, ticket: Ticket, up: Up) {
        self.conversations.borrow_mut().up(Instant::now(), ticket, &up);
    }
}

/// The process takes too much, and reads none of it: it has to go.
impl<C: Calling + Channel + 'static> CutOff for Inner<C> {
    fn cut_off(&self, why: &Failure) {
        self.act(|supervisor, now| supervisor.cut_off(now, why));
    }
}

impl<C: Calling + Channel + 'static> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.calls.cancelled(ticket);
        }
        let joint = self.joints.borrow().last().cloned();
        let room = joint.as_ref().map_or(Pressure::Ready, |joint| {
            self.calls.sent(ticket, up.weight(), &joint.lanes.only)
        });
        // Who has not been started yet has no turn that would end the moment.
        let now = match joint.filter(|joint| joint.is_driven()) {
            Some(joint) => joint.lanes.moment.now(Instant::now),
            None => Instant::now(),
        };
        self.say(|conversations| conversations.up(now, ticket, &up));
        self.wake();
        room
    }

    fn resume(&self, ticket: Ticket) {
        self.calls.go_on(ticket);
        self.wake();
    }
}
