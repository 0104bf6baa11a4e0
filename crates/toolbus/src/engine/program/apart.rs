//! A program that is spoken to elsewhere, over connections: the hands of a supervisor that keeps
//! its process alive, reads its standard error to the end, and ends it with all that it started.
//!
//! Who owns it holds the conversation, and says how far that is.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use toolbus_proto::channel::Notice;
use toolbus_proto::tool::{Failure, FailureKind};

use crate::child::supervisor::{Departure, Elsewhere, Order, Restart, RunId, Supervisor};
use crate::child::{Patience, Process, Program, Signal, SpawnError};
use crate::engine;
use crate::engine::alarm::Alarm;
use crate::task::spawn_local;
use crate::transport::pipe::{Input, Watch};
use crate::wake::turn_after_stderr;

/// What becomes of a program.
#[derive(Debug)]
pub(crate) enum Life<'a> {
    /// It runs, as this process.
    Spawned(RunId, i32),
    /// It wrote a line to its standard error.
    Line(RunId, &'a str),
    /// The process is of no use any more.
    Departed(Departure),
    /// It was told to end, and nothing is left of it.
    Stopped,
}

/// What is run, and how it is kept.
pub(crate) struct ApartOptions {
    /// What people call it.
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) patience: Patience,
    pub(crate) restart: Restart,
    /// How it is told that the program cannot be run.
    pub(crate) unspawned: Box<dyn Fn(&SpawnError) -> Failure>,
}

/// A program that is kept alive. Dropping it kills every process that is left of it.
pub(crate) struct Apart {
    inner: Rc<Inner>,
    keeper: JoinHandle<()>,
}

struct Inner {
    this: Weak<Inner>,
    options: ApartOptions,
    supervisor: RefCell<Supervisor<Elsewhere>>,
    happened: Box<dyn Fn(Life<'_>)>,
    /// The processes that have not been forgotten yet.
    runs: RefCell<HashMap<RunId, Run>>,
    /// How many processes have been started.
    starts: Cell<u64>,
    /// It was told to end.
    is_stopping: Cell<bool>,
    gone: Notify,
    alarm: Alarm,
}

/// What we hold of one process. Dropping it kills what is left of its session, and reaps it.
struct Run {
    process: Process,
    tasks: [AbortHandle; 2],
}

impl Drop for Run {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Apart {
    /// Starts nothing yet. What becomes of it is told to `happened`; nothing is told any more
    /// once it is dropped. Must be called inside a `LocalSet`.
    pub(crate) fn new(options: ApartOptions, happened: impl Fn(Life<'_>) + 'static) -> Apart {
        let (patience, restart) = (options.patience, options.restart);
        let supervisor =
            Supervisor::new(options.name.clone(), patience, restart, Elsewhere::default);
        let inner = Rc::new_cyclic(|this| Inner {
            this: this.clone(),
            options,
            supervisor: RefCell::new(supervisor.elsewhere()),
            happened: Box::new(happened),
            runs: RefCell::default(),
            starts: Cell::new(0),
            is_stopping: Cell::new(false),
            gone: Notify::new(),
            alarm: Alarm::default(),
        });
        let keeper = spawn_local(keep(Rc::downgrade(&inner)));
        Apart { inner, keeper }
    }

    /// Starts it, unless it runs.
    pub(crate) fn wake(&self) -> Result<RunId, Failure> {
        self.inner.act(Supervisor::wake)
    }

    /// Its start came a step further: it has the time of a start once more.
    pub(crate) fn advance(&self, run: RunId) {
        self.inner.act(|supervisor, now| supervisor.handle_advance(now, run));
    }

    /// It has come up.
    pub(crate) fn open(&self, run: RunId) {
        self.inner.act(|supervisor, now| supervisor.handle_open(now, run));
    }

    /// This process is of no use: it has to go.
    pub(crate) fn break_off(&self, run: RunId, why: Failure) {
        self.inner.act(|supervisor, now| supervisor.handle_broken(now, run, why));
    }

    /// Makes it end. One that has come up is being asked to by its owner, and has time until
    /// [`Apart::end_goodbye`].
    pub(crate) fn stop(&self) {
        self.inner.is_stopping.set(true);
        self.inner.act(Supervisor::stop);
    }

    /// It was asked to end, and has answered or will not.
    pub(crate) fn end_goodbye(&self) {
        self.inner.act(Supervisor::handle_goodbye);
    }

    /// How often it was started again.
    pub(crate) fn restarts(&self) -> u64 {
        self.inner.starts.get().saturating_sub(1)
    }

    /// Waits until no process is left.
    pub(crate) async fn gone(&self) {
        loop {
            let gone = self.inner.gone.notified();
            if self.inner.supervisor.borrow().is_idle() {
                return;
            }
            gone.await;
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.keeper.abort();
        let runs = self.inner.runs.take();
        drop(runs);
    }
}

impl Inner {
    /// Tells the supervisor something and does what that makes necessary.
    fn act<T>(&self, tell: impl FnOnce(&mut Supervisor<Elsewhere>, Instant) -> T) -> T {
        let told = tell(&mut self.supervisor.borrow_mut(), Instant::now());
        self.settle();
        told
    }

    /// Nothing is borrowed while the owner hears of something: it may have an answer.
    fn settle(&self) {
        loop {
            let order = self.supervisor.borrow_mut().poll_order();
            let Some((run, order)) = order else { break };
            self.carry_out(run, order);
        }
        loop {
            let notice = self.supervisor.borrow_mut().poll_notice();
            let Some(notice) = notice else { break };
            if let Notice::Warning(_) | Notice::Waiting(_) = notice {
                engine::log(&self.options.name, &notice);
            }
        }
        loop {
            let departure = self.supervisor.borrow_mut().poll_departure();
            let Some(departure) = departure else { break };
            (self.happened)(Life::Departed(departure));
        }
        if self.supervisor.borrow().is_idle() && self.is_stopping.replace(false) {
            (self.happened)(Life::Stopped);
        }
        self.alarm.set(self.supervisor.borrow().poll_timeout());
    }

    fn carry_out(&self, run: RunId, order: Order) {
        let signal = |signal| {
            if let Some(run) = self.runs.borrow().get(&run) {
                run.process.signal_session(signal);
            }
        };
        match order {
            Order::Spawn => self.spawn(run),
            // It has none.
            Order::CloseStdin => {}
            Order::Terminate => signal(Signal::Term),
            Order::Kill => signal(Signal::Kill),
            Order::LookAtSession => {
                let runs = self.runs.borrow();
                let is_left = runs.get(&run).is_some_and(|run| run.process.session_left());
                drop(runs);
                self.supervisor.borrow_mut().handle_session(Instant::now(), run, is_left);
            }
            Order::Forget => {
                let forgotten = self.runs.borrow_mut().remove(&run);
                drop(forgotten);
                self.gone.notify_waiters();
            }
        }
    }

    fn spawn(&self, run: RunId) {
        // Nothing is started for an owner that lets go.
        let Some(this) = self.this.upgrade() else { return };
        let spawned = Process::spawn_apart(&self.options.program);
        let watched = spawned.map_err(|error| (self.options.unspawned)(&error)).and_then(|it| {
            watch(&this, run, it).map_err(|error| {
                let message = format!("cannot watch `{}`: {error}", self.options.name);
                Failure::new(FailureKind::Unavailable, message)
            })
        });
        match watched {
            Ok(watched) => {
                let pid = watched.process.pid();
                self.starts.set(self.starts.get() + 1);
                self.runs.borrow_mut().insert(run, watched);
                (self.happened)(Life::Spawned(run, pid));
            }
            Err(failure) => {
                let now = Instant::now();
                self.supervisor.borrow_mut().handle_spawn_failed(now, run, &failure);
            }
        }
    }
}

/// Begins to read what a process says, and to wait for its end.
fn watch(inner: &Rc<Inner>, run: RunId, mut process: Process) -> io::Result<Run> {
    let missing = || io::Error::other("a pipe was taken already");
    let stderr = Input::from_pipe(process.stderr.take().ok_or_else(missing)?)?;
    let exit = Watch::new(process.exit_fd())?;
    let reading = spawn_local(read(Rc::downgrade(inner), run, stderr)).abort_handle();
    let waiting = spawn_local(await_exit(Rc::downgrade(inner), run, exit)).abort_handle();
    Ok(Run { process, tasks: [reading, waiting] })
}

async fn read(inner: Weak<Inner>, run: RunId, mut stderr: Input) {
    let mut bytes = BytesMut::new();
    while let Ok(1..) = stderr.read(&mut bytes).await {
        let Some(inner) = inner.upgrade() else { return };
        let (since, count) = (Instant::now(), bytes.len());
        let mut lines = Vec::new();
        let log = |line: &str| lines.push(line.to_owned());
        inner.supervisor.borrow_mut().handle_stderr(run, &bytes, log);
        bytes.clear();
        lines.iter().for_each(|line| (inner.happened)(Life::Line(run, line)));
        drop(inner);
        turn_after_stderr(since, count).await;
    }
    let Some(inner) = inner.upgrade() else { return };
    let mut lines = Vec::new();
    let log = |line: &str| lines.push(line.to_owned());
    inner.supervisor.borrow_mut().handle_stderr_closed(Instant::now(), run, log);
    // Before it is told that the process departed.
    lines.iter().for_each(|line| (inner.happened)(Life::Line(run, line)));
    inner.settle();
}

async fn await_exit(inner: Weak<Inner>, run: RunId, exit: Watch) {
    exit.ready().await;
    let Some(inner) = inner.upgrade() else { return };
    let seen = inner.runs.borrow().get(&run).and_then(|run| {
        let exit = run.process.exit_seen()?;
        Some((exit, run.process.session_left()))
    });
    if let Some((exit, session_left)) = seen {
        inner.act(|supervisor, now| supervisor.handle_exited(now, run, exit, session_left));
    }
}

/// Looks at the clock for all its processes.
async fn keep(inner: Weak<Inner>) {
    let Some(inner) = inner.upgrade() else { return };
    let poll_timeout = || inner.supervisor.borrow().poll_timeout();
    inner.alarm.keep(poll_timeout, || inner.act(Supervisor::handle_timeout)).await;
}
