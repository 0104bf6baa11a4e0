//! Hexadecimal digits, eight at a time: most of an oracle's lines are made of them.

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// The number that sixteen digits of either case are, the most significant first. Where there
/// was something else is left in `wrong`, to be judged once for many.
pub(super) fn read_sixteen(digits: &[u8; 16], wrong: &mut Wrong) -> u64 {
    let (eights, _) = digits.as_chunks::<8>();
    eights.iter().fold(0, |number, eight| number << 32 | u64::from(read_eight(*eight, wrong)))
}

fn read_eight(digits: [u8; 8], wrong: &mut Wrong) -> u32 {
    let word = u64::from_be_bytes(digits);
    let lower = word | (ONES * 0x20);
    *wrong |= not(word, is_decimal(word) | within(lower, b'a', b'f'));
    // In a letter bit 6 is set, and its low four bits are 9 less than its value.
    let nibbles = (word & (ONES * 0xf)) + (word >> 6 & ONES) * 9;
    let pairs = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    (fours | fours >> 16) as u32
}

/// Whether all of them are digits, and the letters lowercase.
pub(super) fn are_lower(digits: &[u8]) -> bool {
    let (eights, rest) = digits.as_chunks::<8>();
    let wrong = eights.iter().fold(0, |sum, eight| {
        let word = u64::from_be_bytes(*eight);
        sum | not(word, is_decimal(word) | within(word, b'a', b'f'))
    });
    wrong == 0 && rest.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// A bit for each byte that is no digit.
pub(super) type Wrong = u64;

fn is_decimal(word: u64) -> u64 {
    within(word, b'0', b'9')
}

/// The high bit of each byte that is in this range, if all bytes are ASCII.
fn within(word: u64, low: u8, high: u8) -> u64 {
    // No sum carries into the next byte: both summands are below 0x80.
    let ascii = word & !HIGHS;
    let from_low = ascii + ONES * u64::from(0x80 - low);
    let beyond_high = ascii + ONES * u64::from(0x7f - high);
    from_low & !beyond_high
}

fn not(word: u64, right: u64) -> Wrong {
    (word | !right) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_judged() {
        for place in 0..8 {
            for byte in 0..=u8::MAX {
                let mut digits = *b"01f8A37e";
                digits[place] = byte;
                let text = std::str::from_utf8(&digits).ok();
                let wanted = text.filter(|_| byte != b'+' && byte != b'-');
                let wanted = wanted.and_then(|text| u32::from_str_radix(text, 16).ok());
                let mut wrong = 0;
                let number = read_eight(digits, &mut wrong);
                assert_eq!((wrong == 0).then_some(number), wanted, "{digits:?}");
                let is_lower = wanted.is_some() && !digits.iter().any(u8::is_ascii_uppercase);
                assert_eq!(are_lower(&digits), is_lower, "{digits:?}");
                assert_eq!(are_lower(&digits[..7]), are_lower(&[&digits[..7], b"0"].concat()));
            }
        }
    }
}
