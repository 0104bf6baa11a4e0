//! Text as terms: runs of letters and digits, their pieces, and the stem of each.

/// The runs of alphanumeric characters of a text.
pub(super) fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty())
}

/// The pieces of a run with humps, `readFile` or `HTTPServer`; none of one that has none.
pub(super) fn pieces(run: &str) -> Vec<&str> {
    let bytes = run.as_bytes();
    let is_capital = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    let is_small = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
    let begins = |at: usize| {
        let behind_small = is_small(at - 1) || bytes[at - 1].is_ascii_digit();
        is_capital(at) && (behind_small || is_capital(at - 1) && is_small(at + 1))
    };
    let mut cuts: Vec<usize> = (1..bytes.len()).filter(|at| begins(*at)).collect();
    if cuts.is_empty() {
        return Vec::new();
    }
    cuts.push(bytes.len());
    let mut from = 0;
    cuts.into_iter().map(|to| &run[std::mem::replace(&mut from, to)..to]).collect()
}

/// Shows each term of a text: of a run with humps the pieces, then the whole.
pub(super) fn each_term(text: &str, mut see: impl FnMut(String)) {
    for run in runs(text) {
        for piece in pieces(run) {
            see(term(piece));
        }
        see(term(run));
    }
}

/// A word as it is compared.
pub(super) fn term(word: &str) -> String {
    stem(word.to_lowercase())
}

/// A word without the endings that English puts to it.
pub(super) fn stem(mut word: String) -> String {
    let count = |word: &str| word.chars().count();
    let ends = |word: &str, endings: &[&str]| endings.iter().any(|end| word.ends_with(end));
    let len = count(&word);
    if 3 < len {
        if 4 < len && word.ends_with("ies") && !ends(&word, &["eies", "aies"]) {
            word.truncate(word.len() - 3);
            word.push('y');
        } else if ends(&word, &["ses", "xes", "zes", "ches", "shes"]) {
            word.truncate(word.len() - 2);
        } else if word.ends_with('s') && !ends(&word, &["us", "ss", "is"]) {
            word.truncate(word.len() - 1);
        }
    }
    let len = count(&word);
    if 8 <= len && word.ends_with("ment") {
        word.truncate(word.len() - 4);
    } else if 8 <= len && ends(&word, &["tion", "sion"]) {
        word.truncate(word.len() - 3);
    } else if 6 <= len && word.ends_with("ing") {
        word.truncate(word.len() - 3);
        undouble(&mut word);
    } else if 5 <= len && word.ends_with("ed") {
        word.truncate(word.len() - 2);
        undouble(&mut word);
    }
    if 4 <= count(&word) && word.ends_with('e') {
        word.truncate(word.len() - 1);
    }
    word
}

fn undouble(word: &mut String) {
    let mut last = word.chars().rev();
    if let (Some(one), Some(other)) = (last.next(), last.next())
        && one == other
        && one.is_alphabetic()
        && !matches!(one, 'l' | 's' | 'z')
    {
        word.truncate(word.len() - one.len_utf8());
    }
}

/// Is the word one slip away: a character changed, added, left out, or two neighbours swapped?
pub(super) fn is_one_slip(from: &[char], to: &[char]) -> bool {
    let same_first = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let (from, to) = (&from[same_first..], &to[same_first..]);
    match (from, to) {
        ([], []) => false,
        (_, [_, rest @ ..]) if from == rest => true,
        ([_, rest @ ..], _) if to == rest => true,
        ([_, from @ ..], [_, to @ ..]) if from == to => true,
        ([one, two, from @ ..], [first, second, to @ ..]) => {
            one == second && two == first && from == to
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_endings() {
        for (words, expected) in [
            ("creating created creates create", "creat"),
            ("queries query", "query"),
            ("deployments deploy", "deploy"),
            ("translation", "translat"),
            ("files file", "fil"),
            ("classes class", "class"),
            ("status", "status"),
            ("running", "run"),
            ("calling", "call"),
            ("stopped", "stop"),
            ("boxes", "box"),
            ("searches", "search"),
            ("bus", "bus"),
            ("is", "is"),
            ("äpfels", "äpfel"),
        ] {
            for word in words.split(' ') {
                assert_eq!(term(word), expected, "{word}");
            }
        }
    }

    #[test]
    fn humps_are_pieces() {
        assert_eq!(pieces("readFile"), ["read", "File"]);
        assert_eq!(pieces("HTTPServer"), ["HTTP", "Server"]);
        assert_eq!(pieces("s3Bucket"), ["s3", "Bucket"]);
        assert!(pieces("Read").is_empty() && pieces("READ").is_empty() && pieces("äÖ").is_empty());
        let mut terms = Vec::new();
        each_term("readFile, the_FILES", |term| terms.push(term));
        assert_eq!(terms, ["read", "fil", "readfil", "the", "fil"]);
    }

    #[test]
    fn one_slip_is_forgiven() {
        let is_one_slip = |from: &str, to: &str| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            is_one_slip(&chars(from), &chars(to))
        };
        for (from, to) in
            [("delt", "delet"), ("weahter", "weather"), ("isue", "issue"), ("issues", "issue")]
        {
            assert!(is_one_slip(from, to) && is_one_slip(to, from), "{from} {to}");
        }
        for (from, to) in [("issue", "issue"), ("isseu1", "issue"), ("abcd", "badc"), ("a", "abc")]
        {
            assert!(!is_one_slip(from, to), "{from} {to}");
        }
    }
}
