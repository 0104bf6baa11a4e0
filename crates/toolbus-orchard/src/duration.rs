//! Times as scenarios write them: `500ms`, `2s`, `1h30m`.

use std::time::Duration;

use thiserror::Error;

/// Longer than any run, and short enough that adding it to a clock cannot overflow.
const MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why some text is no time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    /// It is written another way.
    #[error("`{0}` is not a time: write it as in `500ms`, `2s` or `1h30m`")]
    NotATime(String),
    /// It is more than a year.
    #[error("`{0}` is too long: a year is the most")]
    TooLong(String),
}

/// Reads a time: one or more numbers, each with its unit `ns`, `us`, `ms`, `s`, `m`, `h` or `d`.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let not_a_time = || DurationError::NotATime(text.to_owned());
    let mut rest = text;
    let mut nanos: f64 = 0.0;
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (number, behind) = rest.split_at(digits.ok_or_else(not_a_time)?);
        let unit_end = behind.find(|char: char| !char.is_ascii_alphabetic());
        let (unit, behind) = behind.split_at(unit_end.unwrap_or(behind.len()));
        let number: f64 = number.parse().map_err(|_| not_a_time())?;
        nanos += number * unit_nanos(unit).ok_or_else(not_a_time)?;
        rest = behind;
    }
    if text.is_empty() {
        return Err(not_a_time());
    }
    if MAX.as_nanos() as f64 <= nanos {
        return Err(DurationError::TooLong(text.to_owned()));
    }
    // Below a year, so it fits.
    Ok(Duration::from_nanos(nanos.round() as u64))
}

fn unit_nanos(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "d" => 86400e9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_units() {
        for (text, millis) in
            [("500ms", 500), ("2s", 2000), ("1h30m", 5_400_000), ("0.5s", 500), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "2", "s", "1x", "-1s", "1.2.3s", " 1s", "400d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
