//! The transport of 2024-11-05, HTTP+SSE (`docs/protocols/mcp.md` 2.14): a stream that says where
//! to post, and on which all answers come.
//!
//! A server is known to speak it by its address, or found out: it would not take the handshake
//! that was posted, and answers a `GET` with such a stream. The conversation is that of a pipe,
//! and ends with the stream as it would with the process.

use std::time::Instant;

use super::answer::Heard;
use super::beginning::Beginning;
use super::{HttpClient, Outgoing, Purpose, Request};
use crate::channel::{Calling as _, Readiness, StreamId};
use crate::frame::lines::TooLong;
use crate::http::resolve;
use crate::mcp::calling::RequestId;
use crate::printable::printable;
use crate::tool::{Failure, FailureKind};

/// How much of a URL that is not used is shown.
const URL_SHOWN_MAX: usize = 200;

/// What is known of the server's side.
#[derive(Debug, Default)]
pub(super) struct Pair {
    /// Where messages are posted, once the stream has said so.
    path: Option<String>,
}

impl HttpClient {
    /// Opens the stream as soon as there is something to say.
    pub(super) fn open_pair(&mut self) {
        let is_waiting = self.pair.as_ref().is_some_and(|pair| pair.path.is_none());
        let is_wanted = self.start_until.is_some();
        let is_open = || self.requests.values().any(|request| request.purpose == Purpose::Events);
        if is_waiting && is_wanted && *self.client.readiness() == Readiness::Opening && !is_open() {
            self.open(Request::new(Purpose::Events, None));
        }
    }

    /// Does the server take messages now?
    pub(super) fn may_send(&self) -> bool {
        let takes = |pair: &Pair| pair.path.is_some();
        self.beginning == Beginning::Over && self.pair.as_ref().is_none_or(takes)
    }

    pub(super) fn post(&mut self, message: Outgoing) {
        let Some(pair) = &self.pair else { return };
        let path = pair.path.clone();
        let purpose = match &message {
            Outgoing::Request { id: RequestId::Number(id), .. } => Purpose::Post(Some(*id)),
            _ if message.method() == "notifications/initialized" => {
                self.beginning = Beginning::Telling;
                Purpose::Initialized
            }
            _ => Purpose::Post(None),
        };
        self.open(Request { path, ..Request::new(purpose, Some(message)) });
    }

    /// Takes what came on a stream that is, or may be, that of the old pair.
    pub(super) fn hear_events(&mut self, now: Instant, stream: StreamId, heard: Vec<Heard>) {
        for heard in heard {
            match heard {
                Heard::Event { name, message, .. } => {
                    let name = name.as_deref().unwrap_or(b"message");
                    if message.iter().all(u8::is_ascii_whitespace) {
                        // An event without data is none: it tells how long to wait, or an id.
                    } else if self.pair.as_ref().is_none_or(|pair| pair.path.is_none()) {
                        self.hear_endpoint(now, stream, name, &message);
                    } else if name == b"message" {
                        self.client.handle_message(now, &message);
                    }
                }
                Heard::TooLong => {
                    let bytes_max = self.settings.calling.line_bytes_max;
                    self.client.handle_too_long(&TooLong { bytes_max }, None);
                }
                Heard::Message(_) => {}
            }
        }
    }

    /// The first event of the stream, which must say where to post.
    fn hear_endpoint(&mut self, now: Instant, stream: StreamId, name: &[u8], data: &[u8]) {
        let Some(request) = self.requests.get_mut(&stream) else { return };
        if name != b"endpoint" {
            if let Purpose::LookForEvents(id) = request.purpose {
                // Not the old pair: it is as it was said to be when the handshake was refused.
                let why = request.why.take();
                self.abort(|other| other == Purpose::LookForEvents(id));
                return self.no_events(now, id, why);
            }
            let name = printable(name, URL_SHOWN_MAX);
            let message = format!("its stream begins with the event `{name}`, not with `endpoint`");
            return self.break_pair(Failure::new(FailureKind::BrokeProtocol, message));
        }
        let base = request.path.as_deref().unwrap_or(&self.settings.path);
        let url = str::from_utf8(data).unwrap_or("\u{fffd}");
        match resolve(&self.settings.origin, base, url) {
            Ok(path) => {
                let was_found = std::mem::replace(&mut request.purpose, Purpose::Events);
                self.pair = Some(Pair { path: Some(path) });
                if was_found != Purpose::Events {
                    self.settings.calling.memory.learn_pair();
                    // What was refused where streamable HTTP was looked for.
                    self.greeting.clone().into_iter().for_each(|greeting| self.post(greeting));
                }
            }
            Err(why) => {
                let url = printable(data, URL_SHOWN_MAX);
                let message = format!("the server wants messages posted to `{url}`, which {why}");
                self.break_pair(Failure::new(FailureKind::BrokeProtocol, message));
            }
        }
    }

    /// The stream ended, or there was none.
    pub(super) fn events_ended(&mut self, request: &Request, ended: Result<Vec<Heard>, Failure>) {
        let failure = match ended {
            _ if request.reading.is_stream() => {
                Failure::new(FailureKind::Gone, "the server ended its stream of events")
            }
            Err(failure) => failure,
            Ok(_) => {
                let message = "the server answered with something that is no stream of events";
                Failure::new(FailureKind::BrokeProtocol, message)
            }
        };
        self.break_pair(failure);
    }

    /// Nothing more will come: the conversation is over, as it is with a process that ended.
    pub(super) fn break_pair(&mut self, failure: Failure) {
        if *self.client.readiness() == Readiness::Opening {
            // The way that was remembered may have been the wrong one.
            self.settings.calling.memory.forget();
        }
        self.client.break_off(failure);
    }
}
