//! Ids for requests and streams that no other program gives out: UUIDs, of chance alone.

use toolbus_proto::orchestra::Ids;

/// UUIDs: chance once, then counted up, since the system's generator costs more than a call.
pub(crate) fn uuids() -> Ids {
    let mut base = crate::chance::bytes::<16>();
    // Version 4, of the variant that everybody uses.
    base[6] = (base[6] & 0x0f) | 0x40;
    base[8] = (base[8] & 0x3f) | 0x80;
    let mut count = 0u32;
    Ids::new(move || {
        let mut bytes = base;
        let first = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes[..4].copy_from_slice(&first.wrapping_add(count).to_be_bytes());
        count = count.wrapping_add(1);
        shown(bytes)
    })
}

/// A single one.
pub(crate) fn uuid() -> String {
    uuids().draw()
}

fn shown(bytes: [u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 0x0f)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_looks_like_one() {
        let mut ids = uuids();
        let (uuid, next) = (ids.draw(), ids.draw());
        assert_ne!(uuid, next);
        assert_eq!(uuid.len(), 36);
        assert_eq!((&uuid[8..9], &uuid[14..15]), ("-", "4"));
        assert!(uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
    }
}
