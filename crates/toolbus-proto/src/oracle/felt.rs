//! One felt: an integer below the field prime P = 2^251 + 17·2^192 + 1.
//!
//! Everything an oracle takes or gives is a list of these. [`super::felts`] reads and writes
//! whole lists.

use std::{fmt, str};

use thiserror::Error;

use super::wide::{HEX_DIGITS_MAX, Wide};

/// A number of the field that Cairo computes in.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Felt(Wide);

const PRIME: Wide = Wide { high: (1 << 123) + (17 << 64), low: 1 };

/// What becomes of a number that is written like a felt but is not below the prime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leniency {
    /// It is refused.
    #[default]
    Strict,
    /// It is reduced modulo the prime, for peers that do not care.
    Lenient,
}

impl Felt {
    /// The number 0.
    pub const ZERO: Felt = Felt(Wide { high: 0, low: 0 });
    /// The number 1.
    pub const ONE: Felt = Felt(Wide { high: 0, low: 1 });

    /// Reads `0x` and 1 to 64 hexadecimal digits.
    pub fn parse(text: &str, leniency: Leniency) -> Result<Felt, FeltFault> {
        let digits = text.strip_prefix("0x").ok_or(FeltFault::NoPrefix)?.as_bytes();
        if digits.is_empty() {
            return Err(FeltFault::NoDigits);
        }
        let Some(wide) = Wide::from_hex(digits) else {
            let all_hex = digits.iter().all(u8::is_ascii_hexdigit);
            return Err(if all_hex { FeltFault::TooLong } else { FeltFault::NotHex });
        };
        match (Felt::new(wide), leniency) {
            (Some(felt), _) => Ok(felt),
            (None, Leniency::Lenient) => Ok(Felt::reduced(wide)),
            (None, Leniency::Strict) => Err(FeltFault::NotBelowPrime),
        }
    }

    /// The number that these bytes spell, the most significant first, if it is below the prime.
    pub fn from_bytes(bytes: [u8; 32]) -> Option<Felt> {
        Felt::new(Wide::from_bytes(bytes))
    }

    /// The number as bytes, the most significant first.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The number, if it fits 128 bits.
    pub fn to_u128(self) -> Option<u128> {
        (self.0.high == 0).then_some(self.0.low)
    }

    /// Appends the canonical text: `0x` and lowercase digits without leading zeros.
    pub fn write_hex(self, out: &mut Vec<u8>) {
        self.0.write_hex(out);
    }

    pub(crate) fn new(wide: Wide) -> Option<Felt> {
        (wide < PRIME).then_some(Felt(wide))
    }

    pub(crate) fn wide(self) -> Wide {
        self.0
    }

    /// The number that gives zero together with this one: how Cairo writes `-x`.
    pub(crate) fn negated(self) -> Felt {
        if self == Felt::ZERO { self } else { Felt(PRIME.minus(self.0)) }
    }

    fn reduced(mut wide: Wide) -> Felt {
        // 2^256 is less than 32 primes, so this ends soon.
        while PRIME <= wide {
            wide = wide.minus(PRIME);
        }
        Felt(wide)
    }
}

impl From<u128> for Felt {
    fn from(number: u128) -> Felt {
        Felt(number.into())
    }
}

impl fmt::Display for Felt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(HEX_DIGITS_MAX + 2);
        self.write_hex(&mut text);
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Felt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why something is no felt, told as `felt 3 …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // each says it in its message
pub enum FeltFault {
    #[error("is not a string")]
    NotAString,
    #[error("must begin with 0x")]
    NoPrefix,
    #[error("has no digits behind 0x")]
    NoDigits,
    #[error("is not hexadecimal")]
    NotHex,
    #[error("has more than {HEX_DIGITS_MAX} digits")]
    TooLong,
    #[error("is not below the field prime")]
    NotBelowPrime,
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: &str = "0x800000000000011000000000000000000000000000000000000000000000001";
    const MINUS_ONE: &str = "0x800000000000011000000000000000000000000000000000000000000000000";

    #[test]
    fn the_prime_is_where_refusing_begins() {
        let minus_one = Felt::parse(MINUS_ONE, Leniency::Strict).unwrap();
        assert_eq!(minus_one, Felt::ONE.negated());
        assert_eq!(Felt::parse(P, Leniency::Strict), Err(FeltFault::NotBelowPrime));
        assert_eq!(Felt::parse(P, Leniency::Lenient), Ok(Felt::ZERO));
    }

    #[test]
    fn leniency_reduces_what_is_too_large_and_forgives_nothing_else() {
        let most = format!("0x{}", "f".repeat(64));
        assert_eq!(
            Felt::parse(&most, Leniency::Lenient).unwrap().to_string(),
            "0x7fffffffffffdf0ffffffffffffffffffffffffffffffffffffffffffffffe0"
        );
        for text in ["10", "0X10", "0x", "", "-0x1", " 0x1", "0x1 ", "0x_1", "0x0x5", "0xé"] {
            assert!(Felt::parse(text, Leniency::Lenient).is_err(), "{text}");
        }
    }

    #[test]
    fn leading_zeros_are_fine_up_to_64_digits() {
        let text = |zeros| format!("0x{}1", "0".repeat(zeros));
        assert_eq!(Felt::parse(&text(63), Leniency::Strict), Ok(Felt::ONE));
        assert_eq!(Felt::parse(&text(64), Leniency::Strict), Err(FeltFault::TooLong));
    }

    #[test]
    fn zero_is_its_own_negative() {
        assert_eq!(Felt::ZERO.negated(), Felt::ZERO);
    }
}
