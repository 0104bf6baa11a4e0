//! One command, run to its end: what it writes is kept, and no process of it is left behind.
//!
//! It is done when it has itself ended. What is left of its session is then asked to end, and
//! made to after a while; pipes that such a process holds open are not waited for longer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;
use toolbus::Exit;
use toolbus_engine::child::stderr::Tail;
use toolbus_engine::child::{Program, RunLimits, Running, Signal, SpawnError, Stopped, Survivors};

use super::BYTES_MAX;

/// From SIGTERM until SIGKILL.
const SIGNAL: Duration = Duration::from_secs(2);

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
    let mut running = Running::start(program).map_err(NotRun::Spawn)?;
    let input = Bytes::from(stdin.unwrap_or_default());
    let limits = RunLimits {
        bytes_max: BYTES_MAX,
        give_up_at: give_up.map(Instant::into_std),
        last_words: SIGNAL,
        survivors: Survivors::Awaited,
    };
    match running.read_to_end(limits, input, |_| {}).await {
        Ok(exit) => {
            let Running { left_behind, stdout, stderr, .. } = running;
            Ok(Ran { exit, left_behind, stdout: stdout.bytes, stderr: stderr.bytes })
        }
        Err(Stopped::TooMuchOutput) => Err(NotRun::TooMuch("output")),
        Err(Stopped::TooMuchErrors) => Err(NotRun::TooMuch("error")),
        Err(Stopped::TooLate) => {
            running.process.signal_session(Signal::Term);
            let give_up_at = Some((Instant::now() + SIGNAL).into_std());
            // Whether it ends or not, it is what it says that counts.
            let limits = RunLimits { give_up_at, ..limits };
            let _ = running.read_to_end(limits, Bytes::new(), |_| {}).await;
            Err(NotRun::TooLong(running.stderr.bytes))
        }
    }
}

/// Its last lines, as they may be shown to people.
pub(super) fn last_lines(stderr: &[u8]) -> String {
    Tail::of(stderr).lines().collect::<Vec<_>>().join("\n")
}
