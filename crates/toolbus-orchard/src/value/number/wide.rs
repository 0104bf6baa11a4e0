//! Whole numbers of 256 bits, as room for the steps between: the product of two numbers, or a
//! number with zeros behind it before it is divided.

use std::cmp::Ordering;

/// Least significant part first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wide([u64; 4]);

/// Any number of so many decimal digits has room.
pub(super) const DIGITS_MAX: u32 = 76;

impl Wide {
    pub(super) fn product(one: u128, two: u128) -> Wide {
        let halves = |number: u128| [number as u64, (number >> 64) as u64];
        let mut out = [0u64; 4];
        for (at, one) in halves(one).into_iter().enumerate() {
            let mut carry = 0u128;
            for (by, two) in halves(two).into_iter().enumerate() {
                let sum = u128::from(one) * u128::from(two) + u128::from(out[at + by]) + carry;
                out[at + by] = sum as u64;
                carry = sum >> 64;
            }
            out[at + 2] = carry as u64;
        }
        Wide(out)
    }

    /// With `zeros` decimal zeros behind it; `None` if there is no room.
    pub(super) fn times_ten_to(mut self, zeros: u32) -> Option<Wide> {
        let mut left = zeros;
        while 0 < left {
            let step = left.min(19);
            self = self.times(10u64.pow(step))?;
            left -= step;
        }
        Some(self)
    }

    fn times(self, by: u64) -> Option<Wide> {
        let mut out = [0u64; 4];
        let mut carry = 0u128;
        for (out, part) in out.iter_mut().zip(self.0) {
            let product = u128::from(part) * u128::from(by) + carry;
            *out = product as u64;
            carry = product >> 64;
        }
        (carry == 0).then_some(Wide(out))
    }

    /// Divided by a small number, and what is left.
    pub(super) fn divide_small(self, by: u64) -> (Wide, u64) {
        let mut out = [0u64; 4];
        let mut rest = 0u128;
        for at in (0..4).rev() {
            let part = (rest << 64) | u128::from(self.0[at]);
            out[at] = (part / u128::from(by)) as u64;
            rest = part % u128::from(by);
        }
        (Wide(out), rest as u64)
    }

    /// Divided by a number of at most 127 bits that is not zero, and what is left.
    pub(super) fn divide(self, by: u128) -> (Wide, u128) {
        let mut out = [0u64; 4];
        let mut rest = 0u128;
        for bit in (0..256).rev() {
            let next = (self.0[bit / 64] >> (bit % 64)) & 1;
            rest = (rest << 1) | u128::from(next);
            if by <= rest {
                rest -= by;
                out[bit / 64] |= 1 << (bit % 64);
            }
        }
        (Wide(out), rest)
    }

    /// Never more than room: both have at most [`DIGITS_MAX`] digits.
    pub(super) fn plus(self, other: Wide) -> Wide {
        let mut out = [0u64; 4];
        let mut carry = 0u128;
        for (out, (one, two)) in out.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let sum = u128::from(one) + u128::from(two) + carry;
            *out = sum as u64;
            carry = sum >> 64;
        }
        Wide(out)
    }

    /// Less a number that is not larger.
    pub(super) fn minus(self, other: Wide) -> Wide {
        let mut out = [0u64; 4];
        let mut borrow = false;
        for (out, (one, two)) in out.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (part, under) = one.overflowing_sub(two);
            let (part, under_too) = part.overflowing_sub(u64::from(borrow));
            *out = part;
            borrow = under || under_too;
        }
        Wide(out)
    }

    /// How many decimal digits; zero has none.
    pub(super) fn digits(self) -> u32 {
        let mut digits = 0;
        let mut left = self;
        while left != Wide::from(0) {
            let (rest, last) = left.divide_small(10u64.pow(19));
            if rest == Wide::from(0) {
                return digits + last.ilog10() + 1;
            }
            digits += 19;
            left = rest;
        }
        digits
    }

    /// The number, if 128 bits hold it.
    pub(super) fn narrow(self) -> Option<u128> {
        (self.0[2] == 0 && self.0[3] == 0)
            .then(|| u128::from(self.0[0]) | (u128::from(self.0[1]) << 64))
    }
}

impl From<u128> for Wide {
    fn from(number: u128) -> Wide {
        Wide([number as u64, (number >> 64) as u64, 0, 0])
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Wide) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
