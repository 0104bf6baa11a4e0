//! Command lines as transcripts write them.

/// The words of a command line, where `'…'` is one.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut is_quoted = false;
    for char in line.chars() {
        match char {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// The same the other way.
pub(super) fn join(words: &[String]) -> String {
    let quoted = |word: &String| match word.contains(' ') {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}
