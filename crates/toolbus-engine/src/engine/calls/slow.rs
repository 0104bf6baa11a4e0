//! The calls whose other end can take no more for now, and the streams that wait for them.

use std::cell::RefCell;
use std::rc::Rc;

use toolbus_proto::channel::Ticket;

use super::ByTicket;
use crate::engine::lane::Lane;

/// The calls whose other end was given all that it can take.
#[derive(Default)]
pub(crate) struct Slow(RefCell<ByTicket<Waiting>>);

/// The streams that are not read until a call goes on: nearly always one.
#[derive(Default)]
struct Waiting {
    first: Option<Rc<Lane>>,
    others: Vec<Rc<Lane>>,
}

impl Slow {
    pub(crate) fn contains(&self, ticket: Ticket) -> bool {
        self.0.borrow().contains_key(&ticket)
    }

    /// `ticket` can take no more; `lane` waits for it. Tells whether that is news.
    pub(crate) fn insert(&self, ticket: Ticket, lane: Option<&Rc<Lane>>) -> bool {
        let mut slow = self.0.borrow_mut();
        let before = slow.len();
        let waiting = slow.entry(ticket).or_default();
        if let Some(lane) = lane
            && !waiting.lanes().any(|known| Rc::ptr_eq(known, lane))
        {
            lane.hold();
            match &waiting.first {
                None => waiting.first = Some(lane.clone()),
                Some(_) => waiting.others.push(lane.clone()),
            }
        }
        before < slow.len()
    }

    /// The call is over: nothing waits for it any more.
    pub(crate) fn forget(&self, ticket: Ticket) {
        let waiting = self.0.borrow_mut().remove(&ticket);
        for lane in waiting.iter().flat_map(Waiting::lanes) {
            lane.release();
            lane.wake.ring();
        }
    }

    /// The other end has taken what it was given: those who waited go on at once.
    pub(crate) fn go_on(&self, ticket: Ticket) {
        let waiting = self.0.borrow_mut().remove(&ticket);
        for lane in waiting.iter().flat_map(Waiting::lanes) {
            lane.release();
            lane.taken.ring();
            lane.wake.ring();
        }
    }

    pub(crate) fn clear(&self) {
        self.0.take().values().flat_map(Waiting::lanes).for_each(|lane| lane.release());
    }
}

impl Waiting {
    fn lanes(&self) -> impl Iterator<Item = &Rc<Lane>> {
        self.first.iter().chain(&self.others)
    }
}
