//! The days of the Gregorian calendar, and times as RFC 3339 writes them.

use std::fmt;

const NANOS: i128 = 1_000_000_000;
const DAY: i128 = 86_400;

/// A moment, and where it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    /// Since 1970 in UTC, in nanoseconds.
    nanos: i128,
    /// How far local time is ahead of UTC, in minutes.
    pub(super) offset: i32,
}

/// The same as people read it.
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
    pub(super) nanos: u32,
    /// From Sunday, which is 0.
    pub(super) weekday: usize,
}

impl Time {
    /// A moment of the years 0 to 9999; `None` beyond.
    pub(super) fn at(nanos: i128, offset: i32) -> Option<Time> {
        let time = Time { nanos, offset };
        let local = time.local_seconds();
        let (first, last) = (days(0, 1, 1), days(10_000, 1, 1));
        (i128::from(first) * DAY <= local && local < i128::from(last) * DAY).then_some(time)
    }

    pub(super) fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Without what is left of a second.
    pub(super) fn whole_seconds(self) -> Time {
        Time { nanos: self.nanos.div_euclid(NANOS) * NANOS, ..self }
    }

    fn local_seconds(&self) -> i128 {
        self.nanos.div_euclid(NANOS) + i128::from(self.offset) * 60
    }

    /// Reads `2026-12-31T23:30:00.5+01:00`.
    pub(super) fn parse(text: &str) -> Option<Time> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
        };
        let mark = |at: usize, wanted: &[u8]| wanted.contains(bytes.get(at)?).then_some(());
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        mark(4, b"-")?;
        mark(7, b"-")?;
        mark(10, b"Tt")?;
        mark(13, b":")?;
        mark(16, b":")?;
        let is_day =
            (1..=12).contains(&month) && (1..=days_of_month(i64::from(year), month)).contains(&day);
        if !is_day || 24 <= hour || 60 <= minute || 60 <= second {
            return None;
        }
        let mut rest = &text[19..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let end = fraction.find(|char: char| !char.is_ascii_digit())?;
            let nine: String = fraction[..end].chars().chain("000000000".chars()).take(9).collect();
            nanos = if end == 0 { return None } else { nine.parse().ok()? };
            rest = &fraction[end..];
        }
        let offset = offset(rest)?;
        let local = i128::from(days(i64::from(year), month, day)) * DAY
            + i128::from(hour * 3600 + minute * 60 + second);
        let utc = local - i128::from(offset) * 60;
        Time::at(utc * NANOS + nanos, offset)
    }

    pub(super) fn civil(&self) -> Civil {
        let local = self.local_seconds();
        let day_number = local.div_euclid(DAY) as i64;
        let of_day = local.rem_euclid(DAY) as u32;
        let (year, month, day) = date(day_number);
        Civil {
            year,
            month,
            day,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            nanos: self.nanos.rem_euclid(NANOS) as u32,
            weekday: (day_number + 4).rem_euclid(7) as usize,
        }
    }

    /// `+01:00`, with or without the colon.
    pub(super) fn offset_text(&self, colon: &str) -> String {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.unsigned_abs();
        format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
    }
}

fn offset(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i32>().ok())?
    };
    let (hours, minutes) = (digits(1, 3)?, digits(4, 6)?);
    let is_offset = text.len() == 6 && &text[3..4] == ":" && hours < 24 && minutes < 60;
    is_offset.then_some(sign * (hours * 60 + minutes))
}

/// A fraction of a second is written only if there is one.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second, nanos, .. } = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if nanos != 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        match self.offset {
            0 => f.write_str("Z"),
            _ => f.write_str(&self.offset_text(":")),
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970. Years are counted from March, so that the leap day is the last of its year.
fn days(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = i64::from((month + 9) % 12);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The other way round.
fn date(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_day_is_found_again(number in -719_000i64..2_900_000) {
            let (year, month, day) = date(number);
            prop_assert!(1 <= day && day <= days_of_month(year, month));
            prop_assert_eq!(days(year, month, day), number);
            prop_assert!(date(number + 1) > date(number));
        }

        #[test]
        fn a_time_is_read_as_it_is_written(nanos in -62_000_000_000i128 * NANOS..253_000_000_000 * NANOS, offset in -1439i32..1440) {
            if let Some(time) = Time::at(nanos, offset) {
                prop_assert_eq!(Time::parse(&time.to_string()), Some(time));
            }
        }
    }
}
