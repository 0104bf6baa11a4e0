//! What a child writes on its standard error: cut into lines for the log, the last ones kept.
//!
//! Bytes go in by [`Tail::push`]; nothing here reads. However much arrives, and whether or not a
//! line ever ends, the memory held is bounded, and nothing that is shown can paint a terminal.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;
use std::mem;

use crate::secrets;

/// The target of events that show people a line of a peer's standard error, whatever else they
/// want to see of the log.
pub const SHOWN: &str = "toolbus::stderr";

/// How many lines are kept for a report.
pub const LINES_MAX: usize = 40;

/// Where a line is cut.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The last lines of a child's standard error, as they may be shown to people.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    /// The line that has not ended yet, at most [`LINE_BYTES_MAX`] of it.
    unfinished: Vec<u8>,
    /// The line that has not ended yet was longer than that.
    cut: bool,
}

impl Tail {
    /// Nothing yet.
    pub fn new() -> Tail {
        Tail::default()
    }

    /// All that was written, if it was this.
    pub fn of(bytes: &[u8]) -> Tail {
        let mut tail = Tail::new();
        tail.push(bytes, |_| {});
        tail.finish(|_| {});
        tail
    }

    /// Takes what was read and hands each line that it completes to `log`.
    pub fn push(&mut self, bytes: &[u8], mut log: impl FnMut(&str)) {
        let mut lines = bytes.split(|&byte| byte == b'\n');
        // What stands behind the last line end is unfinished; `split` gives at least one piece.
        let rest = lines.next_back().unwrap_or_default();
        for line in lines {
            self.extend(line);
            log(self.end_line());
        }
        self.extend(rest);
    }

    /// The stream has ended: what is unfinished counts as a line.
    pub fn finish(&mut self, mut log: impl FnMut(&str)) {
        if !self.unfinished.is_empty() {
            log(self.end_line());
        }
    }

    /// Forgets the lines that have ended.
    pub fn clear(&mut self) {
        self.lines.clear();
    }

    /// The last lines, oldest first. An unfinished one counts only after [`Tail::finish`].
    pub fn lines(&self) -> impl ExactSizeIterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = LINE_BYTES_MAX - self.unfinished.len();
        self.cut |= room < piece.len();
        self.unfinished.extend_from_slice(&piece[..room.min(piece.len())]);
    }

    fn end_line(&mut self) -> &str {
        // Taken, so that one long line does not hold its memory for ever.
        let line = mem::take(&mut self.unfinished);
        let cut = mem::take(&mut self.cut);
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(shown(&line, cut));
        self.lines.back().map_or("", String::as_str)
    }
}

/// A line as people may see it: UTF-8, without colours, control characters and our secrets, no longer
/// than the limit.
fn shown(line: &[u8], cut: bool) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    // A cut may go through a character, which is no fault of the child's.
    let text = if cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
    // Before secrets are looked for: a colour may begin in the middle of one.
    let text = without_colours(text);
    let text = &*secrets::masked(&text);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push(c),
            // Written to a `String`, which cannot fail.
            '\0'..='\x7f' if c.is_control() => _ = write!(shown, "\\x{:02x}", u32::from(c)),
            // Terminals obey these too: U+009B begins a command like ESC [.
            _ if c.is_control() => _ = write!(shown, "\\u{{{:x}}}", u32::from(c)),
            _ => shown.push(c),
        }
    }
    shown.truncate(shown.floor_char_boundary(LINE_BYTES_MAX));
    shown
}

/// The text without the sequences that set colours: `ESC [`, numbers, `m`. Programs paint their logs
/// although they write to a pipe.
fn without_colours(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "\x1b[";
    let colour_len = |rest: &str| {
        let numbers = rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
        let len = numbers.count();
        (rest.as_bytes().get(len) == Some(&b'm')).then_some(len + 1)
    };
    let mut plain = Cow::Borrowed("");
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let behind = &rest[at + BEGIN.len()..];
        let (kept, next) = match colour_len(behind) {
            Some(len) => (at, &behind[len..]),
            None => (at + BEGIN.len(), behind),
        };
        plain += &rest[..kept];
        rest = next;
    }
    plain += rest;
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes the pieces and returns what was logged; what is kept must be the end of it.
    fn logged(pieces: &[&[u8]]) -> Vec<String> {
        let mut tail = Tail::new();
        let mut logged = Vec::new();
        for piece in pieces {
            tail.push(piece, |line| logged.push(line.to_owned()));
        }
        tail.finish(|line| logged.push(line.to_owned()));
        let kept: Vec<_> = tail.lines().collect();
        assert_eq!(kept, logged[logged.len().saturating_sub(LINES_MAX)..]);
        logged
    }

    #[test]
    fn lines_come_out_whole_wherever_the_bytes_are_cut() {
        let text = "one\n\ntwo \u{e4}\r\nthree".as_bytes();
        for at in 0..=text.len() {
            let (front, back) = text.split_at(at);
            assert_eq!(logged(&[front, back]), ["one", "", "two \u{e4}", "three"]);
        }
    }

    #[test]
    fn colours_are_left_out_and_other_sequences_shown() {
        let painted = b"\x1b[2m12:00\x1b[0m \x1b[38;5;9mno\x1b[m \x1b[2J \x1b[31\n";
        assert_eq!(logged(&[painted]), ["12:00 no \\x1b[2J \\x1b[31"]);
    }

    #[test]
    fn the_last_forty_lines_are_kept() {
        let text: String = (0..100).map(|number| format!("{number}\n")).collect();
        let mut tail = Tail::new();
        tail.push(text.as_bytes(), |_| {});
        assert_eq!(tail.lines().len(), 40);
        assert_eq!((tail.lines().next(), tail.lines().last()), (Some("60"), Some("99")));
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_is_whole() {
        let mut tail = Tail::new();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            tail.push(&chunk, |_| panic!("no line has ended"));
            assert!(tail.unfinished.capacity() <= 2 * LINE_BYTES_MAX);
        }
        let mut lengths = Vec::new();
        tail.push(b"\nnext\n", |line| lengths.push(line.len()));
        assert_eq!(lengths, [LINE_BYTES_MAX, 4]);
        assert_eq!(tail.unfinished.capacity(), 0);
    }

    #[test]
    fn a_cut_through_a_character_leaves_no_half_of_it() {
        let line = "\u{20ac}".repeat(LINE_BYTES_MAX);
        let shown = &logged(&[line.as_bytes()])[0];
        assert_eq!(shown.len(), LINE_BYTES_MAX / 3 * 3);
        assert!(shown.chars().all(|c| c == '\u{20ac}'));
    }

    #[test]
    fn nothing_shown_can_paint_the_terminal() {
        let line = b"\x1b[31mred\x07 \xff \xc2\x9b1m \ttab\r20%\x7f\n";
        assert_eq!(logged(&[line]), ["red\\x07 \u{fffd} \\u{9b}1m \ttab\\x0d20%\\x7f"]);
        // What is shown is longer than what came, and still bounded.
        assert_eq!(logged(&[&[0x1b; LINE_BYTES_MAX]])[0].len(), LINE_BYTES_MAX);
    }
}
