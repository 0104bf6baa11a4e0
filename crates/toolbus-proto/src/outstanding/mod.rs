//! Questions asked and not yet answered: ids given out, tickets waiting, deadlines.
//!
//! Every wire that answers by id keeps its calls here, so that matching, expiring and giving
//! up are written once. An id is never used again, so a late answer finds no call. Calls that
//! have not been asked yet wait in a [`WaitQueue`], which every client has at its [`Desk`].

mod desk;
mod queue;
mod silence;

use std::time::Instant;

use self::queue::earlier;
use crate::channel::Ticket;
use crate::counted::Counted;
use crate::tool::Deadline;

pub use self::desk::{Desk, Downs};
pub use self::queue::{WaitQueue, Waiting};
pub use self::silence::{Silence, Since};

/// The questions of one conversation that still wait for their answer.
#[derive(Debug)]
pub struct Outstanding {
    next_id: u64,
    waiting: Counted<u64, Unanswered>,
    /// No deadline is earlier. May be too early: then nothing expires and it is set anew.
    earliest: Option<Instant>,
    count_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Unanswered {
    ticket: Ticket,
    deadline: Deadline,
    give_up: Option<Instant>,
}

impl Outstanding {
    /// Ids from `first_id` on, at most `count_max` questions at a time.
    pub fn new(first_id: u64, count_max: usize) -> Outstanding {
        Outstanding { next_id: first_id, waiting: Counted::default(), earliest: None, count_max }
    }

    /// Is there room for one more question?
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.count_max
    }

    /// Gives out the next id; the answer to it belongs to `ticket`.
    pub fn ask(&mut self, ticket: Ticket, deadline: Deadline) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let give_up = deadline.instant(deadline.asked);
        self.waiting.insert(id, Unanswered { ticket, deadline, give_up });
        self.lower_earliest(give_up);
        id
    }

    /// The answer to `id` is here, or it is given up: who waited for it?
    pub fn take(&mut self, id: u64) -> Option<Ticket> {
        self.waiting.remove(&id).map(|waiting| waiting.ticket)
    }

    /// Was `id` ever given out?
    pub fn was_asked(&self, id: u64) -> bool {
        id < self.next_id
    }

    /// Who waits for the answer to `id`, which is yet to come?
    pub fn ticket(&self, id: u64) -> Option<Ticket> {
        self.waiting.get(&id).map(|waiting| waiting.ticket)
    }

    /// The id of the question behind `ticket`. Looks through all: for what is rare.
    pub fn id(&self, ticket: Ticket) -> Option<u64> {
        let found = self.waiting.iter().find(|(_, waiting)| waiting.ticket == ticket);
        found.map(|(id, _)| *id)
    }

    /// A sign of life for `id`: its quiet begins anew.
    pub fn heard(&mut self, now: Instant, id: u64) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.give_up = waiting.deadline.instant(now);
            let give_up = waiting.give_up;
            self.lower_earliest(give_up);
        }
    }

    /// `id` waits for our own side, not for the peer: it is not late until the peer has been
    /// heard of again.
    pub fn hold(&mut self, id: u64) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.give_up = None;
        }
    }

    /// The question `id` belongs to another ticket from now on, and has other limits.
    pub fn hand_over(&mut self, id: u64, ticket: Ticket, deadline: Deadline) {
        if let Some(waiting) = self.waiting.get_mut(&id) {
            (waiting.ticket, waiting.deadline) = (ticket, deadline);
        }
    }

    /// When the next question may have waited long enough.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes out the tickets that have waited long enough, oldest first.
    pub fn expire(&mut self, now: Instant) -> Vec<(u64, Ticket)> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let is_over = |waiting: &Unanswered| waiting.give_up.is_some_and(|give_up| give_up <= now);
        let over = self.waiting.extract_if(|_, waiting| is_over(waiting));
        let mut over: Vec<_> = over.map(|(id, waiting)| (id, waiting.ticket)).collect();
        over.sort_unstable();
        self.earliest = self.waiting.values().filter_map(|waiting| waiting.give_up).min();
        over
    }

    /// Takes out every ticket, oldest first: no answer will come any more.
    pub fn take_all(&mut self) -> Vec<Ticket> {
        let mut all: Vec<_> = self.waiting.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        self.earliest = None;
        all.into_iter().map(|(_, waiting)| waiting.ticket).collect()
    }

    fn lower_earliest(&mut self, give_up: Option<Instant>) {
        self.earliest = earlier(self.earliest, give_up);
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
        let mut outstanding = Outstanding::new(1, 2);
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
}
