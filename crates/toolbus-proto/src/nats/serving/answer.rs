//! How a plain client is answered: a message with the value, or one with an error.

use bytes::Bytes;

use crate::json::Json;
use crate::nats::headers::Block;
use crate::nats::translate;
use crate::nats::wire::ErrorSays;
use crate::tool::{Code, Failure, FailureKind, Outcome};

/// How long the text of an error may be.
const ERROR_BYTES_MAX: usize = 1 << 10;

/// What is published: a header block, if there is one, and a payload.
pub(super) struct PlainAnswer {
    pub(super) head: Option<Vec<u8>>,
    pub(super) payload: Bytes,
    /// What STATS say of it, if it is an error.
    pub(super) error: Option<String>,
}

/// The value that a reply became.
pub(super) fn value(outcome: &Outcome) -> Result<Bytes, Failure> {
    Ok(match outcome {
        Outcome::Value(json) => json.as_bytes().clone(),
        Outcome::Text(text) => Json::of(text).as_bytes().clone(),
        Outcome::End(end) => end.clone().unwrap_or(Json::null()).as_bytes().clone(),
        Outcome::Native(body) => body.clone(),
        Outcome::Tools(_) => {
            let message = "an answer that this wire cannot carry";
            return Err(Failure::new(FailureKind::BrokeProtocol, message));
        }
    })
}

/// The answer of a call, for a server that takes payloads of so many bytes.
pub(super) fn answer(result: Result<Outcome, Failure>, payload_max: usize) -> PlainAnswer {
    let payload = result.and_then(|outcome| value(&outcome)).and_then(|payload| {
        let bytes = payload.len();
        match bytes <= payload_max {
            true => Ok(payload),
            false => Err(Failure::new(
                FailureKind::TooLarge,
                format!("the answer has {bytes} bytes, and this NATS server takes {payload_max}"),
            )),
        }
    });
    match payload {
        Ok(payload) => PlainAnswer { head: None, payload, error: None },
        Err(failure) => error(&failure, number(&failure), payload_max),
    }
}

/// An error with its number.
pub(super) fn error(failure: &Failure, number: u16, payload_max: usize) -> PlainAnswer {
    let told = translate::told(failure);
    let mut text = &*told;
    if ERROR_BYTES_MAX < text.len() {
        let end = (0..=ERROR_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text = &text[..end.unwrap_or_default()];
    }
    let head = Block::new()
        .with("Nats-Service-Error", text)
        .with("Nats-Service-Error-Code", &number.to_string())
        .with("Toolbus-Failure", failure.kind.as_str())
        .end();
    let payload = |with_detail: bool| {
        let mut says = translate::says(failure);
        (says.status, says.stderr) = (None, None);
        if !with_detail {
            says.detail = None;
        }
        let payload = serde_json::to_vec(&ErrorSays { error: says });
        payload.expect("our own members have string keys")
    };
    let mut whole = payload(true);
    if payload_max < whole.len() + head.len() {
        whole = payload(false);
    }
    if payload_max < whole.len() + head.len() {
        whole.clear();
    }
    let error = Some(format!("{number}:{text}"));
    PlainAnswer { head: Some(head), payload: whole.into(), error }
}

/// The number of a failure.
pub(super) fn number(failure: &Failure) -> u16 {
    if let Some(Code::Number(code @ 400..=599)) = failure.code {
        return code as u16;
    }
    let reason = failure.detail.as_ref().and_then(|detail| {
        crate::json::edit::text(detail.as_str(), "reason").map(std::borrow::Cow::into_owned)
    });
    match (failure.kind, reason.as_deref()) {
        (FailureKind::InvalidArguments, _) => 400,
        (FailureKind::UnknownTool, _) => 404,
        (FailureKind::TooLarge, _) => 413,
        (FailureKind::Cancelled, _) => 499,
        (FailureKind::Failed, _) => 500,
        (FailureKind::Unavailable, Some("rate_limited")) => 429,
        (FailureKind::Unavailable, Some("changed")) => 409,
        (FailureKind::Unavailable, _) => 503,
        (FailureKind::Gone | FailureKind::BrokeProtocol, _) => 502,
        (FailureKind::TimedOut, _) => 504,
    }
}

/// Not available, for this reason.
pub(super) fn unavailable(reason: &str, message: impl Into<String>) -> Failure {
    let detail = Json::from_trusted(format!("{{\"reason\":\"{reason}\"}}"));
    Failure { detail: Some(detail), ..Failure::new(FailureKind::Unavailable, message) }
}
