//! A page: what a program prints and how it ends, for what it was given. Compared whole.
//!
//! A page cannot hang: after the one patience of all tests the program and its group are
//! killed, and the test fails with what was printed so far.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::patience::PATIENCE;
use crate::process::Group;

/// A program to run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    stdin: Vec<u8>,
    patience: Duration,
}

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct Page {
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The process group it was the first of; `None` if it ran inside the test.
    pub group: Option<Group>,
}

impl Page {
    /// Of a program that is a function and was called: what it wrote, and its exit code.
    pub fn of_call(stdout: &[u8], stderr: &[u8], code: u8) -> Page {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let status = ExitStatus::from_raw(i32::from(code) << 8);
        Page { stdout: text(stdout), stderr: text(stderr), status, group: None }
    }
}

impl Program {
    /// The program at `path`, without arguments, with an empty standard input.
    pub fn new(path: impl AsRef<OsStr>) -> Program {
        Program::of(Command::new(path))
    }

    /// A command of which all but the pipes is said.
    pub fn of(command: Command) -> Program {
        Program { command, stdin: Vec::new(), patience: PATIENCE }
    }

    /// With these arguments behind those it has.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Program {
        self.command.args(args);
        self
    }

    /// With this environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.command.env(name, value);
        self
    }

    /// With these bytes, and then the end, as its standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Program {
        self.stdin = bytes.into();
        self
    }

    /// Runs it to its end, and until no process can write to its pipes any more.
    #[track_caller]
    pub fn run(mut self) -> Page {
        self.command.process_group(0);
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {:?}: {error}", self.command));
        let group = Group::of(&child);
        let until = Instant::now() + self.patience;

        let mut to_stdin = child.stdin.take().expect("is piped");
        let stdin = std::mem::take(&mut self.stdin);
        // A program need not read what it is given.
        thread::spawn(move || to_stdin.write_all(&stdin));
        let stdout = PipeOutput::of(child.stdout.take().expect("is piped"));
        let stderr = PipeOutput::of(child.stderr.take().expect("is piped"));
        let status = wait(child);

        let (stdout, stdout_ended) = stdout.until(until);
        let (stderr, stderr_ended) = stderr.until(until);
        let status = status.recv_timeout(until.saturating_duration_since(Instant::now()));
        let (Ok(status), true, true) = (status, stdout_ended, stderr_ended) else {
            group.kill();
            let what = match status {
                Ok(status) => format!("ended with {status}, but its pipes are still held open"),
                Err(_) => "did not end".to_owned(),
            };
            let printed = Printed { stdout: &stdout, stderr: &stderr };
            panic!("{what} within {:?}: {:?}\n{printed}", self.patience, self.command);
        };
        Page { stdout, stderr, status, group: Some(group) }
    }
}

/// Waits on a thread of its own, so that a test can stop waiting.
fn wait(mut child: Child) -> mpsc::Receiver<ExitStatus> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || child.wait().map(|status| tell.send(status)));
    told
}

/// What comes out of a pipe, read on a thread of its own.
struct PipeOutput(mpsc::Receiver<Vec<u8>>);

impl PipeOutput {
    fn of(mut pipe: impl Read + Send + 'static) -> PipeOutput {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut chunk = [0; 65536];
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                if tell.send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        PipeOutput(told)
    }

    /// All that is heard until then, as text, and whether that was all there is.
    fn until(self, until: Instant) -> (String, bool) {
        let mut heard = Vec::new();
        let ended = loop {
            match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(chunk) => heard.extend_from_slice(&chunk),
                Err(error) => break error == RecvTimeoutError::Disconnected,
            }
        };
        (String::from_utf8_lossy(&heard).into_owned(), ended)
    }
}

impl fmt::Display for Page {
    /// `stdout` and `stderr`, each under its name if there is any, then `exit N` or
    /// `signal N`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Page { stdout, stderr, .. } = self;
        write!(f, "{}", Printed { stdout, stderr })?;
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(f, "exit {code}"),
            (None, Some(signal)) => writeln!(f, "signal {signal}"),
            (None, None) => writeln!(f, "{}", self.status),
        }
    }
}

struct Printed<'a> {
    stdout: &'a str,
    stderr: &'a str,
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in [("stdout", self.stdout), ("stderr", self.stderr)] {
            if !text.is_empty() {
                write!(f, "{name}\n{text}")?;
                // A page is compared whole: that a line has no end must be seen.
                if !text.ends_with('\n') {
                    f.write_str("\n(no newline)\n")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
