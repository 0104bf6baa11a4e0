//! The requests that a back is busy with, by ticket and by id.

use std::collections::VecDeque;

use super::{InFlight, Job};
use crate::channel::Ticket;
use crate::counted::Counted;
use crate::jsonrpc::Id;

/// Every request that is under way.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// In the order of their tickets, which only rise. Most are answered in about the order in
    /// which they were asked, so that few have to move when one goes.
    in_order: VecDeque<(Ticket, Entry)>,
    ids: Counted<Id, Ticket>,
    /// What all of them have collected.
    weight: usize,
}

#[derive(Debug)]
struct Entry {
    call: Box<InFlight>,
    /// What is counted of it.
    weight: usize,
}

impl Calls {
    /// Adds the call behind the latest ticket.
    pub(super) fn push(&mut self, ticket: Ticket, call: Box<InFlight>) {
        debug_assert!(self.in_order.back().is_none_or(|(last, _)| *last < ticket));
        if call.is_named() {
            self.ids.insert(call.id.clone(), ticket);
        }
        let weight = call.weight();
        self.weight += weight;
        self.in_order.push_back((ticket, Entry { call, weight }));
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&InFlight> {
        let at = self.place(ticket)?;
        self.in_order.get(at).map(|(_, entry)| &*entry.call)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut InFlight> {
        let at = self.place(ticket)?;
        self.in_order.get_mut(at).map(|(_, entry)| &mut *entry.call)
    }

    /// The call may have collected more.
    pub(super) fn weigh(&mut self, ticket: Ticket) {
        let Some(at) = self.place(ticket) else { return };
        let Some((_, Entry { call, weight })) = self.in_order.get_mut(at) else { return };
        let before = std::mem::replace(weight, call.weight());
        self.weight = self.weight - before + *weight;
    }

    /// What the replies to all of them weigh that have come in part.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Box<InFlight>> {
        let at = self.place(ticket)?;
        let (_, Entry { call, weight }) = self.in_order.remove(at)?;
        self.weight -= weight;
        if call.is_named() {
            self.ids.remove(&call.id);
        }
        Some(call)
    }

    /// Takes out every call, oldest first.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        self.ids.clear();
        self.weight = 0;
        std::mem::take(&mut self.in_order).into_iter().map(|(ticket, _)| ticket)
    }

    /// The request that the client calls by this id.
    pub(super) fn named(&self, id: &Id) -> Option<Ticket> {
        self.ids.get(id).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &InFlight)> {
        self.in_order.iter().map(|(ticket, entry)| (*ticket, &*entry.call))
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
    /// What has been collected of its reply.
    fn weight(&self) -> usize {
        match &self.job {
            Job::CallTool { blocks, .. } | Job::LookUpOutput { blocks, .. } => blocks.weight(),
            _ => 0,
        }
    }

    /// What we say by the way has no id that a client could name.
    fn is_named(&self) -> bool {
        !matches!(self.job, Job::Aside)
    }
}
