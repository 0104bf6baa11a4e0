//! The connection strings of oracles (`specs/oracle.md` C1, C2).

use thiserror::Error;

use crate::child::words::{self, WordsError};

pub(super) const SHELL_IS_OFF: &str =
    "`shell:` is off, since whoever calls it can run any command; it has to be allowed";

/// Which oracle is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Connection {
    /// A program to start, with its arguments.
    Stdio(Vec<String>),
    /// The shell, for one command.
    Shell,
}

/// Why a text is no connection string.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ConnectionError {
    #[error(
        "unsupported connection scheme: {connection:?}; supported are `stdio:<command>` and `shell:`"
    )]
    Scheme { connection: String },
    #[error("nothing may stand behind `shell:`; the command is an argument of `exec`")]
    BehindShell,
    #[error("failed to parse oracle command: missing closing quote")]
    MissingQuote,
    #[error("empty oracle command")]
    Empty,
}

impl Connection {
    pub(super) fn parse(connection: &str) -> Result<Connection, ConnectionError> {
        let stdio = connection.strip_prefix("oracle+").unwrap_or(connection);
        if let Some(command) = stdio.strip_prefix("stdio:") {
            return words::split(command).map(Connection::Stdio).map_err(|error| match error {
                WordsError::MissingQuote => ConnectionError::MissingQuote,
                WordsError::Empty => ConnectionError::Empty,
            });
        }
        match connection.strip_prefix("shell:") {
            Some("") => Ok(Connection::Shell),
            Some(_) => Err(ConnectionError::BehindShell),
            None => Err(ConnectionError::Scheme { connection: connection.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_literal() {
        let stdio = |words: [&str; 2]| Ok(Connection::Stdio(words.map(str::to_owned).to_vec()));
        assert_eq!(Connection::parse("stdio:a b"), stdio(["a", "b"]));
        assert_eq!(Connection::parse("oracle+stdio:a b"), stdio(["a", "b"]));
        assert_eq!(Connection::parse("shell:"), Ok(Connection::Shell));
        for (connection, want) in [
            (
                "Stdio:x",
                "unsupported connection scheme: \"Stdio:x\"; supported are `stdio:<command>` and `shell:`",
            ),
            (
                "oracle+shell:",
                "unsupported connection scheme: \"oracle+shell:\"; supported are `stdio:<command>` and `shell:`",
            ),
            ("shell:ls", "nothing may stand behind `shell:`; the command is an argument of `exec`"),
            ("stdio:'x", "failed to parse oracle command: missing closing quote"),
            ("stdio:", "empty oracle command"),
        ] {
            assert_eq!(Connection::parse(connection).unwrap_err().to_string(), want);
        }
    }
}
