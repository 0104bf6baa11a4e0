//! What people and scripts see: data on standard output, reports on standard error.

pub(crate) mod failure;
pub(crate) mod file;
pub(crate) mod pretty;
pub(crate) mod report;
pub(crate) mod spinner;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod width;

use std::borrow::Cow;
use std::io::{self, ErrorKind};

use crate::exit::Exit;
use crate::failed::Failed;
use crate::stdio::{self, Terminal as _};

/// Writes data to standard output and flushes, so that a reader has it before we do anything
/// else. In a pipe it stays as it is; on a terminal nothing that a peer says takes effect.
pub(crate) fn print(text: &str) -> Result<(), Failed> {
    match io::stdout().is_terminal() {
        true => print_own(&for_terminal(text)),
        false => print_own(text),
    }
}

/// The same for one value of JSON, which is shown to people over several lines.
pub(crate) fn print_json(line: &str, paint: style::Paint) -> Result<(), Failed> {
    match io::stdout().is_terminal() {
        true => print_own(&format!("{}\n", pretty::json(&for_terminal(line), paint))),
        false => print_own(line),
    }
}

/// The same for text of our own, colours included.
pub(crate) fn print_own(text: &str) -> Result<(), Failed> {
    print_bytes(text.as_bytes())
}

/// The same for bytes that need not be text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failed> {
    stdio::print(bytes).map_err(|error| match error.kind() {
        // `toolbus … | head -1` has what it wanted and is not interested in our complaints.
        ErrorKind::BrokenPipe => Failed::quietly(Exit::Failed),
        _ => Failed::new(Exit::Failed, "cannot write to standard output").caused_by(&error),
    })
}

/// The text with its control characters spelled out: what a peer says must not move the
/// cursor, clear the screen, change the title of the user's terminal or turn text around.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    spelled(text, |c| match u32::from(c) {
        code @ ..=0xff => format!("\\x{code:02x}"),
        code => format!("\\u{code:04x}"),
    })
}

/// The same as JSON spells it, so that what was JSON stays the same JSON.
pub(crate) fn for_terminal(text: &str) -> Cow<'_, str> {
    spelled(text, |c| format!("\\u{:04x}", u32::from(c)))
}

fn spelled(text: &str, spell: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_harmful(c) {
            true => spelled.push_str(&spell(c)),
            false => spelled.push(c),
        }
    }
    Cow::Owned(spelled)
}

/// C0 but newline and tab, DEL, C1, and what overrides the direction of text.
fn is_harmful(c: char) -> bool {
    let overrides = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n' && c != '\t') || overrides
}

/// A count as people read it: `12,345`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::{for_terminal, grouped, printable};

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(printable("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(printable("a\x1b[2Jb\r\u{9b}c"), "a\\x1b[2Jb\\x0d\\x9bc");
        assert_eq!(printable("\u{202e}txt\u{2069}"), "\\u202etxt\\u2069");
    }

    #[test]
    fn json_on_a_terminal_stays_the_same_json() {
        let line = "{\"a\":\"\u{7f}\u{9b}31m\u{202e}ok\"}\n";
        let shown = for_terminal(line);
        assert_eq!(shown, "{\"a\":\"\\u007f\\u009b31m\\u202eok\"}\n");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(line));
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
