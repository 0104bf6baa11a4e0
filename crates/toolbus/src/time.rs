//! Times as they stand in journals, records and events: UTC, RFC 3339.

use std::time::{SystemTime, UNIX_EPOCH};

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
    use std::time::Duration;

    use super::*;

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
