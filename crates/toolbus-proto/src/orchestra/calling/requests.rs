//! How a call becomes a request.

use bytes::Bytes;

use super::{Client, NewAsk, Progress, Purpose};
use crate::capture::Side;
use crate::channel::Ticket;
use crate::json::Json;
use crate::orchestra::WIRE;
use crate::orchestra::envelope::{Envelope, has_id, message_len, request_body};
use crate::orchestra::fold::Fold;
use crate::orchestra::structure::Struct;
use crate::orchestra::wire::{ListToolsRequest, Request, StreamStart, ToolRequest};
use crate::tool::{Call, Failure, FailureKind, ToolName, What};

/// What is asked, before it is known whether by a stream.
struct Asking {
    purpose: Purpose,
    request_id: Option<String>,
    body: Bytes,
}

impl Client {
    pub(super) fn request(&mut self, ticket: Ticket, call: Call) -> Result<NewAsk, Failure> {
        let wants_native = call.options.native == Some(WIRE);
        let asking = match &call.what {
            What::Tools => {
                let body = request_body(ListToolsRequest::default());
                Asking { purpose: Purpose::Tools, request_id: None, body }
            }
            What::Tool { name, args } => {
                let request = self.tool_request(name, args.as_ref(), &call)?;
                match call.options.progress && self.may_stream(&request) {
                    true => self.by_stream(request, wants_native),
                    false => Asking {
                        purpose: Purpose::Tool { is_native: wants_native },
                        request_id: None,
                        body: request_body(request),
                    },
                }
            }
            What::Native { wire, method, body } if *wire == WIRE => {
                self.native(method, body, call.options.progress)?
            }
            What::Native { .. } => {
                let message = "this peer speaks another protocol";
                return Err(Failure::new(FailureKind::InvalidArguments, message));
            }
        };
        let Asking { purpose, request_id, body } = asking;
        let request_id = request_id.unwrap_or_else(|| self.ids.draw());
        let (bytes, limit) = (message_len(&request_id, &body), self.settings.frame_bytes_max);
        if limit < bytes {
            let message = format!("request of {bytes} bytes is over the limit of {limit}");
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        let deadline = call.deadline;
        Ok(NewAsk { ticket, request_id, deadline, purpose, body, call: Some(call) })
    }

    fn tool_request(
        &self,
        name: &ToolName,
        args: Option<&Json>,
        call: &Call,
    ) -> Result<ToolRequest, Failure> {
        let invalid = |why| {
            Failure::new(FailureKind::InvalidArguments, format!("the arguments of `{name}` {why}"))
        };
        let args = args.filter(|args| !args.is_null());
        let arguments = args.map(|args| Struct::of_json(args.as_str())).transpose();
        Ok(ToolRequest {
            tool_name: name.to_string(),
            arguments: arguments.map_err(invalid)?,
            caller_plugin: self.settings.caller_plugin.clone(),
            trace_parent: call.trace.as_ref().map_or("", |trace| trace.parent()).to_owned(),
            provider: self.settings.provider.clone(),
            ..ToolRequest::default()
        })
    }

    /// A stream has no place for a provider: another plugin would answer.
    fn may_stream(&self, request: &ToolRequest) -> bool {
        let is_plain = self.plain.all || self.plain.tools.contains(&request.tool_name);
        !is_plain && request.provider.is_empty()
    }

    fn by_stream(&mut self, request: ToolRequest, is_native: bool) -> Asking {
        let stream_id = self.ids.draw();
        let start = StreamStart {
            stream_id: stream_id.clone(),
            tool_name: request.tool_name.clone(),
            arguments: request.arguments.clone(),
            caller_plugin: request.caller_plugin.clone(),
            ..StreamStart::default()
        };
        let tool = request.tool_name.clone();
        let plainly = request_body(request);
        let progress = Progress { tool, stream_id, fold: Fold::default(), is_native, plainly };
        let purpose = Purpose::Progress(Box::new(progress));
        Asking { purpose, request_id: None, body: request_body(start) }
    }

    /// A request that is one already. It may bring its own id.
    fn native(
        &mut self,
        method: &[u8],
        body: &Bytes,
        wants_progress: bool,
    ) -> Result<Asking, Failure> {
        let malformed = |why| Failure::new(FailureKind::InvalidArguments, format!("{why}"));
        let passed = |purpose| Asking { purpose, request_id: None, body: body.clone() };
        let read = || Envelope::read(Side::Call, body).map_err(malformed);
        let mut asking = match method {
            b"tool_call" if wants_progress => match read()?.request().map_err(malformed)? {
                Some(Request::ToolCall(request)) if self.may_stream(&request) => {
                    self.by_stream(request, true)
                }
                _ => passed(Purpose::Native { is_unanswered: false }),
            },
            b"stream_start" => match read()?.request().map_err(malformed)? {
                Some(Request::StreamStart(StreamStart { stream_id, .. })) => {
                    passed(Purpose::Chunks { stream_id })
                }
                _ => passed(Purpose::Native { is_unanswered: false }),
            },
            b"subscribe" => passed(Purpose::Events),
            _ => passed(Purpose::Native { is_unanswered: method == b"stream_cancel" }),
        };
        if has_id(body) {
            let Envelope { request_id, body, .. } = read()?;
            asking.request_id = Some(request_id);
            if !matches!(asking.purpose, Purpose::Progress(_)) {
                asking.body = body;
            }
        }
        Ok(asking)
    }
}
