//! Subjects: where a tool, a node and a service are reached.

/// How long the subject of a tool may be.
pub const SUBJECT_BYTES_MAX: usize = 255;
/// How long a NAME may be.
const NAME_CHARS_MAX: usize = 64;

/// The names that only this program's own subjects have.
pub(crate) const OWN: &str = "toolbus";

/// What requests of sessions are called that other nodes carry here.
pub const SESSIONS: &str = "toolbus.session";

/// Is it where a node takes the requests of its sessions that came in at others?
pub(crate) fn is_of_sessions(subject: &str, prefix: &str, id: &str) -> bool {
    let own = subject.strip_prefix(prefix).and_then(|own| own.strip_prefix(".toolbus.node."));
    let own = own.and_then(|own| own.strip_prefix(id)).and_then(|own| own.strip_prefix('.'));
    own == Some(SESSIONS)
}

/// A tool's part of a subject: what no subject may have, and a dot that would make an empty token,
/// is written as `%XX`.
pub fn of_tool(name: &str) -> String {
    let bytes = name.as_bytes();
    let is_lone = |at: usize| {
        0 < at && at + 1 < bytes.len() && bytes[at - 1] != b'.' && bytes[at + 1] != b'.'
    };
    let mut subject = String::with_capacity(name.len());
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            byte if is_of_charset(*byte) => subject.push(char::from(*byte)),
            b'.' if is_lone(at) => subject.push('.'),
            byte => subject.push_str(&format!("%{byte:02X}")),
        }
    }
    subject
}

/// The tool whose part of a subject this is, if it can be that of one.
pub(crate) fn tool_of(part: &str) -> Option<String> {
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(16 * digit()? + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(name).ok().filter(|name| of_tool(name) == part)
}

/// May this be the NAME of a service?
pub fn is_name(text: &str) -> bool {
    let is_short = (1..=NAME_CHARS_MAX).contains(&text.len());
    is_short && text.bytes().all(is_of_charset) && text != OWN
}

/// May this stand before all our subjects: words of the charset with single dots between them?
pub fn is_prefix(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_of_charset);
    text.len() <= NAME_CHARS_MAX && text.split('.').all(is_word)
}

/// Is it a subject that can be published to?
pub fn is_literal(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty()
            && !matches!(token, "*" | ">")
            && token.chars().all(|c| !c.is_whitespace() && !c.is_control())
    };
    text.split('.').all(is_token)
}

/// A name as an endpoint has it: what is not of the charset becomes `_`.
pub fn endpoint_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii() && is_of_charset(c as u8) { c } else { '_' }).collect()
}

/// Does `subject` fit `pattern`, which may have `*` and `>`?
pub fn fits(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

fn is_of_charset(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_a_subject() {
        for (name, subject) in [
            ("try.add", "try.add"),
            ("a b", "a%20b"),
            (".x", "%2Ex"),
            ("x.", "x%2E"),
            ("a..b", "a%2E%2Eb"),
            ("é", "%C3%A9"),
            ("*", "%2A"),
        ] {
            assert_eq!(of_tool(name), subject);
            assert_eq!(tool_of(subject).as_deref(), Some(name));
            assert!(is_literal(subject));
        }
    }

    #[test]
    fn what_is_written_otherwise_is_the_part_of_no_tool() {
        for part in ["%", "%2", "%zz", "%2e", "%FF", "a%62", "%41", "é", "a..b"] {
            assert_eq!(tool_of(part), None, "{part}");
        }
    }

    #[test]
    fn names_and_prefixes_are_of_the_charset() {
        assert!(is_name("team_A-1") && !is_name("") && !is_name("toolbus") && !is_name("a.b"));
        assert!(!is_name(&"x".repeat(65)));
        assert!(is_prefix("a.b") && !is_prefix("a..b") && !is_prefix(".a") && !is_prefix(""));
        assert_eq!(endpoint_name("try.é"), "try__");
    }

    #[test]
    fn wildcards_fit_tokens() {
        for (pattern, subject, is_so) in [
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a", "a", true),
            ("*.b", "a.b", true),
        ] {
            assert_eq!(fits(pattern, subject), is_so, "{pattern} {subject}");
        }
    }
}
