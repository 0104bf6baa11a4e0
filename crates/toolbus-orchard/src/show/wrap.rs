//! Text in lines of at most so many columns, broken where readers expect it.

use unicode_width::UnicodeWidthChar;

use super::line_break::breaks;

/// The lines of a text: its own ones, and each of them broken where it is too wide.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let (mut start, mut end, mut width) = (0, 0, 0);
        for word in words(line, columns) {
            if columns < width + word.width && start < end {
                lines.push(line[start..end].trim_end_matches(' '));
                (start, width) = (end, 0);
            }
            end += word.text.len();
            width += word.width + word.spaces;
        }
        lines.push(line[start..].trim_end_matches(' '));
    }
    lines
}

/// How many columns a terminal needs for a character.
pub(super) fn columns_of(char: char) -> usize {
    char.width().unwrap_or(0)
}

/// A part of a line that is not broken.
struct Word<'a> {
    /// With the spaces behind it.
    text: &'a str,
    /// How many columns it takes without them.
    width: usize,
    spaces: usize,
}

fn words(line: &str, columns: usize) -> Vec<Word<'_>> {
    let (mut words, mut start) = (Vec::new(), 0);
    for end in breaks(line).into_iter().chain([line.len()]) {
        let mut word = &line[start..end];
        start = end;
        while let Some(at) = hyphen(word) {
            let (left, right) = word.split_at(at);
            cut(left, columns, &mut words);
            word = right;
        }
        cut(word, columns, &mut words);
    }
    words
}

/// Behind the first hyphen between letters or digits.
fn hyphen(word: &str) -> Option<usize> {
    let is_within = |at: &usize| {
        let (left, right) = (word[..*at].chars().next_back(), word[*at + 1..].chars().next());
        left.is_some_and(char::is_alphanumeric) && right.is_some_and(char::is_alphanumeric)
    };
    word.match_indices('-').map(|(at, _)| at).find(is_within).map(|at| at + 1)
}

/// Takes a word, in pieces if it is too wide for a line.
fn cut<'a>(word: &'a str, columns: usize, words: &mut Vec<Word<'a>>) {
    let letters = word.trim_end_matches(' ');
    let (mut start, mut width) = (0, 0);
    for (at, char) in letters.char_indices() {
        if 0 < width && columns < width + columns_of(char) {
            words.push(Word { text: &word[start..at], width, spaces: 0 });
            (start, width) = (at, 0);
        }
        width += columns_of(char);
    }
    words.push(Word { text: &word[start..], width, spaces: word.len() - letters.len() });
}
