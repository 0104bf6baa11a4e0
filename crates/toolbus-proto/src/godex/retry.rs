//! When a request that failed is made again: as the server asks, or later each time.

use std::time::{Duration, SystemTime};

use crate::chance::Random;
use crate::http::Headers;

/// A wait that is longer is not worth it: the failure is reported at once.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(120);
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);

/// May a request with this answer be made again?
pub(super) fn is_worth_it(status: u16) -> bool {
    matches!(status, 408 | 409 | 429 | 500..=599)
}

/// How long to wait before the next try. `failed` counts those before it, from 0; `wall` is the
/// time of day when the answer came.
pub(super) fn wait(
    headers: Option<&Headers>,
    wall: SystemTime,
    failed: u32,
    random: &mut dyn Random,
) -> Duration {
    let asked = headers.and_then(|headers| {
        let millis = headers.get("retry-after-ms").and_then(|text| number(text, 1000.0));
        millis.or_else(|| {
            let after = headers.get("retry-after")?;
            number(after, 1.0).or_else(|| date(after)?.duration_since(wall).ok())
        })
    });
    asked.unwrap_or_else(|| {
        let mut bytes = [0; 2];
        random.fill(&mut bytes);
        let chance = f64::from(u16::from_le_bytes(bytes)) / f64::from(u16::MAX);
        let doubled = FIRST.saturating_mul(1 << failed.min(10)).min(LONGEST);
        doubled.mul_f64(0.75 + chance / 4.0)
    })
}

/// A number that is not negative, of a unit that goes so often into a second.
fn number(text: &str, unit: f64) -> Option<Duration> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = text.parse().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(number / unit).ok()
}

/// An HTTP date as all servers write it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_once(", ")?.1.split(' ');
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':').map(|text| text.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    if words.next() != Some("GMT") || 23 < hour || 59 < minute || 60 < second {
        return None;
    }
    // Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(name: &'static str, value: &str) -> Duration {
        let headers: Headers = [(name, value)].into_iter().collect();
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        // The least that chance allows.
        wait(Some(&headers), wall, 0, &mut |_: &mut [u8]| {})
    }

    #[test]
    fn a_server_may_say_how_long() {
        let own = Duration::from_millis(375);
        for (name, value, expected) in [
            ("retry-after-ms", "20", Duration::from_millis(20)),
            ("retry-after-ms", "-1", own),
            ("Retry-After", "0.2", Duration::from_millis(200)),
            ("Retry-After", "inf", own),
            ("Retry-After", "soon", own),
            ("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT", Duration::from_secs(7)),
            ("Retry-After", "Sun, 06 Nov 1994 08:49:29 GMT", own),
            ("Retry-After", "1e999", own),
        ] {
            assert_eq!(waited(name, value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn else_it_is_longer_each_time() {
        let wall = SystemTime::UNIX_EPOCH;
        let mut most = |bytes: &mut [u8]| bytes.fill(0xff);
        let waits: Vec<_> =
            (0..6).map(|failed| wait(None, wall, failed, &mut most).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 8000]);
    }

    #[test]
    fn dates() {
        let unix = |text| date(text).map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        assert_eq!(unix("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(unix("Thu, 29 Feb 2024 00:00:01 GMT"), Some(Duration::from_secs(1_709_164_801)));
        for text in
            ["", "x, 1 Jan", "Thu, 01 Foo 1970 00:00:00 GMT", "Thu, 01 Jan 1970 24:00:00 GMT"]
        {
            assert_eq!(unix(text), None, "{text}");
        }
    }
}
