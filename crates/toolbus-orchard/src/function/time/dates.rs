//! `formatdate`: a time as people write it.

use super::calendar::Time;
use crate::diagnostic::excerpt;
use crate::function::{Fault, bad};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Letters stand for parts of the time, `'…'` for itself (`''` is a quote in it), the rest too.
pub(super) fn formatted(spec: &str, time: &Time) -> Result<String, Fault> {
    let mut out = String::new();
    let mut rest = spec;
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("''") {
            out.push('\'');
            rest = behind;
        } else if first == '\'' {
            rest = literal(&rest[1..], &mut out)?;
        } else if first.is_ascii_alphabetic() {
            let end = rest.find(|char| char != first).unwrap_or(rest.len());
            out.push_str(&part(&rest[..end], time)?);
            rest = &rest[end..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(out)
}

fn literal<'a>(text: &'a str, out: &mut String) -> Result<&'a str, Fault> {
    let mut rest = text;
    loop {
        let Some(end) = rest.find('\'') else {
            return Err(bad("a quote in the format is never closed"));
        };
        out.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        let Some(behind) = rest.strip_prefix('\'') else { return Ok(rest) };
        out.push('\'');
        rest = behind;
    }
}

fn part(token: &str, time: &Time) -> Result<String, Fault> {
    let civil = time.civil();
    let month = MONTHS[civil.month as usize - 1];
    let weekday = DAYS[civil.weekday];
    let twelve = (civil.hour + 11) % 12 + 1;
    let half = if civil.hour < 12 { "AM" } else { "PM" };
    Ok(match token {
        "YYYY" => format!("{:04}", civil.year),
        "YY" => format!("{:02}", civil.year % 100),
        "MMMM" => month.to_owned(),
        "MMM" => month[..3].to_owned(),
        "MM" => format!("{:02}", civil.month),
        "M" => civil.month.to_string(),
        "DD" => format!("{:02}", civil.day),
        "D" => civil.day.to_string(),
        "EEEE" => weekday.to_owned(),
        "EEE" => weekday[..3].to_owned(),
        "hh" => format!("{:02}", civil.hour),
        "h" => civil.hour.to_string(),
        "HH" => format!("{twelve:02}"),
        "H" => twelve.to_string(),
        "AA" => half.to_owned(),
        "aa" => half.to_ascii_lowercase(),
        "mm" => format!("{:02}", civil.minute),
        "m" => civil.minute.to_string(),
        "ss" => format!("{:02}", civil.second),
        "s" => civil.second.to_string(),
        "ZZZZZ" => time.offset_text(":"),
        "ZZZZ" => time.offset_text(""),
        "ZZZ" if time.offset == 0 => "UTC".to_owned(),
        "ZZZ" => time.offset_text(""),
        "Z" if time.offset == 0 => "Z".to_owned(),
        "Z" => time.offset_text(":"),
        token => {
            let help = "letters stand for parts of the time: YYYY MM DD hh mm ss, MMM EEE HH AA Z \
                        …; text is put between single quotes";
            return Err(bad(format!("{} in the format means nothing", excerpt(token))).help(help));
        }
    })
}
