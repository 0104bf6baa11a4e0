//! Keeps an eye on one process while no call waits for it: a thread that sleeps until the
//! process writes to its standard error, closes its output or ends.
//!
//! So a call needs no look at the process of its own: it asks [`Watcher::has_news`], which is
//! a flag, and then reads until something comes. A read that would wait for ever, because the
//! process is gone but another process holds its output, is woken from here.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::Dispatch;

use crate::child::stderr::{LINES_MAX, Tail};
use crate::child::{Process, Session, Signal};
use crate::transport::ready;

/// What the thread needs besides descriptors and a few lines.
const STACK_BYTES: usize = 128 * 1024;
const READ_BYTES: usize = 16 * 1024;
/// Wakes a read. Behind what another process wrote at that moment it is a blank line, which a
/// client of an oracle that is ready counts as a stray line and passes over.
const WAKE_UP: &[u8] = b"\n";

/// The eye on one process. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Watcher {
    seen: Arc<Seen>,
    /// Written to when the thread is to look at its orders again, closed when it is to end.
    poke: Option<PipeWriter>,
    /// Hung up once the standard error is closed and all of it is in [`Seen`].
    pub(super) stderr_closed: PipeReader,
    /// A read of the output that waits can be woken.
    pub(super) wakes_reads: bool,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the caller share.
#[derive(Debug, Default)]
struct Seen {
    /// The process has ended or closed its output.
    news: AtomicBool,
    /// A read of the output was woken by a blank line that the process did not write.
    woken: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The last lines of standard error that were not taken yet.
    lines: VecDeque<String>,
    /// Whoever is left of the session then is killed.
    kill_at: Option<Instant>,
}

impl Seen {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// Takes the standard error of `process` and watches it. `signal` is how long a session
    /// whose leader is gone has between SIGTERM and SIGKILL.
    pub(super) fn new(
        peer: &str,
        process: &mut Process,
        stdout: &OwnedFd,
        signal: Duration,
    ) -> io::Result<Watcher> {
        let (orders, poke) = io::pipe()?;
        let (stderr_closed, closes) = io::pipe()?;
        let seen = Arc::new(Seen::default());
        let eye = Eye {
            peer: peer.to_owned(),
            seen: seen.clone(),
            session: process.session(),
            signal,
            stderr: process.stderr.take().zip(Some(closes)),
            exit: Some(process.exit_fd().try_clone_to_owned()?),
            stdout: stdout.try_clone()?,
            stdout_open: true,
            orders,
            tail: Tail::new(),
        };
        let wakes_reads = second_writer(stdout.as_fd()).is_ok();
        // What the host has set for this thread only goes for its oracles too.
        let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
        let thread = thread::Builder::new().name(format!("toolbus {peer}"));
        let thread = thread.stack_size(STACK_BYTES).spawn(move || {
            tracing::dispatcher::with_default(&dispatch, || eye.watch());
        })?;
        Ok(Watcher { seen, poke: Some(poke), stderr_closed, wakes_reads, thread: Some(thread) })
    }

    /// Has the process ended or closed its output?
    pub(super) fn has_news(&self) -> bool {
        self.seen.news.load(Ordering::Acquire)
    }

    /// Are these bytes, just read, what woke the read, and nothing that the process said?
    pub(super) fn is_wake_up(&self, bytes: &[u8]) -> bool {
        bytes == WAKE_UP && self.seen.woken.swap(false, Ordering::AcqRel)
    }

    /// The lines of standard error that were not taken yet.
    pub(super) fn take_lines(&self) -> VecDeque<String> {
        std::mem::take(&mut self.seen.notes().lines)
    }

    /// No call may look at this process for a while: kill its session then, if it still lives.
    pub(super) fn kill_at(&self, instant: Instant) {
        self.seen.notes().kill_at = Some(instant);
        if let Some(poke) = &self.poke {
            // Fails only if the thread has ended, and the process before it.
            let _ = rustix::io::write(poke, &[0]);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.poke = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say any more, not even that it panicked.
            let _ = thread.join();
        }
    }
}

/// What the thread holds.
struct Eye {
    peer: String,
    seen: Arc<Seen>,
    session: Session,
    signal: Duration,
    /// With what is closed behind it.
    stderr: Option<(OwnedFd, PipeWriter)>,
    /// `None` once the exit was seen.
    exit: Option<OwnedFd>,
    stdout: OwnedFd,
    stdout_open: bool,
    orders: PipeReader,
    tail: Tail,
}

impl Eye {
    fn watch(mut self) {
        let mut buffer = [0; READ_BYTES];
        loop {
            let kill_at = self.seen.notes().kill_at;
            let [orders, stderr, exit, hung_up] = self.wait(kill_at);
            if orders && !matches!(rustix::io::read(&self.orders, &mut buffer), Ok(1..)) {
                return;
            }
            if stderr {
                self.read_stderr(&mut buffer);
            }
            if hung_up {
                self.stdout_open = false;
                self.seen.news.store(true, Ordering::Release);
            }
            if exit {
                self.handle_exit();
            }
            if kill_at.is_some_and(|kill_at| kill_at <= Instant::now()) {
                self.session.signal(Signal::Kill);
                self.seen.notes().kill_at = None;
            }
        }
    }

    /// Waits until something happens or it is time to kill: orders, standard error, the exit,
    /// the end of the output.
    fn wait(&self, kill_at: Option<Instant>) -> [bool; 4] {
        let wanted = [
            ready::input(Some(self.orders.as_fd())),
            ready::input(self.stderr.as_ref().map(|(stderr, _)| stderr.as_fd())),
            ready::input(self.exit.as_ref().map(AsFd::as_fd)),
            ready::end(self.stdout_open.then_some(self.stdout.as_fd())),
        ];
        ready::wait(&[wanted], kill_at)[0]
    }

    fn read_stderr(&mut self, buffer: &mut [u8]) {
        let Some((stderr, _)) = &self.stderr else { return };
        let Eye { peer, seen, tail, .. } = self;
        let mut log = |line: &str| {
            tracing::info!(peer, "{line}");
            let mut notes = seen.notes();
            if notes.lines.len() == LINES_MAX {
                notes.lines.pop_front();
            }
            notes.lines.push_back(line.to_owned());
        };
        match rustix::io::read(stderr, &mut *buffer) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(count @ 1..) => tail.push(&buffer[..count], log),
            // A stream that breaks has ended.
            Ok(_) | Err(_) => {
                tail.finish(&mut log);
                self.stderr = None;
            }
        }
    }

    /// The leader is gone; what it left behind has to go as well (`docs/protocols/oracle.md` S2), even
    /// if no call is made for an hour.
    fn handle_exit(&mut self) {
        self.exit = None;
        self.session.signal(Signal::Term);
        self.seen.notes().kill_at = Some(Instant::now() + self.signal);
        self.seen.news.store(true, Ordering::Release);
        let is_held = self.stdout_open && !ready::has_hung_up(self.stdout.as_fd());
        if is_held && let Ok(writer) = second_writer(self.stdout.as_fd()) {
            // A blank line to the thread that reads. The process will complete none any more; and a
            // full pipe, where this fails, leaves no thread waiting.
            self.seen.woken.store(true, Ordering::Release);
            let _ = rustix::io::write(writer, WAKE_UP);
        }
    }
}

/// Opens the writing end of a pipe of which only the reading end is at hand.
#[cfg(target_os = "linux")]
fn second_writer(pipe: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Elsewhere there is no way to it.
#[cfg(not(target_os = "linux"))]
fn second_writer(_: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::OPNOTSUPP)
}
