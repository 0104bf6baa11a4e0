//! Calls that last, of a back that need not be there for them yet: the session of a client, or
//! its wish to hear of changes. They are answered from the lock, and made when the back is opened.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::tool::{Call, CallerId, What};

use super::guarded::{Compared, Guarded};
use crate::bus::back::Back;
use crate::engine::calls::{Answerer, Asker, Pressure, ReplyTo, RunningCall};

/// A call that lasts.
pub(super) struct Standing {
    call: Call,
    pub(super) is_legacy: bool,
    down: ReplyTo,
    stage: RefCell<StandingStage>,
    /// Of a call that does not last but is made again on each connection: the one on which it was
    /// made last, if it was made, and if that is known yet.
    repeated: Option<Cell<Option<Option<Compared>>>>,
    /// Who is told what the back says of itself.
    guard: Weak<Guarded>,
}

enum StandingStage {
    /// Not made, or its process has gone.
    Waiting,
    Made(Rc<RunningCall>),
    /// The client wants no more of it.
    Over,
}

/// The client knows of one call only.
const TICKET: Ticket = Ticket(0);

impl Standing {
    pub(super) fn new(
        call: Call,
        is_legacy: bool,
        down: ReplyTo,
        guard: Weak<Guarded>,
    ) -> Rc<Standing> {
        let stage = RefCell::new(StandingStage::Waiting);
        Rc::new(Standing { call, is_legacy, down, stage, repeated: None, guard })
    }

    /// Is said on each connection once; on this one it is already.
    pub(super) fn repeated(call: Call, down: ReplyTo, said_on: Option<Compared>) -> Rc<Standing> {
        Rc::new(Standing {
            call,
            is_legacy: true,
            down,
            stage: RefCell::new(StandingStage::Waiting),
            repeated: Some(Cell::new(said_on.map(Some))),
            guard: Weak::new(),
        })
    }

    /// Does the other one say the same kind of thing for the same caller?
    pub(super) fn is_replaced_by(&self, other: &Call) -> bool {
        let method = |call: &Call| match &call.what {
            What::Native { method, .. } => Some(method.clone()),
            What::Tool { .. } | What::Tools => None,
        };
        self.repeated.is_some()
            && self.caller() == other.caller
            && method(&self.call) == method(other)
    }

    pub(super) fn caller(&self) -> CallerId {
        self.call.caller
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(*self.stage.borrow(), StandingStage::Over)
    }

    /// Says what the back would.
    pub(super) fn say(&self, down: Down) {
        let _ = self.down.send(down);
    }

    /// What its caller holds.
    pub(super) fn running_call(self: &Rc<Self>) -> RunningCall {
        RunningCall::new(self.clone(), TICKET)
    }

    /// Makes the call, if it is not made already on this connection.
    pub(super) fn wake(self: &Rc<Self>, back: &dyn Back, connection: Option<Compared>) {
        if let Some(said_on) = &self.repeated {
            match said_on.replace(Some(connection)) {
                None => {}
                // It was made when there was no connection yet, which is this one then.
                Some(None) => return,
                Some(before) if before == connection => return,
                Some(_) => {}
            }
        }
        if !matches!(*self.stage.borrow(), StandingStage::Waiting) {
            return;
        }
        let reply_to = ReplyTo::new(self.clone(), TICKET);
        let running = Rc::new(back.start(self.call.clone(), reply_to));
        let mut stage = self.stage.borrow_mut();
        match &*stage {
            StandingStage::Waiting => *stage = StandingStage::Made(running),
            StandingStage::Made(_) | StandingStage::Over => {}
        }
    }
}

impl Asker for Standing {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        match down {
            // It was told from the lock already.
            Down::Begin { head, .. } => {
                if let (Some(head), Some(guard)) = (head, self.guard.upgrade()) {
                    guard.introduced(&head, self.is_legacy);
                }
                Pressure::Ready
            }
            Down::Done(done) => {
                if let (Some(said_on), Err(_)) = (&self.repeated, done) {
                    said_on.set(None);
                }
                let stage = self.stage.replace(StandingStage::Waiting);
                match stage {
                    StandingStage::Made(running) => {
                        if let Some(running) = Rc::into_inner(running) {
                            running.forget();
                        }
                    }
                    StandingStage::Over => drop(self.stage.replace(StandingStage::Over)),
                    StandingStage::Waiting => {}
                }
                Pressure::Ready
            }
            down => self.down.send(down),
        }
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Answerer for Standing {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        let is_cancelled = matches!(up, Up::Cancel(_));
        let made = match &*self.stage.borrow() {
            StandingStage::Made(running) => Some(running.clone()),
            StandingStage::Waiting | StandingStage::Over => None,
        };
        let pressure = made.as_ref().map_or(Pressure::Ready, |made| made.send(up));
        if is_cancelled {
            self.stage.replace(StandingStage::Over);
        }
        pressure
    }

    fn resume(&self, _: Ticket) {
        let made = match &*self.stage.borrow() {
            StandingStage::Made(running) => Some(running.clone()),
            StandingStage::Waiting | StandingStage::Over => None,
        };
        if let Some(made) = made {
            made.resume();
        }
    }
}
