//! How replies become frames.

use std::time::Instant;

use bytes::Bytes;

use super::plugin::ToolCall;
use super::{Answering, Asking, Job, Server};
use crate::capture::Side;
use crate::channel::{Down, Notice, StreamId};
use crate::collect::Collector;
use crate::orchestra::WIRE;
use crate::orchestra::envelope::{Envelope, response_body};
use crate::orchestra::protobuf::read::Reader;
use crate::orchestra::shape::Shape;
use crate::orchestra::translate::{self, takes_wrapped};
use crate::orchestra::wire::{ListToolsResponse, StreamChunk, StreamEnd, ToolResponse};
use crate::tool::{Failure, Outcome, Part, ToolSpec, What};

/// What becomes of the reply to a call.
#[derive(Debug)]
pub(super) enum Reply {
    /// The tools, listed.
    Tools,
    /// The tools, to find out how this one is called.
    LookUp(Box<ToolCall>),
    /// One result.
    Whole { tool: String, collector: Collector },
    /// Chunks, as they come.
    Chunks { tool: String, stream_id: String, sequence: i64, shape: Shape },
    /// Messages of this wire, as they are.
    Native,
    /// The same, where they are events.
    Events,
}

impl Server {
    /// Hands a request to the hub as it is.
    pub(super) fn pass_on(&mut self, now: Instant, number: u64, envelope: &Envelope) {
        let method = envelope.name(Side::Call);
        let reply = match method {
            "stream_start" => {
                let stream_id = first_text(envelope);
                let shape = Shape::default();
                Reply::Chunks { tool: String::new(), stream_id, sequence: 0, shape }
            }
            "subscribe" => Reply::Events,
            _ => Reply::Native,
        };
        let method = Bytes::from_static(method.as_bytes());
        let what = What::Native { wire: WIRE, method, body: envelope.body.clone() };
        self.ask(now, number, what, Asking::default(), reply);
    }

    pub(super) fn handle_down(&mut self, now: Instant, number: u64, down: Down) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Answering { job: Job::Running { reply, .. }, events, .. } = stream else { return };
        if let Reply::Chunks { shape, .. } = reply
            && self.settings.role == super::Role::Plugin
        {
            shape.take(&down);
        }
        match (reply, down) {
            (Reply::Whole { tool, collector }, down) => {
                let taken = collector.take(down);
                let tool = taken.is_some().then(|| std::mem::take(tool));
                stream.weigh(&mut self.kept_bytes);
                if let (Some(outcome), Some(tool)) = (taken, tool) {
                    self.answer_tool(now, number, &tool, outcome);
                }
            }
            (Reply::Events, Down::Part(Part::Bytes(piece))) => {
                let dropped = events.push(piece.data);
                stream.weigh(&mut self.kept_bytes);
                for _ in 0..dropped {
                    let notice = "a subscriber reads too slowly: its oldest event is dropped";
                    self.notices.push_back(Notice::Ignored(notice.to_owned()));
                }
                self.ready.push_back(StreamId::Theirs(number));
            }
            // A message of this wire, on its way between two ends of it.
            (Reply::Native | Reply::Chunks { .. }, Down::Part(Part::Bytes(piece)))
                if self.settings.role == super::Role::Hub =>
            {
                self.put(number, &piece.data);
            }
            (Reply::Chunks { .. }, Down::Part(part)) => self.put_chunk(number, part),
            (Reply::Chunks { .. }, Down::Begin { head: Some(head), .. }) if !head.is_null() => {
                self.put_chunk(number, Part::Json(head));
            }
            (Reply::Chunks { .. }, Down::Done(outcome)) => self.end_chunks(now, number, outcome),
            (Reply::Tools, Down::Done(outcome)) => self.answer_tools(now, number, outcome),
            (Reply::LookUp(_), Down::Done(outcome)) => self.look_up(now, number, outcome),
            (Reply::Native | Reply::Events, Down::Done(outcome)) => match outcome {
                Ok(Outcome::Native(body)) => self.answer_body(now, number, &body),
                Ok(_) => self.finish(now, number),
                Err(failure) => {
                    let not_found = failure.message.clone();
                    self.answer(now, number, translate::refusal(failure, not_found));
                }
            },
            // Nothing of this wire says how far a call is, but by chunks.
            _ => {}
        }
    }

    fn answer_tool(
        &mut self,
        now: Instant,
        number: u64,
        tool: &str,
        outcome: Result<Outcome, Failure>,
    ) {
        match outcome {
            Ok(Outcome::Native(body)) => self.answer_body(now, number, &body),
            outcome => self.answer(now, number, translate::response(tool, outcome)),
        }
    }

    fn learn_tools(&mut self, tools: &[ToolSpec]) {
        let wrapped = tools.iter().filter(|tool| takes_wrapped(tool));
        self.wrapped = Some(wrapped.map(|tool| tool.name.clone()).collect());
    }

    fn answer_tools(&mut self, now: Instant, number: u64, outcome: Result<Outcome, Failure>) {
        match outcome {
            Ok(Outcome::Tools(tools)) => {
                self.learn_tools(&tools);
                let mut tools: Vec<_> = tools.iter().map(translate::definition).collect();
                tools.sort_by(|a, b| a.name.cmp(&b.name));
                self.answer(now, number, ListToolsResponse { tools, ..Default::default() });
            }
            Ok(_) => self.answer(now, number, ListToolsResponse::default()),
            Err(failure) => {
                let not_found = failure.message.clone();
                self.answer(now, number, translate::refusal(failure, not_found));
            }
        }
    }

    fn look_up(&mut self, now: Instant, number: u64, outcome: Result<Outcome, Failure>) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Job::Running { reply: Reply::LookUp(call), .. } =
            std::mem::replace(&mut stream.job, Job::Reading)
        else {
            return;
        };
        if let Ok(Outcome::Tools(tools)) = outcome {
            self.learn_tools(&tools);
        }
        self.start_tool(now, number, *call);
    }

    fn put_chunk(&mut self, number: u64, part: Part) {
        if let Part::Bytes(piece) = &part
            && piece.data.is_empty()
        {
            return;
        }
        let Some(Answering { job: Job::Running { reply, .. }, .. }) = self.streams.get_mut(&number)
        else {
            return;
        };
        let Reply::Chunks { stream_id, sequence, .. } = reply else { return };
        let (stream_id, place) = (stream_id.clone(), *sequence);
        *sequence += 1;
        let chunk = StreamChunk { stream_id, sequence: place, ..translate::chunk(part) };
        self.put(number, &response_body(chunk));
    }

    pub(super) fn end_chunks(
        &mut self,
        now: Instant,
        number: u64,
        outcome: Result<Outcome, Failure>,
    ) {
        let failed = match outcome {
            // The end as the plugin wrote it.
            Ok(Outcome::Native(body)) => return self.answer_body(now, number, &body),
            Ok(outcome) => {
                if let Some(part) = translate::part(outcome) {
                    self.put_chunk(number, part);
                }
                None
            }
            Err(failure) => Some(failure),
        };
        let Some(Answering { job: Job::Running { reply, .. }, .. }) = self.streams.get_mut(&number)
        else {
            return;
        };
        let Reply::Chunks { tool, stream_id, sequence, shape } = reply else { return };
        let success = failed.is_none();
        let refusal = failed.map(|failure| {
            translate::refusal(failure, format!("streaming tool \"{tool}\" not found"))
        });
        let ToolResponse { error_code, error_message, result: detail, .. } =
            refusal.unwrap_or_default();
        let shape = if success { shape.told() } else { String::new() };
        let end = StreamEnd {
            stream_id: std::mem::take(stream_id),
            success,
            error_code,
            error_message,
            total_chunks: *sequence,
            shape,
            detail,
            ..StreamEnd::default()
        };
        self.answer(now, number, end);
    }
}

/// The text in the first field of the member: of a stream its id.
fn first_text(envelope: &Envelope) -> String {
    let Some((_, member)) = &envelope.member else { return String::new() };
    let mut reader = Reader::new(member);
    let mut found = String::new();
    while let Ok(Some(field)) = reader.field() {
        if let (1, Ok(text)) = (field.number, field.text()) {
            text.clone_into(&mut found);
        }
    }
    found
}
