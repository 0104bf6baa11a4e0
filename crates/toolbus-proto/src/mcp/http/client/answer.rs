//! What an answer over HTTP says: one message, a stream of them, or why there is none.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::{Inputs, MessageClient, Purpose, Request};
use crate::did_you_mean::hinted;
use crate::frame::sse::Events;
use crate::http::CREDENTIALS;
use crate::json::{Json, Kind, edit};
use crate::printable::printable;
use crate::tool::{Failure, FailureKind, LastWords};

/// How the body of an answer is read.
#[derive(Debug)]
pub(super) enum Reading {
    /// There is no head yet.
    Nothing,
    /// As one body, which waits in the input up to its limit.
    Whole { status: u16, bytes_max: usize, is_page: bool, is_too_long: bool },
    /// As events.
    Stream(Events),
}

/// Something that was heard.
#[derive(Debug)]
pub(super) enum Heard {
    Message(Bytes),
    Event { name: Option<Bytes>, message: Bytes, id: Option<String>, retry: Option<Duration> },
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
        let is_page = media_type.eq_ignore_ascii_case("text/html");
        Reading::Whole { status, bytes_max, is_page, is_too_long: false }
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
            Reading::Whole { bytes_max, is_too_long, .. } => {
                *is_too_long |= *bytes_max < input.len();
                if *is_too_long {
                    *input = BytesMut::new();
                }
            }
            Reading::Stream(events) => {
                let mut heard = Vec::new();
                while let Some(event) = events.next(input) {
                    heard.push(match event {
                        Ok(event) => Heard::Event {
                            name: event.name,
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
    pub(super) fn end(&self, input: &mut BytesMut) -> Result<Vec<Heard>, Failure> {
        match self {
            Reading::Nothing => {
                Err(Failure::new(FailureKind::Gone, "the connection closed without an answer"))
            }
            Reading::Stream(_) => Ok(Vec::new()),
            Reading::Whole { is_too_long: true, .. } => Ok(vec![Heard::TooLong]),
            Reading::Whole { status: status @ (401 | 403), .. } => Err(refused(*status)),
            Reading::Whole { status, is_page, .. } => {
                let body = input.split().freeze();
                match *status {
                    200..=299 if body.is_empty() => Ok(Vec::new()),
                    200..=299 if is_message(&body) => Ok(vec![Heard::Message(in_a_line(body))]),
                    _ if is_error(&body) => Ok(vec![Heard::Message(in_a_line(body))]),
                    status => Err(unreadable(status, *is_page, &body)),
                }
            }
        }
    }

    /// What a user may want to know of an answer that is no message, besides its status: where
    /// servers are, and what this one said, which may show that it speaks another wire.
    pub(super) fn strange(&self, body: &[u8], path: &str) -> Option<LastWords> {
        let Reading::Whole { status, is_page, .. } = self else { return None };
        let is_elsewhere = *status == 404 || *is_page || is_markup(body);
        let said = Bytes::copy_from_slice(&body[..body.len().min(SAID_BYTES_MAX)]);
        let is_unproven = is_object(&said) && !is_message(&said);
        let hint =
            (is_elsewhere && path != USUAL_PATH).then(|| format!("is the path `{USUAL_PATH}`?"));
        (is_unproven || hint.is_some()).then(|| LastWords {
            hint,
            is_unproven,
            said,
            ..LastWords::default()
        })
    }
}

/// Where most servers are.
const USUAL_PATH: &str = "/mcp";
/// What is kept of an answer that is no message of ours.
const SAID_BYTES_MAX: usize = 16 * 1024;
/// How much of such an answer is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Is it JSON that may be a message, or several?
fn is_message(body: &Bytes) -> bool {
    let is_one = |json: &Json| {
        let has = |name: &&str| edit::member(json.as_str(), name).is_some();
        ["jsonrpc", "id", "method", "result", "error"].iter().any(has)
    };
    Json::parse(body.clone()).is_ok_and(|json| match json.kind() {
        Kind::Object => is_one(&json),
        kind => kind != Kind::Null,
    })
}

fn is_object(body: &Bytes) -> bool {
    Json::parse(body.clone()).is_ok_and(|json| json.kind() == Kind::Object)
}

fn is_error(body: &Bytes) -> bool {
    let text = str::from_utf8(body).unwrap_or_default();
    is_message(body) && edit::member(text, "error").is_some()
}

fn is_markup(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// What is wrong with an answer that is no message: its beginning says most.
fn unreadable(status: u16, is_page: bool, body: &Bytes) -> Failure {
    let told = match status {
        200..=299 => "what is no message of MCP".to_owned(),
        status => format!("HTTP status {status}"),
    };
    let body = match is_object(body) {
        true => in_a_line(body.clone()),
        false => body.clone(),
    };
    let first = body.trim_ascii().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let message = match is_page || is_markup(&body) {
        true => format!("the server answered with a web page, HTTP status {status}"),
        false if first.is_empty() => return refused(status),
        false => {
            let shown = printable(first.trim_ascii_end(), SHOWN_CHARS_MAX);
            format!("the server answered with {told}: {shown}")
        }
    };
    Failure::new(FailureKind::Unavailable, message)
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

/// Gives the client what was heard; an error without an id is that of the request.
pub(super) fn hear(client: &mut MessageClient, now: Instant, purpose: Purpose, heard: Heard) {
    match (heard, purpose) {
        (
            _,
            Purpose::Reopen
            | Purpose::Relist { .. }
            | Purpose::LookForEvents(_)
            | Purpose::Events
            | Purpose::Post(_)
            | Purpose::Leave,
        ) => {}
        (Heard::TooLong, Purpose::Ask(id)) => {
            let message = "the server's answer is over the limit";
            client.fail(now, id, Failure::new(FailureKind::TooLarge, message));
        }
        (Heard::TooLong, _) => {}
        // The body of a refusal, e.g. of the stream that not every server offers. The error in
        // it names no request, and must not end the one that happens to be under way.
        (Heard::Message(_), Purpose::Initialized | Purpose::Tell | Purpose::Listen) => {}
        (Heard::Event { message, .. } | Heard::Message(message), purpose) => {
            if message.iter().all(u8::is_ascii_whitespace) {
                return;
            }
            match purpose {
                Purpose::Ask(id) => {
                    let message = named(&message, id).map_or(message, Bytes::from);
                    client.handle_message_for(now, id, &message);
                }
                _ => client.handle_message(now, &message),
            }
        }
    }
}

/// Reads a list of tools, whichever call asked for it.
pub(super) fn learn(inputs: &mut Inputs, request: &Request, heard: &Heard) {
    if request.asks("tools/list")
        && let Some(page) = heard.result()
    {
        inputs.learn(page);
    }
}

/// An error that names no request, with the id of the one it came back for.
fn named(message: &Bytes, id: u64) -> Option<String> {
    let text = str::from_utf8(message).ok()?;
    edit::member(text, "error")?;
    let is_nameless = edit::member(text, "id").is_none_or(|id| id == "null");
    is_nameless.then(|| edit::with_first(text, "id", &id.to_string()))
}

/// The server answers with a status and nothing that we could read, or will not have us.
pub(super) fn refused(status: u16) -> Failure {
    let message = format!("the server answered with HTTP status {status}");
    let failure = Failure::new(FailureKind::Unavailable, message);
    match status {
        401 | 403 => hinted(failure, Some(CREDENTIALS.to_owned())),
        _ => failure,
    }
}
