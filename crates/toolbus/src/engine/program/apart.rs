//! A program that is spoken to elsewhere, over connections: its process is watched, its standard
//! error read to the end, and it is ended with all that it started.
//!
//! When to start and to end it is decided by whoever owns it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use toolbus_proto::tool::Exit;

use crate::child::stderr::Tail;
use crate::child::{Process, Program, Signal, SpawnError};
use crate::engine::wake::turn_after_stderr;
use crate::transport::pipe::{Input, Watch};

/// How long the last words of a process are waited for: one that left its session may hold the
/// pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What becomes of a process.
#[derive(Debug)]
pub(crate) enum Life<'a> {
    /// It wrote a line to its standard error.
    Line(&'a str),
    /// It has ended, and so has all that it started.
    Exited(Exit),
}

/// One run of a program. Dropping it kills whoever is left.
pub(crate) struct Apart {
    shared: Rc<Shared>,
    tasks: [AbortHandle; 2],
}

struct Shared {
    process: RefCell<Process>,
    happened: Box<dyn Fn(Life<'_>)>,
}

impl Apart {
    /// Starts it. What becomes of it is told to `happened`, its end last of all; nothing is
    /// told any more once it is dropped. Must be called inside a `LocalSet`.
    pub(crate) fn spawn(
        program: &Program,
        happened: impl Fn(Life<'_>) + 'static,
    ) -> Result<Apart, SpawnError> {
        let process = Process::spawn_apart(program)?;
        let name = program.name().to_owned();
        Apart::watch(process, happened)
            .map_err(|source| SpawnError::Failed { program: name, source })
    }

    fn watch(mut process: Process, happened: impl Fn(Life<'_>) + 'static) -> io::Result<Apart> {
        let missing = || io::Error::other("a pipe was taken already");
        let stderr = Input::from_pipe(process.stderr.take().ok_or_else(missing)?)?;
        let exit = Watch::new(process.exit_fd())?;
        let shared =
            Rc::new(Shared { process: RefCell::new(process), happened: Box::new(happened) });
        let reading = spawn_local(read(shared.clone(), stderr));
        let is_read = reading.abort_handle();
        let watching = spawn_local(watch(shared.clone(), exit, reading));
        Ok(Apart { shared, tasks: [is_read, watching.abort_handle()] })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.shared.process.borrow().pid()
    }

    /// Signals it and all that it started.
    pub(crate) fn signal(&self, signal: Signal) {
        self.shared.process.borrow().signal_session(signal);
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.signal(Signal::Kill);
    }
}

async fn read(shared: Rc<Shared>, mut stderr: Input) {
    let (mut tail, mut bytes) = (Tail::new(), BytesMut::new());
    let tell = |line: &str| (shared.happened)(Life::Line(line));
    while let Ok(1..) = stderr.read(&mut bytes).await {
        let (since, count) = (Instant::now(), bytes.len());
        tail.push(&bytes, tell);
        bytes.clear();
        turn_after_stderr(since, count).await;
    }
    tail.finish(tell);
}

async fn watch(shared: Rc<Shared>, exit: Watch, reading: JoinHandle<()>) {
    exit.ready().await;
    let exit = loop {
        // Kills the rest of its session, and reaps it.
        if let Some(exit) = shared.process.borrow_mut().finish() {
            break exit;
        }
        tokio::task::yield_now().await;
    };
    // What it wrote last is in the pipe, which all who held it have left.
    let _ = tokio::time::timeout(LAST_WORDS, reading).await;
    (shared.happened)(Life::Exited(exit));
}
