//! What an author's program says to people: on standard error, whether or not they still read, and
//! by its exit code. Nothing else of the library prints.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Wrong usage; nothing was served.
pub(crate) const USAGE: u8 = 2;

/// Tells people a line.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells people why the program ends, because of what, and what they can do about it.
pub(crate) fn failed(
    why: impl Display,
    causes: &[String],
    hint: Option<&str>,
    code: u8,
) -> ExitCode {
    say(format_args!("error: {why}"));
    causes.iter().for_each(|cause| say(format_args!("  because: {cause}")));
    if let Some(hint) = hint {
        say(format_args!("hint: {hint}"));
    }
    ExitCode::from(code)
}

/// Prints what was asked for; a reader that has gone is no reason to panic.
pub(crate) fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
