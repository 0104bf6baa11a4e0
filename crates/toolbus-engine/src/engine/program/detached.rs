//! A program that is spoken to over connections: its process is kept alive like any other, its
//! standard error is read to the end, and it is ended with all that it started.
//!
//! Who owns it holds the conversation, and says how far that is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use toolbus_proto::channel::{Farewell, Fault, Notice, Proof, Readiness};
use toolbus_proto::tool::Failure;

use super::processes::{Owner, Processes};
use crate::child::supervisor::{Departure, Event, Restart, RunId, Supervisor};
use crate::child::{Patience, Pipes, Program, SpawnError};
use crate::engine;

/// What becomes of a program.
#[derive(Debug)]
pub enum Life<'a> {
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
pub struct DetachedOptions {
    /// What people call it.
    pub name: String,
    /// What is run.
    pub program: Program,
    /// How long it is waited for.
    pub patience: Patience,
    /// When it is started again.
    pub restart: Restart,
    /// How it is told that the program cannot be run.
    pub unspawned: Box<dyn Fn(&SpawnError) -> Failure>,
}

/// A program that is kept alive and spoken to over connections, not over its pipes. Dropping it kills every process that is left of it.
pub struct DetachedProgram {
    inner: Rc<Inner>,
}

struct Inner {
    processes: Processes<Inner>,
    supervisor: RefCell<Supervisor>,
    happened: Box<dyn Fn(Life<'_>)>,
    /// It was told to end.
    is_stopping: Cell<bool>,
}

impl DetachedProgram {
    /// Starts nothing yet. What becomes of it is told to `happened`; nothing is told any more
    /// once it is dropped. Must be called inside a `LocalSet`.
    pub fn new(options: DetachedOptions, happened: impl Fn(Life<'_>) + 'static) -> DetachedProgram {
        let DetachedOptions { name, program, patience, restart, unspawned } = options;
        let supervisor = Supervisor::new(name.clone(), patience, restart).without_pipes();
        let inner = Rc::new_cyclic(|this| Inner {
            processes: Processes::new(this.clone(), name, program, Pipes::Stderr, unspawned),
            supervisor: RefCell::new(supervisor),
            happened: Box::new(happened),
            is_stopping: Cell::new(false),
        });
        inner.processes.keep();
        DetachedProgram { inner }
    }

    /// Starts it, unless it runs.
    pub fn wake(&self) -> Result<RunId, Failure> {
        self.inner.act(Supervisor::wake)
    }

    /// Its start came a step further: it has the time of a start once more.
    pub fn advance(&self, run: RunId) {
        self.inner.act(|supervisor, now| supervisor.handle(now, run, Event::Advanced));
    }

    /// It has come up.
    pub fn open(&self, run: RunId) {
        self.stands(run, &Readiness::Open);
    }

    /// This process is of no use: it has to go.
    pub fn break_off(&self, run: RunId, why: Failure) {
        let fault = Fault { failure: why, farewell: Farewell::Abrupt };
        self.stands(run, &Readiness::Broken(fault));
    }

    fn stands(&self, run: RunId, readiness: &Readiness) {
        let event = Event::Stands(readiness, Proof::Ready);
        self.inner.act(|supervisor, now| supervisor.handle(now, run, event));
    }

    /// Makes it end. One that has come up is being asked to by its owner, and has time until
    /// [`DetachedProgram::end_goodbye`].
    pub fn stop(&self) {
        self.inner.is_stopping.set(true);
        self.inner.act(Supervisor::stop);
    }

    /// It was asked to end, and has answered or will not.
    pub fn end_goodbye(&self) {
        self.inner.act(Supervisor::handle_all_finished);
    }

    /// How often it was started again.
    pub fn restarts(&self) -> u64 {
        self.inner.processes.restarts()
    }

    /// Waits until no process is left.
    pub async fn gone(&self) {
        self.inner.processes.gone(|| self.inner.supervisor.borrow().is_idle()).await;
    }
}

impl Drop for DetachedProgram {
    fn drop(&mut self) {
        self.inner.processes.let_go();
    }
}

impl Owner for Inner {
    fn processes(&self) -> &Processes<Inner> {
        &self.processes
    }

    fn tell<T>(&self, tell: impl FnOnce(&mut Supervisor, Instant) -> T) -> T {
        tell(&mut self.supervisor.borrow_mut(), Instant::now())
    }

    /// Nothing is borrowed while the owner hears of something: it may have an answer.
    fn settle(&self) {
        loop {
            let order = self.supervisor.borrow_mut().poll_order();
            let Some((run, order)) = order else { break };
            self.processes.carry_out(run, &order);
        }
        loop {
            let notice = self.supervisor.borrow_mut().poll_notice();
            let Some(notice) = notice else { break };
            if let Notice::Warning(_) | Notice::Waiting(_) = notice {
                engine::log(&self.processes.name, &notice);
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
        self.processes.alarm.set(self.poll_timeout());
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.supervisor.borrow().poll_timeout()
    }

    fn time_passed(&self) {
        self.act(Supervisor::handle_timeout);
    }

    fn spawned(&self, run: RunId, pid: i32) {
        (self.happened)(Life::Spawned(run, pid));
    }

    fn lines(&self, run: RunId, lines: Vec<String>) {
        lines.iter().for_each(|line| (self.happened)(Life::Line(run, line)));
    }
}
