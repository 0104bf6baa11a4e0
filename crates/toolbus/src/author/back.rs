//! An author's tools as whoever answers the calls of a bus.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::task::spawn_local;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::collect::COLLECTED_BYTES_MAX;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire};

use super::context::{Asked, AsyncContext, Context};
use super::tool::{Function, Tool, arguments};
use crate::bus::Route;
use crate::bus::back::{Back, LocalFuture, unknown_tool};
use crate::engine::blocking::serving::Caller;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::local_call::{Conversation, LocalCalls};
use crate::panics::caught;

/// An author's tools, to be put behind a bus or a front.
pub struct Authored {
    specs: Arc<[ToolSpec]>,
    functions: BTreeMap<ToolName, Rc<Function>>,
    running: LocalCalls,
}

impl Authored {
    pub(super) fn new(tools: Vec<Tool>) -> Authored {
        let specs = tools.iter().map(|tool| tool.spec.clone()).collect();
        let named = |tool: Tool| (tool.spec.name, Rc::new(tool.function));
        let functions = tools.into_iter().map(named).collect();
        Authored { specs, functions, running: LocalCalls::default() }
    }

    /// Can all calls be answered in place?
    pub(super) fn is_in_place(&self) -> bool {
        self.functions.values().all(|function| matches!(**function, Function::InPlace(_)))
    }

    /// Answers in place, where that can be done.
    pub(super) fn answer(&self, call: Call, caller: &mut dyn Caller) -> Result<Outcome, Failure> {
        let asked = Asked::of(&call);
        let (function, given) = match call.what {
            What::Tool { name, args } => (self.function(&name)?, args),
            other => return self.about(&other),
        };
        match &**function {
            Function::InPlace(answer) => answer(arguments(given), &mut Context::new(asked, caller)),
            Function::Async(_) => {
                let message = "the tool needs a runtime, and there is none";
                Err(Failure::new(FailureKind::Unavailable, message))
            }
        }
    }

    fn function(&self, name: &ToolName) -> Result<&Rc<Function>, Failure> {
        let known = self.specs.iter().map(|spec| spec.name.as_str());
        self.functions.get(name).ok_or_else(|| unknown_tool(name, known))
    }

    /// What is asked that is no tool.
    fn about(&self, what: &What) -> Result<Outcome, Failure> {
        match what {
            What::Tools => Ok(Outcome::Tools(self.specs.clone())),
            What::Tool { .. } | What::Native { .. } => {
                let message = "tools inside a program speak no wire of their own";
                Err(Failure::new(FailureKind::BrokeProtocol, message))
            }
        }
    }

    fn must_wait(&self, call: &Call) -> Option<Rc<Function>> {
        let What::Tool { name, .. } = &call.what else { return None };
        let function = self.functions.get(name)?;
        let is_async = matches!(**function, Function::Async(_));
        (is_async || call.options.sends_parts).then(|| function.clone())
    }
}

impl Back for Authored {
    fn wire(&self) -> Wire {
        Wire::INSIDE
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async { Ok(self.specs.clone()) })
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let Some(function) = self.must_wait(&call) else {
            let mut caller = SlotCaller::new(&down);
            let done = caught(|| self.answer(call, &mut caller));
            let done = caller.end(done);
            let _ = down.send(Down::Done(done));
            return RunningCall::ended();
        };
        let conversation = self.running.begin(down.clone());
        let uplink = RunningCall::new(conversation.clone(), Ticket(0));
        spawn_local(async move {
            let deadline = call.deadline;
            let work = answer_later(&conversation, &function, call, down);
            let done = conversation.lead(deadline, work).await;
            conversation.finish(done);
        });
        uplink
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.running.shutdown())
    }
}

impl Route for Authored {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Back::start(self, call, down)
    }
}

/// Answers when all of the input is there.
async fn answer_later(
    conversation: &Rc<Conversation>,
    function: &Function,
    call: Call,
    down: ReplyTo,
) -> Result<Outcome, Failure> {
    let asked = Asked::of(&call);
    let What::Tool { args, .. } = call.what else { return Ok(Outcome::End(None)) };
    let given = match call.options.sends_parts {
        true => conversation.collect(args).await?,
        false => args,
    };
    match function {
        Function::InPlace(answer) => {
            let mut caller = SlotCaller::new(&down);
            let done = answer(arguments(given), &mut Context::new(asked, &mut caller));
            caller.end(done)
        }
        Function::Async(answer) => {
            answer(arguments(given), AsyncContext::new(asked, conversation.clone())).await
        }
    }
}

/// A caller on a bus. A function that is called in place cannot wait for it, so what it is
/// told has a limit.
struct SlotCaller<'a> {
    slot: &'a ReplyTo,
    told_bytes: usize,
}

impl SlotCaller<'_> {
    fn new(slot: &ReplyTo) -> SlotCaller<'_> {
        SlotCaller { slot, told_bytes: 0 }
    }

    fn is_full(&self) -> bool {
        COLLECTED_BYTES_MAX < self.told_bytes
    }

    fn end(&self, done: Result<Outcome, Failure>) -> Result<Outcome, Failure> {
        if !self.is_full() {
            return done;
        }
        let message = format!("the reply is over the limit of {COLLECTED_BYTES_MAX} bytes");
        Err(Failure::new(FailureKind::TooLarge, message))
    }
}

impl Caller for SlotCaller<'_> {
    fn tell(&mut self, down: Down) {
        self.told_bytes += down.weight();
        if !self.is_full() {
            let _ = self.slot.send(down);
        }
    }

    fn is_gone(&mut self) -> bool {
        self.is_full()
    }
}
