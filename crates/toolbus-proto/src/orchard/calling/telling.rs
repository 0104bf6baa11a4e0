//! How a host tells people what a provider did wrong. Each sentence names the provider.

use std::time::Duration;

use super::requests::Method;
use crate::tool::{Exit, Failure, FailureKind, LastWords};

/// Who did it, for the beginning of a sentence.
pub(super) fn provider(name: &str, what: &str) -> String {
    format!("provider `{name}` {what}")
}

/// A failure of this kind, with what the reader can do about it.
pub(super) fn failure(kind: FailureKind, message: String, hint: Option<&str>) -> Failure {
    let failure = Failure::new(kind, message);
    match hint {
        Some(hint) => hinted(failure, hint.to_owned()),
        None => failure,
    }
}

/// The same failure with a hint.
pub(super) fn hinted(failure: Failure, hint: String) -> Failure {
    let words = failure.last_words.as_deref().cloned().unwrap_or_default();
    failure.with_last_words(LastWords { hint: Some(hint), ..words })
}

/// No answer in time.
pub(super) fn late(name: &str, method: &Method, patience: Option<Duration>) -> Failure {
    let within = patience.map_or("in time".to_owned(), |patience| format!("within {patience:?}"));
    let message = provider(name, &format!("did not answer {method} {within}"));
    Failure::new(FailureKind::TimedOut, message)
}

/// How the process ended, behind the name of the provider.
pub(in crate::orchard) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with status {code}"),
        Exit::Signal(number) => match signal_name(number) {
            Some(signal) => format!("was killed by {signal}"),
            None => format!("was killed by signal {number}"),
        },
    }
}

/// The names of signals by which processes end, where the numbers are the same everywhere.
fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        _ => return None,
    })
}
