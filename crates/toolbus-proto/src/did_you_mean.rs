//! What was probably meant by a word that is not known: config keys, tools, type names.

use crate::tool::{Failure, FailureKind, LastWords, ToolName};

/// What is told to a caller who asks for a tool that is not there.
pub fn unknown_tool<'a>(name: &ToolName, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let failure = Failure::new(FailureKind::UnknownTool, format!("no such tool: `{name}`"));
    hinted(failure, nearest(name.as_str(), known).map(|meant| format!("did you mean `{meant}`?")))
}

/// A failure that says what the reader can do about it, if there is anything.
pub fn hinted(failure: Failure, hint: Option<String>) -> Failure {
    match hint {
        Some(_) => failure.with_last_words(LastWords { hint, ..LastWords::default() }),
        None => failure,
    }
}

/// The candidate that is spelled most like `word`, if one is near enough to be worth a hint.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Whoever wrote this much by mistake meant nothing that we know.
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let near_enough = word.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= WORD_BYTES_MAX)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= near_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

const WORD_BYTES_MAX: usize = 100;

/// How many letters must be changed, added, left out or swapped with their neighbour.
pub fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous = None;
    for (row, letter) in from.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, &other) in to.iter().enumerate() {
            let changed = last[column] + usize::from(letter != other);
            let mut least = changed.min(last[column + 1] + 1).min(current[column] + 1);
            if column > 0 && previous == Some(other) && to[column - 1] == letter {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
        previous = Some(letter);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ_are_counted() {
        for (from, to, expected) in
            [("", "", 0), ("", "ab", 2), ("add", "ad", 1), ("ehco", "echo", 1), ("abc", "xyz", 3)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }

    #[test]
    fn only_what_is_near_is_a_hint() {
        let tools = ["add", "echo", "upper"];
        assert_eq!(nearest("ehco", tools), Some("echo"));
        assert_eq!(nearest("uper", tools), Some("upper"));
        assert_eq!(nearest("weather", tools), None);
        assert_eq!(nearest("", tools), None);
        assert_eq!(nearest(&"a".repeat(1000), tools), None);
    }
}
