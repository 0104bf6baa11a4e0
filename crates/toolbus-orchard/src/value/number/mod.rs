//! Numbers as people write them: whole ones exact as far as 128 bits go, fractions decimal with
//! 28 significant digits. `0.1 + 0.2` is `0.3`; no float is ever made, except where a
//! logarithm or a broken power has no exact result.

mod arithmetic;
mod text;
mod wide;

use std::cmp::Ordering;

use thiserror::Error;

use wide::{DIGITS_MAX, Wide};

/// How many digits of a fraction count, unless there are more before the point.
const SIGNIFICANT: u32 = 28;
/// How many digits may stand behind the point.
const SCALE_MAX: i64 = 1024;

/// A number: `mantissa` with `scale` digits behind the point, the last of them no zero.
///
/// Packed, because sixteen bytes of alignment would make every value, number or not, half as
/// large again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(Rust, packed(8))]
pub struct Number {
    mantissa: i128,
    scale: u32,
}

/// Why there is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NumberError {
    /// Out of range.
    #[error(
        "the number is out of range: whole numbers go as far as 128 bits, {} and back",
        i128::MAX
    )]
    TooLarge,
    /// Divided by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A text that is no decimal number.
    #[error("not a decimal number")]
    NotDecimal,
}

impl Number {
    /// Nought.
    pub const ZERO: Number = Number { mantissa: 0, scale: 0 };
    /// One.
    pub const ONE: Number = Number { mantissa: 1, scale: 0 };

    /// The nearest number that there is: `digits` with `scale` of them behind the point.
    fn rounded(is_negative: bool, digits: Wide, scale: i64) -> Result<Number, NumberError> {
        if digits == Wide::from(0) {
            return Ok(Number::ZERO);
        }
        let (mut digits, mut scale) = (digits, scale);
        let before_point = (i64::from(digits.digits()) - scale).max(0);
        let count = i64::from(digits.digits());
        let surplus = count - i64::from(SIGNIFICANT).max(before_point);
        if 0 < scale && 0 < surplus {
            digits = without_last(digits, surplus as u32);
            scale -= surplus;
        }
        while 0 < scale {
            let (fewer, last) = digits.divide_small(10);
            if last != 0 {
                break;
            }
            (digits, scale) = (fewer, scale - 1);
        }
        if scale < 0 {
            let zeros = u32::try_from(-scale).unwrap_or(u32::MAX);
            let has_room = zeros <= DIGITS_MAX;
            let longer = has_room.then(|| digits.times_ten_to(zeros)).flatten();
            (digits, scale) = (longer.ok_or(NumberError::TooLarge)?, 0);
        }
        if SCALE_MAX < scale {
            return Err(NumberError::TooLarge);
        }
        let size = digits.narrow().ok_or(NumberError::TooLarge)?;
        let mantissa = match is_negative {
            true => 0i128.checked_sub_unsigned(size),
            false => i128::try_from(size).ok(),
        };
        Ok(Number { mantissa: mantissa.ok_or(NumberError::TooLarge)?, scale: scale as u32 })
    }

    /// The whole number, if it is whole.
    pub fn integer(self) -> Option<i128> {
        (self.scale == 0).then_some(self.mantissa)
    }

    /// The same as an index or a count, if it is one.
    pub fn index(self) -> Option<usize> {
        self.integer().and_then(|number| number.try_into().ok())
    }

    /// The nearest float.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// A float by its shortest decimal text.
    pub fn from_f64(float: f64) -> Result<Number, NumberError> {
        Number::parse(&format!("{float:e}")).map_err(|_| NumberError::TooLarge)
    }

    fn digits(self) -> i64 {
        i64::from(Wide::from(self.mantissa.unsigned_abs()).digits())
    }
}

/// Without its last digits, rounded half away from zero.
fn without_last(digits: Wide, count: u32) -> Wide {
    let mut left = digits;
    let mut dropped = 0;
    for _ in 0..count.min(DIGITS_MAX + 2) {
        (left, dropped) = left.divide_small(10);
    }
    left.plus(Wide::from(u128::from(5 <= dropped)))
}

/// By value.
impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        if self.scale == other.scale {
            return { self.mantissa }.cmp(&{ other.mantissa });
        }
        let by_sign = self.signum().cmp(&other.signum());
        by_sign.then_with(|| {
            let magnitude = |number: &Number| number.digits() - i64::from(number.scale);
            let by_size = magnitude(self).cmp(&magnitude(other)).then_with(|| {
                // As many digits before the point, so the difference behind it is small.
                let finest = self.scale.max(other.scale);
                let aligned = |number: &Number| {
                    let size = Wide::from(number.mantissa.unsigned_abs());
                    size.times_ten_to(finest - number.scale).unwrap_or(size)
                };
                aligned(self).cmp(&aligned(other))
            });
            if self.mantissa < 0 { by_size.reverse() } else { by_size }
        })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

macro_rules! from_integers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Number {
            fn from(number: $ty) -> Number {
                Number { mantissa: number as i128, scale: 0 }
            }
        }
    )*};
}

from_integers!(i8 i32 i64 i128 u32 u64 usize);
