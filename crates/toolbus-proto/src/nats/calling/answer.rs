//! What the answer of a foreign service means.

use crate::channel::Down;
use crate::json::Json;
use crate::nats::headers::Headers;
use crate::nats::protocol::Message;
use crate::nats::translate;
use crate::tool::{Code, Failure, FailureKind, Outcome, Part, Piece};

/// All that comes of one answer, in order.
pub(super) fn downs(headers: &Headers, message: &Message, subject: &str) -> Vec<Down> {
    if let Some(bytes) = message.too_large {
        let what = format!("the answer has {bytes} bytes");
        return vec![Down::Done(Err(Failure::new(FailureKind::TooLarge, what)))];
    }
    if headers.status == Some(503) && message.payload.is_empty() {
        let what = format!("nobody answers on {subject}");
        return vec![Down::Done(Err(Failure::new(FailureKind::Unavailable, what)))];
    }
    let (error, code) = (headers.get("Nats-Service-Error"), headers.get("Nats-Service-Error-Code"));
    if error.is_some() || code.is_some() {
        return vec![Down::Done(Err(failure(headers, message)))];
    }
    let payload = &message.payload;
    if payload.is_empty() {
        return vec![Down::Done(Ok(Outcome::Value(Json::null())))];
    }
    if let Ok(value) = Json::parse(payload.clone()) {
        return vec![Down::Done(Ok(Outcome::Value(value)))];
    }
    if let Ok(text) = std::str::from_utf8(payload) {
        return vec![Down::Done(Ok(Outcome::Text(text.to_owned())))];
    }
    let blob = Piece {
        data: payload.clone(),
        media_type: headers.get("Content-Type").map(Into::into),
        len: Some(payload.len() as u64),
        last: true,
    };
    vec![
        Down::Begin { head: None, parts: Some(1) },
        Down::Part(Part::Bytes(blob)),
        Down::Done(Ok(Outcome::End(None))),
    ]
}

fn failure(headers: &Headers, message: &Message) -> Failure {
    let code = headers.get("Nats-Service-Error-Code").unwrap_or_default();
    let number: Option<i64> = code.parse().ok();
    let kind = headers.get("Toolbus-Failure").and_then(translate::kind);
    let kind = kind.unwrap_or(match number {
        Some(400 | 422) => FailureKind::InvalidArguments,
        Some(413) => FailureKind::TooLarge,
        Some(429 | 503) => FailureKind::Unavailable,
        Some(408 | 504) => FailureKind::TimedOut,
        _ => FailureKind::Failed,
    });
    let text = headers.get("Nats-Service-Error").unwrap_or("the service failed").to_owned();
    Failure {
        code: match number {
            Some(number) => Some(Code::Number(number)),
            None if code.is_empty() => None,
            None => Some(Code::Word(code.to_owned())),
        },
        detail: Json::parse(message.payload.clone()).ok(),
        from_peer: true,
        ..Failure::new(kind, text)
    }
}
