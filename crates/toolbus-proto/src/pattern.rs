//! Names that a user means by `*` and `?`: which tools a model may call, and the like.

/// Does the pattern stand for this whole name? `*` is any characters, also none and also dots, `?`
/// is exactly one; every other character is itself.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (signs, bytes) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Behind the last `*`, and where in the name what follows it was looked for.
    let mut star = None;
    while read < bytes.len() {
        match signs.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, read));
            }
            Some(b'?') => {
                at += 1;
                read += width(bytes[read]);
            }
            // Both are text, so what is equal byte by byte is so character by character.
            Some(sign) if *sign == bytes[read] => {
                at += 1;
                read += 1;
            }
            _ => match &mut star {
                Some((behind, from)) => {
                    *from += width(bytes[*from]);
                    (at, read) = (*behind, *from);
                }
                None => return false,
            },
        }
    }
    signs[at..].iter().all(|sign| *sign == b'*')
}

/// How many bytes a character has that begins with this one.
fn width(first: u8) -> usize {
    match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    }
}

/// Can the pattern stand for a name that begins so?
pub fn may_begin(pattern: &str, beginning: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    // Where in the pattern we may be. A `*` may stand for nothing, so what follows is open, too.
    let mut open = vec![false; pattern.len() + 1];
    open[0] = true;
    let pass_stars = |open: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            open[at + 1] |= open[at] && pattern[at] == '*';
        }
    };
    pass_stars(&mut open);
    for read in beginning.chars() {
        let mut next = vec![false; open.len()];
        for at in (0..pattern.len()).filter(|at| open[*at]) {
            match pattern[at] {
                '*' => next[at] = true,
                sign if sign == '?' || sign == read => next[at + 1] = true,
                _ => {}
            }
        }
        open = next;
        pass_stars(&mut open);
    }
    open.contains(&true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_are_any_characters_and_question_marks_are_one() {
        for (pattern, name) in [
            ("add", "add"),
            ("*", ""),
            ("*", "a.b"),
            ("a*", "a"),
            ("*.read_*", "files.read_text"),
            ("a?c", "abc"),
            ("?", "ß"),
            ("*?ß*", "aßéß."),
            ("*é", "ßé"),
            ("??", "😀a"),
            ("*a*b", "xaxxbxb"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("add", "Add"),
            ("add", "addd"),
            ("", "a"),
            ("a?c", "ac"),
            ("*a*b", "ab.c"),
            ("[a]", "a"),
            ("?", "ab"),
            ("??", "😀"),
            ("*ß", "é"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_beginning_leaves_a_pattern_open_or_not() {
        for (pattern, beginning) in [
            ("*", "git."),
            ("git.*", "git."),
            ("g?t.x", "git."),
            ("*.read_*", "files."),
            ("*x", "git."),
            ("git*", "git."),
            ("**", ""),
        ] {
            assert!(may_begin(pattern, beginning), "{pattern} {beginning}");
        }
        for (pattern, beginning) in [("gi.*", "git."), ("git", "git."), ("", "a"), ("?", "git.")] {
            assert!(!may_begin(pattern, beginning), "{pattern} {beginning}");
        }
    }

    /// The same, as it is said: slow, and hard to get wrong.
    fn matches_slowly(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&'*', rest)), None) => matches_slowly(rest, name),
            (Some((&'*', rest)), Some((_, less))) => {
                matches_slowly(rest, name) || matches_slowly(pattern, less)
            }
            (Some((&sign, rest)), Some((&is, less))) => {
                (sign == '?' || sign == is) && matches_slowly(rest, less)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn what_is_fast_is_right(pattern in "[*?a.ß😀]{0,8}", name in "[a.ßé😀]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches_slowly(&chars(&pattern), &chars(&name));
            prop_assert_eq!(matches(&pattern, &name), expected);
            for (at, _) in name.char_indices().filter(|_| expected) {
                prop_assert!(may_begin(&pattern, &name[..at]));
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let (pattern, name) = ("*a".repeat(200) + "b", "a".repeat(2000));
        assert!(!matches(&pattern, &name));
    }
}
