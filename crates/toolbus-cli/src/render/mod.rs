//! What people and scripts see: data on standard output, reports on standard error.

pub(crate) mod failure;
pub(crate) mod report;
pub(crate) mod style;
pub(crate) mod table;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};

use crate::exit::Exit;
use crate::failed::Failed;

/// Writes to standard output and flushes, so that a reader has it before we do anything else.
pub(crate) fn print(text: &str) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // `toolbus … | head -1` has what it wanted and is not interested in our complaints.
        ErrorKind::BrokenPipe => Failed::quietly(Exit::Failed),
        _ => Failed::new(Exit::Failed, "cannot write to standard output").caused_by(&error),
    })
}

/// The text with its control characters spelled out: what a peer says must not move the
/// cursor, clear the screen or change the title of the user's terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if harmful(c) {
            // Writing to a string cannot fail.
            let _ = write!(spelled, "\\x{:02x}", u32::from(c));
        } else {
            spelled.push(c);
        }
    }
    Cow::Owned(spelled)
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(printable("a\x1b[2Jb\r\u{9b}c"), "a\\x1b[2Jb\\x0d\\x9bc");
    }
}
