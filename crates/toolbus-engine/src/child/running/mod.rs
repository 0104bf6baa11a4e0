//! A program that we run: its pipes, the last lines of what it writes, its end and the way there.
//!
//! For those who start a program for a while: a command, a service, a check. One that is kept
//! for calls, and started again, is a [supervisor](super::supervisor)'s.

mod stream;
mod to_end;

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use tokio::task::consume_budget;
use tokio::time::{sleep, sleep_until};

use super::process::failed;
use super::{Exit, Patience, Process, Program, Signal, SpawnError};
use crate::transport::pipe::{Input, Output, Watch};

pub use stream::Stream;
pub(super) use to_end::ToEnd;
pub use to_end::{RunLimits, Stopped, Survivors};

/// A program that runs. Dropping it kills it and all it has started.
///
/// Every wait may be dropped half-way: what was read is in its streams.
#[derive(Debug)]
pub struct Running {
    /// In order to signal it, and to ask about those it has started.
    pub process: Process,
    exit: Watch,
    /// What it reads; `None` once that is closed.
    pub stdin: Option<Output>,
    /// What it writes to standard output.
    pub stdout: Stream<Input>,
    /// What it writes to standard error.
    pub stderr: Stream<Input>,
    /// Those who lived on when it had exited, if they were [awaited](Survivors::Awaited).
    pub left_behind: Vec<(String, i32)>,
}

/// What a program that runs has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// So much more of its standard output was read; none at its end.
    Stdout(usize),
    /// So much more of its standard error was read; none at its end.
    Stderr(usize),
    /// It has exited, and for now there is nothing to read.
    Exited(Exit),
}

impl Running {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    pub fn start(program: &Program) -> Result<Running, SpawnError> {
        let (mut process, [stdout, stderr]) = spawn(program, Input::from_pipe)?;
        let failed = |source| failed(program, source);
        Ok(Running {
            exit: Watch::new(process.exit_fd()).map_err(failed)?,
            stdin: process.stdin.take().map(Output::from_pipe).transpose().map_err(failed)?,
            process,
            stdout,
            stderr,
            left_behind: Vec::new(),
        })
    }

    /// The same with nothing to read, as from the null device.
    pub fn start_without_input(program: &Program) -> Result<Running, SpawnError> {
        let running = Running::start(program)?;
        Ok(Running { stdin: None, ..running })
    }

    /// Waits for the next thing that it does. Its exit comes last, and again and again.
    pub async fn next(&mut self) -> Event {
        // A program that never stops writing must not keep us from everything else. Not between
        // two arms: an exit that is seen must not overtake what was written before it.
        consume_budget().await;
        tokio::select! {
            biased;
            count = self.stdout.read() => Event::Stdout(count),
            count = self.stderr.read() => Event::Stderr(count),
            () = self.exit.ready() => Event::Exited(exit_of(&self.process)),
        }
    }

    /// Writes all of it, while its standard error is read. Does nothing if it does not listen.
    pub async fn write(&mut self, mut rest: &[u8], mut log: impl FnMut(&str)) {
        while !rest.is_empty() && self.stdin.is_some() {
            consume_budget().await;
            tokio::select! {
                biased;
                _ = self.stderr.read() => self.stderr.take_lines(&mut log),
                wrote = write(&self.stdin, rest) => match wrote {
                    Ok(count) => rest = &rest[count..],
                    Err(_) => return,
                },
            }
        }
    }

    /// Does it exit within that time? Its output is thrown away meanwhile, so that it can.
    pub async fn exits_within(&mut self, patience: Duration, mut log: impl FnMut(&str)) -> bool {
        let mut over = pin!(sleep(patience));
        loop {
            consume_budget().await;
            tokio::select! {
                biased;
                () = self.exit.ready() => return true,
                // Before what it writes, which may never end.
                () = &mut over => return false,
                _ = self.stdout.read() => self.stdout.bytes.clear(),
                _ = self.stderr.read() => self.stderr.take_lines(&mut log),
            }
        }
    }

    /// Ends it step by step: it is waited for so long, gets SIGTERM, and is waited for again.
    /// SIGKILL is to drop it. Did it end without a signal?
    pub async fn stop(&mut self, patience: Duration, mut log: impl FnMut(&str)) -> bool {
        self.stdin = None;
        let has_ended = self.exits_within(patience, &mut log).await;
        if !has_ended {
            self.process.signal_session(Signal::Term);
            self.exits_within(Patience::USUAL.signal, log).await;
        }
        has_ended
    }

    /// The last lines of its standard error, which is read until then if it does not end before:
    /// another process may hold it.
    pub async fn last_words(&mut self, until: Instant, mut log: impl FnMut(&str)) -> Vec<String> {
        let mut over = pin!(sleep_until(until.into()));
        while self.stderr.is_open() {
            consume_budget().await;
            tokio::select! {
                biased;
                () = &mut over => self.stderr.end(),
                _ = self.stderr.read() => {}
            }
            self.stderr.take_lines(&mut log);
        }
        self.stderr.last_lines()
    }

    /// Gives it `input` and reads what it writes until it and both its streams have ended, as far
    /// as the limits go. `take` may take what was read of its standard error.
    pub async fn read_to_end(
        &mut self,
        limits: RunLimits,
        mut input: Bytes,
        mut take: impl FnMut(&mut Stream<Input>),
    ) -> Result<Exit, Stopped> {
        let mut course = ToEnd::new(limits);
        loop {
            if input.is_empty() {
                self.stdin = None;
            }
            consume_budget().await;
            tokio::select! {
                biased;
                () = self.exit.ready(), if course.awaits_exit() => {
                    input.clear();
                    if limits.survivors == Survivors::Awaited {
                        self.left_behind = self.process.left_behind();
                    }
                    let is_left = leave(&self.process, limits.survivors);
                    course.handle_exit(Instant::now(), exit_of(&self.process), is_left);
                }
                now = until(course.poll_timeout()) => {
                    let is_left = course.awaits_session() && self.process.session_left();
                    course.handle_timeout(now, is_left);
                }
                _ = self.stdout.read() => {}
                _ = self.stderr.read() => take(&mut self.stderr),
                wrote = write(&self.stdin, &input) => match wrote {
                    Ok(count) => input.advance(count),
                    // It does not want the rest.
                    Err(_) => input.clear(),
                },
            }
            if let Some(outcome) = course.outcome(&self.stdout, &self.stderr) {
                if outcome.is_ok() {
                    self.stderr.end();
                    take(&mut self.stderr);
                }
                return outcome;
            }
        }
    }
}

/// Starts a program, and opens what it writes.
pub(super) fn spawn<I>(
    program: &Program,
    open: impl Fn(OwnedFd) -> io::Result<I>,
) -> Result<(Process, [Stream<I>; 2]), SpawnError> {
    let mut process = Process::spawn(program)?;
    let open = |pipe: Option<OwnedFd>| {
        let input = pipe.map(&open).transpose().map_err(|source| failed(program, source))?;
        Ok(Stream::new(input))
    };
    let streams = [open(process.stdout.take())?, open(process.stderr.take())?];
    Ok((process, streams))
}

/// How a process ended that has.
fn exit_of(process: &Process) -> Exit {
    process.exit_seen().unwrap_or(Exit::Code(0))
}

/// Does what is wanted of those that a process which has exited left behind. Are they to be
/// waited for?
pub(super) fn leave(process: &Process, survivors: Survivors) -> bool {
    let is_left = survivors == Survivors::Awaited && process.session_left();
    if is_left || survivors == Survivors::Terminated {
        process.signal_session(Signal::Term);
    }
    is_left
}

/// Waits until then, which it gives, or for ever.
async fn until(instant: Option<Instant>) -> Instant {
    let Some(instant) = instant else { return std::future::pending().await };
    sleep_until(instant.into()).await;
    instant
}

/// Writes as much as fits; waits for ever if there is no input any more.
async fn write(stdin: &Option<Output>, bytes: &[u8]) -> io::Result<usize> {
    match stdin {
        Some(output) => output.write(&[IoSlice::new(bytes)]).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RunLimits = RunLimits {
        bytes_max: 1 << 20,
        give_up_at: None,
        last_words: Duration::from_secs(60),
        survivors: Survivors::Awaited,
    };

    fn start(script: &str) -> Running {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Running::start(&Program::new(words)).unwrap()
    }

    #[tokio::test]
    async fn a_program_is_given_its_input_and_read_to_its_end() {
        let mut running = start("cat; printf 'no\nmore' >&2; exit 3");
        let input = Bytes::from(vec![b'x'; LIMITS.bytes_max]);
        let ended = running.read_to_end(LIMITS, input.clone(), |stderr| stderr.take_lines(|_| {}));
        assert_eq!(ended.await, Ok(Exit::Code(3)));
        assert!(running.stdout.bytes == input);
        assert_eq!(running.stderr.last_lines(), ["no", "more"]);
        assert_eq!(running.left_behind, []);
    }

    #[tokio::test]
    async fn those_it_leaves_behind_are_named_and_told_to_end() {
        let mut running = start("sleep 600 & exit 0");
        let ended = running.read_to_end(LIMITS, Bytes::new(), |_| {}).await;
        assert_eq!(ended, Ok(Exit::Code(0)));
        assert!(!running.process.session_left());
        #[cfg(target_os = "linux")]
        assert_eq!(running.left_behind.len(), 1);
    }

    #[tokio::test]
    async fn a_program_that_only_complains_can_still_be_told_something() {
        let mut running = start("head -c 1000000 /dev/zero >&2; read line; echo heard $line");
        running.write(&b"this\n".repeat(1 << 20), |_| {}).await;
        running.stdin = None;
        while running.stdout.is_open() {
            running.next().await;
        }
        assert_eq!(running.stdout.bytes, "heard this\n");
    }

    #[tokio::test]
    async fn an_exit_does_not_overtake_what_was_written_before_it() {
        let mut running = start("head -c 30000000 /dev/zero; echo last >&2");
        let mut read = 0;
        while let Event::Stdout(_) | Event::Stderr(_) = running.next().await {
            read += running.stdout.bytes.split().len();
            running.stderr.take_lines(|_| {});
        }
        assert_eq!((read, running.stderr.last_lines()), (30_000_000, vec!["last".to_owned()]));
    }

    #[tokio::test]
    async fn one_that_does_not_end_by_itself_gets_a_signal() {
        let mut running = start("exec sleep 600");
        assert!(!running.stop(Duration::ZERO, |_| {}).await);
        let exit = loop {
            if let Event::Exited(exit) = running.next().await {
                break exit;
            }
        };
        assert_eq!(exit, Exit::Signal(15));
    }
}
