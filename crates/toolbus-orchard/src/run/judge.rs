//! What a failure means for a node: its state, its code, and the exit code of the run.

use toolbus::{Failure, FailureKind, Json};

use crate::record::{ErrorRecord, State};
use crate::secrets::Secrets;

/// Why a run did not succeed, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A node or configure failed.
    Failed,
    /// Something timed out.
    TimedOut,
    /// A provider died or broke the protocol.
    Broke,
}

impl Fault {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Fault::Failed => 1,
            Fault::TimedOut => 4,
            Fault::Broke => 3,
        }
    }
}

/// What became of something that was asked of a provider.
pub(super) struct Judged {
    pub(super) state: State,
    pub(super) fault: Fault,
    pub(super) error: ErrorRecord,
}

/// Judges why a provider has not done what it was asked.
pub(super) fn judge(failure: &Failure, provider: &str, secrets: &Secrets) -> Judged {
    let (state, fault, code) = match (failure.from_peer, failure.kind) {
        (true, _) => (State::Failed, Fault::Failed, None),
        (_, FailureKind::TimedOut) => (State::Unknown, Fault::TimedOut, Some("timed_out")),
        (_, FailureKind::BrokeProtocol | FailureKind::TooLarge) => {
            (State::Unknown, Fault::Broke, Some("protocol_error"))
        }
        (_, FailureKind::Gone | FailureKind::Cancelled) => {
            (State::Unknown, Fault::Broke, Some("provider_gone"))
        }
        // It had ended before it was asked: nothing has happened.
        (_, FailureKind::Unavailable) => (State::Failed, Fault::Broke, Some("provider_gone")),
        _ => (State::Failed, Fault::Failed, Some("invalid_request")),
    };
    let said = failure.code.as_ref().map(ToString::to_string);
    let code = match code {
        Some(code) => code.to_owned(),
        None => said.unwrap_or_else(|| "execute_failed".to_owned()),
    };
    let mut detail: Vec<String> = failure.detail.iter().map(Json::shown).collect();
    if let Some(words) = failure.last_words.as_deref().filter(|_| !failure.from_peer) {
        detail.extend(words.hint.iter().map(|hint| format!("hint: {hint}")));
        detail.extend(words.stderr.iter().cloned());
    }
    let detail = Some(detail.join("\n")).filter(|detail| !detail.is_empty());
    let masked = |text: &str| secrets.masked(text).into_owned();
    let error = ErrorRecord {
        code: masked(&code),
        message: masked(&failure.message),
        provider: Some(provider.to_owned()),
        detail: detail.map(|detail| masked(&detail)),
    };
    Judged { state, fault, error }
}
