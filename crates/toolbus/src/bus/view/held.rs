//! Calls that are held until their callers go on with them. They were counted when they began, and the
//! call by which their caller goes on is free.
//!
//! Each is known by what its caller was given to find it again, which is good for one such call:
//! whatever else a caller brings is a call as any other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket};
use toolbus_proto::tool::Outcome;

use crate::engine::calls::{Asker, Pressure, ReplyTo};
use crate::peer::PeerKind;

/// How many are known; of more the oldest are forgotten, and going on with those counts.
const HELD_MAX: usize = 4096;

/// What callers were given to go on with.
#[derive(Default)]
pub(super) struct HeldCalls {
    tokens: RefCell<VecDeque<String>>,
}

impl HeldCalls {
    /// Does this request go on with a call that was counted already? It does so once.
    pub(super) fn let_go_on(&self, kind: &dyn PeerKind, request: &Bytes) -> bool {
        if self.tokens.borrow().is_empty() {
            return false;
        }
        let Some(token) = kind.resumed_by(request) else { return false };
        let mut tokens = self.tokens.borrow_mut();
        let known = tokens.iter().position(|known| *known == token);
        known.and_then(|at| tokens.remove(at)).is_some()
    }

    fn give(&self, token: String) {
        let mut tokens = self.tokens.borrow_mut();
        if HELD_MAX <= tokens.len() {
            tokens.pop_front();
        }
        tokens.push_back(token);
    }
}

/// The way of a reply on which it is seen whether its call is held now.
pub(super) fn noting(held: &Rc<HeldCalls>, kind: &'static dyn PeerKind, down: ReplyTo) -> ReplyTo {
    ReplyTo::new(Rc::new(Noting { down, kind, held: held.clone() }), Ticket(0))
}

struct Noting {
    down: ReplyTo,
    kind: &'static dyn PeerKind,
    held: Rc<HeldCalls>,
}

impl Asker for Noting {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if let Down::Done(Ok(Outcome::Native(result))) = &down
            && let Some(token) = self.kind.held_by(result)
        {
            self.held.give(token);
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
