//! What was asked of plugins, and what their answers mean to the callers.

use std::time::Instant;

use bytes::Bytes;

use super::answers::{broken_stream, no_storage, not_routed};
use super::{Asker, Hub, Order, PluginIndex, ToPlugin};
use crate::capture::Side;
use crate::channel::{Down, Ticket, Up};
use crate::orchestra::envelope::{Envelope, request_with_id};
use crate::orchestra::fold::Fold;
use crate::orchestra::protobuf::message::Message;
use crate::orchestra::protobuf::read::Reader;
use crate::orchestra::translate::refused;
use crate::orchestra::wire::{
    PromptGetResponse, Response, StreamChunk, StreamEnd, StreamStart, ToolRequest, ToolResponse,
};
use crate::tool::{Failure, Outcome, Part};

/// Something that a plugin was asked.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) plugin: PluginIndex,
    /// The connection that wants to know; `None` once it has gone.
    asker: Option<Asker>,
    what: Asked,
}

#[derive(Debug)]
enum Asked {
    Tool {
        tool: String,
        body: Bytes,
    },
    Stream {
        stream_id: String,
        chunks: i64,
    },
    /// A tool that streams, though it was called plainly.
    Folded {
        fold: Fold,
    },
    Prompt,
    Storage {
        method: &'static str,
    },
    /// For one of our own lists.
    List {
        listing: u64,
    },
    /// A step in the life of the plugin.
    Life(super::life::Step),
    /// An event.
    Event,
    /// Nothing that is waited for.
    Nothing,
}

impl Running {
    pub(super) fn tool(plugin: PluginIndex, asker: Asker, tool: String, body: Bytes) -> Running {
        Running { plugin, asker: Some(asker), what: Asked::Tool { tool, body } }
    }

    pub(super) fn stream(plugin: PluginIndex, asker: Asker, stream_id: String) -> Running {
        Running { plugin, asker: Some(asker), what: Asked::Stream { stream_id, chunks: 0 } }
    }

    pub(super) fn prompt(plugin: PluginIndex, asker: Asker) -> Running {
        Running { plugin, asker: Some(asker), what: Asked::Prompt }
    }

    pub(super) fn storage(plugin: PluginIndex, asker: Asker, method: &'static str) -> Running {
        Running { plugin, asker: Some(asker), what: Asked::Storage { method } }
    }

    pub(super) fn list(plugin: PluginIndex, listing: u64) -> Running {
        Running { plugin, asker: None, what: Asked::List { listing } }
    }

    pub(super) fn step(plugin: PluginIndex, step: super::life::Step) -> Running {
        Running { plugin, asker: None, what: Asked::Life(step) }
    }

    pub(super) fn event(plugin: PluginIndex) -> Running {
        Running { plugin, asker: None, what: Asked::Event }
    }
}

/// What an answer says of a tool, its result unread.
#[derive(Debug, Default, PartialEq, Eq)]
struct Glance {
    success: bool,
    error_code: String,
    error_message: String,
}

fn glance(member: &Bytes) -> Glance {
    let mut glance = Glance::default();
    let mut reader = Reader::new(member);
    while let Ok(Some(field)) = reader.field() {
        match field.number {
            1 => glance.success = field.varint().is_ok_and(|number| number != 0),
            3 => field.text().unwrap_or_default().clone_into(&mut glance.error_code),
            4 => field.text().unwrap_or_default().clone_into(&mut glance.error_message),
            _ => {}
        }
    }
    glance
}

impl Hub {
    /// Who waits for what a plugin was asked by this ticket.
    pub fn asker_of(&self, ticket: Ticket) -> Option<Asker> {
        self.running.get(&ticket)?.asker
    }

    /// A plugin goes on with its answer.
    pub fn down(&mut self, now: Instant, ticket: Ticket, down: Down) {
        match down {
            Down::Part(Part::Bytes(piece)) => self.handle_part(ticket, piece.data),
            Down::Done(outcome) => {
                let Some(running) = self.running.remove(&ticket) else { return };
                let answer = outcome.map(|outcome| match outcome {
                    Outcome::Native(body) => body,
                    _ => Bytes::new(),
                });
                self.handle_answer(now, running, answer);
            }
            _ => {}
        }
    }

    fn handle_part(&mut self, ticket: Ticket, body: Bytes) {
        let Some(running) = self.running.get_mut(&ticket) else { return };
        match &mut running.what {
            Asked::Stream { chunks, .. } => {
                *chunks += 1;
                if let Some(asker) = running.asker {
                    self.go_on(asker, body);
                }
            }
            Asked::Folded { fold } => {
                let chunk = read(&body).and_then(|(number, member)| {
                    (number == 40).then(|| StreamChunk::read(&member).ok()).flatten()
                });
                if let Some(chunk) = chunk {
                    fold.push(&chunk);
                }
            }
            _ => {}
        }
    }

    fn handle_answer(&mut self, now: Instant, running: Running, answer: Result<Bytes, Failure>) {
        let Running { plugin, asker, what } = running;
        let what = match what {
            Asked::List { listing } => return self.handle_list(listing, plugin, answer.ok()),
            Asked::Life(step) => return self.handle_step(now, plugin, step, answer),
            Asked::Event => return self.event_is_told(now, plugin),
            Asked::Nothing => return,
            what => what,
        };
        let Some(asker) = asker else { return };
        match (what, answer) {
            (Asked::Tool { tool, body }, Ok(answer)) => {
                self.pass_back(now, plugin, asker, &tool, &body, answer);
            }
            (Asked::Tool { .. } | Asked::Folded { .. }, Err(failure)) => {
                let why = not_routed(&self.plugins[plugin].config.id, &failure.message);
                self.answer(asker, refused("routing_error", why));
            }
            (Asked::Stream { stream_id, chunks }, answer) => {
                self.end_stream(plugin, asker, &stream_id, chunks, answer);
            }
            (Asked::Folded { fold }, Ok(answer)) => {
                let response = match read_response(&answer) {
                    Some(Response::StreamEnd(end)) => fold.end(&end),
                    Some(Response::ToolCall(response)) => response,
                    _ => unexpected(),
                };
                self.answer(asker, response);
            }
            (Asked::Prompt, Ok(answer)) if is_member(&answer, 23) => {
                self.answer_body(asker, answer);
            }
            (Asked::Prompt, answer) => {
                let cause = cause(answer.err());
                let description = self.prompt_not_routed(plugin, &cause);
                self.answer(asker, PromptGetResponse { description, ..Default::default() });
            }
            (Asked::Storage { method }, Ok(answer)) if is_storage(method, &answer) => {
                self.answer_body(asker, answer);
            }
            (Asked::Storage { method }, answer) => {
                let cause = cause(answer.err());
                let id = &self.plugins[plugin].config.id;
                let why = format!("failed to reach storage plugin \"{id}\": {cause}");
                self.answer(asker, no_storage(method, why));
            }
            (Asked::List { .. } | Asked::Life(_) | Asked::Event | Asked::Nothing, _) => {}
        }
    }

    /// The answer of a tool, as it is; unless the tool was not run because it streams.
    fn pass_back(
        &mut self,
        now: Instant,
        plugin: PluginIndex,
        asker: Asker,
        tool: &str,
        body: &Bytes,
        answer: Bytes,
    ) {
        let Some((20, member)) = read(&answer) else {
            return self.answer(asker, unexpected());
        };
        let glance = glance(&member);
        let was_not_run = !glance.success
            && glance.error_code == "tool_not_found"
            && glance.error_message == format!("tool \"{tool}\" not found")
            && self.plugins[plugin].lists_tool(tool);
        match was_not_run.then(|| read(body)).flatten() {
            Some((_, request)) => self.fold(now, plugin, asker, &request),
            None => self.answer_body(asker, answer),
        }
    }

    fn fold(&mut self, now: Instant, plugin: PluginIndex, asker: Asker, request: &Bytes) {
        let Ok(request) = ToolRequest::read(request) else {
            return self.answer(asker, unexpected());
        };
        let id = self.ids.draw();
        let start = StreamStart {
            stream_id: id.clone(),
            tool_name: request.tool_name,
            arguments: request.arguments,
            caller_plugin: request.caller_plugin,
            ..StreamStart::default()
        };
        let body = request_with_id(&id, start);
        let timeout = self.settings.call_timeout;
        let ask = ToPlugin { method: "stream_start", body, timeout, is_stream: true };
        let what = Asked::Folded { fold: Fold::default() };
        self.call(now, plugin, ask, Running { plugin, asker: Some(asker), what });
    }

    fn end_stream(
        &mut self,
        plugin: PluginIndex,
        asker: Asker,
        stream_id: &str,
        chunks: i64,
        answer: Result<Bytes, Failure>,
    ) {
        let end: StreamEnd = match answer {
            Ok(answer) => match read_response(&answer) {
                Some(Response::StreamEnd(_)) => return self.answer_body(asker, answer),
                // A plugin that knows no streams says so in its own way.
                Some(Response::ToolCall(ToolResponse { error_code, error_message, .. })) => {
                    broken_stream(stream_id, &error_code, error_message, chunks)
                }
                _ => {
                    let why = "plugin returned non-stream response".to_owned();
                    broken_stream(stream_id, "invalid_response", why, chunks)
                }
            },
            Err(failure) => {
                let why = not_routed(&self.plugins[plugin].config.id, &failure.message);
                broken_stream(stream_id, "routing_error", why, chunks)
            }
        };
        self.answer(asker, end);
    }

    /// The caller gave up, or has gone.
    pub(super) fn handle_cancel(&mut self, now: Instant, asker: Asker) {
        self.subscriptions.end_asker(asker);
        for listing in self.listings.values_mut() {
            listing.forget(asker);
        }
        let found = self.running.iter().find(|(_, running)| running.asker == Some(asker));
        let Some((&ticket, running)) = found else { return };
        let plugin = running.plugin;
        match &running.what {
            // It ends as the plugin ends it; who is gone does not hear of it.
            Asked::Stream { stream_id, .. } => {
                let cancel = crate::orchestra::wire::StreamCancel {
                    stream_id: stream_id.clone(),
                    ..Default::default()
                };
                let body = crate::orchestra::envelope::request_body(cancel);
                self.send_cancel(now, plugin, body);
            }
            _ => {
                self.running.remove(&ticket);
                self.orders.push_back(Order::Up(plugin, ticket, Up::Cancel(None)));
            }
        }
    }

    /// A connection cancels the stream of this id: one of its own, before another's.
    pub(super) fn cancel_stream(&mut self, now: Instant, from: Asker, id: &str, body: &Bytes) {
        let is_meant = |running: &&Running| matches!(&running.what, Asked::Stream { stream_id, .. } if stream_id == id);
        let is_own = |running: &Running| {
            running.asker.is_some_and(|asker| asker.connection == from.connection)
        };
        let meant = self.running.values().filter(is_meant);
        let Some(running) = meant.max_by_key(|running| is_own(running)) else { return };
        let plugin = running.plugin;
        self.send_cancel(now, plugin, body.clone());
    }

    fn send_cancel(&mut self, now: Instant, plugin: PluginIndex, body: Bytes) {
        let timeout = self.settings.list_timeout;
        let ask = ToPlugin { method: "stream_cancel", body, timeout, is_stream: false };
        self.call(now, plugin, ask, Running { plugin, asker: None, what: Asked::Nothing });
    }

    /// The plugin has gone with all that it was asked.
    pub(super) fn fail_all(&mut self, now: Instant, plugin: PluginIndex, why: &Failure) {
        let gone = self.running.extract_if(|_, running| running.plugin == plugin);
        let mut gone: Vec<_> = gone.collect();
        gone.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (_, running) in gone {
            if !matches!(running.what, Asked::Life(_)) {
                self.handle_answer(now, running, Err(why.clone()));
            }
        }
    }
}

fn unexpected() -> ToolResponse {
    refused("invalid_response", "plugin returned non-tool-call response")
}

fn cause(failure: Option<Failure>) -> String {
    failure.map_or_else(|| "unexpected response type".to_owned(), |failure| failure.message)
}

/// The member of an answer.
pub(super) fn read(body: &Bytes) -> Option<(u32, Bytes)> {
    // Requests and answers share their numbers as far as this is asked.
    let member = |side| Envelope::read(side, body).ok().and_then(|envelope| envelope.member);
    member(Side::Response).or_else(|| member(Side::Call))
}

pub(super) fn read_response(body: &Bytes) -> Option<Response> {
    Envelope::read(Side::Response, body).ok()?.response().ok()?
}

fn is_member(body: &Bytes, number: u32) -> bool {
    read(body).is_some_and(|(found, _)| found == number)
}

fn is_storage(method: &str, body: &Bytes) -> bool {
    let number = match method {
        "storage_read" => 30,
        "storage_write" => 31,
        "storage_delete" => 32,
        _ => 33,
    };
    is_member(body, number)
}
