//! Integers of 256 bits: what felts and `u256` need, and no more.

use std::fmt;

use super::hex;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wide {
    // The derived order compares field by field, so the high half comes first.
    pub(crate) high: u128,
    pub(crate) low: u128,
}

/// The most hexadecimal digits that a [`Wide`] takes.
pub(crate) const HEX_DIGITS_MAX: usize = 64;

/// Ten to the nineteenth, the largest power of ten in 64 bits.
const DECIMAL_CHUNK: u64 = 10_000_000_000_000_000_000;
const DECIMAL_CHUNK_DIGITS: usize = 19;
/// As many digits always fit 128 bits.
const DECIMAL_DIGITS_128: usize = 38;

impl Wide {
    /// Reads up to 64 hexadecimal digits of either case; none of them is zero.
    pub(crate) fn from_hex(digits: &[u8]) -> Option<Wide> {
        if HEX_DIGITS_MAX < digits.len() {
            return None;
        }
        let mut limbs = [0_u64; 4];
        let mut wrong = 0;
        let (first, others) = digits.as_rchunks::<16>();
        for (limb, sixteen) in limbs.iter_mut().zip(others.iter().rev()) {
            *limb = hex::read_sixteen(sixteen, &mut wrong);
        }
        if !first.is_empty() {
            let mut sixteen = [b'0'; 16];
            sixteen[16 - first.len()..].copy_from_slice(first);
            limbs[others.len()] = hex::read_sixteen(&sixteen, &mut wrong);
        }
        (wrong == 0).then(|| Wide::from_limbs(limbs))
    }

    /// Reads decimal digits, however many; `None` if the value takes more than 256 bits or
    /// one of them is no digit.
    pub(crate) fn from_decimal(digits: &[u8]) -> Option<Wide> {
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let digits = &digits[zeros..];
        if digits.len() <= DECIMAL_DIGITS_128 {
            let low = digits.iter().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'));
            return Some(Wide::from(low));
        }
        let mut limbs = [0_u64; 4];
        for digit in digits {
            let mut carry = u128::from(digit - b'0');
            for limb in &mut limbs {
                let sum = u128::from(*limb) * 10 + carry;
                *limb = sum as u64;
                carry = sum >> 64;
            }
            if carry != 0 {
                return None;
            }
        }
        Some(Wide::from_limbs(limbs))
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Wide {
        let (high, low) = bytes.split_at(16);
        let half = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
        Wide { high: half(high), low: half(low) }
    }

    pub(crate) fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.high.to_be_bytes());
        bytes[16..].copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// How many bits the value takes without leading zeros.
    pub(crate) fn bits(self) -> u32 {
        match self.high {
            0 => 128 - self.low.leading_zeros(),
            high => 256 - high.leading_zeros(),
        }
    }

    /// The difference, modulo 2^256.
    pub(crate) fn minus(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let high = self.high.wrapping_sub(other.high).wrapping_sub(u128::from(borrow));
        Wide { high, low }
    }

    /// How many hexadecimal digits the value takes without leading zeros.
    pub(crate) fn hex_digits(self) -> usize {
        self.bits().div_ceil(4).max(1) as usize
    }

    /// Appends `0x` and lowercase digits without leading zeros.
    pub(crate) fn write_hex(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"0x");
        let nibbles = self.hex_digits();
        let bytes = self.to_bytes();
        let mut digits = [0; HEX_DIGITS_MAX];
        let from = bytes.len() - nibbles.div_ceil(2);
        let (pairs, _) = digits[2 * from..].as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(&bytes[from..]) {
            *pair = HEX_PAIRS[usize::from(*byte)];
        }
        out.extend_from_slice(&digits[HEX_DIGITS_MAX - nibbles..]);
    }

    fn from_limbs([a, b, c, d]: [u64; 4]) -> Wide {
        let half = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        Wide { high: half(c, d), low: half(a, b) }
    }

    fn limbs(self) -> [u64; 4] {
        [self.low as u64, (self.low >> 64) as u64, self.high as u64, (self.high >> 64) as u64]
    }
}

impl From<u128> for Wide {
    fn from(low: u128) -> Wide {
        Wide { high: 0, low }
    }
}

/// Decimal.
impl fmt::Display for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high == 0 {
            return self.low.fmt(f);
        }
        let mut limbs = self.limbs();
        let mut rest = 0_u128;
        for limb in limbs.iter_mut().rev() {
            rest = rest << 64 | u128::from(*limb);
            *limb = (rest / u128::from(DECIMAL_CHUNK)) as u64;
            rest %= u128::from(DECIMAL_CHUNK);
        }
        write!(f, "{}{rest:0DECIMAL_CHUNK_DIGITS$}", Wide::from_limbs(limbs))
    }
}

const NO_NIBBLE: u8 = 0xff;

/// The value of each hexadecimal digit, [`NO_NIBBLE`] for every other byte.
const NIBBLES: [u8; 256] = {
    let mut table = [NO_NIBBLE; 256];
    let mut value = 0;
    while value < 16 {
        table[LOWER[value] as usize] = value as u8;
        table[LOWER[value].to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    table
};

const HEX_PAIRS: [[u8; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [LOWER[byte >> 4], LOWER[byte & 0xf]];
        byte += 1;
    }
    table
};

const LOWER: &[u8; 16] = b"0123456789abcdef";

/// Appends two lowercase digits for each byte.
pub(crate) fn write_hex_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|byte| HEX_PAIRS[usize::from(*byte)]));
}

/// Reads two hexadecimal digits of either case for each byte.
pub(crate) fn read_hex_bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (NIBBLES[usize::from(*high)], NIBBLES[usize::from(*low)]);
        (high | low != NO_NIBBLE).then_some(high << 4 | low)
    };
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(wide: Wide) -> String {
        let mut out = Vec::new();
        wide.write_hex(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_have_the_edges_right() {
        for (decimal, shown) in [
            ("0", Some("0x0")),
            ("000", Some("0x0")),
            ("340282366920938463463374607431768211455", Some("0xffffffffffffffffffffffffffffffff")),
            (
                "340282366920938463463374607431768211456",
                Some("0x100000000000000000000000000000000"),
            ),
            (
                "115792089237316195423570985008687907853269984665640564039457584007913129639935",
                Some("0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
            ),
            (
                "115792089237316195423570985008687907853269984665640564039457584007913129639936",
                None,
            ),
            ("1x", None),
        ] {
            assert_eq!(Wide::from_decimal(decimal.as_bytes()).map(hex).as_deref(), shown);
        }
    }

    proptest! {
        #[test]
        fn text_goes_out_and_comes_back(high: u128, low: u128, narrow in 0_u32..128) {
            for wide in [Wide { high, low }, Wide { high: high >> narrow, low }, (low >> narrow).into()] {
                let hex = hex(wide);
                prop_assert_eq!(Wide::from_hex(&hex.as_bytes()[2..]), Some(wide));
                prop_assert!(hex == "0x0" || !hex.starts_with("0x0"));
                prop_assert_eq!(Wide::from_decimal(wide.to_string().as_bytes()), Some(wide));
                prop_assert_eq!(Wide::from_bytes(wide.to_bytes()), wide);
            }
        }
    }

    impl fmt::Debug for Wide {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&hex(*self))
        }
    }
}
