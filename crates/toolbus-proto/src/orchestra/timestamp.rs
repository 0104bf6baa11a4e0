//! `google.protobuf.Timestamp`: a moment of the calendar, which only the hands know.

use bytes::Bytes;

use super::protobuf::Malformed;
use super::protobuf::message::{Kind, Message};
use super::protobuf::read::Field;
use crate::json::write_string;

/// Seconds and nanoseconds since 1970, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Whole seconds; before 1970 they are negative.
    pub seconds: i64,
    /// The rest, counted forwards.
    pub nanos: i32,
}

impl Timestamp {
    /// As RFC 3339 writes it, or `None` where that has no such year.
    pub fn to_rfc3339(self) -> Option<String> {
        let Timestamp { seconds, nanos } = self;
        if !(-62_135_596_800..253_402_300_800).contains(&seconds)
            || !(0..1_000_000_000).contains(&nanos)
        {
            return None;
        }
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = match nanos {
            0 => String::new(),
            nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
        };
        Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
    }
}

/// Year, month and day, so many days after 1970. Years are counted from March, so that the
/// day that comes every four years is the last of one.
fn date(days: i64) -> (i64, i64, i64) {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

impl Message for Timestamp {
    fn take(&mut self, whole: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        match field.number {
            1 => Kind::take(&mut self.seconds, whole, field),
            2 => Kind::take(&mut self.nanos, whole, field),
            _ => Ok(()),
        }
    }

    fn size(&self) -> usize {
        let seconds = if self.seconds == 0 { 0 } else { Kind::size(&self.seconds, 1) };
        let nanos = if self.nanos == 0 { 0 } else { Kind::size(&self.nanos, 2) };
        seconds + nanos
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.seconds != 0 {
            Kind::write(&self.seconds, 1, out);
        }
        if self.nanos != 0 {
            Kind::write(&self.nanos, 2, out);
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        match self.to_rfc3339() {
            Some(text) => write_string(out, &text),
            None => {
                let Timestamp { seconds, nanos } = self;
                out.extend_from_slice(
                    format!("{{\"seconds\":{seconds},\"nanos\":{nanos}}}").as_bytes(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_their_date() {
        for (seconds, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (1_700_000_000, 0, "2023-11-14T22:13:20Z"),
            (951_782_399, 120_000_000, "2000-02-28T23:59:59.12Z"),
            (951_868_799, 1, "2000-02-29T23:59:59.000000001Z"),
            (-1, 0, "1969-12-31T23:59:59Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00Z"),
            (253_402_300_799, 0, "9999-12-31T23:59:59Z"),
            (-62_135_596_800, 0, "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp { seconds, nanos }.to_rfc3339().as_deref(), Some(text));
        }
        assert_eq!(Timestamp { seconds: 253_402_300_800, nanos: 0 }.to_rfc3339(), None);
        assert_eq!(Timestamp { seconds: 0, nanos: -1 }.to_rfc3339(), None);
    }
}
