//! One command for the shell, run to its end: `sh -c`, for `shell:` (`docs/protocols/oracle.md` 11).
//!
//! Waits on the thread it is called on and needs no runtime. No process that the command has
//! started outlives it, unless it left the session by `setsid`.

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::time::Instant;

use toolbus_proto::tool::{Failure, FailureKind};

use super::running::{self, ToEnd};
use super::{Exit, Patience, Program, RunLimits, Stopped, Survivors};
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

/// Runs a command. Its standard error goes to the log. Closing the other end of `cancel`
/// kills it.
pub fn run(command: &str, limits: &Limits, cancel: Option<&PipeReader>) -> Result<Ran, Failure> {
    let program = Program::new(["sh", "-c", command].map(str::to_owned).to_vec());
    // Dropping it, however we leave, kills what is left of its session.
    let (mut process, [mut stdout, mut stderr]) =
        running::spawn(&program, Ok).map_err(|error| error.to_failure())?;
    process.stdin = None;
    // What it left behind has no say in the answer, but may hold its output.
    let survivors = Survivors::Terminated;
    let (bytes_max, last_words) = (limits.stdout_bytes_max, Patience::USUAL.last_words);
    let run_limits = RunLimits { bytes_max, give_up_at: limits.give_up_at, last_words, survivors };
    let mut course = ToEnd::new(run_limits);
    let outcome = loop {
        let wanted = [
            ready::input(stdout.as_fd()),
            ready::input(stderr.as_fd()),
            ready::input(cancel.map(AsFd::as_fd)),
            ready::input(course.awaits_exit().then(|| process.exit_fd())),
        ];
        let [can_read, can_read_errors, is_cancelled, _] =
            ready::wait(&[wanted], course.poll_timeout())[0];
        if is_cancelled {
            return Err(Failure::new(FailureKind::Cancelled, "cancelled"));
        }
        if can_read {
            stdout.read_now();
        }
        if can_read_errors {
            stderr.read_now();
            stderr.take_lines(log);
        }
        if course.awaits_exit()
            && let Some(exit) = process.exit_seen()
        {
            let is_left = running::leave(&process, survivors);
            course.handle_exit(Instant::now(), exit, is_left);
        }
        let is_left = course.awaits_session() && process.session_left();
        course.handle_timeout(Instant::now(), is_left);
        if let Some(outcome) = course.outcome(&stdout, &stderr) {
            break outcome;
        }
    };
    let exit = outcome.map_err(|stopped| failure(stopped, bytes_max))?;
    stderr.end();
    stderr.take_lines(log);
    Ok(Ran { code: code(exit), stdout: stdout.bytes.into() })
}

fn failure(stopped: Stopped, bytes_max: usize) -> Failure {
    match stopped {
        Stopped::TooLate => Failure::new(FailureKind::TimedOut, "the command did not end in time"),
        Stopped::TooMuchOutput | Stopped::TooMuchErrors => {
            let message = format!("the command wrote more than the limit of {bytes_max} bytes");
            Failure::new(FailureKind::TooLarge, message)
        }
    }
}

fn log(line: &str) {
    tracing::info!(peer = NAME, "{line}");
}

/// As a shell tells how a program ended.
pub fn code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}
