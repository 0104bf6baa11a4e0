//! What a front or a router knows of the calls that pass through it: those that it has made, and
//! where the answers to those who asked go.

use std::cell::{Ref, RefCell, RefMut};
use std::hash::Hash;
use std::rc::Rc;

use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::counted::Counted;

use super::{ByTicket, Pressure, ReplyTo, RunningCall};

/// The calls that one asker has under way, by its own tickets, each with what the asker keeps
/// about it. Nothing stays borrowed while a call is started, goes on or ends: who is told
/// something may answer at once.
#[derive(Default)]
pub struct RunningCalls<T = ()>(RefCell<ByTicket<Place<T>>>);

struct Place<T> {
    /// `None` while it is being started.
    call: Option<Rc<RunningCall>>,
    about: T,
}

impl<T> RunningCalls<T> {
    /// Makes a call by `start`. It may be answered before it has been started.
    #[inline]
    pub fn start(&self, ticket: Ticket, about: T, start: impl FnOnce() -> RunningCall) {
        self.0.borrow_mut().insert(ticket, Place { call: None, about });
        let running = start();
        match self.0.borrow_mut().get_mut(&ticket) {
            Some(place) => place.call = Some(Rc::new(running)),
            // It has ended already, and then there is nothing to cancel.
            None => running.forget(),
        }
    }

    /// The way to a call that has been started.
    #[inline]
    pub fn get(&self, ticket: Ticket) -> Option<Rc<RunningCall>> {
        self.0.borrow().get(&ticket)?.call.clone()
    }

    /// What is kept about a call; `None` if it has ended.
    #[inline]
    pub fn about(&self, ticket: Ticket) -> Option<Ref<'_, T>> {
        Ref::filter_map(self.0.borrow(), |calls| Some(&calls.get(&ticket)?.about)).ok()
    }

    /// The same, to be changed.
    #[inline]
    pub fn about_mut(&self, ticket: Ticket) -> Option<RefMut<'_, T>> {
        let calls = self.0.borrow_mut();
        RefMut::filter_map(calls, |calls| Some(&mut calls.get_mut(&ticket)?.about)).ok()
    }

    /// Whether no call is under way.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// More of a call, or its cancellation.
    pub fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        match up {
            Up::Cancel(why) => {
                if let Some((Some(running), _)) = self.take(ticket) {
                    running.cancel(why);
                }
                Pressure::Ready
            }
            up => self.get(ticket).map_or(Pressure::Ready, |running| running.send(up)),
        }
    }

    /// The asker takes more again.
    pub fn resume(&self, ticket: Ticket) {
        if let Some(running) = self.get(ticket) {
            running.resume();
        }
    }

    /// The call has been answered: there is nothing left to cancel.
    pub fn end(&self, ticket: Ticket) {
        if let Some((Some(running), _)) = self.take(ticket) {
            running.forget();
        }
    }

    /// Takes a call out. Dropping it cancels it.
    #[inline]
    pub fn take(&self, ticket: Ticket) -> Option<(Option<RunningCall>, T)> {
        let Place { call, about } = self.0.borrow_mut().remove(&ticket)?;
        Some((call.and_then(Rc::into_inner), about))
    }

    /// Cancels all of them; `leave` is told which.
    pub fn cancel_all(&self, mut leave: impl FnMut(Ticket, &T)) {
        let calls = self.0.take();
        calls.iter().for_each(|(ticket, place)| leave(*ticket, &place.about));
    }
}

/// The next of an answer, for the one of the askers who waits for it; nothing comes after its end.
pub fn answer<K: Eq + Hash>(
    askers: &RefCell<Counted<K, ReplyTo>>,
    asker: &K,
    down: Down,
) -> Pressure {
    let reply = match down {
        Down::Done(_) => askers.borrow_mut().remove(asker),
        _ => askers.borrow().get(asker).cloned(),
    };
    reply.map_or(Pressure::Ready, |reply| reply.send(down))
}

#[cfg(test)]
mod tests {
    use toolbus_proto::tool::{Outcome, Part};

    use super::super::{Answerer, Inbox};
    use super::*;

    /// Counts what it is told to stop, and what goes on.
    #[derive(Default)]
    struct Peer {
        told: RefCell<Vec<String>>,
    }

    impl Answerer for Peer {
        fn send(&self, ticket: Ticket, up: Up) -> Pressure {
            let up = if let Up::Cancel(_) = up { "cancel" } else { "more" };
            self.told.borrow_mut().push(format!("{up} {}", ticket.0));
            Pressure::Ready
        }

        fn resume(&self, ticket: Ticket) {
            self.told.borrow_mut().push(format!("resume {}", ticket.0));
        }
    }

    fn calls() -> (Rc<Peer>, RunningCalls) {
        let (peer, calls) = (Rc::new(Peer::default()), RunningCalls::default());
        for ticket in [1, 2, 3].map(Ticket) {
            calls.start(ticket, (), || RunningCall::new(peer.clone(), ticket));
        }
        (peer, calls)
    }

    fn more() -> Up {
        Up::Part(Part::Text("more".to_owned()))
    }

    #[test]
    fn a_call_may_end_before_it_has_been_started() {
        let (peer, calls) = (Rc::new(Peer::default()), RunningCalls::default());
        calls.start(Ticket(1), (), || {
            calls.end(Ticket(1));
            RunningCall::new(peer.clone(), Ticket(1))
        });
        assert!(calls.is_empty() && peer.told.borrow().is_empty());
    }

    #[test]
    fn a_call_goes_on_until_it_ends_or_is_cancelled() {
        let (peer, calls) = calls();
        calls.end(Ticket(1));
        for ticket in [1, 2].map(Ticket) {
            let _ = calls.send(ticket, more());
            calls.resume(ticket);
            let _ = calls.send(ticket, Up::Cancel(None));
            let _ = calls.send(ticket, more());
        }
        let mut left = Vec::new();
        calls.cancel_all(|ticket, ()| left.push(ticket));
        assert_eq!(left, [Ticket(3)]);
        assert_eq!(*peer.told.borrow(), ["more 2", "resume 2", "cancel 2", "cancel 3"]);
    }

    #[tokio::test]
    async fn an_answer_goes_to_who_asked_until_its_end() {
        let (inbox, reply) = Inbox::new();
        let askers = RefCell::new(Counted::from_iter([(Ticket(7), reply)]));
        for text in ["one", "two"] {
            let done = Down::Done(Ok(Outcome::Text(text.to_owned())));
            let _ = answer(&askers, &Ticket(7), done);
        }
        let outcome = inbox.whole(RunningCall::ended()).await;
        assert_eq!(outcome, Ok(Outcome::Text("one".to_owned())));
    }
}
