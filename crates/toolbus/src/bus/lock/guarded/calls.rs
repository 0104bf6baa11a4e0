//! Calls on their way through the guard: they wait for the comparison of their connection, and
//! those that last stand until the back is there.

use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::pin::PinKind;
use toolbus_proto::tool::{Call, What};

use super::{Compared, Guarded, done};
use crate::bus::lock::standing::Standing;
use crate::bus::lock::verdict::Verdict;
use crate::engine::calls::{Asker, Pressure, ReplyTo, RunningCall};
use crate::engine::relay::Relay;
use crate::peer::pins::AskedOf;
use crate::task::spawn_local;

/// How old a comparison over a network may be.
const AGE_MAX: Duration = Duration::from_secs(300);

impl Guarded {
    /// Makes a call once the connection that it goes out on has been compared.
    pub(super) fn guard(&self, call: Call, down: ReplyTo) -> RunningCall {
        let entry = self.entry_of(&call);
        self.guard_entry(call, down, entry.as_ref())
    }

    /// The same, if it is known already what the call names.
    pub(super) fn guard_entry(
        &self,
        call: Call,
        down: ReplyTo,
        entry: Option<&(PinKind, String)>,
    ) -> RunningCall {
        let refusal = |verdict: Option<&Verdict>| self.refusal_for(&call, entry?, verdict);
        let connection = self.connection(&call);
        let known = connection.and_then(|known| self.compared.borrow().get(&known).cloned());
        if let Some(verdict) = known {
            if let Some(failure) = refusal(verdict.as_deref()) {
                return done(&down, Err(failure));
            }
            if matches!(connection, Some(Compared::Remote(_)))
                && self.compared_at.get().is_none_or(|at| AGE_MAX <= at.elapsed())
            {
                self.compare_aside(call.clone());
            }
            return self.make(call, down);
        }
        // What the lock does not have is not looked for. What was changed when the back was last
        // asked may be as it was again, now that there is another connection.
        if let Some(failure) = refusal(None) {
            return done(&down, Err(failure));
        }
        if !matches!(connection, Some(Compared::Process(_)))
            && let Some(failure) = self.program_refusal()
        {
            return done(&down, Err(failure));
        }
        if self.plan.pins.is_none() || self.plan.pinned.is_none() {
            return self.make(call, down);
        }
        let relay = Relay::new(call.clone(), down);
        relay.set_alarm();
        let lane = self.lane(&call);
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            let lane = waiting.entry(lane).or_default();
            lane.push(relay.clone());
            lane.len() == 1
        };
        let Some(this) = self.this.upgrade().filter(|_| is_first) else {
            return relay.running_call();
        };
        spawn_local(async move {
            let compared = this.compare(&call).await;
            let waiting = this.waiting.borrow_mut().remove(&lane);
            for relay in waiting.unwrap_or_default() {
                match &compared {
                    Ok(verdict) => {
                        relay.begin(|call, down| this.admit(call, down, verdict.as_deref()));
                    }
                    Err(failure) => relay.fail(failure.clone()),
                }
            }
        });
        relay.running_call()
    }

    /// Makes a call whose connection was compared just now, with this verdict.
    pub(super) fn admit(
        &self,
        call: Call,
        down: ReplyTo,
        verdict: Option<&Verdict>,
    ) -> RunningCall {
        let entry = self.entry_of(&call);
        match entry.and_then(|entry| self.refusal_for(&call, &entry, verdict)) {
            Some(failure) => done(&down, Err(failure)),
            None => self.make(call, down),
        }
    }

    pub(super) fn make(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.wake_standing(&call);
        self.inner.start(call, down)
    }

    /// What a call names.
    pub(super) fn entry_of(&self, call: &Call) -> Option<(PinKind, String)> {
        match &call.what {
            What::Tool { name, .. } => Some((PinKind::Tool, name.to_string())),
            What::Native { method, body, .. } => match self.plan.pins?.asked(method, body) {
                AskedOf::Entry(kind, name) => Some((kind, name)),
                _ => None,
            },
            What::Tools => None,
        }
    }

    /// The sessions that a call belongs to are begun, and those who listen are known.
    pub(super) fn wake_standing(&self, call: &Call) {
        let all = self.standing.borrow().clone();
        if all.is_empty() {
            return;
        }
        let is_legacy = self.plan.pins.is_some_and(|pins| pins.is_legacy(call));
        let connection = self.connection(call);
        for standing in all {
            if !standing.is_legacy || is_legacy && standing.caller() == call.caller {
                standing.wake(&*self.inner, connection);
            }
        }
    }

    /// A call that names nothing: only the program is looked at.
    pub(super) fn guard_program(&self, call: Call, down: ReplyTo) -> RunningCall {
        if self.connection(&call).is_none()
            && let Some(failure) = self.program_refusal()
        {
            return done(&down, Err(failure));
        }
        self.inner.start(call, down)
    }

    /// A call that lasts: it is answered now, and made when the back is opened.
    pub(super) fn stand(
        &self,
        call: Call,
        is_legacy: bool,
        down: ReplyTo,
        first: Down,
    ) -> RunningCall {
        let (is_open, connection) = (self.is_compared(&call), self.connection(&call));
        let standing = Standing::new(call, is_legacy, down, self.this.clone());
        {
            let mut all = self.standing.borrow_mut();
            all.retain(|known| !known.is_over());
            all.push(standing.clone());
        }
        standing.say(first);
        if is_open {
            standing.wake(&*self.inner, connection);
        }
        standing.running_call()
    }

    /// Something that is told the back on each connection, and whose answer is of no interest;
    /// what was to be told before counts no longer.
    pub(super) fn stand_aside(&self, call: Call, said_on: Option<Compared>) {
        let mut all = self.standing.borrow_mut();
        all.retain(|known| !known.is_replaced_by(&call));
        let down = ReplyTo::new(Rc::new(Nobody), Ticket(0));
        all.push(Standing::repeated(call, down, said_on));
    }
}

/// Takes what is of no interest.
struct Nobody;

impl Asker for Nobody {
    fn receive(&self, _: Ticket, _: Down) -> Pressure {
        Pressure::Ready
    }

    fn resume(&self, _: Ticket) {}
}
