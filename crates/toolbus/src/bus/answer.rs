//! For backs that are written elsewhere: a call answered by a future.

use std::rc::Rc;

use toolbus_proto::channel::Ticket;
use toolbus_proto::tool::{Deadline, Failure, Outcome};

use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::local_call::Conversation;
use crate::task::spawn_local;

/// Answers a call by what `work` gives: what [`Back::start`] returns for a call that takes time.
///
/// The future runs beside all others of the bus. It is dropped, and the caller told why, when
/// the caller changes its mind or has waited long enough; a panic fails this call alone.
///
/// [`Back::start`]: super::back::Back::start
pub fn answer(
    deadline: Deadline,
    down: ReplyTo,
    work: impl Future<Output = Result<Outcome, Failure>> + 'static,
) -> RunningCall {
    let conversation = Rc::new(Conversation::new(down));
    let running = RunningCall::new(conversation.clone(), Ticket(0));
    spawn_local(async move {
        let done = conversation.lead(deadline, work).await;
        conversation.finish(done);
    });
    running
}
