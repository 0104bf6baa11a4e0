//! A look at the text before it is parsed: the parser compares each key of an object with all
//! keys before it, and would be busy for an hour with a file of keys.

use super::is_word;

/// How many comparisons may be made: one object of 16 thousand keys, or many smaller ones.
const COMPARISONS_MAX: usize = 1 << 27;

/// Where an object begins whose keys are too many for the parser, if there is one.
pub fn crowded_object(text: &str) -> Option<usize> {
    // Each key costs at most as much as there are marks behind keys.
    let marks = text.bytes().filter(|byte| matches!(byte, b'=' | b':')).count();
    if marks.saturating_mul(marks) / 2 <= COMPARISONS_MAX {
        return None;
    }
    let mut scan = Scan { text, at: 0, inside: Vec::new(), comparisons: 0, before: b' ' };
    while scan.at < text.len() {
        if let Some(place) = scan.step() {
            return Some(place);
        }
    }
    None
}

/// What the place is inside of.
enum Inside<'a> {
    Object {
        place: usize,
        keys: usize,
        /// Conditions whose `:` is still to come; it stands behind no key.
        open: usize,
    },
    /// `(`, `[`, the braces of a block and those of `${…}`.
    Bracket,
    Quotes,
    Heredoc(&'a str),
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    inside: Vec<Inside<'a>>,
    comparisons: usize,
    /// The last byte of code that was no blank.
    before: u8,
}

impl<'a> Scan<'a> {
    /// One token further; the place of an object that has become too crowded.
    fn step(&mut self) -> Option<usize> {
        let rest = &self.text.as_bytes()[self.at..];
        match self.inside.last() {
            Some(Inside::Quotes) => self.quoted(rest),
            Some(&Inside::Heredoc(word)) => self.heredoc(rest, word),
            _ => return self.code(rest),
        }
        None
    }

    fn quoted(&mut self, rest: &[u8]) {
        self.at += match rest {
            [b'\\', ..] => 2,
            [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => 3,
            [b'$' | b'%', b'{', ..] => {
                self.inside.push(Inside::Bracket);
                self.before = b'{';
                2
            }
            [b'"', ..] => {
                self.inside.pop();
                self.before = b'"';
                1
            }
            _ => 1,
        };
    }

    fn heredoc(&mut self, rest: &[u8], word: &str) {
        if rest[0] == b'\n' {
            let blanks = rest[1..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let behind = &rest[1 + blanks..];
            let ends = behind.strip_prefix(word.as_bytes());
            if ends.is_some_and(|behind| behind.first().is_none_or(|byte| !is_word(*byte))) {
                self.inside.pop();
                self.before = b'"';
                self.at += 1 + blanks + word.len();
                return;
            }
        }
        // The marks are the same between quotes; a backslash and a quote mean themselves.
        match rest[0] {
            b'\\' | b'"' => self.at += 1,
            _ => self.quoted(rest),
        }
    }

    fn code(&mut self, rest: &'a [u8]) -> Option<usize> {
        let to_line_end = || rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let mut length = 1;
        match rest {
            [b'#', ..] | [b'/', b'/', ..] => {
                self.at += to_line_end();
                return None;
            }
            [b'/', b'*', ..] => {
                let end = self.text[self.at + 2..].find("*/");
                self.at = end.map_or(self.text.len(), |end| self.at + end + 4);
                return None;
            }
            [b' ' | b'\t' | b'\r' | b'\n', ..] => {
                self.at += 1;
                return None;
            }
            [b'"', ..] => self.inside.push(Inside::Quotes),
            [b'<', b'<', ..] => {
                let line = &self.text[self.at + 2..self.at + to_line_end()];
                let word = line.strip_prefix('-').unwrap_or(line).trim_end();
                if !word.is_empty() && word.bytes().all(is_word) {
                    self.inside.push(Inside::Heredoc(word));
                    // To the line break, which may stand before the end already.
                    self.at += to_line_end();
                    return None;
                }
                length = 2;
            }
            // Behind a word or a label stands a block; its attributes are no keys.
            [b'{', ..] if is_word(self.before) || self.before == b'"' => {
                self.inside.push(Inside::Bracket);
            }
            [b'{', ..] => {
                self.inside.push(Inside::Object { place: self.at, keys: 0, open: 0 });
            }
            [b'(' | b'[', ..] => self.inside.push(Inside::Bracket),
            [b')' | b']' | b'}', ..] => drop(self.inside.pop()),
            [b'=', b'=' | b'>', ..] | [b'<' | b'>' | b'!', b'=', ..] => length = 2,
            [b'?' | b'=' | b':', ..] => {
                if let Some(Inside::Object { place, keys, open }) = self.inside.last_mut() {
                    match rest[0] {
                        b'?' => *open += 1,
                        b':' if 0 < *open => *open -= 1,
                        _ => {
                            *keys += 1;
                            self.comparisons += *keys;
                            if COMPARISONS_MAX < self.comparisons {
                                return Some(*place);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
        self.before = rest[length.min(rest.len()) - 1];
        self.at += length;
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_keys_of_objects_are_counted() {
        let lines = |line: &str| line.repeat(20_000);
        let crowded = format!("a = 1\nb = {{{}}}", lines("k = 1\n"));
        assert_eq!(crowded_object(&crowded), Some(10));
        for (text, is_crowded) in [
            (lines("k = 1\n"), false),
            (format!("block \"a\" \"b\" {{\n{}}}", lines("k = 1\n")), false),
            (format!("x = {{ {} }}", lines("k : 1, ")), true),
            (format!("x = \"${{ {{ {} }} }}\"", lines("k : 1, ")), true),
            (format!("x = <<E\n${{ {{ {} }} }}\nE\n", lines("k : 1, ")), true),
            (format!("x = {{ a = \"{}\" }}", lines("k = 1, ")), false),
            (format!("x = {{ a = <<E\n{}\nE\n }}", lines("k = 1, ")), false),
            (format!("x = {{ a = 1 # {}\n }}", lines("k = 1, ")), false),
            (format!("x = {{ a = /* {} */ 1 }}", lines("k = 1, ")), false),
            (format!("x = [{}]", lines("{ a = 1 }, ")), false),
            (format!("x = {{ a = [{}] }}", lines("a == b, c => d, e <= f, ")), false),
            (format!("x = <<E\nE\ny = {{ {} }}", lines("k = 1, ")), true),
        ] {
            assert_eq!(crowded_object(&text).is_some(), is_crowded, "{}", &text[..40]);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_stepped_through(text in "[{}()\"=:?<E\\n\\\\$%#/* -]{0,60}é?") {
            let mut scan = Scan { text: &text, at: 0, inside: Vec::new(), comparisons: 0, before: b' ' };
            while scan.at < text.len() {
                let before = scan.at;
                // A character of several bytes is stepped through byte by byte.
                scan.step();
                prop_assert!(before < scan.at);
            }
        }
    }
}
