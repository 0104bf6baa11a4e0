//! A command line cut into words as a shell would cut it, and nothing more.
//!
//! Quotes and backslashes are understood; variables, globs, pipes and redirections are plain
//! text. The rules are `docs/protocols/oracle.md` C2, and every stdio address uses them.

use thiserror::Error;

/// Why a command cannot be cut into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WordsError {
    /// A quote was opened and never closed.
    #[error("missing closing quote")]
    MissingQuote,
    /// There is no word at all: nothing to start.
    #[error("empty command")]
    Empty,
}

/// The words of a command, at least one.
pub fn split(command: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut rest = command.chars();
    while let Some(word) = next_word(&mut rest)? {
        words.push(word);
    }
    if words.is_empty() { Err(WordsError::Empty) } else { Ok(words) }
}

fn next_word(rest: &mut std::str::Chars<'_>) -> Result<Option<String>, WordsError> {
    // `None` is no word yet, which is not the same as an empty one: `''` is a word.
    let mut word: Option<String> = None;
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' if word.is_some() => break,
            ' ' | '\t' | '\n' => {}
            '#' if word.is_none() => {
                rest.find(|&c| c == '\n');
            }
            '\'' => single_quoted(rest, word.get_or_insert_default())?,
            '"' => double_quoted(rest, word.get_or_insert_default())?,
            '\\' => match rest.next() {
                Some('\n') => {}
                escaped => word.get_or_insert_default().push(escaped.unwrap_or('\\')),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    Ok(word)
}

fn single_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    loop {
        match rest.next().ok_or(WordsError::MissingQuote)? {
            '\'' => return Ok(()),
            c => word.push(c),
        }
    }
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    loop {
        match rest.next().ok_or(WordsError::MissingQuote)? {
            '"' => return Ok(()),
            '\\' => match rest.next().ok_or(WordsError::MissingQuote)? {
                '\n' => {}
                c @ ('$' | '`' | '"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

/// A word as it stands in a command line, quoted where it must be.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "@%+=:,./_-~".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, words: &[&str]) {
        assert_eq!(split(command).unwrap(), words, "{command:?}");
    }

    #[test]
    fn the_vectors_of_the_oracle_hold() {
        let text = include_str!("../../../../transcripts/oracle/words.jsonl");
        let mut checked = 0;
        for line in text.lines() {
            let vector: serde_json::Value = serde_json::from_str(line).unwrap();
            let connection = vector["connection"].as_str().unwrap();
            let command = connection.strip_prefix("oracle+").unwrap_or(connection);
            // Vectors of the scheme are for the tests of addresses.
            let Some(command) = command.strip_prefix("stdio:") else {
                continue;
            };
            match split(command) {
                Ok(words) => assert_eq!(vector["words"], serde_json::json!(words), "{line}"),
                Err(WordsError::Empty) => assert_eq!(vector["error"], "empty oracle command"),
                Err(error) => assert_eq!(vector["error"], error.to_string(), "{line}"),
            }
            checked += 1;
        }
        assert_eq!(checked, 19);
    }

    #[test]
    fn a_backslash_before_a_line_end_vanishes() {
        check("p a\\\nb", &["p", "ab"]);
        check("p \"a\\\nb\"", &["p", "ab"]);
        check("p \\\n q", &["p", "q"]);
        check("p '\\\n'", &["p", "\\\n"]);
        // Nothing was begun, so a comment may still begin.
        check("p \\\n# q", &["p"]);
    }

    #[test]
    fn comments_end_at_the_line_end() {
        check("p # it's\nq", &["p", "q"]);
        check("p '#' \\# \"\"#", &["p", "#", "#", "#"]);
    }

    #[test]
    fn an_open_quote_is_an_error_wherever_it_stands() {
        for command in ["'", "\"", "p 'a", "p \"a\\\"", "p \"a\\", "a'b'\""] {
            assert_eq!(split(command), Err(WordsError::MissingQuote), "{command:?}");
        }
    }

    #[test]
    fn nothing_to_start_is_an_error() {
        for command in ["", " \t\n", "# all comment", "\\\n"] {
            assert_eq!(split(command), Err(WordsError::Empty), "{command:?}");
        }
    }
}
