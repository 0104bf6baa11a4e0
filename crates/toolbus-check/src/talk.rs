//! One run of a program that is tested: what we say to it and what we hear, line by line.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use toolbus_proto::frame::lines::Lines;

use toolbus::child::stderr::Tail;
use toolbus::child::{Exit, Process, Program, SpawnError};
use toolbus::task::spawn_local;
use toolbus::transport::pipe::{Input, Output, Watch};

/// How long the exit of a program that closed its output is awaited, in order to tell it.
const EXIT_PATIENCE: Duration = Duration::from_millis(300);

/// How often the end of what it says on standard error is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A program that runs. Dropping it kills it and all it has started.
pub(crate) struct Talk {
    process: Process,
    exit: Watch,
    stdin: Option<Output>,
    stdout: Input,
    input: BytesMut,
    lines: Lines,
    stderr: JoinHandle<()>,
    /// What that has read.
    errors: Rc<RefCell<Tail>>,
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
        let mut process = Process::spawn(program)?;
        let failed = |source| SpawnError::Failed { program: program.name().into(), source };
        let missing = || failed(io::Error::other("a pipe was taken already"));
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let stderr = Input::from_pipe(stderr).map_err(failed)?;
        let errors = Rc::new(RefCell::new(Tail::new()));
        Ok(Talk {
            exit: Watch::new(process.exit_fd()).map_err(failed)?,
            process,
            stdin: Some(Output::from_pipe(stdin).map_err(failed)?),
            stdout: Input::from_pipe(stdout).map_err(failed)?,
            input: BytesMut::new(),
            lines: Lines::new(line_bytes_max),
            stderr: spawn_local(log(stderr, errors.clone())),
            errors,
            is_unfinished: false,
        })
    }

    /// Its next byte, which stays to be heard as a part of its line.
    pub(crate) async fn first_byte(&mut self, until: Instant) -> Result<u8, Heard> {
        while self.input.is_empty() {
            self.read(until).await?;
        }
        Ok(self.input[0])
    }

    pub(crate) async fn line(&mut self, until: Instant) -> Heard {
        loop {
            match self.lines.next(&mut self.input) {
                Some(Ok(line)) => return Heard::Line(line),
                Some(Err(too_long)) => return Heard::Line(too_long.to_string().into()),
                None => {}
            }
            match self.read(until).await {
                Ok(()) => {}
                // What it began to say is all we will hear of it.
                Err(Heard::Ended) => {
                    let last = self.lines.last(&mut self.input);
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
        self.input.clear();
        self.lines.last(&mut self.input);
    }

    /// What it says next, as bytes; none once it has closed its output.
    pub(crate) async fn bytes(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        self.stdout.read(into).await
    }

    async fn read(&mut self, until: Instant) -> Result<(), Heard> {
        // A program that never stops talking stops neither the clock nor signals.
        tokio::task::yield_now().await;
        if until <= Instant::now() {
            return Err(Heard::Silence);
        }
        match timeout_at(until.into(), self.stdout.read(&mut self.input)).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(_) => Err(Heard::Ended),
            Err(_) => Err(Heard::Silence),
        }
    }

    /// Says a line. Whether it listens is seen by what it answers.
    pub(crate) async fn say(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes()).await;
    }

    /// Says it as it is.
    pub(crate) async fn write(&mut self, mut rest: &[u8]) {
        let Some(stdin) = &self.stdin else { return };
        while !rest.is_empty() {
            match stdin.write(&[IoSlice::new(rest)]).await {
                Ok(count) => rest = &rest[count..],
                Err(_) => return,
            }
        }
    }

    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Does it end by itself in time? What it still says is read, so that it can.
    pub(crate) async fn ends_within(&mut self, patience: Duration) -> Result<(), String> {
        let drain = async {
            while let Ok(1..) = self.stdout.read(&mut self.input).await {
                self.input.clear();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.exit.ready() => Ok(()),
            () = drain => Ok(()),
            () = tokio::time::sleep(patience) => Err(format!("it still runs after {patience:?}")),
        }
    }

    /// How it ended, for people.
    pub(crate) async fn how_it_ended(&self) -> String {
        let until = Instant::now() + EXIT_PATIENCE;
        let _ = timeout_at(until.into(), self.exit.ready()).await;
        match self.process.exit_seen() {
            Some(exit @ (Exit::Code(1..) | Exit::Signal(_))) => {
                // Its last words are on the way.
                while !self.stderr.is_finished() && Instant::now() < until {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                let errors = self.errors.borrow();
                let said = errors.lines().last().map(|line| format!(", and said: {line}"));
                format!("it ended with {exit}{}", said.unwrap_or_default())
            }
            Some(exit) => format!("it ended with {exit}"),
            None => "it closed its standard output".to_owned(),
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.stderr.abort();
    }
}

async fn log(mut stderr: Input, tail: Rc<RefCell<Tail>>) {
    let mut bytes = BytesMut::new();
    while let Ok(1..) = stderr.read(&mut bytes).await {
        tail.borrow_mut().push(&bytes, |line| tracing::info!("{line}"));
        bytes.clear();
        // A program that never stops complaining must not keep us from everything else.
        tokio::task::yield_now().await;
    }
    tail.borrow_mut().finish(|line| tracing::info!("{line}"));
}
