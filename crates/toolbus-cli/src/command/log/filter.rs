//! Which calls are wanted.

use std::time::{Duration, SystemTime};

use toolbus::bus::journal::read::Entry;
use toolbus::time;
use toolbus::units;
use toolbus_proto::tool::FailureKind;

use super::LogArgs;

/// What a call has to be.
pub(super) struct Filter {
    backs: Vec<String>,
    tools: Vec<String>,
    outcomes: Vec<String>,
    /// As times are written in a journal.
    since: Option<String>,
    /// In milliseconds.
    slower: Option<f64>,
}

/// Any failure, among the outcomes.
const FAILURE: &str = "failure";

impl Filter {
    pub(super) fn new(args: &LogArgs) -> Filter {
        Filter {
            backs: args.back.clone(),
            tools: args.tool.clone(),
            outcomes: args.outcome.clone(),
            since: args.since.as_ref().map(|since| time::rfc3339(since.instant())),
            slower: args.slower.map(|slower| slower.as_secs_f64() * 1000.0),
        }
    }

    pub(super) fn takes(&self, entry: &Entry<'_>) -> bool {
        let is_tool =
            |name: &String| *name == entry.tool || (name.contains('.') && *name == entry.name());
        let is_outcome =
            |name: &String| *name == entry.outcome || (name == FAILURE && entry.outcome != "ok");
        let is_back = |name: &String| entry.back.as_ref().is_some_and(|back| name == back);
        self.since.as_ref().is_none_or(|since| **since <= *entry.time)
            && self.slower.is_none_or(|slower| slower < entry.duration)
            && (self.backs.is_empty() || self.backs.iter().any(is_back))
            && (self.tools.is_empty() || self.tools.iter().any(is_tool))
            && (self.outcomes.is_empty() || self.outcomes.iter().any(is_outcome))
    }
}

/// How a call can end, for the command line.
pub(super) fn outcome(text: &str) -> Result<String, String> {
    let known = ["ok", FAILURE].into_iter().chain(FailureKind::ALL.map(FailureKind::as_str));
    match known.clone().any(|known| known == text) {
        true => Ok(text.to_owned()),
        false => {
            let known: Vec<_> = known.collect();
            Err(format!("no call ends as `{text}`; it can be {}", known.join(", ")))
        }
    }
}

/// A moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    Ago(Duration),
    At(SystemTime),
}

impl Since {
    fn instant(self) -> SystemTime {
        match self {
            Since::At(time) => time,
            Since::Ago(ago) => SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

/// `10m`, `2h`, `7d`, or `2026-11-16T02:14:19Z`.
pub(super) fn since(text: &str) -> Result<Since, String> {
    if let Some(time) = time::parse(text) {
        return Ok(Since::At(time));
    }
    let is_number = |number: &str| number.ends_with(|end: char| end.is_ascii_digit());
    let (number, seconds) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((number, "h")) if is_number(number) => (number, 3600),
        Some((number, "d")) if is_number(number) => (number, 24 * 3600),
        _ => (text, 1),
    };
    match units::duration(number) {
        Ok(ago) => Ok(Since::Ago(ago * seconds)),
        Err(_) => Err(format!(
            "`{text}` is neither a time ago (`30s`, `10m`, `2h`, `7d`) nor one of RFC 3339 \
             (`2026-11-16T02:14:19Z`)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ago_or_as_rfc_3339_has_them() {
        let ago = |seconds| Ok(Since::Ago(Duration::from_secs(seconds)));
        for (text, seconds) in
            [("30", 30), ("10m", 600), ("2h", 7200), ("0.5h", 1800), ("1d", 86_400)]
        {
            assert_eq!(since(text), ago(seconds), "{text}");
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_795_259);
        assert_eq!(since("2026-11-16T02:14:19Z"), Ok(Since::At(at)));
        assert_eq!(since("2026-11-16T03:14:19+01:00"), Ok(Since::At(at)));
        for wrong in ["", "h", "10w", "2mh", "-5m", "2026-11-16", "ü"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
