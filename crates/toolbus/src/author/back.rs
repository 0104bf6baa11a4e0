//! An author's tools as the back that answers the calls of a bus.

use std::rc::Rc;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::collect::COLLECTED_BYTES_MAX;
use toolbus_proto::printable::size;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What, Wire};

use super::Authored;
use super::async_context::AsyncContext;
use super::context::{Asked, Context};
use super::tool::{Function, arguments};
use crate::bus::Route;
use crate::bus::back::{Back, LocalFuture};
use crate::engine::blocking::serving::Caller;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::local_call::Conversation;
use crate::panics::caught;
use crate::task::spawn_local;

impl Authored {
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
    reply_to: &'a ReplyTo,
    told_bytes: usize,
}

impl SlotCaller<'_> {
    fn new(reply_to: &ReplyTo) -> SlotCaller<'_> {
        SlotCaller { reply_to, told_bytes: 0 }
    }

    fn is_full(&self) -> bool {
        COLLECTED_BYTES_MAX < self.told_bytes
    }

    fn end(&self, done: Result<Outcome, Failure>) -> Result<Outcome, Failure> {
        if !self.is_full() {
            return done;
        }
        let message = format!("the reply is over the limit of {}", size(COLLECTED_BYTES_MAX));
        Err(Failure::new(FailureKind::TooLarge, message))
    }
}

impl Caller for SlotCaller<'_> {
    fn tell(&mut self, down: Down) {
        self.told_bytes += down.weight();
        if !self.is_full() {
            let _ = self.reply_to.send(down);
        }
    }

    fn is_gone(&mut self) -> bool {
        self.is_full()
    }
}
