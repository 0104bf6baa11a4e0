//! Tools inside toolbus itself, for demos and tests (`docs/protocols/mediocre.md` 11).
//!
//! What can be answered at once is, without a task; the others run as tasks on the bus's
//! thread, each with a `Conversation` to its caller.

mod args;
mod elements;
mod plain;
mod specs;
mod stream;

use std::rc::Rc;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, ToolName, What, Wire};

use crate::address::{Address, Scheme};
use crate::bus::back::{Back, LocalFuture, unknown_tool};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::local_call::{Conversation, LocalCalls};
use crate::panics::caught;
use crate::peer::pins::Pins;
use crate::peer::settings::Settings;
use crate::peer::{Opened, PeerKind};
use crate::task::spawn_local;

/// The tools inside toolbus itself, for the registry.
pub static BUILTIN: BuiltinKind = BuiltinKind;

/// What is to be known of the tools inside toolbus itself.
pub struct BuiltinKind;

impl PeerKind for BuiltinKind {
    fn name(&self) -> &'static str {
        "builtin"
    }

    fn wire(&self) -> Wire {
        Wire::INSIDE
    }

    fn summary(&self) -> &'static str {
        "tools inside toolbus itself"
    }

    fn schemes(&self) -> &'static [Scheme] {
        const { &[Scheme::alone("builtin:")] }
    }

    fn help(&self) -> &'static [(&'static str, &'static str)] {
        &[("builtin:", "small tools inside toolbus itself, to try things out")]
    }

    fn pins(&self) -> Option<&'static dyn Pins> {
        None
    }

    fn open(&self, _address: &Address, _settings: &Settings) -> Opened {
        Ok(Rc::new(Builtin::new()))
    }
}

/// The tools inside toolbus itself.
#[derive(Default)]
pub struct Builtin {
    running: LocalCalls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Add,
    Blob,
    Count,
    Early,
    Echo,
    Fail,
    Sink,
    Sleep,
    Upper,
}

impl Builtin {
    /// Nothing has to be started.
    pub fn new() -> Builtin {
        Builtin::default()
    }

    fn start_tool(&self, call: Asked, down: ReplyTo) -> RunningCall {
        if call.tool == Tool::Early || (!call.sends_parts && call.tool.answers_at_once()) {
            let done = caught(|| plain::answer(call.tool, call.args));
            let _ = down.send(Down::Done(done));
            return RunningCall::ended();
        }
        let conversation = self.running.begin(down);
        let uplink = RunningCall::new(conversation.clone(), Ticket(0));
        spawn_local(async move {
            let work = run(call.tool, &conversation, call.args, call.sends_parts);
            let done = conversation.lead(call.deadline, work).await;
            conversation.finish(done);
        });
        uplink
    }
}

/// A call of one of our tools.
struct Asked {
    tool: Tool,
    args: Option<Json>,
    sends_parts: bool,
    deadline: Deadline,
}

async fn run(
    tool: Tool,
    conversation: &Conversation,
    args: Option<Json>,
    sends_parts: bool,
) -> Result<Outcome, Failure> {
    let args = match tool {
        Tool::Echo if sends_parts => return stream::echo(conversation, args).await,
        Tool::Sink if sends_parts => return stream::sink(conversation, args.as_ref()).await,
        _ if sends_parts => conversation.collect(args).await?,
        _ => args,
    };
    match tool {
        Tool::Count => stream::count(conversation, args.as_ref()).await,
        Tool::Blob => stream::blob(conversation, args.as_ref()).await,
        Tool::Sleep => plain::sleep(args.as_ref()).await,
        tool => plain::answer(tool, args),
    }
}

impl Back for Builtin {
    fn wire(&self) -> Wire {
        Wire::INSIDE
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let refused = match call.what {
            What::Tool { name, args } => match Tool::named(&name) {
                Some(tool) => {
                    let sends_parts = call.options.sends_parts;
                    let asked = Asked { tool, args, sends_parts, deadline: call.deadline };
                    return self.start_tool(asked, down);
                }
                None => Err(unknown_tool(&name, Tool::ALL.iter().map(|tool| tool.name()))),
            },
            What::Tools => Ok(Outcome::Tools(specs::all())),
            What::Native { .. } => {
                let message = "the built-in tools speak no wire of their own";
                Err(Failure::new(FailureKind::BrokeProtocol, message))
            }
        };
        let _ = down.send(Down::Done(refused));
        RunningCall::ended()
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.running.shutdown())
    }
}

impl Tool {
    const ALL: [Tool; 9] = [
        Tool::Add,
        Tool::Blob,
        Tool::Count,
        Tool::Early,
        Tool::Echo,
        Tool::Fail,
        Tool::Sink,
        Tool::Sleep,
        Tool::Upper,
    ];

    fn name(self) -> &'static str {
        match self {
            Tool::Add => "add",
            Tool::Blob => "blob",
            Tool::Count => "count",
            Tool::Early => "early",
            Tool::Echo => "echo",
            Tool::Fail => "fail",
            Tool::Sink => "sink",
            Tool::Sleep => "sleep",
            Tool::Upper => "upper",
        }
    }

    fn named(name: &ToolName) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name.as_str())
    }

    fn answers_at_once(self) -> bool {
        !matches!(self, Tool::Blob | Tool::Count | Tool::Sleep)
    }
}

#[cfg(test)]
mod tests;
