//! One run of a program that is tested: what we say to it and what we hear, line by line.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::time::timeout_at;
use toolbus_proto::frame::lines::Lines;

use toolbus_engine::child::{Exit, Program, Running, SpawnError};

/// How long the exit of a program that closed its output is awaited, in order to tell it.
const EXIT_PATIENCE: Duration = Duration::from_millis(300);

/// A program that runs. Dropping it kills it and all it has started.
pub(crate) struct Talk {
    running: Running,
    lines: Lines,
    /// Its last line did not end.
    is_unfinished: bool,
}

/// What came of listening.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A line, without its end.
    Line(Bytes),
    /// Nothing, and nothing will: it has closed its output.
    Ended,
    /// Nothing in time.
    Silence,
}

impl Talk {
    pub(crate) fn start(program: &Program, line_bytes_max: usize) -> Result<Talk, SpawnError> {
        let running = Running::start(program)?;
        Ok(Talk { running, lines: Lines::new(line_bytes_max), is_unfinished: false })
    }

    /// Its next byte, which stays to be heard as a part of its line.
    pub(crate) async fn first_byte(&mut self, until: Instant) -> Result<u8, Heard> {
        while self.running.stdout.bytes.is_empty() {
            self.read(until).await?;
        }
        Ok(self.running.stdout.bytes[0])
    }

    pub(crate) async fn line(&mut self, until: Instant) -> Heard {
        loop {
            match self.lines.next(&mut self.running.stdout.bytes) {
                Some(Ok(line)) => return Heard::Line(line),
                Some(Err(too_long)) => return Heard::Line(too_long.to_string().into()),
                None => {}
            }
            match self.read(until).await {
                Ok(()) => {}
                // What it began to say is all we will hear of it.
                Err(Heard::Ended) => {
                    let last = self.lines.last(&mut self.running.stdout.bytes);
                    self.is_unfinished |= last.is_some();
                    return last.and_then(Result::ok).map_or(Heard::Ended, Heard::Line);
                }
                Err(heard) => return heard,
            }
        }
    }

    /// Has it ended in the middle of a line?
    pub(crate) fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Throws away what it said so far.
    pub(crate) fn forget(&mut self) {
        self.running.stdout.bytes.clear();
        self.lines.last(&mut self.running.stdout.bytes);
    }

    /// What it says next, as bytes; none once it has closed its output.
    pub(crate) async fn bytes(&mut self, into: &mut BytesMut) -> usize {
        let count = self.more().await;
        into.unsplit(self.running.stdout.bytes.split());
        count
    }

    async fn read(&mut self, until: Instant) -> Result<(), Heard> {
        // A program that never stops talking stops neither the clock nor signals.
        tokio::task::yield_now().await;
        if until <= Instant::now() {
            return Err(Heard::Silence);
        }
        match timeout_at(until.into(), self.more()).await {
            Ok(1..) => Ok(()),
            Ok(0) => Err(Heard::Ended),
            Err(_) => Err(Heard::Silence),
        }
    }

    /// Reads more of its output; none once it has closed that.
    async fn more(&mut self) -> usize {
        let Running { stdout, stderr, .. } = &mut self.running;
        while stdout.is_open() {
            tokio::task::consume_budget().await;
            tokio::select! {
                biased;
                count = stdout.read() => return count,
                _ = stderr.read() => stderr.take_lines(log),
            }
        }
        0
    }

    /// Says a line. Whether it listens is seen by what it answers.
    pub(crate) async fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes()).await;
    }

    /// Says it as it is.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.running.write(bytes, log).await;
    }

    pub(crate) fn hang_up(&mut self) {
        self.running.stdin = None;
    }

    /// Does it end by itself in time? What it still says is read, so that it can.
    pub(crate) async fn ends_within(&mut self, patience: Duration) -> Result<(), String> {
        match self.running.exits_within(patience, log).await {
            true => Ok(()),
            false => Err(format!("it still runs after {patience:?}")),
        }
    }

    /// How it ended, for people.
    pub(crate) async fn how_it_ended(&mut self) -> String {
        let until = Instant::now() + EXIT_PATIENCE;
        self.running.exits_within(EXIT_PATIENCE, log).await;
        match self.running.process.exit_seen() {
            Some(exit @ (Exit::Code(1..) | Exit::Signal(_))) => {
                let said = self.running.last_words(until, log).await.pop();
                let said = said.map(|line| format!(", and said: {line}"));
                format!("it ended with {exit}{}", said.unwrap_or_default())
            }
            Some(exit) => format!("it ended with {exit}"),
            None => "it closed its standard output".to_owned(),
        }
    }
}

fn log(line: &str) {
    tracing::info!("{line}");
}
