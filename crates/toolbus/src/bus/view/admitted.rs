//! The reply of a call that its limits have let through: it counts until it has ended, and if it is
//! held then, its caller may go on with it for free.

use std::cell::RefCell;
use std::rc::Rc;

use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::tool::Outcome;

use super::held::HeldCalls;
use super::limits::InUse;
use crate::engine::calls::{Asker, Pressure, ReplyTo};
use crate::peer::PeerKind;

/// Where held calls are noted, and in whose words a reply says that its call is one.
pub(super) type Holding = (Rc<HeldCalls>, &'static dyn PeerKind);

/// Passes a reply on, and counts the call until it has ended or nobody waits for it any more.
struct Admitted {
    down: ReplyTo,
    in_use: RefCell<InUse>,
    holding: Option<Holding>,
}

/// The way of a reply whose call is counted, and may be held. One that is neither goes as it is.
pub(super) fn admitted(in_use: InUse, holding: Option<Holding>, down: ReplyTo) -> ReplyTo {
    if in_use.is_empty() && holding.is_none() {
        return down;
    }
    let in_use = RefCell::new(in_use);
    ReplyTo::new(Rc::new(Admitted { down, in_use, holding }), Ticket(0))
}

impl Asker for Admitted {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(done) = &down {
            // Before its caller hears of it, who may call again at once.
            self.in_use.take();
            if let (Some((held, kind)), Ok(Outcome::Native(result))) = (&self.holding, done)
                && let Some(token) = kind.held_by(result)
            {
                held.give(token);
            }
        }
        self.down.send(down)
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}
