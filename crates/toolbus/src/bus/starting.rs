//! What becomes of a call: it is answered here, handed to the back that has its tool, or refused.

use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::channel::Down;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What, Wire};

use super::member::Member;
use super::observe::Observed;
use super::searching::{SearchAnswer, Sought};
use super::{Bus, TIMEOUT, call_log};
use crate::chance;
use crate::engine::calls::{ReplyTo, RunningCall};

impl Bus {
    /// Calls a tool, at once. What comes back goes to `down`; dropping the
    /// [`RunningCall`] cancels.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.scope.enter(|| match self.answered_here(call, &down) {
            Ok(call) => match self.lent() {
                Some(lent) => self.start_elsewhere(lent, call, down),
                None => self
                    .observers
                    .start(call, down, |call, down, seen| self.start_seen(call, down, seen)),
            },
            Err((call, outcome)) => self.answer_here(call, down, outcome),
        })
    }

    /// A call that some bus has to answer; or one that is answered already.
    #[expect(clippy::result_large_err, reason = "the call has to go somewhere")]
    pub(super) fn answered_here(
        &self,
        call: Call,
        _down: &ReplyTo,
    ) -> Result<Call, (Call, SearchAnswer)> {
        if !self.may_search() {
            return Ok(call);
        }
        let asked = call.clone();
        match self.sought(call) {
            Sought::Call(call) => Ok(call),
            Sought::Answer(answered) => Err((asked, answered)),
        }
    }

    pub(super) fn answer_here(
        &self,
        call: Call,
        down: ReplyTo,
        answered: SearchAnswer,
    ) -> RunningCall {
        let SearchAnswer { outcome, found } = answered;
        self.observers.start(call, down, |_, down, seen| {
            if let (Some(seen), Some(found)) = (seen, found) {
                seen.searched(found);
            }
            let _ = down.send(Down::Done(outcome));
            RunningCall::ended()
        })
    }

    /// The same for a call that is observed already, if it is.
    pub(super) fn start_seen(
        &self,
        mut call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        if let Some(gate) = &self.gate {
            return self.start_behind(gate, call, down, seen);
        }
        let found = match &mut call.what {
            What::Tool { name, .. } => match self.route(name) {
                Some((member, own)) => {
                    *name = own;
                    Ok(member)
                }
                None => {
                    let failure = self.outage(name).unwrap_or_else(|| self.unknown(name));
                    self.see_refusal(seen, name, &failure);
                    Err(Err(failure))
                }
            },
            What::Native { wire, .. } => self.only(*wire).map_err(Err),
            What::Tools => Err(Ok(Outcome::Tools(self.offered().into()))),
        };
        match found {
            Ok(member) => hand_to(member, self.observers.caller(), call, down, seen),
            Err(done) => {
                let _ = down.send(Down::Done(done));
                RunningCall::ended()
            }
        }
    }

    /// Calls this back, at once, whatever it is that is asked.
    pub(crate) fn start_at(&self, back: usize, call: Call, down: ReplyTo) -> RunningCall {
        match self.members.get(back) {
            Some(member) => self
                .observers
                .start(call, down, |call, down, seen| self.hand_natively(member, call, down, seen)),
            None => {
                let failure = Failure::new(FailureKind::Unavailable, "there is no such back");
                let _ = down.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        }
    }

    /// Who gets what is said in `wire` itself: there must be no doubt.
    pub(super) fn only(&self, wire: Wire) -> Result<&Member, Failure> {
        match self.members.first() {
            Some(only) if self.native_wire() == Some(wire) => Ok(only),
            _ => {
                let message = "a native call needs exactly one back, of the same wire";
                Err(Failure::new(FailureKind::Unavailable, message))
            }
        }
    }
}

/// Makes a call of a back that is known; it is observed already, if it is.
pub(super) fn hand_to(
    member: &Member,
    caller: Option<&Arc<str>>,
    mut call: Call,
    down: ReplyTo,
    seen: Option<&Rc<Observed>>,
) -> RunningCall {
    // Set here, kept by the back that makes the call: the bus itself never looks at a clock.
    let own = member.settings.timeout;
    call.deadline.quiet = match (call.deadline.quiet, call.deadline.total) {
        (Some(quiet), _) => Some(own.map_or(quiet, |own| own.min(quiet))),
        (None, Some(_)) => None,
        (None, None) => Some(own.unwrap_or(TIMEOUT)),
    };
    if let Some(caller) = caller {
        call.provenance.get_or_insert_default().caller = Some(caller.clone());
    }
    // What is said in a wire of its own is passed on as it is.
    if let (What::Tool { .. }, Some(trace)) = (&call.what, &mut call.trace) {
        *trace = trace.passed_on(chance::bytes());
    }
    let wire = member.back.wire();
    let kind = member.address.kind();
    if let Some(Err(failure)) = seen.map(|seen| seen.begin(&member.name, wire, kind, &mut call)) {
        let _ = down.send(Down::Done(Err(failure)));
        return RunningCall::ended();
    }
    let down = call_log::logged(&call, caller, wire, &member.log_name, down);
    member.back.start(call, down).counted_by(&member.in_flight)
}
