//! The requests that a back is busy with, by ticket and by id.

use std::collections::{HashMap, VecDeque};

use super::{InFlight, Job};
use crate::channel::Ticket;
use crate::jsonrpc::Id;

/// Every request that is under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// In the order of their tickets, which only rise. Most are answered in about the order in
    /// which they were asked, so that few have to move when one goes.
    in_order: VecDeque<(Ticket, Box<InFlight>)>,
    ids: HashMap<Id, Ticket>,
}

impl Calls {
    /// Adds the call behind the latest ticket.
    pub(super) fn push(&mut self, ticket: Ticket, call: Box<InFlight>) {
        debug_assert!(self.in_order.back().is_none_or(|(last, _)| *last < ticket));
        if call.is_named() {
            self.ids.insert(call.id.clone(), ticket);
        }
        self.in_order.push_back((ticket, call));
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut InFlight> {
        let at = self.place(ticket)?;
        self.in_order.get_mut(at).map(|(_, call)| &mut **call)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Box<InFlight>> {
        let at = self.place(ticket)?;
        let (_, call) = self.in_order.remove(at)?;
        if call.is_named() {
            self.ids.remove(&call.id);
        }
        Some(call)
    }

    /// Takes out every call, oldest first.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        self.ids.clear();
        std::mem::take(&mut self.in_order).into_iter().map(|(ticket, _)| ticket)
    }

    /// The request that the client calls by this id.
    pub(super) fn named(&self, id: &Id) -> Option<Ticket> {
        self.ids.get(id).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &InFlight)> {
        self.in_order.iter().map(|(ticket, call)| (*ticket, &**call))
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        // The oldest is the one that is asked for most.
        if self.in_order.front().is_some_and(|(first, _)| *first == ticket) {
            return Some(0);
        }
        self.in_order.binary_search_by_key(&ticket, |(ticket, _)| *ticket).ok()
    }
}

impl InFlight {
    /// What we say by the way has no id that a client could name.
    fn is_named(&self) -> bool {
        !matches!(self.job, Job::Aside)
    }
}
