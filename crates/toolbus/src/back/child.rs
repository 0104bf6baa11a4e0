//! A back that is a program: the hands of a [`Supervisor`], whatever wire the program speaks.
//!
//! The supervisor decides; here its orders are carried out and what happens to the process is
//! told to it. One task a process moves its bytes, one reads its standard error, one waits
//! for its end, and one keeper for all of them looks at the clock.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags};
use tokio::task::{JoinHandle, spawn_local};
use toolbus_proto::channel::{Calling, Flow, Outbox, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::child::supervisor::{Order, RunId, Supervisor};
use crate::child::{Process, Program, Signal};
use crate::link::{Answerer, Room, Slot, Slots, Uplink};
use crate::pump;
use crate::pump::reactor::{Closing, Driven, drive, until};
use crate::pump::wake::Wake;
use crate::transport::pipe::{Input, Output, Watch};

/// A program behind the bus.
pub(crate) struct Child<C: Calling + 'static> {
    inner: Rc<Inner<C>>,
    keeper: JoinHandle<()>,
}

struct Inner<C: Calling + 'static> {
    this: Weak<Inner<C>>,
    name: String,
    program: Program,
    supervisor: RefCell<Supervisor<C>>,
    slots: Slots,
    /// The processes that have not been forgotten yet.
    hands: RefCell<HashMap<RunId, Rc<Hand>>>,
    /// When the keeper will look at the clock. Rung when that must be earlier.
    armed: Cell<Option<Instant>>,
    bell: Wake,
    /// Rung when a process has been forgotten.
    gone: Wake,
}

/// What we hold of one process.
struct Hand {
    process: RefCell<Process>,
    wake: Wake,
    closing: Cell<Closing>,
    /// A second hold on its output, in order to look whether it has ended.
    stdout: OwnedFd,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl<C: Calling + 'static> Child<C> {
    /// Starts nothing yet. Must be called inside a `LocalSet` or a local runtime.
    pub(crate) fn new(name: String, program: Program, supervisor: Supervisor<C>) -> Child<C> {
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            name,
            program,
            supervisor: RefCell::new(supervisor),
            slots: Slots::default(),
            hands: RefCell::default(),
            armed: Cell::new(None),
            bell: Wake::default(),
            gone: Wake::default(),
        });
        let keeper = spawn_local(keep(Rc::downgrade(&inner)));
        Child { inner, keeper }
    }

    pub(crate) fn start(&self, call: Call, down: Slot) -> Uplink {
        let ticket = self.inner.slots.insert(down);
        self.inner.act(|supervisor, now| supervisor.call(now, ticket, call));
        self.inner.wake_current();
        Uplink::new(self.inner.clone(), ticket)
    }

    pub(crate) async fn shutdown(&self) {
        self.inner.act(super::super::child::supervisor::Supervisor::stop);
        while !self.inner.supervisor.borrow().is_idle() {
            self.inner.gone.rung().await;
        }
    }

    pub(crate) fn kill(&self) {
        self.inner.act(super::super::child::supervisor::Supervisor::stop_at_once);
    }
}

impl<C: Calling + 'static> Drop for Child<C> {
    fn drop(&mut self) {
        self.keeper.abort();
        // The processes end with their hands: killed and reaped at once, the last resort.
        for (_, hand) in self.inner.hands.borrow_mut().drain() {
            hand.stop_tasks();
        }
    }
}

impl<C: Calling + 'static> Inner<C> {
    /// Tells the supervisor something and does what that makes necessary.
    fn act<T>(&self, tell: impl FnOnce(&mut Supervisor<C>, Instant) -> T) -> T {
        let told = tell(&mut self.supervisor.borrow_mut(), Instant::now());
        self.settle();
        told
    }

    fn settle(&self) {
        loop {
            // Nothing stays borrowed: a reply may make its caller ask again at once.
            let notice = self.supervisor.borrow_mut().poll_notice();
            if let Some(notice) = notice {
                pump::log(&self.name, &notice);
                continue;
            }
            let down = self.supervisor.borrow_mut().poll_down();
            if let Some((ticket, down)) = down {
                let _ = self.slots.deliver(ticket, down);
                continue;
            }
            let order = self.supervisor.borrow_mut().poll_order();
            let Some((run, order)) = order else { break };
            self.carry_out(run, order);
        }
        let timeout = self.supervisor.borrow().poll_timeout();
        if timeout.is_some_and(|timeout| self.armed.get().is_none_or(|armed| timeout < armed)) {
            self.bell.ring();
        }
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
            Order::LookAtGroup => {
                let is_left = hand.process.borrow().group_left();
                self.supervisor.borrow_mut().handle_group(Instant::now(), run, is_left);
            }
            Order::Forget => {
                hand.process.borrow_mut().finish();
                hand.stop_tasks();
                self.hands.borrow_mut().remove(&run);
                self.gone.ring();
            }
        }
    }

    fn spawn(&self, run: RunId) {
        let started = Process::spawn(&self.program).map_err(|error| error.to_failure());
        let hand = started.and_then(|process| {
            Hand::new(process).map_err(|error| {
                let message = format!("cannot watch `{}`: {error}", self.name);
                Failure::new(FailureKind::Unavailable, message)
            })
        });
        // Nobody starts anything for a back that is being dropped.
        let Some(this) = self.this.upgrade() else { return };
        match hand {
            Ok((hand, ends)) => {
                let conversation = Conversation { inner: this.clone(), run, hand: hand.clone() };
                let (stdout, stdin) = ends.io;
                let tasks = [
                    spawn_local(async move { drive(&conversation, stdout, stdin).await }),
                    spawn_local(read_stderr(this.clone(), run, ends.stderr)),
                    spawn_local(await_exit(this, run, hand.clone(), ends.exit)),
                ];
                hand.tasks.borrow_mut().extend(tasks);
                self.hands.borrow_mut().insert(run, hand);
            }
            Err(failure) => {
                let now = Instant::now();
                self.supervisor.borrow_mut().handle_spawn_failed(now, run, &failure);
            }
        }
    }

    /// Something new may have to be written to the process that takes calls.
    fn wake_current(&self) {
        let current = self.supervisor.borrow().current().map(|(run, _)| run);
        if let Some(run) = current
            && let Some(hand) = self.hands.borrow().get(&run)
        {
            hand.wake.ring();
        }
    }
}

impl<C: Calling + 'static> Answerer for Inner<C> {
    fn send(&self, ticket: Ticket, up: Up) -> Room {
        self.act(|supervisor, now| supervisor.up(now, ticket, &up));
        self.wake_current();
        Room::Enough
    }

    fn resume(&self, _ticket: Ticket) {}
}

impl Hand {
    fn new(mut process: Process) -> io::Result<(Rc<Hand>, Ends)> {
        let missing = || io::Error::other("a pipe was taken already");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let exit = Watch::new(process.exit_fd())?;
        let hand = Hand {
            stdout: stdout.try_clone()?,
            process: RefCell::new(process),
            wake: Wake::default(),
            closing: Cell::new(Closing::No),
            tasks: RefCell::default(),
        };
        let io = (Input::from_pipe(stdout)?, Output::from_pipe(stdin)?);
        let stderr = Input::from_pipe(stderr)?;
        Ok((Rc::new(hand), Ends { io, stderr, exit }))
    }

    fn close_stdin(&self, closing: Closing) {
        if self.closing.get() != Closing::Now {
            self.closing.set(closing);
            self.wake.ring();
        }
    }

    fn signal(&self, signal: Signal) {
        self.close_stdin(Closing::Now);
        self.process.borrow().signal_group(signal);
    }

    fn stop_tasks(&self) {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}

/// What the tasks of one process hold.
struct Ends {
    io: (Input, Output),
    stderr: Input,
    exit: Watch,
}

/// The bytes of one process, as the pump sees them.
struct Conversation<C: Calling + 'static> {
    inner: Rc<Inner<C>>,
    run: RunId,
    hand: Rc<Hand>,
}

impl<C: Calling + 'static> Driven for Conversation<C> {
    fn bytes(&self, _now: Instant, input: &mut BytesMut) -> Flow {
        self.inner.act(|supervisor, now| supervisor.handle_bytes(now, self.run, input))
    }

    fn eof(&self, _now: Instant, input: &mut BytesMut) -> Flow {
        self.inner.act(|supervisor, now| supervisor.handle_eof(now, self.run, input));
        self.hand.closing.set(Closing::Now);
        // Whoever was not written yet goes to another process.
        self.inner.wake_current();
        Flow::Close
    }

    /// The keeper looks at the clock for all processes.
    fn timeout(&self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn transmit(&self, out: &mut Outbox) {
        self.inner.supervisor.borrow_mut().poll_transmit(self.run, out);
        self.inner.settle();
    }

    fn wrote(&self, _left: usize) {}

    fn write_failed(&self, _now: Instant, _error: io::Error) -> Flow {
        self.inner.act(|supervisor, now| supervisor.handle_write_failed(now, self.run));
        self.inner.wake_current();
        // An answer it wrote before it went may still be in the pipe.
        Flow::More
    }

    fn closing(&self) -> Closing {
        self.hand.closing.get()
    }

    fn has_ended(&self) -> bool {
        let mut stdout = [PollFd::new(&self.hand.stdout, PollFlags::empty())];
        let polled = rustix::event::poll(&mut stdout, Some(&rustix::event::Timespec::default()));
        polled.is_ok() && stdout[0].revents().contains(PollFlags::HUP)
    }

    fn wake(&self) -> &Wake {
        &self.hand.wake
    }
}

async fn read_stderr<C: Calling + 'static>(inner: Rc<Inner<C>>, run: RunId, mut stderr: Input) {
    let mut bytes = BytesMut::new();
    let peer = inner.name.clone();
    let log = |line: &str| tracing::info!(peer, "{line}");
    while let Ok(1..) = stderr.read(&mut bytes).await {
        inner.supervisor.borrow_mut().handle_stderr(run, &bytes, log);
        bytes.clear();
    }
    inner.act(|supervisor, now| supervisor.handle_stderr_closed(now, run, log));
}

async fn await_exit<C: Calling + 'static>(
    inner: Rc<Inner<C>>,
    run: RunId,
    hand: Rc<Hand>,
    exit: Watch,
) {
    exit.ready().await;
    let (seen, group_left) = {
        let process = hand.process.borrow();
        (process.exit_seen(), process.group_left())
    };
    if let Some(seen) = seen {
        inner.act(|supervisor, now| supervisor.handle_exited(now, run, seen, group_left));
        inner.wake_current();
    }
}

/// Looks at the clock for all processes of one back.
async fn keep<C: Calling + 'static>(inner: Weak<Inner<C>>) {
    loop {
        let Some(held) = inner.upgrade() else { return };
        let timeout = held.supervisor.borrow().poll_timeout();
        held.armed.set(timeout);
        tokio::select! {
            () = until(timeout) => {
                held.act(super::super::child::supervisor::Supervisor::handle_timeout);
                held.wake_current();
            }
            () = held.bell.rung() => {}
        }
    }
}
