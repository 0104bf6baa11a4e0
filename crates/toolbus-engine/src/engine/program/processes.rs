//! The processes of one supervised program: spawned, signalled and reaped as the supervisor
//! orders. What they write to their standard error and how they end is told to it, and the time.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Instant;

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use toolbus_proto::tool::{Exit, Failure, FailureKind, LastWords};

use crate::child::supervisor::{Event, Order, RunId, Supervisor};
use crate::child::{Pipes, Process, Program, Signal, SpawnError};
use crate::engine::alarm::{Alarm, Woken};
use crate::task::spawn_local;
use crate::transport::pipe::{Input, Watch};
use crate::wake::{turn, turn_after_stderr};

/// So many of the last lines of its standard error are kept of a program.
const LINES_KEPT: usize = 40;
/// So much of each.
const LINE_CHARS_MAX: usize = 1000;

/// Whose processes they are. The methods are called with nothing borrowed.
pub(super) trait Owner: Sized + 'static {
    fn processes(&self) -> &Processes<Self>;
    /// Tells the supervisor something. What that makes necessary is left to [`Owner::settle`].
    fn tell<T>(&self, tell: impl FnOnce(&mut Supervisor, Instant) -> T) -> T;
    /// Does whatever the supervisor wants done.
    fn settle(&self);
    /// When to look at the clock.
    fn poll_timeout(&self) -> Option<Instant>;
    /// That time has come.
    fn time_passed(&self);
    /// Callers had their turn to take what they were given.
    fn turn_passed(&self) {}
    /// Takes its pipes, if it is spoken to over them.
    fn begin(&self, _run: RunId, _process: &mut Process) -> io::Result<()> {
        Ok(())
    }
    /// A process runs.
    fn spawned(&self, run: RunId, pid: i32);
    /// A process wrote these lines to its standard error.
    fn lines(&self, run: RunId, lines: Vec<String>);
    /// A process is about to be told to have ended.
    fn exited(&self, _run: RunId, _exit: Exit) {}

    fn act<T>(&self, tell: impl FnOnce(&mut Supervisor, Instant) -> T) -> T {
        let told = self.tell(tell);
        self.settle();
        told
    }
}

/// The processes of one program that have not been forgotten yet.
pub(super) struct Processes<O> {
    pub(super) owner: Weak<O>,
    /// What people call the program.
    pub(super) name: String,
    program: Program,
    pipes: Pipes,
    /// How it is told that the program cannot be run.
    unspawned: Box<dyn Fn(&SpawnError) -> Failure>,
    running: RefCell<HashMap<RunId, Running>>,
    /// How many have been started.
    starts: Cell<u64>,
    /// The last lines that the one that was started last wrote to its standard error.
    said: RefCell<VecDeque<String>>,
    /// How it ended, if that was not our doing.
    died: Cell<Option<Exit>>,
    /// How often one was told goodbye because nothing was asked of it: no start after that is a
    /// restart.
    pub(super) rests: Cell<u64>,
    /// Told when one has been forgotten.
    gone: Notify,
    keeper: Cell<Option<AbortHandle>>,
    /// When the keeper looks at the clock.
    pub(super) alarm: Alarm,
}

/// One process. Dropping it kills what is left of its session, and reaps it.
struct Running {
    process: Process,
    tasks: [AbortHandle; 2],
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl<O: Owner> Processes<O> {
    pub(super) fn new(
        owner: Weak<O>,
        name: String,
        program: Program,
        pipes: Pipes,
        unspawned: Box<dyn Fn(&SpawnError) -> Failure>,
    ) -> Processes<O> {
        Processes {
            owner,
            name,
            program,
            pipes,
            unspawned,
            running: RefCell::default(),
            starts: Cell::new(0),
            said: RefCell::default(),
            died: Cell::new(None),
            rests: Cell::new(0),
            gone: Notify::new(),
            keeper: Cell::new(None),
            alarm: Alarm::default(),
        }
    }

    /// Begins to look at the clock. Must be called inside a `LocalSet` or a local runtime.
    pub(super) fn keep(&self) {
        self.keeper.set(Some(spawn_local(keep(self.owner.clone())).abort_handle()));
    }

    /// The processes that still live are killed, and all are reaped, before this returns.
    pub(super) fn let_go(&self) {
        self.keeper.take().iter().for_each(AbortHandle::abort);
        let running = self.running.take();
        drop(running);
    }

    /// How often the program was started again.
    pub(super) fn restarts(&self) -> u64 {
        self.starts.get().saturating_sub(1 + self.rests.get())
    }

    /// How the process ended that was started last, and what it said last; `None` as long as it has
    /// not, or if we have ended it.
    pub(super) fn last_words(&self) -> Option<LastWords> {
        let exit = self.died.get()?;
        let stderr = self.said.borrow().iter().cloned().collect();
        Some(LastWords { exit: Some(exit), stderr, ..LastWords::default() })
    }

    /// It wrote this line to its standard error.
    pub(super) fn has_said(&self, line: &str) {
        let mut said = self.said.borrow_mut();
        if LINES_KEPT <= said.len() {
            said.pop_front();
        }
        let end = line.char_indices().nth(LINE_CHARS_MAX).map_or(line.len(), |(end, _)| end);
        said.push_back(line[..end].to_owned());
    }

    /// It has ended, and not because we wanted it to.
    pub(super) fn has_died(&self, exit: Exit) {
        self.died.set(Some(exit));
    }

    /// Waits until `is_idle`, which is asked whenever a process has been forgotten.
    pub(super) async fn gone(&self, is_idle: impl Fn() -> bool) {
        loop {
            let gone = self.gone.notified();
            if is_idle() {
                return;
            }
            gone.await;
        }
    }

    pub(super) fn carry_out(&self, run: RunId, order: &Order) {
        let Some(owner) = self.owner.upgrade() else { return };
        match order {
            Order::Spawn => self.spawn(&owner, run),
            Order::Terminate => self.signal(run, Signal::Term),
            Order::Kill => self.signal(run, Signal::Kill),
            Order::LookAtSession => {
                let running = self.running.borrow();
                let is_left = running.get(&run).is_some_and(|it| it.process.session_left());
                drop(running);
                owner.tell(|it, now| it.handle(now, run, Event::Session { is_left }));
            }
            Order::Forget => {
                let forgotten = self.running.borrow_mut().remove(&run);
                drop(forgotten);
                self.gone.notify_waiters();
            }
            // They are about the conversation.
            Order::Close(_) | Order::MoveOn | Order::Fail(_) | Order::CloseStdin => {}
        }
    }

    fn signal(&self, run: RunId, signal: Signal) {
        if let Some(running) = self.running.borrow().get(&run) {
            running.process.signal_session(signal);
        }
    }

    fn spawn(&self, owner: &Rc<O>, run: RunId) {
        let spawned = Process::spawn_with(&self.program, self.pipes);
        let spawned = spawned.map_err(|error| (self.unspawned)(&error));
        let running = spawned.and_then(|process| {
            watch(owner, run, process).map_err(|error| {
                let message = format!("cannot watch `{}`: {error}", self.name);
                Failure::new(FailureKind::Unavailable, message)
            })
        });
        match running {
            Ok(running) => {
                let pid = running.process.pid();
                self.starts.set(self.starts.get() + 1);
                self.said.borrow_mut().clear();
                self.died.set(None);
                self.running.borrow_mut().insert(run, running);
                owner.spawned(run, pid);
            }
            Err(failure) => {
                owner.tell(|it, now| it.handle(now, run, Event::SpawnFailed(&failure)));
            }
        }
    }
}

/// Begins to read what a process says, and to wait for its end.
fn watch<O: Owner>(owner: &Rc<O>, run: RunId, mut process: Process) -> io::Result<Running> {
    let stderr = Input::from_pipe(taken(&mut process.stderr)?)?;
    let exit = Watch::new(process.exit_fd())?;
    owner.begin(run, &mut process)?;
    let reading = spawn_local(read_stderr(Rc::downgrade(owner), run, stderr));
    let waiting = spawn_local(await_exit(Rc::downgrade(owner), run, exit));
    Ok(Running { process, tasks: [reading.abort_handle(), waiting.abort_handle()] })
}

/// Takes one of the pipes of a process.
pub(super) fn taken<T>(pipe: &mut Option<T>) -> io::Result<T> {
    pipe.take().ok_or_else(|| io::Error::other("a pipe was taken already"))
}

async fn read_stderr<O: Owner>(owner: Weak<O>, run: RunId, mut stderr: Input) {
    let mut bytes = BytesMut::new();
    let mut is_open = true;
    while is_open {
        is_open = matches!(stderr.read(&mut bytes).await, Ok(1..));
        let Some(owner) = owner.upgrade() else { return };
        let (since, count) = (Instant::now(), bytes.len());
        // Told when nothing is borrowed: a listener may call right back.
        let mut lines = Vec::new();
        let log = |line: &str| lines.push(line.to_owned());
        owner.tell(|supervisor, now| match is_open {
            true => supervisor.handle_stderr(now, run, &bytes, log),
            false => supervisor.handle_stderr_closed(now, run, log),
        });
        bytes.clear();
        // Before it is told what becomes of the process.
        owner.lines(run, lines);
        owner.settle();
        drop(owner);
        turn_after_stderr(since, count).await;
    }
}

async fn await_exit<O: Owner>(owner: Weak<O>, run: RunId, exit: Watch) {
    exit.ready().await;
    let Some(owner) = owner.upgrade() else { return };
    let seen = owner.processes().running.borrow().get(&run).and_then(|running| {
        let exit = running.process.exit_seen()?;
        Some((exit, running.process.session_left()))
    });
    if let Some((exit, session_left)) = seen {
        owner.exited(run, exit);
        owner.act(|it, now| it.handle(now, run, Event::Exited(exit, session_left)));
    }
}

/// Looks at the clock for all processes of a program, and after callers who had their turn.
async fn keep<O: Owner>(owner: Weak<O>) {
    loop {
        let Some(held) = owner.upgrade() else { return };
        match held.processes().alarm.wait(held.poll_timeout()).await {
            Woken::Due => held.time_passed(),
            Woken::Rung => {
                turn().await;
                held.turn_passed();
                held.settle();
            }
        }
    }
}
