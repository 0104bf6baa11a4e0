//! Rust source as words and signs, so that a rule is not fooled by a comment or a string.
//!
//! Just enough of the language for `walls.rs` and `names.rs`: comments are dropped, and so is
//! whatever stands under `#[cfg(test)]`; literals are, unless they are asked for.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// A word, `::`, one sign, or a literal with its quotes.
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// The words and signs of a source file that are compiled into the program.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    read(source, Literals::Dropped)
}

/// The same, with what stands in literals.
pub(crate) fn tokens_and_literals(source: &str) -> Vec<Token<'_>> {
    read(source, Literals::Kept)
}

fn read(source: &str, literals: Literals) -> Vec<Token<'_>> {
    without_tests(&Reader { rest: source, line: 1, literals }.collect::<Vec<_>>())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Literals {
    Dropped,
    Kept,
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    literals: Literals,
}

impl<'a> Iterator for Reader<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let first = self.rest.chars().next()?;
            if let Some(len) = blank_or_comment_len(self.rest) {
                self.take(len);
                continue;
            }
            if let Some(len) = literal_len(self.rest) {
                let line = self.line;
                let text = self.take(len);
                // A quote alone begins a lifetime.
                if self.literals == Literals::Dropped || text == "'" {
                    continue;
                }
                return Some(Token { text, line });
            }
            let word_len = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
            let len = match word_len {
                0 if self.rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                len => len,
            };
            let line = self.line;
            return Some(Token { text: self.take(len), line });
        }
    }
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How long the blank or comment at the start of the text is, if there is one.
fn blank_or_comment_len(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if text.starts_with("//") {
        return Some(len_until(text, "\n", 2));
    }
    if text.starts_with("/*") {
        return Some(len_until(text, "*/", 2));
    }
    None
}

fn len_until(text: &str, end: &str, from: usize) -> usize {
    text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
}

/// How long the literal at the start of the text is, if there is one.
fn literal_len(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    // r"…", r#"…"#, br"…": ends at a quote with as many hashes, and knows no escapes.
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix("cr"));
    if let Some(raw) = raw.or_else(|| text.strip_prefix('r')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            return Some(len_until(text, &end, text.len() - raw.len() + hashes + 1));
        }
    }
    if first == '"' {
        return Some(quoted_len(text, '"'));
    }
    if first == '\'' {
        let mut chars = text.chars().skip(1);
        // 'a' is a letter, 'a without a second quote a lifetime.
        return match (chars.next(), chars.next()) {
            (Some('\\'), _) | (Some(_), Some('\'')) => Some(quoted_len(text, '\'')),
            _ => Some(1),
        };
    }
    None
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Drops each item under `#[cfg(test)]`: to its closing brace, or to its semicolon.
fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        if rest.len() < MARK.len() || rest.iter().zip(MARK).any(|(token, mark)| token.text != mark)
        {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let mut depth = 0;
        let end = rest.iter().position(|token| {
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(token.text, "}" | ";")
        });
        at += end.map_or(rest.len(), |end| end + 1);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{tokens, tokens_and_literals};

    fn check(source: &str, expected: &str) {
        let texts: Vec<&str> = tokens(source).iter().map(|token| token.text).collect();
        assert_eq!(texts.join(" "), expected);
    }

    #[test]
    fn words_and_signs() {
        check("use std::{fs, io};", "use std :: { fs , io } ;");
        check("fn f<'a>(x: &'a str) -> u8 { b'x' }", "fn f < a > ( x : & a str ) - > u8 { b }");
    }

    #[test]
    fn comments_and_literals_are_dropped() {
        check("a // std::fs\nb /* tokio */ c", "a b c");
        check(r#"x("std::fs \" tokio", '"', '\'', y)"#, "x ( , , , y )");
        check("x(r#\"a \" b\"#, br\"\\\", r#type)", "x ( , , r # type )");
        check("\"never closed", "");
    }

    #[test]
    fn literals_may_be_kept() {
        let texts: Vec<&str> =
            tokens_and_literals("f::<'a>(\"x y\") // z").iter().map(|token| token.text).collect();
        assert_eq!(texts.join(" "), "f :: < a > ( \"x y\" )");
    }

    #[test]
    fn tests_are_dropped() {
        check("a; #[cfg(test)] mod tests { fn f() { g() } } b", "a ; b");
        check("a; #[cfg(test)] mod tests; b", "a ; b");
        check("#[cfg(test)] use x; #[cfg(unix)] y", "# [ cfg ( unix ) ] y");
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let lines: Vec<usize> =
            tokens("a\n/*\n*/ b \"\n\" c\n").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 3, 4]);
    }
}
