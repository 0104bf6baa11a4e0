//! Ids for requests and streams that nobody else gives out: UUIDs, of chance alone.

use toolbus_proto::orchestra::Ids;

/// UUIDs.
pub(crate) fn uuids() -> Ids {
    Ids::new(uuid)
}

/// One of them.
pub(crate) fn uuid() -> String {
    let mut bytes = crate::chance::bytes::<16>();
    // Version 4, of the variant that everybody uses.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_looks_like_one() {
        let uuid = uuid();
        assert_eq!(uuid.len(), 36);
        assert_eq!((&uuid[8..9], &uuid[14..15]), ("-", "4"));
        assert!(uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
    }
}
