//! Requests of sessions that another machine has: one wire carries them there for another.
//!
//! A front whose sessions are shared finds the one that carries them by its name in the config, and
//! the other way round: neither knows the other's wire. All of them live on one thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure};

use crate::engine::calls::{ReplyTo, RunningCall};

/// Carries requests to the nodes that have their sessions.
pub(crate) trait ForwardSession {
    /// Who we are among the nodes.
    fn node(&self) -> String;

    /// Carries a request to a node: its body follows as bytes, the reply begins with the head of the
    /// answer, whose body are the bytes behind it.
    fn forward(&self, node: &str, request: Json, down: ReplyTo) -> RunningCall;

    /// Does this failure say that no node can be reached for now, whichever it is?
    fn is_away(&self, failure: &Failure) -> bool;
}

/// Answers the requests that other nodes carry here.
pub(crate) trait TakeSession {
    /// Answers one.
    fn take(&self, call: Call, down: ReplyTo) -> RunningCall;
}

/// Those who have to do with one front of the config that carries.
#[derive(Default)]
struct Ways {
    carrier: Option<Weak<dyn ForwardSession>>,
    /// By the path of their requests.
    takers: Vec<(String, Weak<dyn TakeSession>)>,
}

thread_local! {
    static WAYS: RefCell<HashMap<String, Ways>> = RefCell::default();
}

/// The front of this name carries from now on.
pub(crate) fn carries(front: &str, carrier: &Rc<dyn ForwardSession>) {
    WAYS.with_borrow_mut(|ways| {
        ways.entry(front.to_owned()).or_default().carrier = Some(Rc::downgrade(carrier));
    });
}

/// What carries for those who name this front, if it is there.
pub(crate) fn carrier(front: &str) -> Option<Rc<dyn ForwardSession>> {
    WAYS.with_borrow(|ways| ways.get(front)?.carrier.as_ref()?.upgrade())
}

/// Requests for this path that the front of this name carries here are answered by `taker` from now
/// on.
pub(crate) fn takes(front: &str, path: &str, taker: &Rc<dyn TakeSession>) {
    WAYS.with_borrow_mut(|ways| {
        let takers = &mut ways.entry(front.to_owned()).or_default().takers;
        takers.retain(|(known, taker)| known != path && 0 < taker.strong_count());
        takers.push((path.to_owned(), Rc::downgrade(taker)));
    });
}

/// What answers requests for this path that the front of this name carries.
pub(crate) fn taker(front: &str, path: &str) -> Option<Rc<dyn TakeSession>> {
    WAYS.with_borrow(|ways| {
        let takers = &ways.get(front)?.takers;
        takers.iter().find(|(known, _)| known == path)?.1.upgrade()
    })
}
