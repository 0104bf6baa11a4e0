//! How the program ends: the exit codes, in the one table that help, man page and code share.
//!
//! Scripts depend on these numbers; they mean the same for every command.

use std::process::ExitCode;

use crate::render::table;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was to do.
    Done = 0,
    /// The work was tried and failed.
    Failed = 1,
    /// The words or the input made no sense; nothing was started.
    Usage = 2,
    /// The other side could not be reached, or broke its protocol.
    Unreachable = 3,
    /// The other side took too long.
    TimedOut = 4,
    /// A SIGINT came.
    Interrupted = 130,
    /// A SIGTERM came.
    Terminated = 143,
}

impl Exit {
    pub(crate) const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Unreachable,
        Exit::TimedOut,
        Exit::Interrupted,
        Exit::Terminated,
    ];

    /// The exit code of the program.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one of that code, or that of a failure.
    pub(crate) fn of(code: u8) -> Exit {
        Exit::ALL.into_iter().find(|exit| exit.code() == code).unwrap_or(Exit::Failed)
    }

    /// The same for a command that listens: who manages it ends it by SIGTERM, and once it has
    /// stopped in order nothing has gone wrong.
    pub(crate) fn of_listener(self) -> Exit {
        match self {
            Exit::Terminated => Exit::Done,
            other => other,
        }
    }

    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Failed => "the work was tried and failed: a tool said no",
            Exit::Usage => "wrong usage or invalid input; nothing was started",
            Exit::Unreachable => "the other side could not be reached, or broke its protocol",
            Exit::TimedOut => "timed out",
            Exit::Interrupted => "ended by SIGINT (Ctrl-C)",
            Exit::Terminated => "ended by SIGTERM",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// The table as the end of `toolbus --help` shows it.
pub(crate) fn help() -> String {
    let rows = Exit::ALL.map(|exit| [exit.code().to_string(), exit.meaning().to_owned()]);
    format!("Exit codes:\n{}", table::indented(&rows))
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_readme_has_the_same_table() {
        let rows = Exit::ALL.map(|exit| format!("| {} | {} |\n", exit.code(), exit.meaning()));
        let readme = include_str!("../../../README.md");
        assert!(readme.contains(&rows.concat()), "README.md must have\n{}", rows.concat());
    }
}
