//! A bus as what answers the calls of a front.

use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure, ToolName};

use super::Bus;
use super::observe::Kept;
use crate::engine::Route;
use crate::engine::calls::{Inbox, ReplyTo, RunningCall};

impl Bus {
    /// A call of this back is refused before it hears of it, and its caller is told already: the
    /// observers of calls are told, too. `hidden` is the tool that it would have reached, if only
    /// its caller were shown it.
    pub(crate) fn refuse_at(
        &self,
        back: usize,
        call: Call,
        why: Failure,
        hidden: Option<ToolName>,
    ) {
        let (_inbox, nowhere) = Inbox::new();
        let refused = self.observers.start(call, nowhere, |_, down, seen| {
            if let (Some(seen), Some(tool), Some(member)) = (seen, hidden, self.members.get(back)) {
                seen.keep(&member.name, &tool, Kept::Hidden);
            }
            let _ = down.send(Down::Done(Err(why)));
            RunningCall::ended()
        });
        refused.forget();
    }
}

impl Route for Bus {
    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        Bus::start(self, call, down)
    }

    fn refuse(&self, call: Call, down: ReplyTo, why: Failure) {
        let refused = self.observers.start(call, down, |_, down, _| {
            let _ = down.send(Down::Done(Err(why)));
            RunningCall::ended()
        });
        refused.forget();
    }
}
