//! Fields as bytes, and what they will take.

use bytes::BufMut;

/// How many bytes a number of variable length takes.
pub const fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// How many bytes the tag of a field takes.
pub const fn tag_len(number: u32) -> usize {
    varint_len((number as u64) << 3)
}

/// How many bytes a field of so many bytes takes, tag and length included.
pub const fn bytes_len(number: u32, bytes: usize) -> usize {
    tag_len(number) + varint_len(bytes as u64) + bytes
}

/// Writes a number of variable length.
pub fn put_varint(out: &mut impl BufMut, mut number: u64) {
    while 0x7f < number {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

/// Writes a field that holds a number of variable length.
pub fn put_number(out: &mut impl BufMut, field: u32, number: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, number);
}

/// Writes a field that holds eight bytes.
pub fn put_double(out: &mut impl BufMut, field: u32, number: f64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.put_u64_le(number.to_bits());
}

/// Writes tag and length of a field that holds so many bytes, which follow.
pub fn put_bytes_header(out: &mut impl BufMut, field: u32, bytes: usize) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes as u64);
}

/// Writes a field that holds a string, bytes or a message.
pub fn put_bytes(out: &mut impl BufMut, field: u32, bytes: &[u8]) {
    put_bytes_header(out, field, bytes.len());
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_takes_what_was_said() {
        for shift in 0..64 {
            for number in [1u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, number);
                assert_eq!(out.len(), varint_len(number), "{number}");
            }
        }
    }
}
