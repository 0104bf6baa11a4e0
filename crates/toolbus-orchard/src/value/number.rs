//! Numbers as people write them: whole ones exact as far as 128 bits go, fractions decimal with
//! 28 significant digits. `0.1 + 0.2` is `0.3`; no float is ever made, except where a
//! logarithm or a broken power has no exact result.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

use super::wide::{DIGITS_MAX, Wide};

/// How many digits of a fraction count, unless there are more before the point.
const SIGNIFICANT: u32 = 28;
/// How many digits may stand behind the point.
const SCALE_MAX: i64 = 1024;

/// A number: `mantissa` with `scale` digits behind the point, the last of them no zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// Reads `-12.50e3`.
    pub fn parse(text: &str) -> Result<Number, NumberError> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(NumberError::NotDecimal),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return Err(NumberError::NotDecimal);
        }
        let power = exponent(power).ok_or(NumberError::NotDecimal)?;
        let mut scale = fraction.len() as i64 - power;
        let mut digits = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
        let mut read = Wide::from(0);
        // More digits than this change nothing: they are behind those that count, or too many.
        for digit in digits.by_ref().take(60) {
            let ten_times = read.times_ten_to(1).ok_or(NumberError::TooLarge)?;
            read = ten_times.plus(Wide::from(u128::from(digit - b'0')));
        }
        scale -= digits.count() as i64;
        Number::rounded(is_negative, read, scale)
    }

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

    /// The sum.
    pub fn plus(self, other: Number) -> Result<Number, NumberError> {
        if self.scale == other.scale
            && let Some(mantissa) = self.mantissa.checked_add(other.mantissa)
            && (self.scale == 0 || mantissa.unsigned_abs() < 10u128.pow(SIGNIFICANT))
        {
            return Number::rounded_small(mantissa, self.scale);
        }
        let (fine, coarse) = if self.scale < other.scale { (other, self) } else { (self, other) };
        let zeros = fine.scale - coarse.scale;
        let size = |number: Number| Wide::from(number.mantissa.unsigned_abs());
        let coarse_size = match size(coarse).digits() + zeros <= DIGITS_MAX {
            true => size(coarse).times_ten_to(zeros),
            false => None,
        };
        // Where there is no room the other one is too small to change a digit that counts.
        let Some(coarse_size) = coarse_size else { return Ok(coarse) };
        let (is_negative, sum) = match (fine.mantissa < 0, coarse.mantissa < 0) {
            (one, two) if one == two => (one, size(fine).plus(coarse_size)),
            (fine_is, _) if coarse_size <= size(fine) => (fine_is, size(fine).minus(coarse_size)),
            (_, coarse_is) => (coarse_is, coarse_size.minus(size(fine))),
        };
        Number::rounded(is_negative, sum, i64::from(fine.scale))
    }

    /// A number whose digits all count; zeros at the end go.
    fn rounded_small(mut mantissa: i128, mut scale: u32) -> Result<Number, NumberError> {
        while 0 < scale && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        Ok(Number { mantissa, scale })
    }

    /// The difference.
    pub fn minus(self, other: Number) -> Result<Number, NumberError> {
        match other.negated() {
            Ok(other) => self.plus(other),
            // The least number has no opposite.
            Err(_) => Number::plus(self.plus(Number::ONE)?, Number::from(i128::MAX)),
        }
    }

    /// The product.
    pub fn times(self, other: Number) -> Result<Number, NumberError> {
        if let (0, 0, Some(mantissa)) =
            (self.scale, other.scale, self.mantissa.checked_mul(other.mantissa))
        {
            return Ok(Number { mantissa, scale: 0 });
        }
        let product = Wide::product(self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let scale = i64::from(self.scale) + i64::from(other.scale);
        Number::rounded((self.mantissa < 0) != (other.mantissa < 0), product, scale)
    }

    /// The quotient.
    pub fn divided_by(self, other: Number) -> Result<Number, NumberError> {
        if other.mantissa == 0 {
            return Err(NumberError::DivisionByZero);
        }
        let (size, by) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let wanted = SIGNIFICANT + 1 + Wide::from(by).digits();
        // At least two digits behind the point, so that there is something to round.
        let zeros = wanted.saturating_sub(Wide::from(size).digits()).max(2);
        let numerator = Wide::from(size).times_ten_to(zeros).ok_or(NumberError::TooLarge)?;
        let (quotient, rest) = numerator.divide(by);
        // One digit more, so that what is left cannot be taken for exactly half.
        let quotient = quotient.times_ten_to(1).ok_or(NumberError::TooLarge)?;
        let quotient = quotient.plus(Wide::from(u128::from(rest != 0)));
        let scale = i64::from(zeros) + 1 + i64::from(self.scale) - i64::from(other.scale);
        Number::rounded((self.mantissa < 0) != (other.mantissa < 0), quotient, scale)
    }

    /// What is left of a division; it has the sign of the left side.
    pub fn modulo(self, other: Number) -> Result<Number, NumberError> {
        if other.mantissa == 0 {
            return Err(NumberError::DivisionByZero);
        }
        let (size, by) = (self.mantissa.unsigned_abs(), other.mantissa.unsigned_abs());
        let is_negative = self.mantissa < 0;
        if self.scale <= other.scale {
            // Zeros come in a few at a time, and what is left stays below `by`.
            let mut rest = size % by;
            let mut zeros = other.scale - self.scale;
            while 0 < zeros {
                let step = zeros.min(19);
                rest = Wide::product(rest, 10u128.pow(step)).divide(by).1;
                zeros -= step;
            }
            return Number::rounded(is_negative, Wide::from(rest), i64::from(other.scale));
        }
        let zeros = self.scale - other.scale;
        let room = (Wide::from(by).digits() + zeros <= 38).then(|| by * 10u128.pow(zeros));
        let rest = room.map_or(size, |by| size % by);
        Number::rounded(is_negative, Wide::from(rest), i64::from(self.scale))
    }

    /// With the other sign.
    pub fn negated(self) -> Result<Number, NumberError> {
        let mantissa = self.mantissa.checked_neg().ok_or(NumberError::TooLarge)?;
        Ok(Number { mantissa, ..self })
    }

    /// -1, 0 or 1.
    pub fn signum(self) -> i8 {
        self.mantissa.signum() as i8
    }

    /// The largest whole number that is not larger.
    pub fn floor(self) -> Result<Number, NumberError> {
        let whole = self.truncated();
        if whole <= self { Ok(whole) } else { whole.minus(Number::ONE) }
    }

    /// The smallest whole number that is not smaller.
    pub fn ceil(self) -> Result<Number, NumberError> {
        let whole = self.truncated();
        if self <= whole { Ok(whole) } else { whole.plus(Number::ONE) }
    }

    /// The nearest whole number, half away from zero.
    pub fn round(self) -> Result<Number, NumberError> {
        self.round_to(0)
    }

    /// With at most so many digits behind the point, half away from zero.
    pub fn round_to(self, digits: u32) -> Result<Number, NumberError> {
        if self.scale <= digits {
            return Ok(self);
        }
        let size = Wide::from(self.mantissa.unsigned_abs());
        let rounded = without_last(size, self.scale - digits);
        Number::rounded(self.mantissa < 0, rounded, i64::from(digits))
    }

    /// Without what is behind the point.
    pub fn truncated(self) -> Number {
        match 10i128.checked_pow(self.scale) {
            Some(power) => Number { mantissa: self.mantissa / power, scale: 0 },
            None => Number::ZERO,
        }
    }

    /// To the power of a whole number.
    pub fn power(self, exponent: i128) -> Result<Number, NumberError> {
        // Nothing but 0, 1 and -1 stays in range for long.
        if self.scale == 0 && self.mantissa.unsigned_abs() <= 1 {
            return match (self.mantissa, exponent) {
                (0, ..0) => Err(NumberError::DivisionByZero),
                (_, 0) => Ok(Number::ONE),
                (-1, _) if exponent % 2 == 0 => Ok(Number::ONE),
                _ => Ok(self),
            };
        }
        if exponent < 0 {
            let exponent = exponent.checked_neg().ok_or(NumberError::TooLarge)?;
            return Number::ONE.divided_by(self.power(exponent)?);
        }
        if 1 << 20 < exponent {
            return Err(NumberError::TooLarge);
        }
        let (mut result, mut base, mut left) = (Number::ONE, self, exponent);
        while 0 < left {
            if left % 2 == 1 {
                result = result.times(base)?;
            }
            left /= 2;
            if 0 < left {
                base = base.times(base)?;
            }
        }
        Ok(result)
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

/// The power of ten behind `e`; one beyond all numbers is only very large.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX).min(1 << 40);
    Some(if text.starts_with('-') { -size } else { size })
}

/// By value.
impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        if self.scale == other.scale {
            return self.mantissa.cmp(&other.mantissa);
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

/// Plain digits, no exponent, no zeros at the end.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.mantissa);
        }
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let scale = self.scale as usize;
        let digits = format!("{:0width$}", self.mantissa.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
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
