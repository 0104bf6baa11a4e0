//! What an answer over HTTP says: one message, a stream of them, or why there is none.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::remote::forbidden;
use crate::frame::sse::Events;
use crate::json::edit;
use crate::json::{Json, Kind};
use crate::tool::{Failure, FailureKind};

/// How the body of an answer is read.
#[derive(Debug)]
pub(super) enum Reading {
    /// There is no head yet.
    Nothing,
    /// As one body, kept up to its limit.
    Whole { status: u16, body: BytesMut, bytes_max: usize },
    /// As events.
    Stream(Events),
}

/// Something that was heard.
#[derive(Debug)]
pub(super) enum Heard {
    Message(Bytes),
    Event { message: Bytes, id: Option<String>, retry: Option<Duration> },
    TooLong,
}

impl Heard {
    /// The message, if it is JSON.
    pub(super) fn text(&self) -> Option<&str> {
        let (Heard::Message(message) | Heard::Event { message, .. }) = self else { return None };
        let is_json = Json::parse(message.clone()).is_ok();
        str::from_utf8(message).ok().filter(|_| is_json)
    }

    pub(super) fn result(&self) -> Option<&str> {
        self.text().and_then(|text| edit::member(text, "result"))
    }
}

impl Reading {
    pub(super) fn new(status: u16, media_type: &str, bytes_max: usize) -> Reading {
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if status == 200 && media_type.eq_ignore_ascii_case("text/event-stream") {
            return Reading::Stream(Events::new(bytes_max));
        }
        Reading::Whole { status, body: BytesMut::new(), bytes_max }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Reading::Stream(_))
    }

    pub(super) fn status(&self) -> u16 {
        match self {
            Reading::Nothing => 0,
            Reading::Whole { status, .. } => *status,
            Reading::Stream(_) => 200,
        }
    }

    /// Takes what has arrived; gives what is whole.
    pub(super) fn read(&mut self, input: &mut BytesMut) -> Vec<Heard> {
        match self {
            Reading::Nothing => input.clear(),
            Reading::Whole { body, bytes_max, .. } => {
                // One byte over is enough to know that it is too long.
                let room = (*bytes_max + 1).saturating_sub(body.len()).min(input.len());
                body.extend_from_slice(&input[..room]);
                input.clear();
            }
            Reading::Stream(events) => {
                let mut heard = Vec::new();
                while let Some(event) = events.next(input) {
                    heard.push(match event {
                        Ok(event) => Heard::Event {
                            message: in_a_line(event.data),
                            id: event.id,
                            retry: event.retry.map(Duration::from_millis),
                        },
                        Err(_) => Heard::TooLong,
                    });
                }
                return heard;
            }
        }
        Vec::new()
    }

    /// The answer is over: what is left of it, or why there is none.
    pub(super) fn end(&mut self) -> Result<Vec<Heard>, Failure> {
        match self {
            Reading::Nothing => {
                Err(Failure::new(FailureKind::Gone, "the connection closed without an answer"))
            }
            Reading::Stream(_) => Ok(Vec::new()),
            Reading::Whole { body, bytes_max, .. } if *bytes_max < body.len() => {
                Ok(vec![Heard::TooLong])
            }
            Reading::Whole { status: 401 | 403, .. } => Err(forbidden(self.status())),
            Reading::Whole { status, body, .. } => {
                let body = in_a_line(body.split().freeze());
                let text = str::from_utf8(&body).unwrap_or_default();
                let json = Json::parse(body.clone()).ok();
                let is_message = json.is_some_and(|json| json.kind() != Kind::Null);
                let is_error = edit::member(text, "error").is_some();
                match *status {
                    200..=299 if body.is_empty() => Ok(Vec::new()),
                    200..=299 if is_message => Ok(vec![Heard::Message(body)]),
                    _ if is_message && is_error => Ok(vec![Heard::Message(body)]),
                    status => {
                        let message = format!("the server answered with HTTP status {status}");
                        Err(Failure::new(FailureKind::Unavailable, message))
                    }
                }
            }
        }
    }
}

/// A message as it may stand in a line.
fn in_a_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    match Json::parse(message.clone()) {
        Ok(json) => json.compact().as_bytes().clone(),
        // Not JSON: it will be skipped, but must not become several lines.
        Err(_) => Bytes::from_static(b"?"),
    }
}
