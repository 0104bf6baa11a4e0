//! What we hold of one process: its pipes for the pump, its end, and the means to end it.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::task::JoinHandle;

use crate::child::{Process, Signal};
use crate::engine::drive::Closing;
use crate::transport::account::{Account, Charge};
use crate::transport::pipe::{Input, Output, Watch};
use crate::wake::Wake;

/// After so much quiet a process is looked at before it is written to. Until then the last
/// thing heard of it was that it lives.
const QUIET: Duration = Duration::from_millis(1);

/// What we hold of one process.
pub(super) struct ChildHandle {
    /// `None` once it is forgotten.
    pub(super) process: RefCell<Option<Process>>,
    pub(super) wake: Wake,
    pub(super) closing: Cell<Closing>,
    /// A second hold on its output, in order to look whether it has ended.
    stdout: OwnedFd,
    pub(super) heard: Cell<Instant>,
    /// What waits for it to be read, and of which it has written the half.
    pub(super) charge: Charge,
    pub(super) tasks: RefCell<Vec<JoinHandle<()>>>,
}

/// What the tasks of one process hold.
pub(super) struct Ends {
    pub(super) io: (Input, Output),
    pub(super) stderr: Input,
    pub(super) exit: Watch,
}

impl ChildHandle {
    pub(super) fn new(
        mut process: Process,
        account: &Account,
    ) -> io::Result<(Rc<ChildHandle>, Ends)> {
        let missing = || io::Error::other("a pipe was taken already");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let exit = Watch::new(process.exit_fd())?;
        let hand = ChildHandle {
            stdout: stdout.try_clone()?,
            process: RefCell::new(Some(process)),
            wake: Wake::default(),
            closing: Cell::new(Closing::No),
            heard: Cell::new(Instant::now()),
            charge: Charge::on(account),
            tasks: RefCell::default(),
        };
        let io = (Input::from_pipe(stdout)?, Output::from_pipe(stdin)?);
        let stderr = Input::from_pipe(stderr)?;
        Ok((Rc::new(hand), Ends { io, stderr, exit }))
    }

    /// Has its output ended, though the reactor has not told us yet?
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        if now.duration_since(self.heard.get()) < QUIET {
            return false;
        }
        let mut stdout = [PollFd::new(&self.stdout, PollFlags::empty())];
        let polled = rustix::event::poll(&mut stdout, Some(&Timespec::default()));
        polled.is_ok() && stdout[0].revents().contains(PollFlags::HUP)
    }

    pub(super) fn close_stdin(&self, closing: Closing) {
        if self.closing.get() != Closing::Now {
            self.closing.set(closing);
            self.wake.ring();
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.close_stdin(Closing::Now);
        if let Some(process) = &*self.process.borrow() {
            process.signal_session(signal);
        }
    }

    /// Whoever is left of the process is killed, and it is reaped, before this returns.
    pub(super) fn let_go(&self) {
        drop(self.process.take());
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}
