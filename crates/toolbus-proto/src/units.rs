//! Times and sizes as people write them, in flags and in the config.

use std::time::Duration;

use thiserror::Error;

/// Longer than any caller waits, and short enough that adding it to a clock cannot overflow.
const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why some text is no time.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DurationError {
    #[error("`{0}` is not a time: give seconds (`2`, `0.5`) or a unit (`500ms`, `2s`, `1m`)")]
    NotATime(String),
    #[error("`{0}` is no time at all: it must be more than zero")]
    NotPositive(String),
    #[error("`{0}` is too long: a year is the most")]
    TooLong(String),
}

/// A time as in `2`, `0.5`, `500ms`, `2s` or `1m`.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    let number_len = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_len);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => return Err(DurationError::NotATime(text.to_owned())),
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    // Stricter than `f64`, which takes `1e9`, `.` and `inf` too.
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let Some(seconds) = digits.parse::<f64>().ok().filter(|_| plain) else {
        return Err(DurationError::NotATime(text.to_owned()));
    };
    let duration = Duration::try_from_secs_f64(seconds * seconds_per_unit)
        .ok()
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
    if negative || duration.is_zero() {
        return Err(DurationError::NotPositive(text.to_owned()));
    }
    Ok(duration)
}

/// The same, or no time at all: `0`, `0s`, `0ms`.
pub fn duration_or_none(text: &str) -> Result<Duration, DurationError> {
    match text {
        "0" | "0s" | "0ms" | "0m" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// Why some text is no size.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SizeError {
    #[error("`{0}` is not a size: give bytes (`65536`) or a unit (`64KiB`, `16MiB`, `1GiB`)")]
    NotASize(String),
    #[error("`{0}` is no size at all: it must be more than zero")]
    Zero(String),
    #[error("`{0}` is more than this machine can count")]
    TooLarge(String),
    #[error("`{0}` is more than is ever held for one peer: 64MiB is the most")]
    NotHeld(String),
}

/// What is held in memory for one peer at most, so that no limit of a message can be higher.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// The size of something that has to be held in memory, as [`size`] reads it.
pub fn held_size(text: &str) -> Result<usize, SizeError> {
    match size(text)? {
        bytes if HELD_BYTES_MAX < bytes => Err(SizeError::NotHeld(text.to_owned())),
        bytes => Ok(bytes),
    }
}

/// A number of bytes as in `65536`, `64KiB`, `16MiB` or `1GiB`.
pub fn size(text: &str) -> Result<usize, SizeError> {
    let digits_len = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_len);
    let bytes_per_unit = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(SizeError::NotASize(text.to_owned())),
    };
    if digits.is_empty() {
        return Err(SizeError::NotASize(text.to_owned()));
    }
    // All digits, so the only way to fail is to be too large.
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(bytes_per_unit));
    match bytes {
        None => Err(SizeError::TooLarge(text.to_owned())),
        Some(0) => Err(SizeError::Zero(text.to_owned())),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let of = |text| duration(text).map_err(|error| error.to_string());
        assert_eq!(of("2"), Ok(Duration::from_secs(2)));
        assert_eq!(of("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(of("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(of("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(of("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(of("31536000"), Ok(DURATION_MAX));
        for none in ["0", "0s", "0ms", "0m"] {
            assert_eq!(duration_or_none(none), Ok(Duration::ZERO));
        }
        assert_eq!(duration_or_none("2s"), duration("2s"));
        assert_eq!(duration_or_none("-1s"), duration("-1s"));
    }

    #[test]
    fn durations_that_are_none() {
        for text in [
            "", "s", "ms", "-", ".", ".5", "1..2", "1e3", "inf", "NaN", "+2", " 2", "2 s", "2S",
            "2h", "٢", "--1", "1s2",
        ] {
            assert_eq!(duration(text), Err(DurationError::NotATime(text.to_owned())), "{text:?}");
        }
        for text in ["0", "0s", "0.0", "-1", "-0.5", "-500ms", "0.0000000001"] {
            assert_eq!(
                duration(text),
                Err(DurationError::NotPositive(text.to_owned())),
                "{text:?}"
            );
        }
        for text in ["31536001", "99999999999999999999999", "525601m"] {
            assert_eq!(duration(text), Err(DurationError::TooLong(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("16MiB"), Ok(16 * 1024 * 1024));
        assert_eq!(size("1GiB"), Ok(1024 * 1024 * 1024));
        for text in ["", "KiB", "64MB", "64kib", "1.5MiB", "-1", "+1", "1 KiB", "0x10"] {
            assert_eq!(size(text), Err(SizeError::NotASize(text.to_owned())), "{text:?}");
        }
        for text in ["0", "0MiB"] {
            assert_eq!(size(text), Err(SizeError::Zero(text.to_owned())), "{text:?}");
        }
        for text in ["99999999999999999999", "99999999999999999GiB"] {
            assert_eq!(size(text), Err(SizeError::TooLarge(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_held_is_no_limit() {
        assert_eq!(held_size("64MiB"), Ok(HELD_BYTES_MAX));
        for text in ["67108865", "65MiB", "1GiB"] {
            assert_eq!(held_size(text), Err(SizeError::NotHeld(text.to_owned())), "{text:?}");
            assert!(size(text).is_ok(), "{text:?}");
        }
        let why = held_size("1GiB").unwrap_err().to_string();
        assert_eq!(why, "`1GiB` is more than is ever held for one peer: 64MiB is the most");
    }
}
