//! Calls that are held until their callers go on with them. They were counted when they began, and the
//! call by which their caller goes on is free.
//!
//! Each is known by what its caller was given to find it again, which is good for one such call:
//! whatever else a caller brings is a call as any other.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;

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

    pub(super) fn give(&self, token: String) {
        let mut tokens = self.tokens.borrow_mut();
        if HELD_MAX <= tokens.len() {
            tokens.pop_front();
        }
        tokens.push_back(token);
    }
}
