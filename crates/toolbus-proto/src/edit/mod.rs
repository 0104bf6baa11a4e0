//! Changes of texts that people write: what is not concerned stays byte for byte, with its comments,
//! blanks, order and line ends.
//!
//! Here is what becomes of the text; reading and writing the file is for others.

pub mod diff;
pub mod jsonc;
pub mod toml;

/// How the lines of a text end: as its first one does.
pub(crate) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// A text of ours with the line ends of another.
pub(crate) fn with_line_ends(text: &str, line_end: &str) -> String {
    match line_end {
        "\n" => text.to_owned(),
        other => text.replace('\n', other),
    }
}

/// The byte order mark that a text may begin with.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';
