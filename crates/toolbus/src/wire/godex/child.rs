//! One run of a `godex exec` program: started without input, read to its end, and left in order.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::time::timeout;
use toolbus_proto::tool::{Failure, LastWords};

use crate::chance;
use crate::child::{Event, Patience, Program, Running, scratch};

/// A program that runs. Dropping it kills it and all it has started.
pub struct Child {
    name: String,
    running: Running,
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
        let running = Running::start_without_input(program).map_err(|error| error.to_failure())?;
        tracing::info!(peer = name, "started, process {}", running.process.pid());
        Ok(Child { name: name.to_owned(), running, _file: file })
    }

    /// More of its standard output; none when it has ended, or the program has.
    pub async fn read(&mut self, into: &mut BytesMut) -> usize {
        let count = loop {
            match self.running.next().await {
                Event::Stdout(count) => break count,
                Event::Stderr(_) => self.running.stderr.take_lines(log(&self.name)),
                // A process that it left behind may hold its output open: what is in there counts,
                // and what that one says does not.
                Event::Exited(_) => {
                    let late = timeout(Patience::USUAL.exit, self.running.stdout.read()).await;
                    break late.unwrap_or(0);
                }
            }
        };
        into.unsplit(self.running.stdout.bytes.split());
        count
    }

    /// How it ended, and what it said last, once it has closed its output.
    pub async fn last_words(&mut self, patience: Duration) -> LastWords {
        self.running.stop(patience, log(&self.name)).await;
        let until = Instant::now() + Patience::USUAL.exit;
        let stderr = self.running.last_words(until, log(&self.name)).await;
        LastWords { exit: self.running.process.exit_seen(), stderr, ..LastWords::default() }
    }

    /// Leaves it: one that still runs is waited for, told to end, made to end.
    pub async fn leave(mut self, patience: Duration) {
        let has_ended = self.running.stop(patience, log(&self.name)).await;
        match self.running.process.exit_seen().filter(|_| has_ended && !patience.is_zero()) {
            Some(exit) => tracing::info!(peer = self.name, "ended with {exit}"),
            None => tracing::info!(peer = self.name, "ended, as we asked"),
        }
    }
}

fn log(peer: &str) -> impl Fn(&str) {
    move |line| tracing::info!(peer, "{line}")
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
