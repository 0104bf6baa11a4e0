//! Questions asked and not yet answered: ids given out, tickets waiting, deadlines.
//!
//! Every wire that answers by id keeps its calls here, so that matching, expiring and giving
//! up are written once. An id is never used again, so a late answer finds no call. Calls that
//! have not been asked yet wait in a [`WaitQueue`], which every client has at its [`Desk`].

mod desk;
mod queue;
mod silence;

use std::time::Instant;

use crate::channel::Ticket;
use crate::counted::Counted;
use crate::tool::Deadline;

pub use self::desk::{Desk, Downs};
pub use self::queue::{WaitQueue, Waiting, earlier};
pub use self::silence::{Silence, Since};

/// The questions of one conversation that still wait for their answer, and what is known of each.
#[derive(Debug)]
pub struct Outstanding<T = Asker> {
    next_id: u64,
    waiting: Counted<u64, Unanswered<T>>,
    /// No deadline is earlier. May be too early: then nothing expires and it is set anew.
    earliest: Option<Instant>,
    count_max: usize,
}

#[derive(Debug)]
struct Unanswered<T> {
    give_up: Option<Instant>,
    about: T,
}

/// Who waits for an answer, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    ticket: Ticket,
    deadline: Deadline,
}

impl<T> Outstanding<T> {
    /// Ids from `first_id` on, at most `count_max` questions at a time.
    pub fn new(first_id: u64, count_max: usize) -> Outstanding<T> {
        Outstanding { next_id: first_id, waiting: Counted::default(), earliest: None, count_max }
    }

    /// Is there room for one more question?
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.count_max
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Gives out the next id, whose answer is awaited until `give_up`.
    pub fn insert(&mut self, give_up: Option<Instant>, about: T) -> u64 {
        self.insert_with(give_up, |_| about)
    }

    /// The same, where the id belongs to what is known of it.
    pub fn insert_with(&mut self, give_up: Option<Instant>, about: impl FnOnce(u64) -> T) -> u64 {
        let id = self.give_out();
        self.waiting.insert(id, Unanswered { give_up, about: about(id) });
        self.lower_earliest(give_up);
        id
    }

    /// Gives out the next id, whose answer is awaited elsewhere.
    pub fn give_out(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// The answer to `id` is here, or it is given up.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let removed = self.waiting.remove(&id)?;
        if self.waiting.is_empty() {
            self.earliest = None;
        }
        Some(removed.about)
    }

    /// What is known of `id`, whose answer is yet to come.
    pub fn get(&self, id: u64) -> Option<&T> {
        self.waiting.get(&id).map(|waiting| &waiting.about)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        self.waiting.get_mut(&id).map(|waiting| &mut waiting.about)
    }

    /// What is known of each, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.waiting.iter().map(|(id, waiting)| (*id, &waiting.about))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.waiting.iter_mut().map(|(id, waiting)| (*id, &mut waiting.about))
    }

    /// Was `id` ever given out?
    pub fn was_asked(&self, id: u64) -> bool {
        id < self.next_id
    }

    /// `id` waits for our own side, not for the peer: it is not late until the peer has been
    /// heard of again.
    pub fn hold(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.give_up = None;
        }
    }

    /// The answer to `id` is awaited so long from now on.
    pub fn put_off(&mut self, id: u64, give_up: impl FnOnce(&T) -> Option<Instant>) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.give_up = give_up(&waiting.about);
            let give_up = waiting.give_up;
            self.lower_earliest(give_up);
        }
    }

    /// When the next question may have waited long enough.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// The oldest question that has waited long enough.
    pub fn late(&mut self, now: Instant) -> Option<u64> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return None;
        }
        self.find_earliest();
        self.waiting.iter().filter(|(_, waiting)| waiting.is_late(now)).map(|(id, _)| *id).min()
    }

    /// Takes out those of which `which` says so, oldest first.
    pub fn take_if(&mut self, which: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        self.extract(|waiting| which(&waiting.about))
    }

    /// Takes out those that have waited long enough, oldest first.
    pub fn take_late(&mut self, now: Instant) -> Vec<(u64, T)> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        self.extract(|waiting| waiting.is_late(now))
    }

    fn extract(&mut self, which: impl Fn(&Unanswered<T>) -> bool) -> Vec<(u64, T)> {
        let taken = self.waiting.extract_if(|_, waiting| which(waiting));
        let mut taken: Vec<_> = taken.map(|(id, waiting)| (id, waiting.about)).collect();
        taken.sort_unstable_by_key(|(id, _)| *id);
        self.find_earliest();
        taken
    }

    fn find_earliest(&mut self) {
        self.earliest = self.waiting.values().filter_map(|waiting| waiting.give_up).min();
    }

    fn lower_earliest(&mut self, give_up: Option<Instant>) {
        self.earliest = earlier(self.earliest, give_up);
    }
}

impl Outstanding {
    /// Gives out the next id; the answer to it belongs to `ticket`.
    pub fn ask(&mut self, ticket: Ticket, deadline: Deadline) -> u64 {
        self.insert(deadline.instant(deadline.asked), Asker { ticket, deadline })
    }

    /// The answer to `id` is here, or it is given up: who waited for it?
    pub fn take(&mut self, id: u64) -> Option<Ticket> {
        self.remove(id).map(|asker| asker.ticket)
    }

    /// Who waits for the answer to `id`, which is yet to come?
    pub fn ticket(&self, id: u64) -> Option<Ticket> {
        self.get(id).map(|asker| asker.ticket)
    }

    /// The id of the question behind `ticket`. Looks through all: for what is rare.
    pub fn id(&self, ticket: Ticket) -> Option<u64> {
        let found = self.waiting.iter().find(|(_, waiting)| waiting.about.ticket == ticket);
        found.map(|(id, _)| *id)
    }

    /// A sign of life for `id`: its quiet begins anew.
    pub fn heard(&mut self, now: Instant, id: u64) {
        self.put_off(id, |asker| asker.deadline.instant(now));
    }

    /// Takes out the tickets that have waited long enough, oldest first.
    pub fn expire(&mut self, now: Instant) -> Vec<(u64, Ticket)> {
        self.take_late(now).into_iter().map(|(id, asker)| (id, asker.ticket)).collect()
    }

    /// Takes out every ticket, oldest first: no answer will come any more.
    pub fn take_all(&mut self) -> Vec<Ticket> {
        self.take_if(|_| true).into_iter().map(|(_, asker)| asker.ticket).collect()
    }
}

impl<T> Unanswered<T> {
    fn is_late(&self, now: Instant) -> bool {
        self.give_up.is_some_and(|give_up| give_up <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quiet(asked: Instant, seconds: u32) -> Deadline {
        Deadline { asked, quiet: Some(SECOND * seconds), total: None }
    }

    #[test]
    fn an_answer_meets_its_question_once() {
        let now = Instant::now();
        let mut outstanding: Outstanding = Outstanding::new(1, 2);
        let first = outstanding.ask(Ticket(7), Deadline::never(now));
        let second = outstanding.ask(Ticket(8), Deadline::never(now));
        assert_eq!((first, second), (1, 2));
        assert!(!outstanding.has_room());
        assert_eq!(outstanding.id(Ticket(8)), Some(2));
        assert_eq!(outstanding.take(2), Some(Ticket(8)));
        assert_eq!(outstanding.take(2), None);
        assert_eq!(outstanding.poll_timeout(), None);
        assert_eq!(outstanding.take_all(), [Ticket(7)]);
        assert_eq!(outstanding.ask(Ticket(9), Deadline::never(now)), 3);
    }

    #[test]
    fn what_waits_too_long_is_let_go_and_a_sign_of_life_helps() {
        let now = Instant::now();
        let mut outstanding = Outstanding::new(0, 8);
        let first = outstanding.ask(Ticket(0), quiet(now, 5));
        let second = outstanding.ask(Ticket(1), quiet(now, 5));
        let bounded = Deadline { total: Some(SECOND * 7), ..quiet(now, 5) };
        let third = outstanding.ask(Ticket(2), bounded);
        outstanding.heard(now + SECOND * 4, second);
        outstanding.heard(now + SECOND * 4, third);
        assert_eq!(outstanding.poll_timeout(), Some(now + SECOND * 5));
        assert_eq!(outstanding.expire(now + SECOND * 4), []);
        assert_eq!(outstanding.expire(now + SECOND * 5), [(first, Ticket(0))]);
        assert_eq!(outstanding.poll_timeout(), Some(now + SECOND * 7));
        assert_eq!(outstanding.expire(now + SECOND * 7), [(third, Ticket(2))]);
        assert_eq!(outstanding.expire(now + SECOND * 9), [(second, Ticket(1))]);
        assert_eq!(outstanding.poll_timeout(), None);
    }

    #[test]
    fn what_is_held_is_not_late_until_it_is_heard_of() {
        let now = Instant::now();
        let mut outstanding = Outstanding::new(0, 8);
        let held = outstanding.ask(Ticket(0), quiet(now, 5));
        outstanding.hold(held);
        assert_eq!(outstanding.expire(now + SECOND * 60), []);
        assert_eq!(outstanding.poll_timeout(), None);
        outstanding.heard(now + SECOND * 60, held);
        assert_eq!(outstanding.poll_timeout(), Some(now + SECOND * 65));
        assert_eq!(outstanding.expire(now + SECOND * 65), [(held, Ticket(0))]);
    }

    #[test]
    fn what_is_late_is_told_one_by_one() {
        let now = Instant::now();
        let mut outstanding = Outstanding::new(1, 9);
        for (about, give_up) in [('a', None), ('b', Some(2)), ('c', Some(1)), ('d', Some(5))] {
            outstanding.insert(give_up.map(|seconds| now + SECOND * seconds), about);
        }
        assert_eq!(outstanding.late(now), None);
        assert_eq!(outstanding.late(now + SECOND * 2), Some(2));
        assert_eq!(outstanding.remove(2), Some('b'));
        assert_eq!(outstanding.late(now + SECOND * 2), Some(3));
        assert_eq!(outstanding.take_if(|about| *about != 'a'), [(3, 'c'), (4, 'd')]);
        assert_eq!((outstanding.poll_timeout(), outstanding.count()), (None, 1));
    }
}
