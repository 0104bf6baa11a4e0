//! Asking a provider's program for its schema, without running it as a provider.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use toolbus_proto::orchard::probe::{self, Ended, PRINTED_BYTES_MAX};
use toolbus_proto::orchard::schema::{Note, ProviderSchema};
use toolbus_proto::tool::Failure;

use crate::child::{Program, RunLimits, Running, Stopped, Survivors};

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
    let mut running = Running::start_without_input(&program).map_err(|error| error.to_failure())?;
    let limits = RunLimits {
        bytes_max: PRINTED_BYTES_MAX,
        give_up_at: None,
        last_words: LAST_WORDS,
        survivors: Survivors::Ignored,
    };
    let to_end = running.read_to_end(limits, Bytes::new(), |stderr| stderr.take_lines(|_| {}));
    let ended = match timeout(patience, to_end).await {
        Ok(Ok(exit)) => Ended::Exited(exit),
        Ok(Err(Stopped::TooMuchOutput | Stopped::TooMuchErrors)) => Ended::PrintedTooMuch,
        Ok(Err(Stopped::TooLate)) | Err(_) => Ended::StillRunning(patience),
    };
    let errors = || running.stderr.last_lines();
    probe::judge(ended, &running.stdout.bytes).map_err(|error| error.failure(name, errors()))
}
