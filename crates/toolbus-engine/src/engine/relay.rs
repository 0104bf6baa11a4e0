//! Stands between a caller and the back that will answer: the call may have to wait before it is
//! made, and its end may have to be seen.
//!
//! What is said behind a call that waits is kept in order, and held back when it is much.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tokio::task::JoinHandle;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome};

use super::calls::{
    Answerer, Asker, BYTES_WAITING_MAX, ITEMS_WAITING_MAX, Pressure, ReplyTo, RunningCall,
};
use super::drive::until;
use super::waiting::InLine;
use crate::task::spawn_local;

/// One call on its way.
pub struct Relay {
    down: ReplyTo,
    deadline: Deadline,
    stage: RefCell<RelayState>,
    /// Rings when it has waited long enough.
    alarm: RefCell<Option<JoinHandle<()>>>,
    /// Called once, when the call is over or its caller wants no more.
    at_end: RefCell<Option<Box<dyn FnOnce()>>>,
    /// Where it waits, if it is counted there.
    place: RefCell<Option<InLine>>,
}

enum RelayState {
    /// Not made yet; what was said behind it meanwhile, and its weight.
    Waiting(Box<Call>, Vec<Up>, usize),
    /// It is just being made.
    Leaving(Vec<Up>),
    Asking(Rc<RunningCall>),
    Over,
}

/// The caller knows of one call only.
const TICKET: Ticket = Ticket(0);

impl Relay {
    /// A call that is [begun](Relay::begin) at once. One that may have to wait is made by
    /// [`WaitingCalls::relay`](super::waiting::WaitingCalls::relay), which counts it meanwhile.
    pub fn new(call: Call, down: ReplyTo) -> Rc<Relay> {
        let deadline = call.deadline;
        let stage = RefCell::new(RelayState::Waiting(Box::new(call), Vec::new(), 0));
        let (alarm, at_end, place) = Default::default();
        Rc::new(Relay { down, deadline, stage, alarm, at_end, place })
    }

    /// While it waits, it is counted there.
    pub(super) fn take_place(&self, place: InLine) {
        if let RelayState::Waiting(call, ..) = &*self.stage.borrow() {
            place.weigh(call.weight());
            *self.place.borrow_mut() = Some(place);
        }
    }

    /// What its caller holds.
    pub fn running_call(self: &Rc<Self>) -> RunningCall {
        RunningCall::new(self.clone(), TICKET)
    }

    /// Calls this once, when the call is over or its caller wants no more.
    pub fn at_end(&self, end: impl FnOnce() + 'static) {
        *self.at_end.borrow_mut() = Some(Box::new(end));
    }

    /// When it has waited long enough to be made.
    pub(crate) fn give_up_at(&self) -> Option<Instant> {
        self.deadline.instant(self.deadline.asked)
    }

    /// Ends the wait when it has been long enough.
    pub fn set_alarm(self: &Rc<Self>) {
        if !self.is_waiting() {
            return;
        }
        let this = Rc::downgrade(self);
        let at = self.give_up_at();
        let alarm = spawn_local(async move {
            until(at).await;
            if let Some(this) = this.upgrade() {
                this.finish(Err(this.deadline.missed()));
            }
        });
        *self.alarm.borrow_mut() = Some(alarm);
    }

    /// Is it neither made nor over?
    pub fn is_waiting(&self) -> bool {
        matches!(&*self.stage.borrow(), RelayState::Waiting(..))
    }

    /// Makes the call by `start`, if its caller still waits.
    pub fn begin(self: &Rc<Self>, start: impl FnOnce(Call, ReplyTo) -> RunningCall) {
        let Some(call) = self.leave() else { return };
        let uplink = Rc::new(start(call, ReplyTo::new(self.clone(), TICKET)));
        let ups = {
            let mut stage = self.stage.borrow_mut();
            // It may have ended already, and then there is nothing to cancel.
            let RelayState::Leaving(ups) = &mut *stage else { return forget(uplink) };
            let ups = std::mem::take(ups);
            *stage = RelayState::Asking(uplink.clone());
            ups
        };
        if ups.is_empty() {
            return;
        }
        let mut room = Pressure::Ready;
        for up in ups {
            room = uplink.send(up);
        }
        // A producer that was told to wait may go on; if there is no room it is told again later.
        if room == Pressure::Ready {
            self.down.resume();
        }
    }

    fn leave(&self) -> Option<Call> {
        if let Some(alarm) = self.alarm.take() {
            alarm.abort();
        }
        match self.stage.replace(RelayState::Over) {
            RelayState::Waiting(call, ups, _) => {
                drop(self.place.take());
                self.stage.replace(RelayState::Leaving(ups));
                Some(*call)
            }
            stage => {
                self.stage.replace(stage);
                None
            }
        }
    }

    /// Ends a call that still waits.
    pub fn finish(&self, outcome: Result<Outcome, Failure>) {
        if self.leave().is_some() {
            self.stage.replace(RelayState::Over);
            self.ended();
            let _ = self.down.send(Down::Done(outcome));
        }
    }

    /// Ends a call that still waits and cannot be made. That its time is up says more than what
    /// was waited for meanwhile.
    pub fn fail(&self, failure: Failure) {
        let is_late = self.give_up_at().is_some_and(|at| at <= Instant::now());
        self.finish(Err(if is_late { self.deadline.missed() } else { failure }));
    }

    fn ended(&self) {
        let at_end = self.at_end.take();
        if let Some(at_end) = at_end {
            at_end();
        }
    }
}

fn forget(uplink: Rc<RunningCall>) {
    if let Some(uplink) = Rc::into_inner(uplink) {
        uplink.forget();
    }
}

impl Asker for Relay {
    fn receive(&self, _ticket: Ticket, down: Down) -> Pressure {
        if let Down::Done(_) = down {
            let stage = self.stage.replace(RelayState::Over);
            if let RelayState::Asking(uplink) = stage {
                forget(uplink);
            }
            self.ended();
        }
        self.down.send(down)
    }

    fn resume(&self, _ticket: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _ticket: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Answerer for Relay {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        let is_cancelled = matches!(up, Up::Cancel(_));
        let uplink = match &mut *self.stage.borrow_mut() {
            RelayState::Waiting(..) if is_cancelled => None,
            RelayState::Waiting(call, ups, bytes) => {
                *bytes += up.weight();
                ups.push(up);
                if let Some(place) = &*self.place.borrow() {
                    place.weigh(call.weight() + *bytes + ups.capacity() * size_of::<Up>());
                }
                let is_full = BYTES_WAITING_MAX <= *bytes || ITEMS_WAITING_MAX <= ups.len();
                return if is_full { Pressure::Full } else { Pressure::Ready };
            }
            RelayState::Leaving(ups) => {
                ups.push(up);
                return Pressure::Ready;
            }
            RelayState::Asking(uplink) => Some(uplink.clone()),
            RelayState::Over => return Pressure::Ready,
        };
        let Some(uplink) = uplink else {
            self.finish(Err(Failure::new(FailureKind::Cancelled, "cancelled")));
            return Pressure::Ready;
        };
        let room = uplink.send(up);
        if is_cancelled {
            self.ended();
        }
        room
    }

    fn resume(&self, _ticket: Ticket) {
        let uplink = match &*self.stage.borrow() {
            RelayState::Asking(uplink) => Some(uplink.clone()),
            _ => None,
        };
        if let Some(uplink) = uplink {
            uplink.resume();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use toolbus_proto::tool::Part;

    use super::*;
    use crate::engine::calls::Inbox;

    /// Keeps what it is sent.
    #[derive(Default)]
    struct Heard(RefCell<Vec<Up>>);

    impl Answerer for Heard {
        fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
            self.0.borrow_mut().push(up);
            Pressure::Ready
        }

        fn resume(&self, _ticket: Ticket) {}
    }

    fn text(text: &str) -> Up {
        Up::Part(Part::Text(text.to_owned()))
    }

    fn relay() -> (Rc<Inbox>, Rc<Relay>, Rc<Cell<usize>>) {
        let (inbox, reply_to) = Inbox::new();
        let relay = Relay::new(Call::tool(Instant::now(), "t", None), reply_to);
        let ends = Rc::new(Cell::new(0));
        let counted = ends.clone();
        relay.at_end(move || counted.set(counted.get() + 1));
        (inbox, relay, ends)
    }

    #[tokio::test]
    async fn what_is_said_before_the_call_is_made_follows_it_in_order() {
        let (inbox, relay, ends) = relay();
        let running = relay.running_call();
        for said in ["a", "b"] {
            assert_eq!(running.send(text(said)), Pressure::Ready);
        }
        let heard = Rc::new(Heard::default());
        let mut reply_to = None;
        relay.begin(|_, down| {
            // The caller goes on while its call is being made.
            let _ = running.send(text("c"));
            reply_to = Some(down);
            RunningCall::new(heard.clone(), TICKET)
        });
        let _ = running.send(text("d"));
        assert_eq!(*heard.0.borrow(), ["a", "b", "c", "d"].map(text));
        assert_eq!(ends.get(), 0);
        let _ = reply_to.unwrap().send(Down::Done(Ok(Outcome::Text("over".to_owned()))));
        assert_eq!(ends.get(), 1);
        assert_eq!(inbox.whole(running).await, Ok(Outcome::Text("over".to_owned())));
        // Nothing is left to cancel.
        assert_eq!((heard.0.borrow().len(), ends.get()), (4, 1));
    }

    #[tokio::test]
    async fn a_caller_who_waits_may_change_its_mind() {
        let (inbox, relay, ends) = relay();
        let running = relay.running_call();
        let _ = running.send(Up::Cancel(None));
        assert_eq!(ends.get(), 1);
        let failure = inbox.whole(running).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Cancelled);
        relay.begin(|_, _| panic!("nobody waits for it"));
    }
}
