//! Asking a provider's program for its schema, without running it as a provider.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::time::timeout_at;
use toolbus_proto::orchard::probe::{self, Ended, PRINTED_BYTES_MAX};
use toolbus_proto::orchard::schema::{Note, ProviderSchema};
use toolbus_proto::tool::Failure;

use crate::child::stderr::Tail;
use crate::child::{Exit, Process, Program, SpawnError};
use crate::engine::drive::until;
use crate::transport::pipe::{Input, Watch};

/// How long the rest of what a program wrote is read after it has ended: another process may
/// hold its pipes.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Starts the program with the argument `schema` and nothing to read, and judges what it prints.
/// `name` is what people call it. Must be called inside a `LocalSet`.
pub async fn probe(
    name: &str,
    program: &Program,
    patience: Duration,
) -> Result<(ProviderSchema, Vec<Note>), Failure> {
    let mut program = program.clone();
    program.words.push("schema".to_owned());
    let mut run = Run::start(&program).map_err(|error| error.to_failure())?;
    let until = Instant::now() + patience;
    let ended = match timeout_at(until.into(), run.listen()).await {
        Ok(ended) => ended,
        Err(_) => Ended::StillRunning(patience),
    };
    probe::judge(ended, &run.printed).map_err(|error| error.failure(name, run.stderr()))
}

/// One run of the program. Dropping it kills it and all it has started.
struct Run {
    exit: Watch,
    process: Process,
    stdout: Input,
    stderr: Input,
    printed: BytesMut,
    tail: Tail,
}

impl Run {
    fn start(program: &Program) -> Result<Run, SpawnError> {
        let mut process = Process::spawn(program)?;
        let failed = |source| SpawnError::Failed { program: program.name().into(), source };
        let missing = || failed(io::Error::other("a pipe was taken already"));
        drop(process.stdin.take());
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        Ok(Run {
            exit: Watch::new(process.exit_fd()).map_err(failed)?,
            process,
            stdout: Input::from_pipe(stdout).map_err(failed)?,
            stderr: Input::from_pipe(stderr).map_err(failed)?,
            printed: BytesMut::new(),
            tail: Tail::new(),
        })
    }

    /// Reads until it has ended and both its pipes have, or it prints without end.
    async fn listen(&mut self) -> Ended {
        let mut complaint = BytesMut::new();
        let (mut is_printing, mut is_complaining) = (true, true);
        // Set when it has ended.
        let mut give_up = None;
        while is_printing || is_complaining || give_up.is_none() {
            tokio::select! {
                read = self.stdout.read(&mut self.printed), if is_printing => {
                    is_printing = matches!(read, Ok(1..));
                    if PRINTED_BYTES_MAX < self.printed.len() {
                        return Ended::PrintedTooMuch;
                    }
                }
                read = self.stderr.read(&mut complaint), if is_complaining => {
                    is_complaining = matches!(read, Ok(1..));
                    self.tail.push(&complaint, |_| {});
                    complaint.clear();
                }
                () = self.exit.ready(), if give_up.is_none() => {
                    give_up = Some(Instant::now() + LAST_WORDS);
                }
                () = until(give_up), if give_up.is_some() => break,
            }
        }
        self.tail.finish(|_| {});
        // It is seen at the latest now.
        Ended::Exited(self.process.exit_seen().unwrap_or(Exit::Code(0)))
    }

    fn stderr(&self) -> Vec<String> {
        self.tail.lines().map(str::to_owned).collect()
    }
}
