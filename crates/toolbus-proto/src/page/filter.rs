//! Which calls are meant, in words that people type: `back:git outcome:failure slower:250ms`.
//!
//! Keys and their texts are those of `toolbus log`, which uses the same filter for its flags.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;

use crate::time;
use crate::tool::FailureKind;
use crate::units::{self, DurationError};

/// So long a filter may be.
const CHARS_MAX: usize = 1024;
/// Calls of no caller, among the names of callers.
const NO_CALLER: &str = "-";
/// Any failure, among the outcomes.
const FAILURE: &str = "failure";
/// What has not ended, among them.
const RUNNING: &str = "running";

/// What a call has to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallFilter {
    /// Of one of these backs.
    pub backs: Vec<String>,
    /// Of one of these tools, by their own names or as `back.tool`.
    pub tools: Vec<String>,
    /// Ended in one of these ways.
    pub outcomes: Vec<String>,
    /// Came by one of these fronts.
    pub fronts: Vec<String>,
    /// By one of these callers; `-` is none.
    pub callers: Vec<String>,
    /// Ended since then; what runs passes.
    pub since: Option<SystemTime>,
    /// Took longer than so many milliseconds.
    pub slower: Option<f64>,
    /// A part of this trace.
    pub trace: Option<String>,
    /// What `back.tool` has in it, in small letters.
    pub words: Vec<String>,
}

/// What a filter looks at.
#[derive(Debug, Clone, Copy)]
pub struct FilteredCall<'a> {
    /// Whose tool it was.
    pub back: Option<&'a str>,
    /// The tool by its own name.
    pub tool: &'a str,
    /// The front that it came by.
    pub front: &'a str,
    /// Who called there.
    pub caller: Option<&'a str>,
    /// `ok`, `running` or the kind of failure.
    pub outcome: &'a str,
    /// The id of its trace.
    pub trace: Option<&'a str>,
    /// When it ended.
    pub ended: EndedAt<'a>,
    /// How many milliseconds it took, or has taken by now.
    pub millis: f64,
}

/// When a call ended.
#[derive(Debug, Clone, Copy)]
pub enum EndedAt<'a> {
    /// As a journal writes it.
    Text(&'a str),
    /// In milliseconds since 1970.
    Wall(u64),
    /// It has not.
    NotYet,
}

/// What is wrong with a filter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum FilterError {
    #[error(
        "there is no filter `{0}`; it can be back, tool, outcome, since, slower, front, caller, trace"
    )]
    Key(String),
    #[error("no call ends as `{text}`; it can be {known}")]
    Outcome { text: String, known: String },
    #[error(transparent)]
    Since(#[from] SinceError),
    #[error(transparent)]
    Slower(#[from] DurationError),
    #[error("a filter has at most 1,024 characters")]
    TooLong,
    #[error("a quote that begins in the filter does not end, or goes on behind its end")]
    Quote,
}

/// What is no time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is neither a time ago (`30s`, `10m`, `2h`, `7d`) nor one of RFC 3339 (`2026-11-16T02:14:19Z`)"
)]
pub struct SinceError(String);

impl CallFilter {
    /// Reads what was typed.
    pub fn parse(text: &str, now: SystemTime) -> Result<CallFilter, FilterError> {
        if CHARS_MAX < text.chars().count() {
            return Err(FilterError::TooLong);
        }
        let mut filter = CallFilter::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, behind) = next_term(rest)?;
            filter.take(&term, now)?;
            rest = behind.trim_start();
        }
        Ok(filter)
    }

    fn take(&mut self, term: &Term<'_>, now: SystemTime) -> Result<(), FilterError> {
        let Some(key) = term.key else {
            self.words.push(term.value.to_lowercase());
            return Ok(());
        };
        let value = term.value.to_owned();
        match key {
            "back" => self.backs.push(value),
            "tool" => self.tools.push(value),
            "outcome" => self.outcomes.push(CallFilter::outcome(&value, true)?),
            "front" => self.fronts.push(value),
            "caller" => self.callers.push(value),
            "since" => self.since = Some(Since::parse(&value)?.instant(now)),
            "slower" => self.slower = Some(units::duration(&value)?.as_secs_f64() * 1000.0),
            "trace" => self.trace = Some(value),
            _ => return Err(FilterError::Key(key.to_owned())),
        }
        Ok(())
    }

    /// How a call can end; also not yet, where calls are looked at that run.
    pub fn outcome(text: &str, may_run: bool) -> Result<String, FilterError> {
        let running = may_run.then_some(RUNNING);
        let known = ["ok", FAILURE].into_iter().chain(running);
        let known = known.chain(FailureKind::ALL.map(FailureKind::as_str));
        match known.clone().any(|known| known == text) {
            true => Ok(text.to_owned()),
            false => {
                let known = known.collect::<Vec<_>>().join(", ");
                Err(FilterError::Outcome { text: text.to_owned(), known })
            }
        }
    }

    /// Is it meant?
    pub fn takes(&self, call: &FilteredCall<'_>) -> bool {
        let FilteredCall { back, tool, front, caller, outcome, trace, ended, millis } = *call;
        let full = || match back {
            Some(back) => format!("{back}.{tool}"),
            None => tool.to_owned(),
        };
        let is_tool = |name: &String| *name == tool || (name.contains('.') && *name == full());
        let is_failure = outcome != "ok" && outcome != RUNNING;
        let is_outcome = |name: &String| *name == outcome || (name == FAILURE && is_failure);
        let is_caller = |name: &String| name == caller.unwrap_or(NO_CALLER);
        let any = |wanted: &[String], is_it: &dyn Fn(&String) -> bool| {
            wanted.is_empty() || wanted.iter().any(is_it)
        };
        self.since.is_none_or(|since| ended.is_since(since))
            && self.slower.is_none_or(|slower| slower < millis)
            && self.trace.as_deref().is_none_or(|wanted| trace == Some(wanted))
            && any(&self.backs, &|name| back == Some(name))
            && any(&self.tools, &is_tool)
            && any(&self.outcomes, &is_outcome)
            && any(&self.fronts, &|name| *name == front)
            && any(&self.callers, &is_caller)
            && (self.words.is_empty() || {
                let full = full().to_lowercase();
                self.words.iter().all(|word| full.contains(word.as_str()))
            })
    }
}

impl EndedAt<'_> {
    fn is_since(self, since: SystemTime) -> bool {
        match self {
            EndedAt::Text(text) => *time::rfc3339(since) <= *text,
            EndedAt::Wall(wall) => {
                let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                since <= u128::from(wall)
            }
            EndedAt::NotYet => true,
        }
    }
}

/// One word of a filter, or one of its keys with a value.
struct Term<'a> {
    key: Option<&'a str>,
    value: &'a str,
}

/// The first term, and what stands behind it.
fn next_term(text: &str) -> Result<(Term<'_>, &str), FilterError> {
    if let Some(rest) = text.strip_prefix('"') {
        let (value, behind) = quoted(rest)?;
        return Ok((Term { key: None, value }, behind));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let Some((key, _)) = text[..end].split_once(':') else {
        return Ok((Term { key: None, value: &text[..end] }, &text[end..]));
    };
    let behind = &text[key.len() + 1..];
    match behind.strip_prefix('"') {
        Some(rest) => {
            let (value, behind) = quoted(rest)?;
            Ok((Term { key: Some(key), value }, behind))
        }
        None => Ok((Term { key: Some(key), value: &text[key.len() + 1..end] }, &text[end..])),
    }
}

/// What stands before the second quote, behind which a blank comes or nothing.
fn quoted(text: &str) -> Result<(&str, &str), FilterError> {
    let (value, behind) = text.split_once('"').ok_or(FilterError::Quote)?;
    match behind.is_empty() || behind.starts_with(char::is_whitespace) {
        true => Ok((value, behind)),
        false => Err(FilterError::Quote),
    }
}

/// A moment in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(SystemTime),
}

impl Since {
    /// `10m`, `2h`, `7d`, or `2026-11-16T02:14:19Z`.
    pub fn parse(text: &str) -> Result<Since, SinceError> {
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
            Err(_) => Err(SinceError(text.to_owned())),
        }
    }

    /// When that was.
    pub fn instant(self, now: SystemTime) -> SystemTime {
        match self {
            Since::At(time) => time,
            Since::Ago(ago) => now.checked_sub(ago).unwrap_or(UNIX_EPOCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_794_795_259;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    #[test]
    fn times_are_ago_or_as_rfc_3339_has_them() {
        let ago = |seconds| Ok(Since::Ago(Duration::from_secs(seconds)));
        for (text, seconds) in
            [("30", 30), ("10m", 600), ("2h", 7200), ("0.5h", 1800), ("1d", 86_400)]
        {
            assert_eq!(Since::parse(text), ago(seconds), "{text}");
        }
        assert_eq!(Since::parse("2026-11-16T02:14:19Z"), Ok(Since::At(now())));
        assert_eq!(Since::parse("2026-11-16T03:14:19+01:00"), Ok(Since::At(now())));
        for wrong in ["", "h", "10w", "2mh", "-5m", "2026-11-16", "ü"] {
            assert!(Since::parse(wrong).is_err(), "{wrong}");
        }
    }

    fn call() -> FilteredCall<'static> {
        FilteredCall {
            back: Some("git"),
            tool: "Read_File",
            front: "web",
            caller: Some("ann"),
            outcome: "timed_out",
            trace: Some("0af7"),
            ended: EndedAt::Wall((NOW - 60) * 1000),
            millis: 250.0,
        }
    }

    #[test]
    fn each_key_has_its_say() {
        for (text, takes) in [
            ("", true),
            ("   ", true),
            ("back:git", true),
            ("back:hub", false),
            ("back:hub back:git", true),
            ("back:", false),
            ("tool:Read_File", true),
            ("tool:git.Read_File", true),
            ("tool:hub.Read_File", false),
            ("tool:read_file", false),
            ("outcome:failure", true),
            ("outcome:timed_out", true),
            ("outcome:ok", false),
            ("outcome:ok outcome:failure", true),
            ("outcome:running", false),
            ("front:web", true),
            ("front:other", false),
            ("caller:ann", true),
            ("caller:-", false),
            ("caller:- caller:ann", true),
            ("since:2m", true),
            ("since:30s", false),
            ("since:30s since:2m", true),
            ("since:2026-11-16T02:13:19Z", true),
            ("since:2026-11-16T02:13:20Z", false),
            ("slower:249ms", true),
            ("slower:250ms", false),
            ("slower:1s slower:1ms", true),
            ("trace:0af7", true),
            ("trace:0af", false),
            ("read", true),
            ("GIT.READ", true),
            ("read file", true),
            ("read write", false),
            ("\"read_file\"", true),
            ("\"back:git\"", false),
            ("back:\"git\" front:\"web\"", true),
            ("back:\"g it\"", false),
            ("back:git outcome:ok", false),
            ("\tback:git\n", true),
        ] {
            let filter = CallFilter::parse(text, now()).unwrap();
            assert_eq!(filter.takes(&call()), takes, "{text}");
        }
    }

    #[test]
    fn a_call_that_runs_passes_all_times_but_that_it_takes() {
        let running = FilteredCall { outcome: "running", ended: EndedAt::NotYet, ..call() };
        for (text, takes) in [
            ("since:1s", true),
            ("outcome:running", true),
            ("outcome:failure", false),
            ("slower:1s", false),
            ("slower:100ms", true),
        ] {
            let filter = CallFilter::parse(text, now()).unwrap();
            assert_eq!(filter.takes(&running), takes, "{text}");
        }
        let nobody = FilteredCall { caller: None, back: None, ..call() };
        for (text, takes) in [("caller:-", true), ("read_file", true), ("back:-", false)] {
            let filter = CallFilter::parse(text, now()).unwrap();
            assert_eq!(filter.takes(&nobody), takes, "{text}");
        }
        let filter = CallFilter::parse("since:2026-11-16T02:14:19Z", now()).unwrap();
        for (text, takes) in
            [("2026-11-16T02:14:18.999Z", false), ("2026-11-16T02:14:19.000Z", true)]
        {
            let call = FilteredCall { ended: EndedAt::Text(text), ..call() };
            assert_eq!(filter.takes(&call), takes, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        let told = |text: &str| CallFilter::parse(text, now()).unwrap_err().to_string();
        for text in ["bakc:git", "http://x", ":x", "Back:git"] {
            let key = text.split(':').next().unwrap();
            let expected = format!(
                "there is no filter `{key}`; it can be back, tool, outcome, since, slower, front, \
                 caller, trace"
            );
            assert_eq!(told(text), expected);
        }
        assert_eq!(
            told("outcome:fine"),
            "no call ends as `fine`; it can be ok, failure, running, unknown_tool, \
             invalid_arguments, failed, timed_out, cancelled, gone, broke_protocol, unavailable, \
             too_large"
        );
        assert_eq!(
            told("since:soon"),
            "`soon` is neither a time ago (`30s`, `10m`, `2h`, `7d`) nor one of RFC 3339 \
             (`2026-11-16T02:14:19Z`)"
        );
        assert!(told("slower:soon").starts_with("`soon` is not a time"));
        assert!(CallFilter::outcome("running", false).is_err());
        for text in ["\"open", "back:\"open", "\"a\"b", "back:\"a\"b"] {
            assert_eq!(CallFilter::parse(text, now()), Err(FilterError::Quote), "{text}");
        }
        let long = "ü".repeat(1024);
        assert!(CallFilter::parse(&long, now()).is_ok());
        assert_eq!(CallFilter::parse(&format!("{long}x"), now()), Err(FilterError::TooLong));
    }
}
