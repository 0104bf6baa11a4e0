//! The `schema` probe: a provider's program, started with the argument `schema`, prints its
//! schema and ends. What it printed is judged here; who starts it is elsewhere.

use std::time::Duration;

use thiserror::Error;

use super::schema::{Note, ProviderSchema, SchemaError};
use crate::json::{Json, JsonError, Scanner, edit};
use crate::printable::printable;
use crate::tool::{Exit, Failure, FailureKind, LastWords};

/// What a program may print.
pub const PRINTED_BYTES_MAX: usize = 16 << 20;
/// How much of what is not a schema is shown.
const SHOWN_MAX: usize = 80;

/// What became of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended.
    Exited(Exit),
    /// It did not, for so long.
    StillRunning(Duration),
    /// It printed more than [`PRINTED_BYTES_MAX`], and was not waited for.
    PrintedTooMuch,
}

/// Why the probe gave no schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// It ended otherwise than with status 0, whatever it printed.
    #[error("{} when asked for its schema", super::calling::ended(*.0))]
    Failed(Exit),
    /// It did not end.
    #[error("did not print its schema within {0:?}")]
    Late(Duration),
    /// It printed without end.
    #[error("printed more than {PRINTED_BYTES_MAX} bytes as its schema")]
    TooMuch,
    /// It printed nothing.
    #[error("printed no schema: stdout must hold only JSON")]
    Nothing,
    /// It printed something else.
    #[error("printed `{shown}`: stdout must hold only JSON ({error})")]
    NotJson {
        /// The beginning of it.
        shown: String,
        /// What is wrong with it.
        error: JsonError,
    },
    /// Something follows the schema.
    #[error("printed trailing data after the schema: {0}")]
    Trailing(String),
    /// The schema stands inside an object, as in the answer to `describe`.
    #[error("printed its schema inside an object")]
    Wrapped,
    /// The schema cannot be used.
    #[error(transparent)]
    Schema(SchemaError),
}

/// Judges what the program did. Blanks and line breaks do not matter.
pub fn judge(ended: Ended, stdout: &[u8]) -> Result<(ProviderSchema, Vec<Note>), ProbeError> {
    match ended {
        Ended::StillRunning(patience) => return Err(ProbeError::Late(patience)),
        Ended::PrintedTooMuch => return Err(ProbeError::TooMuch),
        Ended::Exited(Exit::Code(0)) if PRINTED_BYTES_MAX < stdout.len() => {
            return Err(ProbeError::TooMuch);
        }
        Ended::Exited(Exit::Code(0)) => {}
        Ended::Exited(exit) => return Err(ProbeError::Failed(exit)),
    }
    if stdout.iter().all(u8::is_ascii_whitespace) {
        return Err(ProbeError::Nothing);
    }
    let not_json =
        |error| ProbeError::NotJson { shown: printable(first_line(stdout), SHOWN_MAX), error };
    let text = std::str::from_utf8(stdout).map_err(|_| not_json(JsonError::NotUtf8))?;
    let mut scanner = Scanner::new(text);
    let value = scanner.value().map_err(not_json)?;
    if scanner.end().is_err() {
        let end = value.as_ptr() as usize - text.as_ptr() as usize + value.len();
        let rest = text[end..].trim_ascii();
        return Err(ProbeError::Trailing(printable(first_line(rest.as_bytes()), SHOWN_MAX)));
    }
    if let [Some(_), None] = edit::pick(value, ["schema", "protocol"]) {
        return Err(ProbeError::Wrapped);
    }
    ProviderSchema::read(&Json::from_trusted(value.to_owned())).map_err(ProbeError::Schema)
}

fn first_line(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    text.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

impl ProbeError {
    /// What the provider's author, or its user, can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ProbeError::Late(_) => Some("does it have a `schema` subcommand?".to_owned()),
            ProbeError::Wrapped => Some("print the schema itself, without the wrapper".to_owned()),
            ProbeError::Schema(error) => error.hint(),
            _ => None,
        }
    }

    /// The failure of provider `name`, which wrote `stderr` last.
    pub fn failure(&self, name: &str, stderr: Vec<String>) -> Failure {
        let kind = match self {
            ProbeError::Late(_) => FailureKind::TimedOut,
            _ => FailureKind::BrokeProtocol,
        };
        let message = match self {
            ProbeError::Schema(error) => error.told_of(name),
            _ => format!("provider `{name}` {self}"),
        };
        let exit = match self {
            ProbeError::Failed(exit) => Some(*exit),
            _ => None,
        };
        let words = LastWords {
            exit,
            stderr,
            hint: self.hint(),
            is_unproven: true,
            ..LastWords::default()
        };
        Failure::new(kind, message).with_last_words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_schema_is_told_apart() {
        let fine = Ended::Exited(Exit::Code(0));
        let echo = r#"{"name":"echo","protocol":"1"}"#;
        let check = |ended, stdout: &str| {
            let failure =
                judge(ended, stdout.as_bytes()).map_err(|error| error.failure("e", Vec::new()));
            failure.map(|(schema, _)| schema.name).map_err(|failure| {
                let words = failure.last_words.unwrap();
                (failure.kind, failure.message, words.hint.unwrap_or_default())
            })
        };
        assert_eq!(check(fine, &format!("\n {echo}\r\n\n")), Ok("echo".to_owned()));
        let broke = FailureKind::BrokeProtocol;
        for (ended, stdout, kind, message, hint) in [
            (
                Ended::Exited(Exit::Code(3)),
                echo,
                broke,
                "provider `e` exited with status 3 when asked for its schema",
                "",
            ),
            (
                Ended::Exited(Exit::Signal(11)),
                "",
                broke,
                "provider `e` was killed by SIGSEGV when asked for its schema",
                "",
            ),
            (
                Ended::StillRunning(Duration::from_secs(5)),
                echo,
                FailureKind::TimedOut,
                "provider `e` did not print its schema within 5s",
                "does it have a `schema` subcommand?",
            ),
            (
                Ended::PrintedTooMuch,
                echo,
                broke,
                "provider `e` printed more than 16777216 bytes as its schema",
                "",
            ),
            (fine, " \n", broke, "provider `e` printed no schema: stdout must hold only JSON", ""),
            (
                fine,
                "Loading...\n{}",
                broke,
                "provider `e` printed `Loading...`: stdout must hold only JSON (not JSON: unexpected `L` at byte 0)",
                "",
            ),
            (
                fine,
                "{\"name\":",
                broke,
                "provider `e` printed `{\"name\":`: stdout must hold only JSON (not JSON: unexpected end at byte 8)",
                "",
            ),
            (fine, "{} {}", broke, "provider `e` printed trailing data after the schema: {}", ""),
            (
                fine,
                "{\"schema\":{}}",
                broke,
                "provider `e` printed its schema inside an object",
                "print the schema itself, without the wrapper",
            ),
            (
                fine,
                "[]",
                broke,
                "provider `e` has a schema that cannot be used: want object, got list",
                "",
            ),
            (
                fine,
                r#"{"name":"x","version":"2","protocol":1}"#,
                broke,
                "provider `e` (x 2) speaks protocol 1, this host speaks \"1\"",
                "`protocol` must be the string \"1\"",
            ),
        ] {
            let want = Err((kind, message.to_owned(), hint.to_owned()));
            assert_eq!(check(ended, stdout), want, "{stdout}");
        }
    }
}
