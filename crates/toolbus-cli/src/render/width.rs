//! How wide the terminal is, and text that fits.

use std::env;
use std::io;
use std::os::fd::AsFd;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use crate::stdio::Terminal;

/// The width of text for people where no terminal says otherwise.
pub(crate) const USUAL: usize = 80;

/// The columns of the terminal that standard output is; `None` if it is none.
pub(crate) fn of_stdout() -> Option<usize> {
    of(io::stdout())
}

/// The same for standard error.
pub(crate) fn of_stderr() -> Option<usize> {
    of(io::stderr())
}

fn of(stream: impl AsFd + Terminal) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let said = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let columns = said.unwrap_or(usize::from(size.ws_col));
    Some(if columns == 0 { USUAL } else { columns })
}

/// How many columns of a terminal the text takes.
pub(crate) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text with blanks behind it, up to this many columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(columns(text));
    format!("{text}{:blanks$}", "")
}

/// The text in lines of at most `width` columns, broken between words where that can be. Lines of
/// the text itself stay apart, and as they are if they fit; blanks before a line stay before it.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.trim_end().lines() {
        let paragraph = paragraph.trim_end().replace('\t', "    ");
        if columns(&paragraph) <= width {
            lines.push(paragraph);
            continue;
        }
        let body = paragraph.trim_start();
        let indent = &paragraph[..paragraph.len() - body.len()];
        let mut line = indent.to_owned();
        for word in body.split_whitespace() {
            for (at, piece) in pieces(word).enumerate() {
                let is_first = line.len() == indent.len();
                let blank = if is_first || at > 0 { "" } else { " " };
                if !is_first && width < columns(&line) + blank.len() + columns(piece) {
                    lines.push(std::mem::replace(&mut line, indent.to_owned()));
                } else {
                    line.push_str(blank);
                }
                line.push_str(piece);
            }
        }
        lines.push(line);
    }
    lines
}

/// Where a word may be broken: before and behind the letters of scripts that have no blanks.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_wide = |letter: char| letter.width() == Some(2);
        let end = match is_wide(first) {
            true => first.len_utf8(),
            false => rest.find(is_wide).unwrap_or(rest.len()),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

/// The text in at most `width` columns, its end left out where there are more.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        kept.push(letter);
        if width <= columns(&kept) {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        let text = "one two three\n\n  four five\nincomprehensibilities\n";
        let lines = ["one two", "three", "", "  four", "  five", "incomprehensibilities"];
        assert_eq!(wrapped(text, 8), lines);
        assert_eq!(wrapped("", 8), Vec::<String>::new());
        assert_eq!(wrapped("a  b\n\tcode   here", 20), ["a  b", "    code   here"]);
        assert_eq!(wrapped("天気 予報です", 8), ["天気 予", "報です"]);
        assert_eq!(padded("天気", 6), "天気  ");
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer als", 8), "größer…");
        assert_eq!(cut("天気予報", 8), "天気予報");
        assert_eq!(cut("天気予報", 7), "天気予…");
        assert_eq!(cut("天気予報", 6), "天気…");
    }
}
