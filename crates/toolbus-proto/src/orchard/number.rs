//! Numbers as their own decimal text: no float is ever made of one, so no digit is lost.
//!
//! Frames carry numbers in plain digits; text made of a number has no zeros behind its last
//! digit; sets compare numbers by value.

use std::borrow::Cow;
use std::cmp::Ordering;

/// How many zeros an exponent may stand for before the number counts as too large.
const ZEROS_MAX: i64 = 1024;

/// A number taken apart: `digits` × 10^`exponent`, no zero at either end of the digits; zero
/// has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `-12.50e3`, or `None` for what is no decimal number. Zeros in front do no harm.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, power) = match rest.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, Some(power)),
            None => (rest, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !fraction.is_none_or(all_digits) {
            return None;
        }
        let fraction = fraction.unwrap_or_default();
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        let power = power.map_or(Some(0), exponent)?;
        if significant.is_empty() {
            return Some(Decimal { is_negative: false, digits: String::new(), exponent: 0 });
        }
        let dropped = (digits.len() - significant.len()) as i64;
        let exponent = power.saturating_sub(fraction.len() as i64).saturating_add(dropped);
        Some(Decimal { is_negative, digits: significant.to_owned(), exponent })
    }

    /// In plain digits, without zeros behind the last; `None` if that would be far too many.
    pub(crate) fn plain(&self) -> Option<String> {
        let Decimal { is_negative, digits, exponent } = self;
        if digits.is_empty() {
            return Some("0".to_owned());
        }
        let sign = if *is_negative { "-" } else { "" };
        let zeros = |count: i64| {
            usize::try_from(count)
                .ok()
                .filter(|_| count <= ZEROS_MAX)
                .map(|count| "0".repeat(count))
        };
        if 0 <= *exponent {
            return Some(format!("{sign}{digits}{}", zeros(*exponent)?));
        }
        let point = digits.len() as i64 + exponent;
        if point <= 0 {
            return Some(format!("{sign}0.{}{digits}", zeros(-point)?));
        }
        let (whole, fraction) = digits.split_at(usize::try_from(point).ok()?);
        Some(format!("{sign}{whole}.{fraction}"))
    }

    /// The number, if it is whole and fits.
    pub(crate) fn integer(&self) -> Option<i64> {
        if self.exponent < 0 {
            return None;
        }
        self.plain()?.parse().ok()
    }
}

/// By value.
impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let sign = |number: &Decimal| match (number.digits.is_empty(), number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = |number: &Decimal| (number.digits.len() as i64).saturating_add(number.exponent);
        sign(self).cmp(&sign(other)).then_with(|| {
            let by_size = size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits));
            if self.is_negative { by_size.reverse() } else { by_size }
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The power of ten behind `e`; one that no number of digits can hold counts as endless.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let endless = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Some(text.parse().unwrap_or(endless))
}

/// A JSON number in plain digits, its own text if it has no exponent; `None` if it is too large.
pub(crate) fn in_plain_digits(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains(['e', 'E']) {
        return Some(Cow::Borrowed(raw));
    }
    Decimal::parse(raw)?.plain().map(Cow::Owned)
}

/// The text that a number becomes: plain digits, no zeros behind the last.
pub(crate) fn as_text(raw: &str) -> Option<String> {
    Decimal::parse(raw)?.plain()
}

/// The number that a text spells, as JSON; its own text where that is JSON in plain digits.
pub(crate) fn from_text(text: &str) -> Option<Cow<'_, str>> {
    let number = Decimal::parse(text)?;
    let whole = text.strip_prefix('-').unwrap_or(text);
    let is_json = !whole.starts_with('0') || whole == "0" || whole.starts_with("0.");
    match is_json && !text.contains(['e', 'E']) {
        true => Some(Cow::Borrowed(text)),
        false => number.plain().map(Cow::Owned),
    }
}

/// The whole number that a raw JSON number means: `3`, `3.0` and `30e-1` are three.
pub(crate) fn integer(raw: &str) -> Option<i64> {
    // As nearly all are written.
    if let Ok(number) = raw.parse() {
        return Some(number);
    }
    Decimal::parse(raw)?.integer()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exponents_are_written_out() {
        for (raw, plain, text) in [
            ("0", "0", "0"),
            ("-0.0", "-0.0", "0"),
            ("1.50", "1.50", "1.5"),
            ("1e3", "1000", "1000"),
            ("-12.50E+1", "-125", "-125"),
            ("125e-2", "1.25", "1.25"),
            ("1e-3", "0.001", "0.001"),
            ("0e999999999999999999999", "0", "0"),
            (
                "1234567890123456789012345678901234567890",
                "1234567890123456789012345678901234567890",
                "1234567890123456789012345678901234567890",
            ),
        ] {
            assert_eq!(in_plain_digits(raw).as_deref(), Some(plain), "{raw}");
            assert_eq!(as_text(raw).as_deref(), Some(text), "{raw}");
        }
        assert_eq!(in_plain_digits("1e2000"), None);
        assert_eq!(in_plain_digits("1e-99999999999999999999"), None);
        assert_eq!(in_plain_digits("1e99999999999999999999"), None);
    }

    #[test]
    fn only_decimal_text_spells_a_number() {
        for (text, number) in [
            ("5", Some("5")),
            ("-5.10", Some("-5.10")),
            ("007", Some("7")),
            ("1e2", Some("100")),
            ("00.50", Some("0.5")),
            ("0.50", Some("0.50")),
        ] {
            assert_eq!(from_text(text).as_deref(), number, "{text}");
        }
        for text in
            ["", "-", "+5", " 5", "5 ", "0x10", "1_000", ".5", "5.", "1e", "1e+", "NaN", "1.2.3"]
        {
            assert_eq!(from_text(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_found_however_they_are_written() {
        for (raw, number) in [
            ("3", Some(3)),
            ("3.0", Some(3)),
            ("-30e-1", Some(-3)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("3.5", None),
            ("1e400", None),
        ] {
            assert_eq!(integer(raw), number, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_ordered_by_value(a in -10_000i64..10_000, b in -10_000i64..10_000, by in 0usize..5) {
            let shifted = |number: i64| Decimal::parse(&format!("{number}e-{by}")).unwrap();
            prop_assert_eq!(shifted(a).cmp(&shifted(b)), a.cmp(&b));
        }

        #[test]
        fn plain_digits_mean_the_same(raw in "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,8})?([eE][-+]?[0-9]{1,2})?") {
            let plain = in_plain_digits(&raw).unwrap();
            let text = as_text(&raw).unwrap();
            prop_assert_eq!(Decimal::parse(&plain), Decimal::parse(&raw));
            prop_assert_eq!(Decimal::parse(&text), Decimal::parse(&raw));
            let float: f64 = raw.parse().unwrap();
            prop_assert_eq!(text.parse::<f64>().unwrap(), float);
            prop_assert!(crate::json::Json::parse(plain.into_owned()).is_ok());
            prop_assert!(crate::json::Json::parse(text).is_ok());
        }
    }
}
