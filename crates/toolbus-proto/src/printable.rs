//! How bytes that a peer wrote are shown to people: never so that they paint the terminal.

use std::fmt::Write;

/// The first `chars_max` characters of `bytes` as text; what cannot be shown becomes `\xNN`.
pub fn printable(bytes: &[u8], chars_max: usize) -> String {
    let mut shown = String::new();
    let mut left = chars_max;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if left == 0 {
                shown.push('…');
                return shown;
            }
            left -= 1;
            if character.is_control() || is_unseen(character) {
                let mut utf8 = [0; 4];
                for byte in character.encode_utf8(&mut utf8).bytes() {
                    let _ = write!(shown, "\\x{byte:02x}");
                }
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            if left == 0 {
                shown.push('…');
                return shown;
            }
            left -= 1;
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// A text on one line, and of a long one only the beginning.
pub fn beginning(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let mut chars = text.trim().chars().map(|char| if char.is_control() { ' ' } else { char });
    let mut shown: String = chars.by_ref().take(CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

/// Characters that show nothing, or turn around what stands behind them: a byte order mark before
/// a line that looks right would otherwise be a riddle.
fn is_unseen(character: char) -> bool {
    matches!(character, '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}')
}

/// A size for people: that of a limit is mostly a number of MiB.
pub fn size(bytes: usize) -> String {
    const MIB: usize = 1 << 20;
    match 0 < bytes && bytes.is_multiple_of(MIB) {
        true => format!("{} MiB ({bytes} bytes)", bytes / MIB),
        false => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_paint_the_terminal() {
        assert_eq!(printable(b"plain \xc5\xbc", 80), "plain ż");
        assert_eq!(printable(b"\x1b[31mred\r\xff\x00", 80), "\\x1b[31mred\\x0d\\xff\\x00");
        assert_eq!(
            printable("\u{feff}{} \u{202e}".as_bytes(), 80),
            "\\xef\\xbb\\xbf{} \\xe2\\x80\\xae"
        );
        assert_eq!(printable(b"abcdef", 3), "abc…");
        assert_eq!(printable(b"abc", 3), "abc");
    }

    #[test]
    fn a_long_text_shows_its_beginning() {
        assert_eq!(beginning(&"é".repeat(80)), "é".repeat(80));
        assert_eq!(beginning(&"é".repeat(81)), "é".repeat(79) + "…");
        assert_eq!(beginning(" [1,\n2]"), "[1, 2]");
    }
}
