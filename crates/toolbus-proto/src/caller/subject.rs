//! Whose certificate it is, as people write it and as it stands there.

/// The subject of a certificate: its attributes in their order, with names that ignore case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject(Vec<(String, String)>);

impl Subject {
    /// The subject with these attributes.
    pub fn of<N: AsRef<str>>(attributes: impl IntoIterator<Item = (N, String)>) -> Subject {
        let attributes = attributes.into_iter();
        Subject(attributes.map(|(name, value)| (usual(name.as_ref()), value)).collect())
    }

    /// What `toolbus certs show` and openssl print: `O=Orchestra, CN=ann`. Blanks around `,` and
    /// `=` do not count; `None` if it begins with no attribute.
    ///
    /// A value stands as it is, also with commas in it; or in quotes, as openssl has it then.
    pub fn parse(text: &str) -> Option<Subject> {
        let mut attributes: Vec<(String, String)> = Vec::new();
        for piece in pieces(text) {
            let named = piece.text.split_once('=').map(|(name, value)| (name.trim(), value));
            match (named, attributes.last_mut()) {
                (Some((name, value)), _) if is_name(name) => {
                    attributes.push((usual(name), value.trim().to_owned()));
                }
                // No attribute begins here: it was a comma of the value before.
                (_, Some((_, value))) => {
                    value.push_str(piece.before);
                    value.push_str(piece.text);
                    value.truncate(value.trim_end().len());
                }
                (_, None) => return None,
            }
        }
        attributes.iter_mut().for_each(|(_, value)| *value = unquoted(value));
        (!attributes.is_empty()).then_some(Subject(attributes))
    }
}

/// What stands between two separators.
struct Piece<'a> {
    /// The separator before it.
    before: &'a str,
    text: &'a str,
}

/// The text cut at commas and at the `+` of attributes that belong together, but not in quotes.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut found, mut from, mut before) = (Vec::new(), 0, "");
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, sign) in text.char_indices() {
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' | '+' if !is_quoted => {
                found.push(Piece { before, text: &text[from..at] });
                (before, from) = (&text[at..=at], at + 1);
            }
            _ => {}
        }
    }
    found.push(Piece { before, text: &text[from..] });
    found
}

fn is_name(text: &str) -> bool {
    let is_part = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '(' | ')');
    text.starts_with(|sign: char| sign.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// One name for each attribute, where there are several.
fn usual(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match &*name {
        "emailaddress" => "email".to_owned(),
        "sn" => "surname".to_owned(),
        "gn" => "givenname".to_owned(),
        _ => name,
    }
}

/// A value without its quotes and backslashes.
fn unquoted(value: &str) -> String {
    let inside = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let mut signs = inside.unwrap_or(value).chars();
    let mut plain = String::with_capacity(value.len());
    while let Some(sign) = signs.next() {
        plain.push(if sign == '\\' { signs.next().unwrap_or(sign) } else { sign });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(attributes: &[(&str, &str)]) -> Option<Subject> {
        Some(Subject::of(attributes.iter().map(|(name, value)| (*name, (*value).to_owned()))))
    }

    #[test]
    fn subjects_are_read_as_they_are_printed() {
        let ann = subject(&[("O", "Orchestra"), ("CN", "ann")]);
        for text in [
            "O=Orchestra, CN=ann",
            "o = Orchestra,cn = ann",
            " O=Orchestra ,  CN=ann ",
            "O=Orchestra + CN=ann",
        ] {
            assert_eq!(Subject::parse(text), ann, "{text}");
        }
        for text in
            ["CN=ann, O=Orchestra", "O=Orchestra", "O=Orchestra, CN=Ann", "O=Orchestra, CN=a nn"]
        {
            assert_ne!(Subject::parse(text), ann, "{text}");
        }
        let company = subject(&[("O", "Foo, Inc."), ("CN", "x+y")]);
        for text in
            ["O=Foo, Inc., CN=x+y", r#"O = "Foo, Inc.", CN = x\+y"#, r"O=Foo\, Inc., CN=x+y"]
        {
            assert_eq!(Subject::parse(text), company, "{text}");
        }
        assert_eq!(Subject::parse("emailAddress=a@b"), subject(&[("Email", "a@b")]));
        for text in ["", "ann", ", CN=ann"] {
            assert_eq!(Subject::parse(text), None, "{text}");
        }
    }
}
