//! Tests of somebody else's peer against the rules of its document, one file a protocol.
//!
//! They talk to it by hand: our own machines are too kind to show what is wrong.

pub(crate) mod talk;

use std::fmt;
use std::time::Duration;

use toolbus_proto::json::Json;

use crate::child::Program;

/// Who is tested, and how long it may take.
#[derive(Debug, Clone)]
pub struct Subject {
    /// What to start.
    pub program: Program,
    /// How long until it must be ready.
    pub start: Duration,
    /// How long it may take to end.
    pub stop: Duration,
}

/// What became of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// Was it kept?
    pub verdict: Verdict,
}

/// Was a rule kept?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Ok,
    /// No, and the document demands it.
    Fail(String),
    /// No, or nobody knows; it is only worth knowing.
    Note(String),
}

impl Verdict {
    /// Of a rule that the document demands.
    pub(crate) fn demanded(kept: Result<(), String>) -> Verdict {
        kept.map_or_else(Verdict::Fail, |()| Verdict::Ok)
    }

    /// Of a rule that is only good manners.
    pub(crate) fn wished(kept: Result<(), String>) -> Verdict {
        kept.map_or_else(Verdict::Note, |()| Verdict::Ok)
    }
}

impl Finding {
    /// The finding for scripts.
    pub fn to_json(&self) -> Json {
        let rule = self.rule;
        let (outcome, why) = match &self.verdict {
            Verdict::Ok => ("ok", None),
            Verdict::Fail(why) => ("fail", Some(why)),
            Verdict::Note(why) => ("note", Some(why)),
        };
        let why = why.map_or(String::new(), |why| format!(",\"why\":{}", Json::of(why)));
        Json::from_trusted(format!("{{\"rule\":\"{rule}\",\"outcome\":\"{outcome}\"{why}}}"))
    }
}

impl fmt::Display for Finding {
    /// The finding for people, as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Ok => write!(f, "ok {}", self.rule),
            Verdict::Fail(why) => write!(f, "FAIL {}: {why}", self.rule),
            Verdict::Note(why) => write!(f, "note {}: {why}", self.rule),
        }
    }
}
