//! One call on its way to a connection: it may have to wait for one, and is led on from there.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use tokio::task::{JoinHandle, spawn_local};
use toolbus_proto::channel::{Calling, Channel, Down, Ticket, Up};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind};

use crate::engine::calls::{
    Answerer, Asker, BYTES_WAITING_MAX, ITEMS_WAITING_MAX, Pressure, ReplyTo, RunningCall,
};
use crate::engine::client::Client as Connection;
use crate::engine::drive::until;

/// Stands between whoever asks and the connection that will carry the call.
pub(super) struct Journey {
    down: ReplyTo,
    pub(super) deadline: Deadline,
    stage: RefCell<Stage>,
    /// Rings when it has waited long enough.
    alarm: RefCell<Option<JoinHandle<()>>>,
}

enum Stage {
    /// No connection yet; what was said behind the call meanwhile, and its weight.
    Waiting(Box<Call>, Vec<Up>, usize),
    /// It is just being handed over.
    Leaving(Vec<Up>),
    Asking(Rc<RunningCall>),
    Over,
}

/// The caller knows of one call only.
const TICKET: Ticket = Ticket(0);

impl Journey {
    pub(super) fn new(call: Call, down: ReplyTo) -> Rc<Journey> {
        let deadline = call.deadline;
        let stage = RefCell::new(Stage::Waiting(Box::new(call), Vec::new(), 0));
        Rc::new(Journey { down, deadline, stage, alarm: RefCell::default() })
    }

    pub(super) fn uplink(self: &Rc<Self>) -> RunningCall {
        RunningCall::new(self.clone(), TICKET)
    }

    /// When it has waited long enough for a connection.
    pub(super) fn give_up_at(&self) -> Option<Instant> {
        self.deadline.instant(self.deadline.asked)
    }

    /// Ends the wait when it has been long enough.
    pub(super) fn set_alarm(self: &Rc<Self>) {
        let this = Rc::downgrade(self);
        let at = self.give_up_at();
        let alarm = spawn_local(async move {
            until(at).await;
            if let Some(this) = this.upgrade() {
                this.fail(this.deadline.missed());
            }
        });
        *self.alarm.borrow_mut() = Some(alarm);
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(&*self.stage.borrow(), Stage::Waiting(..))
    }

    /// Goes out on `connection`, if its caller still waits.
    pub(super) fn begin<C: Calling + Channel + 'static>(
        self: &Rc<Self>,
        connection: &Connection<C>,
    ) {
        let Some(call) = self.leave() else { return };
        let uplink = Rc::new(connection.start(call, ReplyTo::new(self.clone(), TICKET)));
        let ups = {
            let mut stage = self.stage.borrow_mut();
            let Stage::Leaving(ups) = &mut *stage else { return };
            let ups = std::mem::take(ups);
            *stage = Stage::Asking(uplink.clone());
            ups
        };
        if ups.is_empty() {
            return;
        }
        let mut room = Pressure::Ready;
        for up in ups {
            room = uplink.send(up);
        }
        // Whoever was told to wait may go on; if there is no room they are told again later.
        if room == Pressure::Ready {
            self.down.resume();
        }
    }

    fn leave(&self) -> Option<Call> {
        if let Some(alarm) = self.alarm.take() {
            alarm.abort();
        }
        match self.stage.replace(Stage::Over) {
            Stage::Waiting(call, ups, _) => {
                self.stage.replace(Stage::Leaving(ups));
                Some(*call)
            }
            stage => {
                self.stage.replace(stage);
                None
            }
        }
    }

    /// Ends a call that still waits.
    pub(super) fn fail(&self, failure: Failure) {
        if self.leave().is_some() {
            self.stage.replace(Stage::Over);
            let _ = self.down.send(Down::Done(Err(failure)));
        }
    }
}

impl Asker for Journey {
    fn receive(&self, _ticket: Ticket, down: Down) -> Pressure {
        if let Down::Done(_) = down
            && let Stage::Asking(uplink) = self.stage.replace(Stage::Over)
            && let Some(uplink) = Rc::into_inner(uplink)
        {
            uplink.forget();
        }
        self.down.send(down)
    }

    fn resume(&self, _ticket: Ticket) {
        self.down.resume();
    }
}

impl Answerer for Journey {
    fn send(&self, _ticket: Ticket, up: Up) -> Pressure {
        let uplink = match &mut *self.stage.borrow_mut() {
            Stage::Waiting(..) if matches!(up, Up::Cancel(_)) => None,
            Stage::Waiting(_, ups, bytes) => {
                *bytes += up.weight();
                ups.push(up);
                let is_full = BYTES_WAITING_MAX <= *bytes || ITEMS_WAITING_MAX <= ups.len();
                return if is_full { Pressure::Full } else { Pressure::Ready };
            }
            Stage::Leaving(ups) => {
                ups.push(up);
                return Pressure::Ready;
            }
            Stage::Asking(uplink) => Some(uplink.clone()),
            Stage::Over => return Pressure::Ready,
        };
        match uplink {
            Some(uplink) => uplink.send(up),
            None => {
                self.fail(Failure::new(FailureKind::Cancelled, "cancelled"));
                Pressure::Ready
            }
        }
    }

    fn resume(&self, _ticket: Ticket) {
        let uplink = match &*self.stage.borrow() {
            Stage::Asking(uplink) => Some(uplink.clone()),
            _ => None,
        };
        if let Some(uplink) = uplink {
            uplink.resume();
        }
    }
}
