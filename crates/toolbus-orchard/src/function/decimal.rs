//! A number as its decimal digits, written with a point or with an exponent.
//!
//! Rounds as the reference implementation of HCL does, which holds numbers as binary fractions
//! of 512 bits: what lies half-way in decimal digits goes to the side on which the binary number
//! lies, and to the even digit where that is exact.

use crate::value::Number;

/// How many bits the reference has.
const BITS: u32 = 512;

/// `0.DIGITS` times ten to the `exponent`; the first digit is no zero, and neither the last.
pub(super) struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
    /// What is cut off is more than its digits say, less, or as they say.
    lies: Side,
}

/// On which side of the decimal number the binary one lies, regardless of its sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    On,
    Above,
}

impl Decimal {
    pub(super) fn of(number: Number) -> Decimal {
        let text = number.to_string();
        let (is_negative, size) = match text.strip_prefix('-') {
            Some(size) => (true, size),
            None => (false, &*text),
        };
        let (whole, fraction) = size.split_once('.').unwrap_or((size, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let exponent = whole.len() as i64 - (all.len() - digits.len()) as i64;
        let lies = side(digits, fraction.len());
        let digits = digits.trim_end_matches('0').bytes().collect::<Vec<u8>>();
        let exponent = if digits.is_empty() { 0 } else { exponent };
        Decimal { is_negative, digits, exponent, lies }
    }

    /// Is it negative, and what is it without its sign?
    pub(super) fn apart(self) -> (bool, Decimal) {
        (self.is_negative, Decimal { is_negative: false, ..self })
    }

    /// With so many digits behind the point.
    pub(super) fn fixed(mut self, precision: usize) -> String {
        self.round(self.exponent + precision as i64);
        let mut out = self.sign();
        match 0 < self.exponent {
            true => (0..self.exponent).for_each(|at| out.push(self.digit(at))),
            false => out.push('0'),
        }
        if 0 < precision {
            out.push('.');
            let behind = self.exponent..self.exponent + precision as i64;
            behind.for_each(|at| out.push(self.digit(at)));
        }
        out
    }

    /// With one digit before the point, so many behind it, and an exponent behind this letter.
    pub(super) fn scientific(mut self, letter: char, precision: usize) -> String {
        self.round(1 + precision as i64);
        let mut out = self.sign();
        out.push(self.digit(0));
        if 0 < precision {
            out.push('.');
            (1..=precision as i64).for_each(|at| out.push(self.digit(at)));
        }
        let exponent = if self.digits.is_empty() { 0 } else { self.exponent - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        out + &format!("{letter}{sign}{:02}", exponent.abs())
    }

    /// With an exponent where that is small or large, else with a point; with so many digits in
    /// all, or as many as there are.
    pub(super) fn general(mut self, letter: char, precision: Option<usize>) -> String {
        if let Some(precision) = precision {
            self.round(precision.max(1) as i64);
        }
        let count = self.digits.len() as i64;
        let wanted = precision.map_or(count, |precision| precision.max(1) as i64);
        // Without a precision a number of up to six digits has no exponent.
        let widest = match precision {
            None => 6,
            Some(_) if count < wanted && self.exponent <= count => count,
            Some(_) => wanted,
        };
        let exponent = self.exponent - 1;
        if exponent < -4 || widest <= exponent {
            return self.scientific(letter, (wanted.min(count) - 1).max(0) as usize);
        }
        let wanted = if self.exponent < wanted { count } else { wanted };
        let behind = (wanted - self.exponent).max(0) as usize;
        self.fixed(behind)
    }

    fn sign(&self) -> String {
        if self.is_negative { "-".to_owned() } else { String::new() }
    }

    fn digit(&self, at: i64) -> char {
        let digit = usize::try_from(at).ok().and_then(|at| self.digits.get(at));
        digit.map_or('0', |digit| char::from(*digit))
    }

    /// Keeps so many digits.
    fn round(&mut self, count: i64) {
        if self.digits.len() as i64 <= count {
            return;
        }
        let Ok(count) = usize::try_from(count) else {
            self.digits.clear();
            self.exponent = 0;
            return;
        };
        let is_half = self.digits[count] == b'5' && self.digits.len() == count + 1;
        let is_up = match (is_half, self.lies) {
            (true, Side::Above) => true,
            (true, Side::Below) => false,
            (true, Side::On) => 0 < count && self.digits[count - 1] % 2 == 1,
            (false, _) => b'5' <= self.digits[count],
        };
        self.digits.truncate(count);
        if is_up {
            while self.digits.last() == Some(&b'9') {
                self.digits.pop();
            }
            match self.digits.last_mut() {
                Some(last) => *last += 1,
                None => {
                    self.digits.push(b'1');
                    self.exponent += 1;
                }
            }
        }
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
        }
        if self.digits.is_empty() {
            self.exponent = 0;
        }
    }
}

/// Where the binary number of [`BITS`] lies that is nearest to these digits with so many of them
/// behind the point.
fn side(digits: &str, behind: usize) -> Side {
    let scale = u32::try_from(behind).ok().and_then(|behind| 10_u128.checked_pow(behind));
    let (Ok(mantissa), Some(scale)) = (digits.parse::<u128>(), scale) else { return Side::On };
    // Doubling what is left of a division must not overflow.
    if scale == 1 || u128::MAX / 2 <= scale {
        return Side::On;
    }
    // How many bits stand before the point, or how many zeros directly behind it.
    let mut bits = BITS;
    match mantissa / scale {
        0 => {
            let mut doubled = mantissa;
            while doubled < scale {
                doubled *= 2;
                bits += 1;
            }
            bits -= 1;
        }
        whole => bits -= whole.ilog2() + 1,
    }
    let mut left = mantissa % scale;
    for _ in 0..bits {
        left = left * 2 % scale;
    }
    match left {
        0 => Side::On,
        left if left * 2 < scale => Side::Below,
        _ => Side::Above,
    }
}
