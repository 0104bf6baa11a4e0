//! The requests that wait for their answers, by their ids: who asked, until when, and what is to
//! become of each answer.

use std::time::Instant;

use super::Sent;
use crate::channel::Ticket;
use crate::outstanding::Outstanding;

/// All that a server was asked and has not answered. Of a ticket there is one at most.
#[derive(Debug)]
pub(super) struct Requests(Outstanding<Sent>);

impl Requests {
    /// At most `count_max` at a time.
    pub(super) fn new(count_max: usize) -> Requests {
        Requests(Outstanding::new(1, count_max))
    }

    pub(super) fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// An id for a request whose answer is awaited elsewhere.
    pub(super) fn give_out(&mut self) -> u64 {
        self.0.give_out()
    }

    /// Gives a request its id. Its quiet counts from `from`.
    pub(super) fn ask(&mut self, from: Instant, sent: Sent) -> u64 {
        let give_up = sent.deadline.instant(from);
        self.0.insert_with(give_up, |id| Sent { id, ..sent })
    }

    /// Was a request ever known by this id?
    pub(super) fn was_asked(&self, id: u64) -> bool {
        self.0.was_asked(id)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Sent> {
        self.0.get(id)
    }

    /// Whose request that is.
    pub(super) fn ticket(&self, id: u64) -> Option<Ticket> {
        self.get(id).map(|sent| sent.ticket)
    }

    /// The answer is here, or it is given up.
    pub(super) fn take(&mut self, id: u64) -> Option<Sent> {
        self.0.remove(id)
    }

    /// The same for the request of this ticket.
    pub(super) fn take_of(&mut self, ticket: Ticket) -> Option<Sent> {
        let id = self.of(ticket)?.id;
        self.0.remove(id)
    }

    /// The request of this ticket. Looks through all: answers are found by their ids.
    pub(super) fn of(&self, ticket: Ticket) -> Option<&Sent> {
        self.iter().find(|sent| sent.ticket == ticket)
    }

    pub(super) fn of_mut(&mut self, ticket: Ticket) -> Option<&mut Sent> {
        let id = self.of(ticket)?.id;
        self.0.get_mut(id)
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.0.iter().map(|(_, sent)| sent)
    }

    /// A sign of life for `id`: its quiet begins anew.
    pub(super) fn heard(&mut self, now: Instant, id: u64) {
        self.0.put_off(id, |sent| sent.deadline.instant(now));
    }

    /// `id` waits for our own side: it is not late until the server has been heard of again.
    pub(super) fn hold(&mut self, id: u64) {
        self.0.hold(id);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    /// Takes out those that have waited long enough, oldest first.
    pub(super) fn take_late(&mut self, now: Instant) -> impl Iterator<Item = Sent> + use<> {
        self.0.take_late(now).into_iter().map(|(_, sent)| sent)
    }

    /// Takes out all, oldest first: no answer will come any more.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Sent> + use<> {
        self.0.take_if(|_| true).into_iter().map(|(_, sent)| sent)
    }
}
