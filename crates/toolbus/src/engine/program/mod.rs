//! A back that is a program: the hands of a [`Supervisor`], whatever wire the program speaks.
//!
//! The supervisor decides; here its orders are carried out and what happens to the process is
//! told to it. One task a process moves its bytes, one reads its standard error, one waits
//! for its end, and one keeper for all of them looks at the clock.

#[cfg(feature = "quic")]
mod apart;
mod handle;
mod tasks;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolbus_proto::channel::{Calling, Channel, Down, Notice, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::child::stderr::SHOWN;
use crate::child::supervisor::{Order, RunId, Supervisor};
use crate::child::{Process, Program, Signal};
use crate::engine::alarm::{Alarm, Woken};
use crate::engine::calls::{Answerer, Answers, Calls, Pressure, ReplyTo, RunningCall, Sharing};
use crate::engine::drive::{Closing, Forwarded};
use crate::engine::lane::Lane;
use crate::engine::moment::Moment;
use crate::task::spawn_local;
use crate::transport::account::{Account, Charge, CutOff};
use crate::wake::turn;
#[cfg(feature = "quic")]
pub(crate) use apart::{Apart, ApartOptions, Life};
use handle::ChildHandle;

/// A program behind the bus. Dropping it kills the process and ends its calls.
pub(crate) struct Child<C: Calling + Channel + 'static> {
    inner: Rc<Inner<C>>,
    keeper: JoinHandle<()>,
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
    this: Weak<Inner<C>>,
    name: String,
    program: Program,
    supervisor: RefCell<Supervisor<C>>,
    calls: Calls,
    /// How many processes have been started.
    starts: Cell<u64>,
    shown: Cell<Shown>,
    /// What waits for the processes and for whom they wait: mostly there is one.
    lane: Rc<Lane>,
    account: Account,
    /// What the machines keep.
    kept: Charge,
    /// When something was said that no process has heard yet.
    moment: Moment,
    /// The processes that have not been forgotten yet.
    hands: RefCell<HashMap<RunId, Rc<ChildHandle>>>,
    alarm: Alarm,
    /// Told when a process has been forgotten.
    gone: Notify,
}

impl<C: Calling + Channel + 'static> Child<C> {
    /// Starts nothing yet. Must be called inside a `LocalSet` or a local runtime.
    pub(crate) fn new(
        name: String,
        program: Program,
        sharing: Sharing,
        mut supervisor: Supervisor<C>,
    ) -> Child<C> {
        supervisor.set_held_back(program.held_back());
        let account = Account::new(format!("`{name}`"));
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            calls: Calls::new(name.clone(), sharing),
            lane: Rc::new(Lane::new(&account)),
            kept: Charge::on(&account),
            account: account.clone(),
            moment: Moment::default(),
            name,
            program,
            supervisor: RefCell::new(supervisor),
            starts: Cell::new(0),
            shown: Cell::new(Shown::Log),
            hands: RefCell::default(),
            alarm: Alarm::default(),
            gone: Notify::new(),
        });
        let end: Weak<Inner<C>> = Rc::downgrade(&inner);
        account.on_cut(end);
        let keeper = spawn_local(keep(Rc::downgrade(&inner)));
        Child { inner, keeper }
    }

    /// Its standard error is not only logged: people are shown each line, as `shown` makes it.
    pub(crate) fn show_stderr(&self, shown: fn(&str) -> String) {
        self.inner.shown.set(Shown::People(shown));
    }

    /// Its standard error and the warnings about it are told to those who listen and to no other:
    /// they show them to people, and know what of it may be shown.
    pub(crate) fn tell_listeners_only(&self) {
        self.inner.shown.set(Shown::Listeners);
        self.inner.calls.keep_warnings();
    }

    /// Calls this with all that the program tells besides answers, the lines of its standard
    /// error among it.
    pub(crate) fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.inner.calls.listen(hear);
    }

    pub(crate) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let account = &self.inner.account;
        if account.is_full() {
            let _ = down.send(Down::Done(Err(account.refusal())));
            return RunningCall::ended();
        }
        let ticket = self.inner.calls.insert(down);
        self.inner.act(|supervisor, now| supervisor.call(now, ticket, call));
        self.inner.wake();
        RunningCall::new(self.inner.clone(), ticket)
    }

    pub(crate) async fn shutdown(&self) {
        self.inner.act(Supervisor::stop);
        // The goodbye has to be written, and its answer may be awaited.
        self.inner.wake();
        loop {
            let gone = self.inner.gone.notified();
            if self.inner.supervisor.borrow().is_idle() {
                return;
            }
            gone.await;
        }
    }

    /// Calls this whenever the program says that its tools have changed.
    pub(crate) fn watch(&self, changed: Rc<dyn Fn()>) {
        self.inner.calls.watch(changed);
    }

    /// How often it was started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.inner.starts.get().saturating_sub(1)
    }

    /// Each step of the goodbye takes at most `limit` from now on.
    pub(crate) fn hurry(&self, limit: Duration) {
        self.inner.supervisor.borrow_mut().hurry(limit);
    }

    pub(crate) fn kill(&self) {
        self.inner.act(Supervisor::stop_at_once);
    }
}

impl<C: Calling + Channel + 'static> Drop for Child<C> {
    fn drop(&mut self) {
        self.keeper.abort();
        for hand in self.inner.hands.take().into_values() {
            hand.let_go();
        }
        let message = format!("`{}` was let go", self.inner.name);
        self.inner.calls.end_all(&Failure::new(FailureKind::Cancelled, message));
    }
}

impl<C: Calling + Channel + 'static> Inner<C> {
    /// Tells the supervisor something and does what that makes necessary.
    fn act(&self, tell: impl FnOnce(&mut Supervisor<C>, Instant)) {
        self.act_at(Instant::now(), tell);
    }

    fn act_at(&self, now: Instant, tell: impl FnOnce(&mut Supervisor<C>, Instant)) {
        tell(&mut self.supervisor.borrow_mut(), now);
        self.weigh();
        if self.settle() == Forwarded::EnoughForNow {
            self.alarm.ring();
        }
    }

    /// Counts what the machines keep.
    fn weigh(&self) {
        self.kept.set_unread(self.supervisor.borrow().weight());
    }

    /// Does whatever the supervisor wants done. Nothing stays borrowed meanwhile: a reply may
    /// make its caller ask again at once.
    fn settle(&self) -> Forwarded {
        let mut passed = self.deliver();
        loop {
            let order = self.supervisor.borrow_mut().poll_order();
            let Some((run, order)) = order else { break };
            self.carry_out(run, order);
            if passed != Forwarded::EnoughForNow {
                passed = passed.max(self.deliver());
            }
        }
        if self.supervisor.borrow_mut().take_ready() {
            tracing::info!(peer = self.name, "ready");
        }
        self.alarm.set(self.supervisor.borrow().poll_timeout());
        passed
    }

    fn deliver(&self) -> Forwarded {
        self.calls.deliver(self, Some(&self.lane))
    }

    fn carry_out(&self, run: RunId, order: Order) {
        if order == Order::Spawn {
            return self.spawn(run);
        }
        let Some(hand) = self.hands.borrow().get(&run).cloned() else { return };
        match order {
            Order::Spawn => {}
            Order::CloseStdin => hand.close_stdin(Closing::AfterWriting),
            Order::Terminate => hand.signal(Signal::Term),
            Order::Kill => hand.signal(Signal::Kill),
            Order::LookAtSession => {
                let is_left = hand.process.borrow().as_ref().is_some_and(Process::session_left);
                self.supervisor.borrow_mut().handle_session(Instant::now(), run, is_left);
            }
            Order::Forget => {
                self.hands.borrow_mut().remove(&run);
                hand.let_go();
                self.gone.notify_waiters();
            }
        }
    }

    fn spawn(&self, run: RunId) {
        let started = Process::spawn(&self.program).map_err(|error| error.to_failure());
        let hand = started.and_then(|process| {
            ChildHandle::new(process, &self.account).map_err(|error| {
                let message = format!("cannot watch `{}`: {error}", self.name);
                Failure::new(FailureKind::Unavailable, message)
            })
        });
        // Nothing is started for a back that is being dropped.
        let Some(this) = self.this.upgrade() else { return };
        match hand {
            Ok((hand, ends)) => {
                let id = hand.process.borrow().as_ref().map(Process::pid);
                let starts = self.starts.get();
                self.starts.set(starts + 1);
                let again = if 0 < starts { " again" } else { "" };
                tracing::info!(peer = self.name, "started{again}, process {}", id.unwrap_or(0));
                tasks::begin(&this, run, &hand, ends);
                self.hands.borrow_mut().insert(run, hand);
            }
            Err(failure) => {
                let now = Instant::now();
                self.supervisor.borrow_mut().handle_spawn_failed(now, run, &failure);
            }
        }
    }

    /// The program wrote these lines to its standard error.
    fn stderr(&self, lines: Vec<String>) {
        let peer = &*self.name;
        for line in lines {
            match self.shown.get() {
                Shown::People(shown) => tracing::warn!(target: SHOWN, peer, "{}", shown(&line)),
                Shown::Log => tracing::info!(peer, "{line}"),
                Shown::Listeners => {}
            }
            self.calls.hear(&Notice::Stderr(line));
        }
    }

    /// Something new may have to be written, or may now be read: mostly there is one process,
    /// and one that is on its way out may still have callers.
    fn wake(&self) {
        self.hands.borrow().values().for_each(|hand| hand.wake.ring());
    }
}

impl<C: Calling + Channel + 'static> Answers for Inner<C> {
    fn poll_down(&self) -> Option<(Ticket, Down)> {
        self.supervisor.borrow_mut().poll_down()
    }

    fn poll_notice(&self) -> Option<Notice> {
        self.supervisor.borrow_mut().poll_notice()
    }

    fn up(&self, ticket: Ticket, up: Up) {
        self.supervisor.borrow_mut().up(Instant::now(), ticket, &up);
    }
}

/// The process takes too much, and reads none of it: it has to go.
impl<C: Calling + Channel + 'static> CutOff for Inner<C> {
    fn cut_off(&self, why: &Failure) {
        self.act(|supervisor, now| supervisor.cut_off(now, why));
        self.wake();
    }
}

impl<C: Calling + Channel + 'static> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.calls.cancelled(ticket);
        }
        let room = self.calls.sent(ticket, up.weight(), &self.lane);
        // Who has not been started yet has no turn that would end the moment.
        let now = match self.hands.borrow().is_empty() {
            true => Instant::now(),
            false => self.moment.now(Instant::now),
        };
        self.act_at(now, |supervisor, now| supervisor.up(now, ticket, &up));
        self.wake();
        room
    }

    fn resume(&self, ticket: Ticket) {
        self.calls.go_on(ticket);
        self.wake();
    }
}

/// Looks at the clock for all processes of one back, and after callers who had their turn.
async fn keep<C: Calling + Channel + 'static>(inner: Weak<Inner<C>>) {
    loop {
        let Some(held) = inner.upgrade() else { return };
        let timeout = held.supervisor.borrow().poll_timeout();
        match held.alarm.wait(timeout).await {
            Woken::Due => {
                held.act(Supervisor::handle_timeout);
                held.wake();
            }
            Woken::Rung => {
                turn().await;
                held.lane.turn_passed();
                held.settle();
            }
        }
    }
}
