//! Tests of a foreign peer against the rules of its document, a folder for each protocol.
//!
//! They talk to it by hand: our own machines are too kind to show what is wrong.

pub mod fixture;
mod godex;
mod mcp;
mod mediocre;
mod nats;
mod oracle;
mod orchard;
mod orchestra;
mod talk;

use std::fmt;
use std::time::Duration;

use thiserror::Error;
use toolbus_proto::json::Json;
use toolbus_proto::tool::Failure;

use toolbus::address::AddressError;
use toolbus::bus::back::LocalFuture;
use toolbus::peer::settings::Settings;

/// The wires whose rules are known, by name.
const KINDS: [(&str, &dyn CheckKind); 7] = [
    ("godex", &godex::Check),
    ("mcp", &mcp::Check),
    ("mediocre", &mediocre::Check),
    ("nats", &nats::NatsCheck),
    ("oracle", &oracle::Check),
    ("orchard", &orchard::Check),
    ("orchestra", &orchestra::Check),
];

/// How programs are tested that should speak the wire of this name, if its rules are known.
pub fn find(wire: &str) -> Option<&'static dyn CheckKind> {
    KINDS.into_iter().find(|(name, _)| *name == wire).map(|(_, kind)| kind)
}

/// How a program is tested that should speak a wire.
pub trait CheckKind: Sync {
    /// What can be said about the tests of this wire alone.
    fn options(&self) -> &'static [CheckOption] {
        &[]
    }

    /// The rules in the order in which they are tried, each with what it asks for, as a sentence.
    fn rules(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Reads who is to be tested, as it is given on a command line.
    fn target(&self, text: &str, wanted: &Wanted) -> Result<Box<dyn Target>, TargetError>;
}

/// Something that can be said about the tests of one wire alone.
#[derive(Debug, Clone, Copy)]
pub struct CheckOption {
    /// Its name: `method`.
    pub name: &'static str,
    /// What its value is called: `NAME`.
    pub value_name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Whom it is for, as others are told: `mediocre-rpc servers`.
    pub only_for: &'static str,
}

/// What is said about a test, besides who is tested.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How long until it must be ready; else as its wire says.
    pub start: Option<Duration>,
    /// How long it may take to end.
    pub stop: Duration,
    /// The surroundings of its program, and what goes with requests over HTTP.
    pub settings: Settings,
    /// The options of its wire that were given, by name.
    pub options: Vec<(&'static str, String)>,
}

impl Wanted {
    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

/// The peer under test.
pub trait Target {
    /// Tests it, and tells what became of each rule as soon as that is known. Fails only if it
    /// cannot be started or reached at all. Must be called inside a `LocalSet`.
    fn check<'a>(
        &'a self,
        tell: &'a mut dyn FnMut(Finding),
    ) -> LocalFuture<'a, Result<(), Failure>>;
}

/// Why a text names no peer that could be tested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TargetError {
    /// What is wrong with it.
    pub message: String,
    /// What the reader can do about it.
    pub hint: Option<String>,
}

impl TargetError {
    /// What is wrong with it.
    pub fn new(message: impl ToString) -> TargetError {
        TargetError { message: message.to_string(), hint: None }
    }

    /// The same, with what the reader can do about it.
    #[must_use]
    pub fn hint(self, hint: &str) -> TargetError {
        TargetError { hint: Some(hint.to_owned()), ..self }
    }
}

impl From<AddressError> for TargetError {
    fn from(error: AddressError) -> TargetError {
        TargetError { message: error.to_string(), hint: error.hint() }
    }
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
    /// No, or it cannot be told; it is only worth knowing.
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
