//! One command, run to its end: what it writes is kept, and no process of it is left behind.
//!
//! It is done when it has itself ended. What is left of its session is then asked to end, and
//! made to after a while; pipes that such a process holds open are not waited for longer.

use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::time::{Instant, sleep, sleep_until};
use toolbus::Exit;
use toolbus::child::stderr::Tail;
use toolbus::child::{Process, Program, Signal, SpawnError};
use toolbus::transport::pipe::{Input, Output, Watch};

use super::BYTES_MAX;

/// From SIGTERM until SIGKILL.
const SIGNAL: Duration = Duration::from_secs(2);
/// How often it is looked whether the rest of a session has gone.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// What became of a command.
pub(super) struct Ran {
    pub(super) exit: Exit,
    /// The names and numbers of processes that it had left running, which were stopped then.
    pub(super) left_behind: Vec<(String, i32)>,
    pub(super) stdout: BytesMut,
    pub(super) stderr: BytesMut,
}

/// Why it has no end of its own.
pub(super) enum NotRun {
    Spawn(SpawnError),
    Pipes(io::Error),
    /// It ran too long and was stopped; this is what it had written to standard error.
    TooLong(BytesMut),
    /// It wrote too much, to the stream of that name.
    TooMuch(&'static str),
}

/// Runs a command to its end, or until `give_up`. Dropping the future kills it.
pub(super) async fn run(
    program: &Program,
    stdin: Option<String>,
    give_up: Option<Instant>,
) -> Result<Ran, NotRun> {
    let process = Process::spawn(program).map_err(NotRun::Spawn)?;
    let mut running = Running::new(process, stdin).map_err(NotRun::Pipes)?;
    let listened = running.listen(give_up).await?;
    let Some(exit) = listened else {
        running.stop().await;
        return Err(NotRun::TooLong(running.errors));
    };
    let left_behind = running.process.left_behind();
    running.leave().await?;
    Ok(Ran { exit, left_behind, stdout: running.output, stderr: running.errors })
}

/// Its last lines, as they may be shown to people.
pub(super) fn last_lines(stderr: &[u8]) -> String {
    let mut tail = Tail::new();
    tail.push(stderr, |_| {});
    tail.finish(|_| {});
    tail.lines().collect::<Vec<_>>().join("\n")
}

struct Running {
    process: Process,
    exit: Watch,
    stdin: Option<(Output, Bytes)>,
    stdout: Option<Input>,
    stderr: Option<Input>,
    output: BytesMut,
    errors: BytesMut,
}

impl Running {
    fn new(mut process: Process, stdin: Option<String>) -> io::Result<Running> {
        let missing = || io::Error::other("a pipe was taken already");
        let exit = Watch::new(process.exit_fd())?;
        let input = process.stdin.take().ok_or_else(missing)?;
        let stdin = match stdin.filter(|text| !text.is_empty()) {
            Some(text) => Some((Output::from_pipe(input)?, Bytes::from(text))),
            None => None,
        };
        let stdout = Some(Input::from_pipe(process.stdout.take().ok_or_else(missing)?)?);
        let stderr = Some(Input::from_pipe(process.stderr.take().ok_or_else(missing)?)?);
        let (output, errors) = (BytesMut::new(), BytesMut::new());
        Ok(Running { process, exit, stdin, stdout, stderr, output, errors })
    }

    /// Reads and writes until the command itself has ended. `None` if it ran too long.
    async fn listen(&mut self, give_up: Option<Instant>) -> Result<Option<Exit>, NotRun> {
        loop {
            tokio::select! {
                biased;
                () = self.exit.ready() => {
                    return Ok(Some(self.process.exit_seen().unwrap_or(Exit::Code(0))));
                }
                () = until(give_up) => return Ok(None),
                read = read(&mut self.stdout, &mut self.output) => {
                    handle_read(&mut self.stdout, &read);
                }
                read = read(&mut self.stderr, &mut self.errors) => {
                    handle_read(&mut self.stderr, &read);
                }
                wrote = write(&self.stdin) => self.handle_wrote(wrote),
            }
            self.check()?;
        }
    }

    fn handle_wrote(&mut self, wrote: io::Result<usize>) {
        let Some((_, text)) = &mut self.stdin else { return };
        match wrote {
            Ok(count) => text.advance(count),
            // It does not want the rest.
            Err(_) => text.clear(),
        }
        if text.is_empty() {
            self.stdin = None;
        }
    }

    fn check(&self) -> Result<(), NotRun> {
        let is_too_much = |bytes: &BytesMut| BYTES_MAX < bytes.len();
        match (is_too_much(&self.output), is_too_much(&self.errors)) {
            (true, _) => Err(NotRun::TooMuch("output")),
            (_, true) => Err(NotRun::TooMuch("error")),
            _ => Ok(()),
        }
    }

    /// The command has ended: reads what is left in its pipes, and stops the rest of its session.
    async fn leave(&mut self) -> Result<(), NotRun> {
        self.stdin = None;
        let until = Instant::now() + SIGNAL;
        let mut is_left = self.process.session_left();
        if is_left {
            self.process.signal_session(Signal::Term);
        }
        while (is_left || self.stdout.is_some() || self.stderr.is_some()) && Instant::now() < until
        {
            tokio::select! {
                read = read(&mut self.stdout, &mut self.output) => {
                    handle_read(&mut self.stdout, &read);
                }
                read = read(&mut self.stderr, &mut self.errors) => {
                    handle_read(&mut self.stderr, &read);
                }
                () = sleep(LOOK), if is_left => is_left = self.process.session_left(),
                () = sleep_until(until) => {}
            }
            self.check()?;
        }
        Ok(())
    }

    /// It ran too long: asked to end, and killed with this if it does not.
    async fn stop(&mut self) {
        self.stdin = None;
        self.process.signal_session(Signal::Term);
        let ended = self.listen(Some(Instant::now() + SIGNAL)).await;
        if matches!(ended, Ok(Some(_))) {
            let _ = self.leave().await;
        }
    }
}

pub(super) async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn read(from: &mut Option<Input>, into: &mut BytesMut) -> io::Result<usize> {
    match from {
        Some(input) => input.read(into).await,
        None => std::future::pending().await,
    }
}

pub(super) fn handle_read(from: &mut Option<Input>, read: &io::Result<usize>) {
    if !matches!(read, Ok(1..)) {
        *from = None;
    }
}

async fn write(stdin: &Option<(Output, Bytes)>) -> io::Result<usize> {
    match stdin {
        Some((output, text)) => output.write(&[IoSlice::new(text)]).await,
        None => std::future::pending().await,
    }
}
