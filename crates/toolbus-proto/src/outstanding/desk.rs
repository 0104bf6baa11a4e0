//! What every client keeps, whatever it speaks: is the peer ready, which calls wait for their
//! turn and until when, what is to be told of calls and of the conversation.

use std::collections::VecDeque;
use std::time::Instant;

use super::{WaitQueue, Waiting};
use crate::channel::{Down, Farewell, Fault, Notice, Readiness, Ticket};
use crate::tool::{Call, Deadline, Failure, Outcome};

/// The desk of one conversation. What its calls are answered with goes into `D`.
#[derive(Debug)]
pub struct Desk<D = VecDeque<(Ticket, Down)>> {
    /// Can calls go out?
    pub readiness: Readiness,
    /// Since when the quiet of calls counts: since the peer was ready for them.
    pub opened: Option<Instant>,
    /// The calls of which nothing has been written.
    pub queue: WaitQueue,
    /// What comes back, in order.
    pub downs: D,
    /// What is no answer.
    pub notices: VecDeque<Notice>,
}

/// Where answers wait for who asked.
pub trait Downs: Default {
    /// One more.
    fn put(&mut self, ticket: Ticket, down: Down);
}

impl Downs for VecDeque<(Ticket, Down)> {
    #[inline]
    fn put(&mut self, ticket: Ticket, down: Down) {
        self.push_back((ticket, down));
    }
}

impl<D: Downs> Desk<D> {
    /// The peer is not ready. At most `count_max` calls wait for `what_for`.
    pub fn new(count_max: usize, what_for: &'static str) -> Desk<D> {
        Desk {
            readiness: Readiness::Opening,
            opened: None,
            queue: WaitQueue::new(count_max, what_for),
            downs: D::default(),
            notices: VecDeque::new(),
        }
    }

    /// The same where the peer is ready from the start.
    pub fn ready(count_max: usize, what_for: &'static str) -> Desk<D> {
        Desk { readiness: Readiness::Open, ..Desk::new(count_max, what_for) }
    }

    /// Can calls go out?
    pub fn is_open(&self) -> bool {
        self.readiness == Readiness::Open
    }

    /// Is the conversation over?
    pub fn is_broken(&self) -> bool {
        matches!(self.readiness, Readiness::Broken(_))
    }

    /// The conversation cannot go on.
    pub fn break_off(&mut self, farewell: Farewell, failure: Failure) {
        self.readiness = Readiness::Broken(Fault { failure, farewell });
    }

    /// The call is over.
    #[inline]
    pub fn done(&mut self, ticket: Ticket, outcome: Result<Outcome, Failure>) {
        self.downs.put(ticket, Down::Done(outcome));
    }

    /// Something for the log.
    pub fn notice(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    /// When a call with these limits has waited long enough. The start has a patience of its own,
    /// which may be longer than a call's: until the peer is ready only the time in all counts.
    pub fn give_up(&self, limits: &Deadline) -> Option<Instant> {
        give_up(self.opened, limits)
    }

    /// A call waits for its turn; tells whether it does, or was refused.
    pub fn wait(&mut self, ticket: Ticket, call: Call, limits: &Deadline) -> bool {
        let give_up = self.give_up(limits);
        let refused = self.queue.push(ticket, call, give_up).err();
        let waits = refused.is_none();
        if let Some(failure) = refused {
            self.done(ticket, Err(failure));
        }
        waits
    }

    /// The peer is ready for calls: their quiet counts from now on.
    pub fn open(&mut self, now: Instant, limits: impl Fn(&Call) -> Deadline) {
        self.readiness = Readiness::Open;
        self.opened = Some(now);
        self.queue.reckon(|call| give_up(Some(now), &limits(call)));
    }

    /// Ends the calls that have waited for their turn long enough.
    pub fn expire(&mut self, now: Instant) {
        for Waiting { ticket, call, .. } in self.queue.expire(now) {
            self.done(ticket, Err(call.deadline.missed()));
        }
    }

    /// The calls that wait, for another conversation to take over.
    pub fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        self.queue.take_all().into_iter().map(|waiting| (waiting.ticket, waiting.call)).collect()
    }

    /// The peer is gone: ends the calls that wait.
    pub fn lost(&mut self, why: &Failure) {
        for Waiting { ticket, .. } in self.queue.take_all() {
            self.done(ticket, Err(why.clone()));
        }
    }
}

fn give_up(opened: Option<Instant>, limits: &Deadline) -> Option<Instant> {
    match opened {
        Some(opened) => limits.instant(opened.max(limits.asked)),
        None => limits.total.map(|total| limits.asked + total),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tool::{FailureKind, What};

    const SECOND: Duration = Duration::from_secs(1);

    fn told(desk: &mut Desk) -> Vec<(u64, FailureKind)> {
        let told = std::mem::take(&mut desk.downs).into_iter().map(|(ticket, down)| match down {
            Down::Done(Err(failure)) => (ticket.0, failure.kind),
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn until_the_peer_is_ready_only_the_time_in_all_counts() {
        let now = Instant::now();
        let mut desk = Desk::new(3, "this peer");
        let quiet = Deadline { asked: now, quiet: Some(SECOND), total: None };
        for (ticket, deadline) in
            [(0, quiet), (1, Deadline { total: Some(SECOND * 2), ..quiet }), (2, quiet)]
        {
            let call = Call { deadline, ..Call::of(now, What::Tools) };
            desk.wait(Ticket(ticket), call, &deadline);
        }
        desk.wait(Ticket(3), Call::of(now, What::Tools), &quiet);
        assert_eq!(told(&mut desk), [(3, FailureKind::Unavailable)]);
        desk.expire(now + SECOND);
        assert_eq!(told(&mut desk), []);
        desk.expire(now + SECOND * 2);
        assert_eq!(told(&mut desk), [(1, FailureKind::TimedOut)]);
        desk.open(now + SECOND * 3, |call| call.deadline);
        assert!(desk.is_open());
        desk.expire(now + SECOND * 3);
        assert_eq!(told(&mut desk), []);
        assert_eq!(desk.queue.pop().unwrap().ticket, Ticket(0));
        desk.expire(now + SECOND * 4);
        assert_eq!(told(&mut desk), [(2, FailureKind::TimedOut)]);
    }

    #[test]
    fn who_waits_is_handed_on_or_told() {
        let now = Instant::now();
        let mut desk: Desk = Desk::new(3, "this peer");
        let call = || Call::of(now, What::Tools);
        desk.wait(Ticket(0), call(), &Deadline::never(now));
        assert_eq!(desk.take_unsent().len(), 1);
        desk.wait(Ticket(1), call(), &Deadline::never(now));
        desk.break_off(Farewell::Abrupt, Failure::cancelled());
        assert!(desk.is_broken());
        desk.lost(&Failure::new(FailureKind::Gone, "gone"));
        assert_eq!(told(&mut desk), [(1, FailureKind::Gone)]);
    }
}
