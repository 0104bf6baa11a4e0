//! What an answer means to its call.

use std::time::Instant;

use bytes::Bytes;

use super::{Ask, Client, ConnectionState, NewAsk, Progress, Purpose};
use crate::capture::Side;
use crate::channel::{Down, Notice};
use crate::json::{Json, write_string};
use crate::orchestra::envelope::{Envelope, response_body};
use crate::orchestra::fold::too_large;
use crate::orchestra::protobuf::Malformed;
use crate::orchestra::translate;
use crate::orchestra::wire::{Response, StreamChunk, ToolResponse};
use crate::tool::{Failure, FailureKind, Outcome, Part, Piece, too_many_tools};

/// What comes of one frame.
enum Came {
    /// The call is over.
    Done(Result<Outcome, Failure>),
    /// More will come.
    More(Down),
    /// The tool was not run, because it does not stream.
    AskPlainly,
    /// More than can be made into one answer: the rest is not wanted.
    TooMuch(Result<Outcome, Failure>),
}

/// The answer cannot be meant for what was asked.
pub(super) fn unexpected() -> Failure {
    Failure::new(FailureKind::BrokeProtocol, "unexpected response type")
}

fn unreadable(malformed: Malformed) -> Failure {
    Failure::new(FailureKind::BrokeProtocol, format!("the answer cannot be read: {malformed}"))
}

impl Client {
    pub(super) fn handle_frame(&mut self, now: Instant, number: u64, frame: &Bytes) {
        let Some(ask) = self.asks.get_mut(&number) else { return };
        let envelope = match Envelope::read(Side::Response, frame) {
            Ok(envelope) => envelope,
            Err(malformed) => return self.fail(now, number, unreadable(malformed)),
        };
        if envelope.request_id != ask.request_id {
            // The stream says whose answer it is.
            let (found, own) = (&envelope.request_id, &ask.request_id);
            let notice = format!("an answer to `{own}` has the id `{found}`");
            self.desk.notice(Notice::Ignored(notice));
        }
        let before = ask.weight();
        let came = ask.take(&envelope);
        self.kept_bytes = self.kept_bytes - before + ask.weight();
        match came {
            Ok(Came::More(down)) => {
                let ticket = ask.ticket;
                self.outstanding.heard(now, number);
                self.desk.downs.push_back((ticket, down));
            }
            Ok(Came::Done(outcome)) => {
                let ticket = ask.ticket;
                self.answered(now, number);
                self.done(ticket, outcome);
            }
            Ok(Came::TooMuch(outcome)) => {
                let ticket = ask.ticket;
                self.give_up(now, number);
                self.done(ticket, outcome);
            }
            Ok(Came::AskPlainly) => self.ask_plainly(now, number, &envelope),
            Err(malformed) => self.fail(now, number, unreadable(malformed)),
        }
    }

    /// The caller no longer waits for what may still come on this stream.
    fn answered(&mut self, now: Instant, number: u64) {
        self.settle(now, number);
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.stage = ConnectionState::Draining { bytes: 0 };
            self.forget_drained();
            self.draining.push_back((now + self.settings.drain_timeout, number));
        }
    }

    /// Asks again by `tool_call`, and remembers that, for this tool or for all.
    fn ask_plainly(&mut self, now: Instant, number: u64, envelope: &Envelope) {
        self.answered(now, number);
        let Some(ask) = self.asks.get_mut(&number) else { return };
        let Purpose::Progress(progress) = &ask.purpose else { return };
        match envelope.member {
            Some((20, _)) => self.plain.all = true,
            _ => {
                self.plain.tools.insert(progress.tool.clone());
            }
        }
        let again = NewAsk {
            ticket: ask.ticket,
            request_id: ask.request_id.clone(),
            deadline: ask.deadline,
            purpose: Purpose::Tool { is_native: progress.is_native },
            body: progress.plainly.clone(),
            // It has been sent: no other connection may take it over.
            call: None,
        };
        self.open(now, again);
    }
}

impl Ask {
    fn take(&mut self, envelope: &Envelope) -> Result<Came, Malformed> {
        let native = |body: &Bytes| Came::Done(Ok(Outcome::Native(body.clone())));
        Ok(match &mut self.purpose {
            Purpose::Native { .. } => native(&envelope.body),
            Purpose::Tools => Came::Done(match envelope.response()? {
                Some(Response::ListTools(list)) => {
                    match too_many_tools(list.tools.len(), envelope.body.len()) {
                        Some(failure) => Err(failure),
                        None => {
                            Ok(Outcome::Tools(list.tools.iter().map(translate::tool).collect()))
                        }
                    }
                }
                Some(Response::ToolCall(response)) => Err(translate::failure(&response)),
                _ => Err(unexpected()),
            }),
            Purpose::Tool { is_native: true } => native(&envelope.body),
            Purpose::Tool { is_native: false } => Came::Done(match envelope.response()? {
                Some(Response::ToolCall(response)) => translate::outcome(&response),
                _ => Err(unexpected()),
            }),
            Purpose::Chunks { .. } => match envelope.member {
                Some((40, _)) => Came::More(Down::Part(part(envelope.body.clone()))),
                _ => native(&envelope.body),
            },
            Purpose::Events => Came::More(Down::Part(part(envelope.body.clone()))),
            Purpose::Progress(progress) => progress.take(envelope)?,
        })
    }
}

/// A message before the last, as it travels between two ends of this wire.
fn part(data: Bytes) -> Part {
    Part::Bytes(Piece { data, media_type: None, len: None, last: true })
}

impl Progress {
    fn take(&mut self, envelope: &Envelope) -> Result<Came, Malformed> {
        let is_first = self.fold.count() == 0;
        Ok(match envelope.response()? {
            Some(Response::StreamChunk(chunk)) => match self.fold.push(&chunk) {
                true => Came::More(Down::Progress(progress(self.fold.count(), &chunk))),
                false => Came::TooMuch(self.outcome(too_large())),
            },
            Some(Response::StreamEnd(end)) => {
                if is_first && !end.success && end.error_code == "tool_not_found" {
                    return Ok(Came::AskPlainly);
                }
                let response = std::mem::take(&mut self.fold).end(&end);
                Came::Done(self.outcome(response))
            }
            Some(Response::ToolCall(response)) => {
                if is_first && !response.success && response.error_code == "unknown_request" {
                    return Ok(Came::AskPlainly);
                }
                Came::Done(self.outcome(response))
            }
            _ if self.is_native => Came::Done(Ok(Outcome::Native(envelope.body.clone()))),
            _ => Came::Done(Err(unexpected())),
        })
    }

    fn outcome(&self, response: ToolResponse) -> Result<Outcome, Failure> {
        match self.is_native {
            true => Ok(Outcome::Native(response_body(response))),
            false => translate::outcome(&response),
        }
    }
}

/// `{"progress":N,"message"?:…}`: how many chunks have come, and the last of them if it is text.
fn progress(count: u64, chunk: &StreamChunk) -> Json {
    let mut told = format!("{{\"progress\":{count}").into_bytes();
    if let Ok(text) = std::str::from_utf8(&chunk.data) {
        told.extend_from_slice(b",\"message\":");
        write_string(&mut told, text);
    }
    told.push(b'}');
    Json::from_trusted(told)
}
