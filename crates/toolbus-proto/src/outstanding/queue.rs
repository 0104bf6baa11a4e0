//! Calls that wait for their turn: nothing of them has been written.
//!
//! Every wire that takes so many calls at a time and no more keeps the others here, each with
//! the instant at which it has waited long enough. When that is, is the wire's own rule.

use std::collections::VecDeque;
use std::time::Instant;

use crate::channel::{Ticket, Up};
use crate::tool::{Call, Failure, FailureKind};

/// What may be said behind one of them meanwhile.
const UPS_BYTES_MAX: usize = 16 << 20;

/// The calls of one conversation that wait for their turn, in order.
#[derive(Debug)]
pub struct WaitQueue {
    waiting: VecDeque<Waiting>,
    /// What all of them weigh.
    bytes: usize,
    count_max: usize,
    /// What they wait for, in words.
    what_for: &'static str,
    /// No call gives up earlier. May be too early: then none expires and it is set anew.
    earliest: Option<Instant>,
}

/// A call that waits.
#[derive(Debug)]
pub struct Waiting {
    /// Whose it is.
    pub ticket: Ticket,
    /// What is asked.
    pub call: Call,
    /// What was said behind it meanwhile.
    pub ups: Vec<Up>,
    ups_bytes: usize,
    give_up: Option<Instant>,
}

impl WaitQueue {
    /// At most `count_max` calls, which wait for `what_for`: "this server".
    pub fn new(count_max: usize, what_for: &'static str) -> WaitQueue {
        WaitQueue { waiting: VecDeque::new(), bytes: 0, count_max, what_for, earliest: None }
    }

    /// Does no call wait?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the calls and all that was said behind them weigh together.
    pub fn weight(&self) -> usize {
        self.bytes
    }

    /// The calls as they are asked, the oldest first.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.waiting.iter().map(|waiting| &waiting.call)
    }

    /// One more, which waits until `give_up` at most; or why it cannot.
    pub fn push(
        &mut self,
        ticket: Ticket,
        call: Call,
        give_up: Option<Instant>,
    ) -> Result<(), Failure> {
        if self.count_max <= self.waiting.len() {
            let WaitQueue { count_max, what_for, .. } = self;
            let message = format!("more than {count_max} calls wait for {what_for}");
            return Err(Failure::new(FailureKind::Unavailable, message));
        }
        self.earliest = earlier(self.earliest, give_up);
        self.bytes += call.weight();
        self.waiting.push_back(Waiting { ticket, call, ups: Vec::new(), ups_bytes: 0, give_up });
        Ok(())
    }

    /// Whose turn it is.
    pub fn pop(&mut self) -> Option<Waiting> {
        let next = self.waiting.pop_front();
        self.bytes -= next.as_ref().map_or(0, Waiting::weight);
        if self.waiting.is_empty() {
            self.earliest = None;
        }
        next
    }

    /// More of one that waits; gives why it waits no longer, if so.
    pub fn up(&mut self, ticket: Ticket, up: Up) -> Option<Failure> {
        let waiting = self.waiting.iter_mut().find(|waiting| waiting.ticket == ticket)?;
        let failure = match up {
            Up::Cancel(_) => Failure::cancelled(),
            up => {
                // Many empty ones must not be free.
                let bytes = up.weight() + size_of::<Up>();
                waiting.ups_bytes += bytes;
                self.bytes += bytes;
                waiting.ups.push(up);
                if waiting.ups_bytes <= UPS_BYTES_MAX {
                    return None;
                }
                let message = format!("more than {UPS_BYTES_MAX} bytes before its turn came");
                Failure::new(FailureKind::TooLarge, message)
            }
        };
        self.remove(ticket);
        Some(failure)
    }

    /// Takes one out whose caller no longer waits for its turn.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let at = self.waiting.iter().position(|waiting| waiting.ticket == ticket)?;
        let removed = self.waiting.remove(at);
        self.bytes -= removed.as_ref().map_or(0, Waiting::weight);
        removed
    }

    /// From now on other rules tell when a call has waited long enough: the peer is ready.
    pub fn reckon(&mut self, give_up: impl Fn(&Call) -> Option<Instant>) {
        for waiting in &mut self.waiting {
            waiting.give_up = give_up(&waiting.call);
        }
        self.find_earliest();
    }

    /// When the next of them may have waited long enough.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes out those that have waited long enough.
    pub fn expire(&mut self, now: Instant) -> VecDeque<Waiting> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return VecDeque::new();
        }
        self.take(|waiting| waiting.give_up.is_some_and(|at| at <= now))
    }

    /// Takes out those behind which nothing was said: who has gone on would have to begin anew.
    pub fn take_unfollowed(&mut self) -> VecDeque<Waiting> {
        self.take(|waiting| waiting.ups.is_empty())
    }

    /// Takes out those that ask for something that will not be done.
    pub fn take_asking(&mut self, mut which: impl FnMut(&Call) -> bool) -> VecDeque<Waiting> {
        self.take(|waiting| which(&waiting.call))
    }

    /// Takes out all.
    pub fn take_all(&mut self) -> VecDeque<Waiting> {
        self.earliest = None;
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    fn take(&mut self, which: impl FnMut(&Waiting) -> bool) -> VecDeque<Waiting> {
        let (taken, left) = self.take_all().into_iter().partition(which);
        self.waiting = left;
        self.bytes = self.waiting.iter().map(Waiting::weight).sum();
        self.find_earliest();
        taken
    }

    fn find_earliest(&mut self) {
        self.earliest = self.waiting.iter().filter_map(|waiting| waiting.give_up).min();
    }
}

impl Waiting {
    fn weight(&self) -> usize {
        self.call.weight() + self.ups_bytes
    }
}

/// The earlier of two instants that may not be there.
pub fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tool::What;

    const SECOND: Duration = Duration::from_secs(1);

    fn tickets(waiting: impl IntoIterator<Item = Waiting>) -> Vec<u64> {
        waiting.into_iter().map(|waiting| waiting.ticket.0).collect()
    }

    #[test]
    fn who_waits_too_long_leaves_the_queue_and_the_others_keep_their_places() {
        let now = Instant::now();
        let mut queue = WaitQueue::new(3, "this peer");
        for (ticket, give_up) in [(0, None), (1, Some(now + SECOND * 5)), (2, Some(now + SECOND))] {
            queue.push(Ticket(ticket), Call::of(now, What::Tools), give_up).unwrap();
        }
        let refused = queue.push(Ticket(3), Call::of(now, What::Tools), None).unwrap_err();
        assert_eq!(refused.message, "more than 3 calls wait for this peer");
        assert_eq!(queue.poll_timeout(), Some(now + SECOND));
        assert!(queue.expire(now).is_empty());
        assert_eq!(tickets(queue.expire(now + SECOND)), [2]);
        assert_eq!(queue.poll_timeout(), Some(now + SECOND * 5));
        queue.reckon(|_| Some(now + SECOND * 7));
        assert!(queue.expire(now + SECOND * 5).is_empty());
        assert_eq!(queue.pop().unwrap().ticket, Ticket(0));
        assert_eq!(tickets(queue.expire(now + SECOND * 7)), [1]);
        assert_eq!(queue.poll_timeout(), None);
    }

    #[test]
    fn what_waits_is_weighed_however_it_leaves() {
        let now = Instant::now();
        let mut queue = WaitQueue::new(9, "this peer");
        let args = || Some(crate::json::Json::from_trusted("[1234567]"));
        for ticket in 0..5 {
            let give_up = (ticket == 3).then_some(now);
            queue.push(Ticket(ticket), Call::tool(now, "t", args()), give_up).unwrap();
        }
        assert_eq!(queue.weight(), 5 * 9);
        queue.up(Ticket(4), Up::End(None));
        assert_eq!(queue.weight(), 5 * 9 + size_of::<Up>());
        queue.pop();
        queue.remove(Ticket(1));
        assert_eq!(queue.expire(now).len(), 1);
        assert_eq!(queue.weight(), 2 * 9 + size_of::<Up>());
        assert_eq!(queue.take_unfollowed().len(), 1);
        queue.up(Ticket(4), Up::Cancel(None));
        assert_eq!(queue.weight(), 0);
    }

    #[test]
    fn what_follows_a_call_waits_with_it_up_to_a_limit() {
        let now = Instant::now();
        let mut queue = WaitQueue::new(3, "this peer");
        for ticket in 0..3 {
            queue.push(Ticket(ticket), Call::of(now, What::Tools), None).unwrap();
        }
        assert_eq!(queue.up(Ticket(1), Up::End(None)), None);
        assert_eq!(tickets(queue.take_unfollowed()), [0, 2]);
        let kind = |failure: Option<Failure>| failure.map(|failure| failure.kind);
        assert_eq!(kind(queue.up(Ticket(1), Up::Cancel(None))), Some(FailureKind::Cancelled));
        assert_eq!(queue.up(Ticket(1), Up::Cancel(None)), None, "is no longer there");
        assert!(queue.is_empty());
    }
}
