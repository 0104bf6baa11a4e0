//! Characters that people do not see and models read: they are flagged, and written as escapes.

use std::fmt::Write as _;

/// Can people not see this character between these two?
pub fn is_hidden(before: Option<char>, c: char, after: Option<char>) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        // Scripts and emoji need them to join what stands around them.
        '\u{200c}' | '\u{200d}' => {
            let is_above = |c: Option<char>| c.is_some_and(|c| '\u{590}' < c);
            !(is_above(before) && is_above(after))
        }
        _ => HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&c)),
    }
}

const HIDDEN: &[(char, char)] = &[
    ('\0', '\u{1f}'),
    ('\u{7f}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200b}'),
    ('\u{200e}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0d}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The hidden characters of a text, in their order.
pub fn hidden_in(text: &str) -> Vec<char> {
    let mut hidden = Vec::new();
    // Most texts have nothing that would have to be looked at.
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\n')) {
        return hidden;
    }
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if is_hidden(before, c, rest.peek().copied()) {
            hidden.push(c);
        }
        before = Some(c);
    }
    hidden
}

/// The text with each hidden character, and each other control character, as `\u{200b}`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c.is_control() || is_hidden(before, c, rest.peek().copied()) {
            true => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            false => out.push(c),
        }
        before = Some(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_found() {
        for text in ["plain", "é ß", "a\tb\r\n", "👨\u{200d}👩", "ن\u{200c}م", "☺\u{fe0f}"]
        {
            assert!(hidden_in(text).is_empty(), "{text:?}");
        }
        for (text, expected) in [
            ("a\u{200b}b\u{202e}", "\u{200b}\u{202e}"),
            ("a\u{200d}b", "\u{200d}"),
            ("\u{200d}", "\u{200d}"),
            ("👨\u{200d}a", "\u{200d}"),
            ("\0\u{1b}\u{7f}\u{85}\u{ad}", "\0\u{1b}\u{7f}\u{85}\u{ad}"),
            ("\u{e0041}\u{feff}\u{2066}", "\u{e0041}\u{feff}\u{2066}"),
        ] {
            assert_eq!(hidden_in(text).into_iter().collect::<String>(), expected, "{text:?}");
        }
        assert_eq!(escaped("a\u{200b}\n\u{e0041}é"), r"a\u{200b}\u{a}\u{e0041}é");
    }
}
