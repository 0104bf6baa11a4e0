//! What a terminal shows: cells with a colour each, and as much of a terminal's language as our
//! programs speak.

/// How a cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Look {
    /// One of the sixteen, if it is not the usual one.
    pub(crate) color: Option<u8>,
    pub(crate) is_bold: bool,
    pub(crate) is_faint: bool,
    pub(crate) is_underlined: bool,
}

pub(crate) type Line = Vec<(char, Look)>;

#[derive(Debug)]
pub(crate) struct Screen {
    columns: usize,
    rows: usize,
    lines: Vec<Line>,
    row: usize,
    column: usize,
    look: Look,
    state: State,
    /// The beginning of a character whose rest has not come.
    partial: Vec<u8>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// Within `ESC [`: what came so far.
    Control(String),
    /// Within `ESC ]`, up to its end.
    Command,
}

impl Screen {
    pub(crate) fn new(columns: usize, rows: usize) -> Screen {
        Screen {
            columns,
            rows,
            lines: vec![Line::new()],
            row: 0,
            column: 0,
            look: Look::default(),
            state: State::Text,
            partial: Vec::new(),
        }
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.partial);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (text, skip) = match std::str::from_utf8(rest) {
                Ok(text) => (text, 0),
                Err(error) => {
                    let valid = std::str::from_utf8(&rest[..error.valid_up_to()]);
                    match error.error_len() {
                        Some(length) => (valid.unwrap_or_default(), length),
                        None => {
                            self.partial = rest[error.valid_up_to()..].to_vec();
                            (valid.unwrap_or_default(), self.partial.len())
                        }
                    }
                }
            };
            text.chars().for_each(|c| self.put(c));
            rest = &rest[text.len() + skip..];
        }
    }

    fn put(&mut self, c: char) {
        match std::mem::take(&mut self.state) {
            State::Text => self.put_text(c),
            State::Escape => {
                self.state = match c {
                    '[' => State::Control(String::new()),
                    ']' => State::Command,
                    _ => State::Text,
                }
            }
            State::Control(mut said) => {
                if c.is_ascii_alphabetic() {
                    self.obey(c, &said);
                } else {
                    said.push(c);
                    self.state = State::Control(said);
                }
            }
            State::Command if c == '\x07' => {}
            State::Command => self.state = State::Command,
        }
    }

    fn put_text(&mut self, c: char) {
        match c {
            '\x1b' => self.state = State::Escape,
            '\r' => self.column = 0,
            '\n' => self.down(),
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' => self.column = (self.column / 8 + 1) * 8,
            c if c.is_control() => {}
            c => {
                if self.columns <= self.column {
                    self.column = 0;
                    self.down();
                }
                let (column, look) = (self.column, self.look);
                let line = &mut self.lines[self.row];
                if line.len() <= column {
                    line.resize(column + 1, (' ', Look::default()));
                }
                line[column] = (c, look);
                self.column += 1;
            }
        }
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.lines.len() {
            self.lines.push(Line::new());
        }
        if self.rows < self.lines.len() {
            self.lines.remove(0);
            self.row -= 1;
        }
    }

    fn obey(&mut self, order: char, said: &str) {
        let number = || said.parse().unwrap_or(1_usize);
        match order {
            'm' => self.dress(said),
            'K' => {
                let line = &mut self.lines[self.row];
                match said {
                    "2" => line.clear(),
                    "1" => line.iter_mut().take(self.column).for_each(|cell| cell.0 = ' '),
                    _ => line.truncate(self.column),
                }
            }
            'J' => {
                self.lines[self.row].truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            'A' => self.row = self.row.saturating_sub(number()),
            'B' => self.row = (self.row + number()).min(self.lines.len() - 1),
            'C' => self.column = (self.column + number()).min(self.columns),
            'D' => self.column = self.column.saturating_sub(number()),
            'G' => self.column = number().saturating_sub(1),
            _ => {}
        }
    }

    fn dress(&mut self, said: &str) {
        let mut codes = said.split(';').map(|code| code.parse().unwrap_or(0_u8));
        while let Some(code) = codes.next() {
            match code {
                0 => self.look = Look::default(),
                1 => self.look.is_bold = true,
                2 => self.look.is_faint = true,
                4 => self.look.is_underlined = true,
                22 => (self.look.is_bold, self.look.is_faint) = (false, false),
                24 => self.look.is_underlined = false,
                30..=37 => self.look.color = Some(code - 30),
                38 => self.look.color = codes.nth(1).filter(|color| *color < 16),
                39 => self.look.color = None,
                90..=97 => self.look.color = Some(code - 90 + 8),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> Vec<String> {
        let mut screen = Screen::new(6, 3);
        // However it is cut.
        bytes.chunks(1).for_each(|byte| screen.feed(byte));
        screen.lines().iter().map(|line| line.iter().map(|cell| cell.0).collect()).collect()
    }

    #[test]
    fn text_is_wrapped_and_scrolls() {
        assert_eq!(shown("ab\r\ncdefghi".as_bytes()), ["ab", "cdefgh", "i"]);
        assert_eq!(shown(b"a\r\nb\r\nc\r\nd"), ["b", "c", "d"]);
        assert_eq!(shown("⠋ é".as_bytes()), ["⠋ é"]);
        assert_eq!(shown(b"a\xffb"), ["ab"]);
    }

    #[test]
    fn lines_are_wiped_and_written_over() {
        assert_eq!(shown(b"wait\r\x1b[2Kok"), ["ok"]);
        assert_eq!(shown(b"wait\rok\x1b[K"), ["ok"]);
        assert_eq!(shown(b"a\r\nb\x1b[A\x1b[1Gc"), ["c", "b"]);
        assert_eq!(shown(b"\x1b]9;title\x07a\x08b"), ["b"]);
    }

    #[test]
    fn colours_are_kept() {
        let mut screen = Screen::new(9, 3);
        screen.feed(b"\x1b[1;32m$\x1b[0m \x1b[91mx\x1b[39my");
        let looks: Vec<_> = screen.lines()[0].iter().map(|(c, look)| (*c, look.color)).collect();
        assert_eq!(looks, [('$', Some(2)), (' ', None), ('x', Some(9)), ('y', None)]);
        assert!(screen.lines()[0][0].1.is_bold && !screen.lines()[0][1].1.is_bold);
    }
}
