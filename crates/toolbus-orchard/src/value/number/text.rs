//! Numbers as text: read from decimal digits, written in plain ones.

use std::fmt;

use super::wide::Wide;
use super::{Number, NumberError};

impl Number {
    /// Reads text that people wrote, which is as [`Number::parse`] reads it, or `+5`, `.5`, `5.`.
    pub fn parse_loosely(text: &str) -> Result<Number, NumberError> {
        let (sign, size) = match text.strip_prefix('-') {
            Some(size) => ("-", size),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, power) = match size.find(['e', 'E']) {
            Some(at) => size.split_at(at),
            None => (size, ""),
        };
        match mantissa.split_once('.') {
            Some(("", "")) => Err(NumberError::NotDecimal),
            Some(("", fraction)) => Number::parse(&format!("{sign}0.{fraction}{power}")),
            Some((whole, "")) => Number::parse(&format!("{sign}{whole}{power}")),
            _ => Number::parse(&format!("{sign}{size}")),
        }
    }

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

/// Plain digits, no exponent, no zeros at the end.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", { self.mantissa });
        }
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let scale = self.scale as usize;
        let digits = format!("{:0width$}", self.mantissa.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}
