//! Times as they stand in journals, records and events: UTC, RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The day and the time of a day.
struct Parts {
    year: i64,
    month: u64,
    day: u64,
    seconds: u64,
    millis: u32,
}

/// `2026-11-16T02:14:19.250Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let Parts { year, month, day, seconds, millis } = parts(time);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// `20261116T021419Z`, for the names of files.
pub fn compact(time: SystemTime) -> String {
    let Parts { year, month, day, seconds, .. } = parts(time);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Reads `2026-11-16T02:14:19.250Z` or `2026-11-16T03:14:19+01:00`; `None` if it is no such time,
/// or one before 1970.
pub fn parse(text: &str) -> Option<SystemTime> {
    let digits = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let marks = [4, 7, 10, 13, 16].map(|at| text.as_bytes()[at]);
    if !matches!(marks, [b'-', b'-', b'T' | b't' | b' ', b':', b':']) {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second is told as the one before the next minute.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if day == 0 || days_of_month < day || !is_time {
        return None;
    }
    let (fraction, zone) = match text[19..].strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let nanos = format!("{:0<9.9}", &rest[..end]);
            (nanos.parse::<u32>().ok().filter(|_| 0 < end)?, &rest[end..])
        }
        None => (0, &text[19..]),
    };
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let at = text.len() - 5;
            let (hours, minutes) = (digits(at, at + 2)?, digits(at + 3, at + 5)?);
            let seconds = i64::from(hours * 3600 + minutes * 60);
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    // Years that begin in March, as below.
    let (from_march, year) = match month {
        1 | 2 => (month + 9, i64::from(year) - 1),
        _ => (month - 3, i64::from(year)),
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = i64::from((153 * from_march + 2) / 5 + day - 1);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let seconds = days * 86_400 + i64::from(hour * 3600 + minute * 60 + second.min(59)) - offset;
    Some(UNIX_EPOCH + Duration::new(u64::try_from(seconds).ok()?, fraction))
}

/// By the calendar as it is now, also before it was introduced.
fn parts(time: SystemTime) -> Parts {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = i64::try_from(since.as_secs() / 86_400).unwrap_or(0);
    // Years that begin in March, in eras of 400 years: a leap day then ends its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Parts {
        year,
        month: month.unsigned_abs(),
        day: day.unsigned_abs(),
        seconds: since.as_secs() % 86_400,
        millis: since.subsec_millis(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for seconds in [0, 951_826_154, 1_709_251_199, 4_107_542_400, 1_794_795_259] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 70);
            assert_eq!(parse(&rfc3339(time)), Some(time));
        }
        let time = UNIX_EPOCH + Duration::from_millis(1_794_795_259_500);
        for text in ["2026-11-16T03:44:19.5+01:30", "2026-11-16 02:14:19.5Z"] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        for wrong in [
            "2026-11-16",
            "2026-02-30T00:00:00Z",
            "2026-11-16T24:00:00Z",
            "2026-11-16T02:14:19",
            "2026-11-16T02:14:19.Z",
            "1969-12-31T23:59:59Z",
            "2026-11-16T02:14:19+0100",
            "ü026-1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_826_154, "2000-02-29T12:09:14.007Z"),
            (1_709_251_199, "2024-02-29T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
            (1_794_795_259, "2026-11-16T02:14:19.007Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 7);
            assert_eq!(rfc3339(time), expected);
        }
        let time = UNIX_EPOCH + Duration::from_secs(1_794_795_259);
        assert_eq!(compact(time), "20261116T021419Z");
    }
}
