//! One run of a program: start it, watch for its end, end it, and leave no process of it behind.
//!
//! The order of an end matters and is kept here: see the exit without reaping, kill the rest of
//! its session, take the session back from the guard, reap. Until the reaping no other process
//! can get that number, so no signal of ours or the guard's can meet a stranger.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus};

use super::cgroup::{self, Cgroup};
use super::fork::Image;
use super::session::Session;
use super::{Exit, Program, SpawnError, diagnose, fork, guard};

/// A child process in a session of its own, and where our cgroup is delegated to us, in a cgroup
/// of its own. Dropping it kills all of that.
///
/// Nothing here waits, but [`Process::wait_exit`] and the drop of a process that still runs.
#[derive(Debug)]
pub struct Process {
    /// Of the leader, and thereby of the session.
    pid: Pid,
    cgroup: Option<Cgroup>,
    exit_fd: OwnedFd,
    reaped: Option<Exit>,
    /// Its standard input, for us to write.
    pub stdin: Option<OwnedFd>,
    /// Its standard output, for us to read.
    pub stdout: Option<OwnedFd>,
    /// Its standard error, for us to read.
    pub stderr: Option<OwnedFd>,
}

/// What a session can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Please end.
    Term,
    /// End.
    Kill,
}

/// How long a drop waits for a killed process to be gone. Only one that hangs in the kernel takes
/// longer than a moment.
const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// What a pipe should hold, so that a large message does not wait for its reader chunk by chunk.
const PIPE_BYTES: usize = 1 << 20;

impl Process {
    /// Starts a program, with a pipe at each of its three standard streams.
    ///
    /// Returns after its exec, so that a program which cannot be run is an error here.
    pub fn spawn(program: &Program) -> Result<Process, SpawnError> {
        Process::spawn_with(program, Pipes::All)
    }

    /// The same with these pipes.
    pub(crate) fn spawn_with(program: &Program, pipes: Pipes) -> Result<Process, SpawnError> {
        let (image, path) = program.image()?;
        match spawn_image(program, image, pipes)? {
            Ok(process) => Ok(process),
            Err(error) if diagnose::is_plain_script(&error, &program.seen_from_here(&path)) => {
                let image = program.image_as_script(&path)?;
                spawn_image(program, image, pipes)?.map_err(|source| failed(program, source))
            }
            Err(error) => Err(diagnose::spawn_error(program, &path, error)),
        }
    }

    /// Its process id, which is also that of its session and of its group.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// A descriptor that becomes readable when the process has ended. There is nothing to read.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.exit_fd.as_fd()
    }

    /// How the process ended, if it has. Others of its session may live on.
    pub fn exit_seen(&self) -> Option<Exit> {
        self.reaped.or_else(|| wait(self.pid, WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT))
    }

    /// Waits at most so long for the end of the process.
    pub fn wait_exit(&self, patience: Duration) -> Option<Exit> {
        let until = Instant::now() + patience;
        loop {
            if let Some(exit) = self.exit_seen() {
                return Some(exit);
            }
            let left = until.checked_duration_since(Instant::now())?;
            let left = Timespec::try_from(left).ok();
            // An interrupted poll is as good as one that ended: the loop looks again.
            let _ = rustix::event::poll(
                &mut [PollFd::new(&self.exit_fd, PollFlags::IN)],
                left.as_ref(),
            );
        }
    }

    /// Whether any process of its session still lives besides the leader.
    ///
    /// Costs a look at every process of the system. Where there is no `/proc` the answer is yes
    /// until [`finish`](Process::finish).
    pub fn session_left(&self) -> bool {
        self.reaped.is_none() && self.session().is_left()
    }

    /// Those that live besides the leader: names and numbers of processes of its session and of
    /// its cgroup. Empty where the system does not tell, or once this one is finished.
    pub fn left_behind(&self) -> Vec<(String, i32)> {
        if self.reaped.is_some() { Vec::new() } else { self.session().members() }
    }

    /// Signals the whole session. No process is signalled once this one is finished.
    pub fn signal_session(&self, signal: Signal) {
        if self.reaped.is_none() {
            self.session().signal(signal);
        }
    }

    /// Its session, for a thread that ends before [`Process::finish`].
    pub(crate) fn session(&self) -> Session {
        Session::new(self.pid, self.cgroup)
    }

    /// Kills the rest of the session of a process that has ended, and reaps it. `None` if it has not
    /// ended yet. May be called again and then says the same.
    pub fn finish(&mut self) -> Option<Exit> {
        let exit = self.exit_seen()?;
        if self.reaped.is_none() {
            self.signal_session(Signal::Kill);
            guard::take_back(self.pid);
            wait(self.pid, WaitIdOptions::NOHANG);
            self.reaped = Some(exit);
            if let Some(cgroup) = self.cgroup {
                cgroup.remove();
            }
        }
        Some(exit)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.finish().is_none() {
            self.signal_session(Signal::Kill);
            self.wait_exit(DROP_PATIENCE);
            // A process that hangs in the kernel stays with the guard, and with us as a zombie.
            self.finish();
        }
    }
}

/// Which of its standard streams lead to us.
#[derive(Clone, Copy)]
pub(crate) enum Pipes {
    All,
    /// It is spoken to elsewhere: the null device is its standard input and output.
    #[cfg(feature = "quic")]
    Stderr,
}

/// The inner error is exec's.
fn spawn_image(
    program: &Program,
    image: Image,
    pipes: Pipes,
) -> Result<io::Result<Process>, SpawnError> {
    let cannot = |source| failed(program, source);
    let mut command = Command::new(program.name());
    let (stdin, stdout) = match pipes {
        Pipes::All => {
            let (child_stdin, stdin) = io::pipe().map_err(cannot)?;
            let (stdout, child_stdout) = io::pipe().map_err(cannot)?;
            command.stdin(child_stdin).stdout(child_stdout);
            // Not stderr: it is always being read, and all pipes of a user share one budget.
            widen(&stdin);
            widen(&stdout);
            (Some(stdin.into()), Some(stdout.into()))
        }
        #[cfg(feature = "quic")]
        Pipes::Stderr => {
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            (None, None)
        }
    };
    let (stderr, child_stderr) = io::pipe().map_err(cannot)?;
    command.stderr(child_stderr);

    // Locked until the child is remembered, or a guard that is started meanwhile would miss it.
    let listening = guard::listening().map_err(|source| SpawnError::Guard { source })?;
    let tell = listening.tell().map_err(|source| SpawnError::Guard { source })?;
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let (cgroup, enter) = cgroup::create().unzip();
    fork::tell_and_exec(&mut command, image, tell, enter);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            if let Some(cgroup) = cgroup {
                cgroup.remove();
            }
            return Ok(Err(error));
        }
    };
    let pid = Pid::from_child(&child);
    listening.remember(pid);

    match exit_fd(pid) {
        Ok(exit_fd) => Ok(Ok(Process {
            pid,
            cgroup,
            exit_fd,
            reaped: None,
            stdin,
            stdout,
            stderr: Some(stderr.into()),
        })),
        Err(source) => {
            // Without a descriptor or thread we would not learn of its end, so it ends now.
            Session::new(pid, cgroup).signal(Signal::Kill);
            wait(pid, WaitIdOptions::NOWAIT);
            guard::take_back(pid);
            wait(pid, WaitIdOptions::empty());
            if let Some(cgroup) = cgroup {
                cgroup.remove();
            }
            Err(failed(program, source))
        }
    }
}

pub(super) fn failed(program: &Program, source: io::Error) -> SpawnError {
    SpawnError::Failed { program: program.name().into(), source }
}

fn widen(pipe: impl AsFd) {
    // An unprivileged user may not have room for so much; then it stays as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = (pipe, PIPE_BYTES);
}

fn wait(pid: Pid, options: WaitIdOptions) -> Option<Exit> {
    loop {
        return match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | options) {
            Ok(status) => status.map(|status| exit(&status)),
            Err(rustix::io::Errno::INTR) => continue,
            // Reaped by another part of the program, or by the kernel if SIGCHLD is ignored. It is
            // gone, and how cannot be known.
            Err(_) => Some(Exit::Code(-1)),
        };
    }
}

fn exit(status: &WaitIdStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(target_os = "linux")]
fn exit_fd(pid: Pid) -> io::Result<OwnedFd> {
    use rustix::process::PidfdFlags;
    // Kernels before 5.3 and some sandboxes do not have it.
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).or_else(|_| exit_fd_by_thread(pid))
}

#[cfg(not(target_os = "linux"))]
fn exit_fd(pid: Pid) -> io::Result<OwnedFd> {
    exit_fd_by_thread(pid)
}

/// A thread waits for the end and then closes the other end of the pipe that is returned.
fn exit_fd_by_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (read, write) = io::pipe()?;
    let watcher =
        std::thread::Builder::new().name(format!("toolbus exit {}", pid.as_raw_nonzero()));
    watcher.stack_size(64 * 1024).spawn(move || {
        wait(pid, WaitIdOptions::NOWAIT);
        drop(write);
    })?;
    Ok(read.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_watch_for_an_exit_too() {
        let mut process = Process::spawn(&Program::new(vec!["true".into()])).unwrap();
        process.exit_fd = exit_fd_by_thread(process.pid).unwrap();
        assert_eq!(process.wait_exit(Duration::from_secs(60)), Some(Exit::Code(0)));
        assert_eq!(process.finish(), Some(Exit::Code(0)));
    }
}
