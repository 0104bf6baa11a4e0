//! One run of a `godex exec` program: started without input, read to its end, and left in order.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{sleep, timeout};
use toolbus_proto::tool::{Failure, FailureKind, LastWords};

use crate::chance;
use crate::child::stderr::Tail;
use crate::child::{Exit, Patience, Process, Program, Signal, scratch};
use crate::transport::pipe::{Input, Watch};

/// A program that runs. Dropping it kills it and all it has started.
pub struct Child {
    name: String,
    process: Process,
    exit: Watch,
    stdout: Input,
    stderr: Input,
    tail: Tail,
    is_stderr_open: bool,
    /// What it has not read yet may be in here.
    _file: Option<PrivateFile>,
}

impl Child {
    /// Starts it; its standard input is empty.
    pub fn start(
        name: &str,
        program: &Program,
        file: Option<PrivateFile>,
    ) -> Result<Child, Failure> {
        let mut process = Process::spawn(program).map_err(|error| error.to_failure())?;
        drop(process.stdin.take());
        let watched = |process: &mut Process| {
            let missing = || io::Error::other("a pipe was taken already");
            let stdout = Input::from_pipe(process.stdout.take().ok_or_else(missing)?)?;
            let stderr = Input::from_pipe(process.stderr.take().ok_or_else(missing)?)?;
            Ok((stdout, stderr, Watch::new(process.exit_fd())?))
        };
        let (stdout, stderr, exit) = watched(&mut process).map_err(|error: io::Error| {
            Failure::new(FailureKind::Unavailable, format!("cannot watch `{name}`: {error}"))
        })?;
        tracing::info!(peer = name, "started, process {}", process.pid());
        Ok(Child {
            name: name.to_owned(),
            process,
            exit,
            stdout,
            stderr,
            tail: Tail::new(),
            is_stderr_open: true,
            _file: file,
        })
    }

    /// More of its standard output; none when it has ended, or the program has.
    pub async fn read(&mut self, into: &mut BytesMut) -> usize {
        let mut errors = BytesMut::new();
        loop {
            tokio::select! {
                biased;
                read = self.stdout.read(into) => return read.unwrap_or(0),
                read = self.stderr.read(&mut errors), if self.is_stderr_open => {
                    self.handle_stderr(&mut errors, read);
                }
                () = self.exit.ready() => break,
            }
        }
        // A process that it left behind may hold its output open: what is in there counts, and
        // what that one says does not.
        let late = timeout(Patience::USUAL.exit, self.stdout.read(into)).await;
        late.map_or(0, |read| read.unwrap_or(0))
    }

    fn handle_stderr(&mut self, bytes: &mut BytesMut, read: io::Result<usize>) {
        let peer = &self.name;
        let log = |line: &str| tracing::info!(peer, "{line}");
        match read {
            Ok(1..) => self.tail.push(bytes, log),
            Ok(0) | Err(_) => {
                self.is_stderr_open = false;
                self.tail.finish(log);
            }
        }
        bytes.clear();
    }

    /// Waits for its end, at most so long, and reads what it says meanwhile.
    async fn ends_within(&mut self, patience: Duration) -> bool {
        let (mut out, mut errors) = (BytesMut::new(), BytesMut::new());
        let mut is_open = true;
        let mut over = std::pin::pin!(sleep(patience));
        loop {
            tokio::select! {
                biased;
                () = self.exit.ready() => return true,
                read = self.stdout.read(&mut out), if is_open => {
                    is_open = matches!(read, Ok(1..));
                    out.clear();
                }
                read = self.stderr.read(&mut errors), if self.is_stderr_open => {
                    self.handle_stderr(&mut errors, read);
                }
                () = &mut over => return false,
            }
        }
    }

    /// How it ended, and what it said last, once it has closed its output.
    pub async fn last_words(&mut self, patience: Duration) -> LastWords {
        if !self.ends_within(patience).await {
            self.process.signal_session(Signal::Term);
            self.ends_within(Patience::USUAL.signal).await;
        }
        let mut errors = BytesMut::new();
        while self.is_stderr_open {
            let read = timeout(Patience::USUAL.exit, self.stderr.read(&mut errors)).await;
            self.handle_stderr(&mut errors, read.unwrap_or(Ok(0)));
        }
        LastWords {
            exit: self.exit_seen(),
            stderr: self.tail.lines().map(str::to_owned).collect(),
            ..LastWords::default()
        }
    }

    /// How it ended, once that was seen.
    pub fn exit_seen(&self) -> Option<Exit> {
        self.process.exit_seen()
    }

    /// Leaves it: one that still runs is waited for, told to end, made to end.
    pub async fn leave(mut self, patience: Duration) {
        let has_ended = !patience.is_zero() && self.ends_within(patience).await;
        if !has_ended {
            self.process.signal_session(Signal::Term);
            self.ends_within(Patience::USUAL.signal).await;
        }
        match self.exit_seen().filter(|_| has_ended) {
            Some(exit) => tracing::info!(peer = self.name, "ended with {exit}"),
            None => tracing::info!(peer = self.name, "ended, as we asked"),
        }
    }
}

/// A file that only we may read, gone with its owner.
pub struct PrivateFile(PathBuf);

impl PrivateFile {
    /// Writes it where only we can read it.
    pub fn write(text: &str) -> io::Result<PrivateFile> {
        let name: String = chance::bytes::<12>().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = scratch::folder()?.join(format!("{name}.json"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let private = PrivateFile(path);
        file.write_all(text.as_bytes())?;
        Ok(private)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // If it is gone already, that is what is wanted.
        let _ = fs::remove_file(&self.0);
    }
}
