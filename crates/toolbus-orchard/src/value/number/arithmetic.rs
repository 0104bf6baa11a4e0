//! Sums, products, quotients, roundings and powers: exact, or right in every digit that counts.

use super::wide::{DIGITS_MAX, Wide};
use super::{Number, NumberError, SIGNIFICANT, without_last};

impl Number {
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
}
