//! What a plugin answers (`docs/protocols/orchestra.md` 11).

use std::time::{Duration, Instant};

use super::replies::Reply;
use super::{Answering, Asking, Job, PluginState, Role, Server};
use crate::channel::{Asked, Up};
use crate::collect::Collector;
use crate::json::Json;
use crate::orchestra::shape::Shape;
use crate::orchestra::structure::Struct;
use crate::orchestra::translate::{refused, unknown_request, unwrapped};
use crate::orchestra::wire::{
    BootResult, EventDelivery, HealthResult, ListPromptsResponse, PromptGetResponse,
    RegistrationResult, Request, ShutdownRequest, ShutdownResult, Status, StorageDeleteResponse,
    StorageListResponse, StorageReadResponse, StorageWriteResponse, StreamEnd,
};
use crate::tool::{Failure, FailureKind, ToolName, Trace, What};

/// How long calls may go on behind a `shutdown` that does not say.
const PATIENCE: Duration = Duration::from_secs(5);

/// A tool that is to be called.
#[derive(Debug)]
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) arguments: Option<Json>,
    pub(super) trace: Option<Trace>,
    /// By a stream of this id.
    pub(super) stream_id: Option<String>,
}

impl Server {
    pub(super) fn handle_asked(&mut self, now: Instant, number: u64, request: Option<Request>) {
        debug_assert_eq!(self.settings.role, Role::Plugin);
        match request {
            Some(Request::Register(_)) => {
                let accepted = true;
                self.answer(now, number, RegistrationResult { accepted, ..Default::default() });
            }
            Some(Request::Boot(_)) => {
                self.answer(now, number, BootResult { ready: true, ..Default::default() });
            }
            Some(Request::Shutdown(request)) => self.handle_shutdown(now, number, &request),
            Some(Request::Health(_)) => {
                let (status, message) = (Status::HEALTHY, "ok".to_owned());
                self.answer(now, number, HealthResult { status, message, ..Default::default() });
            }
            Some(Request::ListTools(_)) => {
                self.ask(now, number, What::Tools, Asking::default(), Reply::Tools);
            }
            Some(Request::ToolCall(request)) => {
                let call = ToolCall {
                    name: request.tool_name,
                    arguments: request.arguments.as_ref().map(Struct::to_json),
                    trace: Trace::read(&request.trace_parent, None),
                    stream_id: None,
                };
                self.handle_tool_call(now, number, call);
            }
            Some(Request::StreamStart(request)) => {
                let call = ToolCall {
                    name: request.tool_name,
                    arguments: request.arguments.as_ref().map(Struct::to_json),
                    trace: None,
                    stream_id: Some(request.stream_id),
                };
                self.handle_tool_call(now, number, call);
            }
            Some(Request::StreamCancel(request)) => {
                self.cancel_stream(now, &request.stream_id);
                self.finish(now, number);
            }
            Some(Request::ListPrompts(_)) => {
                self.answer(now, number, ListPromptsResponse::default());
            }
            Some(Request::PromptGet(request)) => {
                let description = format!("prompt \"{}\" not found", request.prompt_name);
                let response = PromptGetResponse { description, ..Default::default() };
                self.answer(now, number, response);
            }
            Some(Request::StorageRead(_)) => {
                self.answer(now, number, StorageReadResponse::default());
            }
            Some(Request::StorageWrite(_)) => {
                let error = "no storage handler registered".to_owned();
                self.answer(now, number, StorageWriteResponse { error, ..Default::default() });
            }
            Some(Request::StorageDelete(_)) => {
                self.answer(now, number, StorageDeleteResponse::default());
            }
            Some(Request::StorageList(_)) => {
                self.answer(now, number, StorageListResponse::default());
            }
            Some(Request::Subscribe(request)) => {
                let (subscription_id, topic) = (request.subscription_id, request.topic);
                let delivery = EventDelivery { subscription_id, topic, ..EventDelivery::default() };
                self.answer(now, number, delivery);
            }
            Some(Request::Unsubscribe(_) | Request::Publish(_)) => {
                self.answer_body(now, number, &bytes::Bytes::new());
            }
            None => self.answer(now, number, unknown_request()),
        }
    }

    fn handle_tool_call(&mut self, now: Instant, number: u64, call: ToolCall) {
        if !matches!(self.stage, PluginState::Open) {
            let response = refused("unavailable", "the plugin is shutting down");
            return match call.stream_id {
                Some(stream_id) => {
                    let (error_code, error_message) = (response.error_code, response.error_message);
                    let end =
                        StreamEnd { stream_id, error_code, error_message, ..StreamEnd::default() };
                    self.answer(now, number, end);
                }
                None => self.answer(now, number, response),
            };
        }
        // Only arguments of this shape can be wrapped ones; no other call waits for a list.
        let may_be_wrapped = call.arguments.as_ref().and_then(unwrapped).is_some();
        if self.wrapped.is_none() && may_be_wrapped {
            let reply = Reply::LookUp(Box::new(call));
            return self.ask(now, number, What::Tools, Asking::default(), reply);
        }
        self.start_tool(now, number, call);
    }

    pub(super) fn start_tool(&mut self, now: Instant, number: u64, call: ToolCall) {
        let ToolCall { name, arguments, trace, stream_id } = call;
        let tool = ToolName::new(name.as_str());
        let is_wrapped = self.wrapped.as_ref().is_some_and(|wrapped| wrapped.contains(&tool));
        let args = match is_wrapped {
            true => arguments.as_ref().and_then(unwrapped),
            false => arguments,
        };
        let streams = stream_id.is_some();
        let reply = match stream_id {
            Some(stream_id) => {
                let shape = Shape::default();
                Reply::Chunks { tool: name, stream_id, sequence: 0, shape }
            }
            None => Reply::Whole { tool: name, collector: Collector::new() },
        };
        let more = Asking { trace, progress: streams, native: !streams };
        self.ask(now, number, What::Tool { name: tool, args }, more, reply);
    }

    /// Cancels the stream of this id.
    fn cancel_stream(&mut self, now: Instant, stream_id: &str) {
        let is_it = |stream: &Answering| {
            let Job::Running { reply: Reply::Chunks { stream_id: known, .. }, .. } = &stream.job
            else {
                return false;
            };
            known == stream_id
        };
        let found = self.streams.iter().find(|(_, stream)| is_it(stream));
        if let Some((&number, _)) = found {
            self.cancel_chunks(now, number);
        }
    }

    /// Tells the tool that its chunks are not wanted any more, and the caller that no more will
    /// come: a call that is cancelled has no other end.
    pub(super) fn cancel_chunks(&mut self, now: Instant, number: u64) {
        let Some(Answering { job: Job::Running { ticket, .. }, .. }) = self.streams.get(&number)
        else {
            return;
        };
        let ticket = *ticket;
        self.tickets.remove(&ticket);
        self.ups.push_back((ticket, Asked::Up(Up::Cancel(None))));
        self.end_chunks(now, number, Err(Failure::new(FailureKind::Cancelled, "cancelled")));
        self.settle(now);
    }

    /// Calls that run may end before it is answered.
    fn handle_shutdown(&mut self, now: Instant, number: u64, request: &ShutdownRequest) {
        let seconds = u64::try_from(request.timeout_seconds).unwrap_or(0);
        let patience = match seconds {
            0 => PATIENCE,
            seconds => Duration::from_secs(seconds),
        };
        if let Some(Answering { job, .. }) = self.streams.get_mut(&number) {
            *job = Job::Stopping;
        }
        match &mut self.stage {
            PluginState::Open => {
                self.stage =
                    PluginState::Stopping { until: now + patience, asked_on: Some(number) };
            }
            PluginState::Stopping { asked_on, .. } if asked_on.is_none() => {
                *asked_on = Some(number);
            }
            PluginState::Stopping { .. } | PluginState::Over(_) => self.say_goodbye(now, number),
        }
        self.settle(now);
    }

    pub(super) fn say_goodbye(&mut self, now: Instant, number: u64) {
        self.answer(now, number, ShutdownResult { clean: true, ..ShutdownResult::default() });
    }
}
