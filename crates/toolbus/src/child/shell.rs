//! One command for the shell, run to its end: `sh -c`, for `shell:` (`docs/protocols/oracle.md` 11).
//!
//! Waits on the thread it is called on and needs no runtime. No process that the command has
//! started outlives it, unless it left the session by `setsid`.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use toolbus_proto::tool::{Failure, FailureKind};

use super::stderr::Tail;
use super::{Exit, Patience, Process, Program, Signal};
use crate::transport::ready;

/// How far a command may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What it may write to its output.
    pub stdout_bytes_max: usize,
    /// When it has run long enough.
    pub give_up_at: Option<Instant>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 128 and the signal's number if a signal ended it.
    pub code: i32,
    /// All that it wrote to its output.
    pub stdout: Vec<u8>,
}

/// What the log calls it.
const NAME: &str = "shell";

/// How long a session whose leader has gone, and then what it wrote, is waited for.
const LAST_WORDS: Duration = Patience::USUAL.last_words;

const READ_BYTES: usize = 64 * 1024;

/// Runs a command. Its standard error goes to the log. Closing the other end of `cancel`
/// kills it.
pub fn run(command: &str, limits: &Limits, cancel: Option<&PipeReader>) -> Result<Ran, Failure> {
    let words = ["sh", "-c", command].map(str::to_owned).to_vec();
    let process = Process::spawn(&Program::new(words)).map_err(|error| error.to_failure())?;
    // Dropping it, however we leave, kills what is left of its session.
    Running::new(process).watch(limits, cancel)
}

struct Running {
    process: Process,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// When the wait for what follows the exit is over.
    exited: Option<(Exit, Instant)>,
    output: Vec<u8>,
    tail: Tail,
}

impl Running {
    fn new(mut process: Process) -> Running {
        process.stdin = None;
        Running {
            stdout: process.stdout.take(),
            stderr: process.stderr.take(),
            process,
            exited: None,
            output: Vec::new(),
            tail: Tail::new(),
        }
    }

    fn watch(mut self, limits: &Limits, cancel: Option<&PipeReader>) -> Result<Ran, Failure> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some((exit, until)) = self.exited
                && (self.stdout.is_none() && self.stderr.is_none() || until <= Instant::now())
            {
                self.tail.finish(log);
                return Ok(Ran { code: code(exit), stdout: self.output });
            }
            let [stdout, stderr, cancelled, _] = self.wait(limits, cancel);
            if cancelled {
                return Err(Failure::new(FailureKind::Cancelled, "cancelled"));
            }
            if stdout {
                self.read_stdout(&mut buffer, limits)?;
            }
            if stderr {
                self.read_stderr(&mut buffer);
            }
            if self.exited.is_some() {
                continue;
            }
            if let Some(exit) = self.process.exit_seen() {
                self.exited = Some((exit, Instant::now() + LAST_WORDS));
                // What it left behind has no say in the answer, but may hold its output.
                self.process.signal_session(Signal::Term);
            } else if limits.give_up_at.is_some_and(|give_up| give_up <= Instant::now()) {
                let message = "the command did not end in time";
                return Err(Failure::new(FailureKind::TimedOut, message));
            }
        }
    }

    /// Waits for output, standard error, a change of mind, or the exit.
    fn wait(&self, limits: &Limits, cancel: Option<&PipeReader>) -> [bool; 4] {
        let wanted = [
            ready::input(self.stdout.as_ref().map(AsFd::as_fd)),
            ready::input(self.stderr.as_ref().map(AsFd::as_fd)),
            ready::input(cancel.map(AsFd::as_fd)),
            ready::input(self.exited.is_none().then(|| self.process.exit_fd())),
        ];
        let until = self.exited.map(|(_, until)| until).or(limits.give_up_at);
        ready::wait(&[wanted], until)[0]
    }

    fn read_stdout(&mut self, buffer: &mut [u8], limits: &Limits) -> Result<(), Failure> {
        let count = read(&mut self.stdout, buffer);
        let bytes_max = limits.stdout_bytes_max;
        if bytes_max - self.output.len() < count {
            let message = format!("the command wrote more than the limit of {bytes_max} bytes");
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        self.output.extend_from_slice(&buffer[..count]);
        Ok(())
    }

    fn read_stderr(&mut self, buffer: &mut [u8]) {
        let count = read(&mut self.stderr, buffer);
        self.tail.push(&buffer[..count], log);
    }
}

/// Reads once; the end, or a stream that broke, leaves `None` behind.
fn read(from: &mut Option<OwnedFd>, buffer: &mut [u8]) -> usize {
    let Some(fd) = from else { return 0 };
    match rustix::io::read(fd, buffer) {
        Ok(count @ 1..) => count,
        Err(error) if io::Error::from(error).kind() == io::ErrorKind::Interrupted => 0,
        Ok(_) | Err(_) => {
            *from = None;
            0
        }
    }
}

fn log(line: &str) {
    tracing::info!(peer = NAME, "{line}");
}

/// As a shell tells how a program ended.
fn code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}
