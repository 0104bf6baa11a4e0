//! Names that a user means by `*` and `?`: which tools a model may call, and the like.

/// Does the pattern stand for this whole name? `*` is any characters, also none and also dots, `?`
/// is exactly one; every other character is itself.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    // The last `*`, and where in the name what follows it was looked for.
    let mut star = None;
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&sign) if sign == '?' || sign == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match &mut star {
                Some((starred, from)) => {
                    *from += 1;
                    (at, read) = (*starred + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|sign| *sign == '*')
}

#[cfg(test)]
mod tests {
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
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let (pattern, name) = ("*a".repeat(200) + "b", "a".repeat(2000));
        assert!(!matches(&pattern, &name));
    }
}
