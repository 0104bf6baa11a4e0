//! What a program needs of the system that it runs on, as far as its bytes say it.

/// What it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: it is static.
    Nothing,
    /// A C library of GNU, of this version or a later one: 2.36 is `(2, 36)`.
    Glibc(u32, u32),
    /// It is no program of Linux, as those of tests and of other systems.
    Unknown,
}

/// The type of the segment that names what loads a program.
const INTERPRETER: u32 = 3;

/// Looks a program through.
pub(super) fn needs(program: &[u8]) -> Needs {
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return Needs::Unknown;
    }
    match has_segment(program, INTERPRETER) {
        Some(false) => Needs::Nothing,
        Some(true) => {
            let (major, minor) = glibc(program);
            Needs::Glibc(major, minor)
        }
        None => Needs::Unknown,
    }
}

/// Is there a segment of this type? `None` if it is cut off.
fn has_segment(program: &[u8], wanted: u32) -> Option<bool> {
    let number = |at: usize, length: usize| {
        let bytes = program.get(at..at + length)?;
        Some(bytes.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
    for index in 0..count {
        if number(table.checked_add(index * size)?, 4)? == wanted as usize {
            return Some(true);
        }
    }
    Some(false)
}

/// The latest version of the C library whose symbols it asks for.
fn glibc(program: &[u8]) -> (u32, u32) {
    const MARK: &[u8] = b"GLIBC_";
    let mut latest = (2, 17);
    for at in memchr_all(program, MARK) {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.');
        let named = std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]).unwrap_or_default();
        let mut parts = named.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        latest = latest.max(version);
    }
    latest
}

/// Wherever these bytes stand.
fn memchr_all<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let is_there = move |at: &usize| bytes[*at..].starts_with(wanted);
    (0..bytes.len().saturating_sub(wanted.len())).filter(is_there)
}
