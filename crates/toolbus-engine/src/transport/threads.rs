//! Threads besides that of a bus, each with a runtime of its own.
//!
//! They have connections of fronts that listen: what is read and written there, and what of it
//! belongs to the connection alone. Whatever belongs to the bus stays on its thread.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::mpsc as std_mpsc;
use std::thread;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tracing::Dispatch;

/// Threads that may have connections, besides the one that holds this. All clones are the same
/// threads; they end with the last.
#[derive(Clone, Default)]
pub struct Threads(Rc<Team>);

#[derive(Default)]
struct Team {
    threads: Vec<Thread>,
    /// Connections are given to these threads alone.
    has_all: Cell<bool>,
}

/// One of them.
pub(crate) struct Thread(mpsc::UnboundedSender<Job>);

type Job = Box<dyn FnOnce() + Send>;

impl Threads {
    /// Starts so many. What the log is on this thread it is on those.
    pub fn start(count: usize) -> io::Result<Threads> {
        let threads = (0..count).map(|_| Thread::start()).collect::<io::Result<_>>()?;
        Ok(Threads(Rc::new(Team { threads, has_all: Cell::default() })))
    }

    /// How many there are besides the one that holds this.
    pub fn len(&self) -> usize {
        self.0.threads.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.threads.is_empty()
    }

    /// Gives no connection to the thread that holds this, as long as there is another: what passes
    /// between the threads is to be tested or measured.
    pub fn have_all(&self) {
        self.0.has_all.set(true);
    }

    pub(crate) fn has_all(&self) -> bool {
        self.0.has_all.get()
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Thread> {
        self.0.threads.iter()
    }

    /// Does this on each of them, inside its runtime. A thread on which it panics is gone, and with
    /// it the connections that it has.
    pub fn run(&self, job: impl FnOnce() + Clone + Send + 'static) {
        self.each().for_each(|thread| thread.run(job.clone()));
    }
}

impl Thread {
    fn start() -> io::Result<Thread> {
        let (jobs, mut asked) = mpsc::unbounded_channel::<Job>();
        let (tell, told) = std_mpsc::sync_channel(1);
        let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
        thread::Builder::new().name("toolbus-io".to_owned()).spawn(move || {
            let _log = tracing::dispatcher::set_default(&dispatch);
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(error)),
            };
            drop(tell);
            runtime.block_on(async {
                while let Some(job) = asked.recv().await {
                    job();
                }
            });
        })?;
        // The thread says only what is wrong.
        told.recv().map_or(Ok(Thread(jobs)), Err)
    }

    /// Does this there. If the thread is gone, it is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let _ = self.0.send(Box::new(job));
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Threads").field(&self.len()).finish()
    }
}
