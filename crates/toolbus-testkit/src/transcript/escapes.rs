//! Bytes written as text. Needs nothing but `std`: `faulty-tool` is built with this file too.

/// The bytes that `text` stands for: `\n`, `\r`, `\t`, `\\` and `\xNN` are one byte each,
/// `\{41*1024}` is the byte 41 as often as that, everything else is itself.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escaped(&rest[at + 1..], &mut bytes)
            .unwrap_or_else(|| panic!("not an escape: `{}` in `{text}`", &rest[at..]));
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// Reads what stands behind a backslash; gives what follows it.
fn escaped<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let hex = |digits| u8::from_str_radix(digits, 16).ok();
    let byte = match text.as_bytes().first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'\\' => b'\\',
        b'x' => {
            bytes.push(hex(text.get(1..3)?)?);
            return Some(&text[3..]);
        }
        b'{' => {
            let (run, rest) = text[1..].split_once('}')?;
            let (byte, count) = run.split_once('*')?;
            // Megabytes of them: not one by one, as a build without optimization would.
            bytes.extend_from_slice(&vec![hex(byte)?; count.parse().ok()?]);
            return Some(rest);
        }
        _ => return None,
    };
    bytes.push(byte);
    Some(&text[1..])
}

/// Bytes as text that [`unescape`] reads; valid UTF-8 stays as it is.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\\' => text.push_str("\\\\"),
                '\0'..' ' | '\x7f' => text.push_str(&format!("\\x{:02x}", character as u32)),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
