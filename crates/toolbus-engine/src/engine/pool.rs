//! What carries one call at a time, kept for the next: connections, or a process a call.
//!
//! A call that finds none free has one made, up to a limit; then it waits in line, within its
//! deadline. It is tried anew only as long as nothing of it has been said.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::calls::{ReplyTo, RunningCall};
use super::relay::Relay;
use super::waiting::WaitingCalls;
use crate::task::boxed;

/// How many are kept, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many there are at most.
    pub kept_max: usize,
    /// How many calls may wait for one of them.
    pub waiting_max: usize,
    /// How long one is kept for the next call.
    pub idle: Duration,
    /// How long calls under way have when all is to be closed.
    pub stop: Duration,
}

/// Makes what a pool keeps.
pub trait Supply: 'static {
    /// What carries one call at a time.
    type Carrier;

    /// Makes one, within that time.
    fn make(&self, until: Option<Instant>) -> impl Future<Output = Result<Self::Carrier, Failure>>;
    /// Asks.
    fn start(&self, carrier: &Self::Carrier, call: Call, down: ReplyTo) -> RunningCall;
    /// Waits until the call is over, and tells whether another may follow.
    fn freed(&self, carrier: &Self::Carrier) -> impl Future<Output = bool>;
    /// Waits until no call can follow, though none is under way.
    fn over(&self, carrier: &Self::Carrier) -> impl Future<Output = ()>;
    /// Can a call follow? Looked at right before.
    fn is_good(&self, carrier: &Self::Carrier) -> bool;
}

/// The carriers to one peer.
pub struct Pool<S: Supply> {
    this: Weak<Pool<S>>,
    /// What the log calls the peer.
    name: String,
    supply: S,
    limits: Limits,
    /// Those in line, and those for whom a carrier is made.
    in_line: Rc<WaitingCalls>,
    waiting: RefCell<VecDeque<Rc<Relay>>>,
    /// Told when a call is put in line and a carrier is free for it.
    asked: Notify,
    /// Carriers without a call.
    free: Cell<usize>,
    workers: RefCell<JoinSet<()>>,
    is_closed: Cell<bool>,
}

impl<S: Supply> Pool<S> {
    /// Makes nothing yet. Must be called inside a `LocalSet`.
    pub fn new(name: String, limits: Limits, supply: S) -> Rc<Pool<S>> {
        Rc::new_cyclic(|this| Pool {
            this: this.clone(),
            in_line: WaitingCalls::new(format!("`{name}`")),
            name,
            supply,
            limits,
            waiting: RefCell::default(),
            asked: Notify::new(),
            free: Cell::new(0),
            workers: RefCell::default(),
            is_closed: Cell::new(false),
        })
    }

    /// Starts a call, on a peer that is free or on one more.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let relay = self.in_line.relay(call, down);
        let running_call = relay.running_call();
        if !relay.is_waiting() {
            return running_call;
        }
        let Limits { kept_max, waiting_max, .. } = self.limits;
        if self.is_closed.get() {
            let message = format!("`{}` is being left", self.name);
            relay.finish(Err(Failure::new(FailureKind::Cancelled, message)));
            return running_call;
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting_max <= waiting.len() {
            waiting.retain(|relay| relay.is_waiting());
        }
        if waiting_max <= waiting.len() {
            drop(waiting);
            let message = format!("more than {waiting_max} calls wait for `{}`", self.name);
            relay.finish(Err(Failure::new(FailureKind::Unavailable, message)));
            return running_call;
        }
        let mut workers = self.workers.borrow_mut();
        while workers.try_join_next().is_some() {}
        if waiting.len() < self.free.get() {
            waiting.push_back(relay);
            self.asked.notify_one();
        } else if workers.len() < kept_max {
            // Whatever making a carrier takes, one step after the other.
            relay.set_alarm();
            workers.spawn_local(boxed(work(self.this.clone(), relay)));
        } else {
            relay.set_alarm();
            waiting.push_back(relay);
        }
        running_call
    }

    /// Closes all carriers and waits until they are closed. A call that is under way for
    /// longer than that may take is ended.
    pub async fn shutdown(&self) {
        let mut workers = self.close();
        self.asked.notify_waiters();
        let all = async { while workers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(self.limits.stop, all).await;
        workers.shutdown().await;
    }

    /// Ends the calls in line; dropping what it gives ends those under way.
    pub fn close(&self) -> JoinSet<()> {
        self.is_closed.set(true);
        let waiting = self.waiting.take();
        for relay in waiting {
            let message = format!("`{}` was let go", self.name);
            relay.finish(Err(Failure::new(FailureKind::Cancelled, message)));
        }
        self.workers.take()
    }

    /// The next in line who still waits.
    fn next_waiting(&self) -> Option<Rc<Relay>> {
        loop {
            let relay = self.waiting.borrow_mut().pop_front()?;
            if relay.is_waiting() {
                return Some(relay);
            }
        }
    }

    /// Waits for a call to put on a carrier that is free; not longer than it is worth while.
    async fn next_asked(&self, carrier: &S::Carrier) -> Option<Rc<Relay>> {
        if self.is_closed.get() {
            return None;
        }
        let _free = Free::new(&self.free);
        let mut idle = pin!(tokio::time::sleep(self.limits.idle));
        loop {
            let is_asked = tokio::select! {
                biased;
                () = self.asked.notified() => true,
                () = self.supply.over(carrier) => false,
                () = &mut idle => false,
            };
            // Another carrier may have been faster.
            let relay = self.next_waiting();
            if relay.is_some() || !is_asked || self.is_closed.get() {
                return relay;
            }
        }
    }

    /// Leads calls over one carrier until it is over, or no call needs it; gives the call that
    /// needs another.
    async fn lead(&self, carrier: &S::Carrier, first: Rc<Relay>) -> Option<Rc<Relay>> {
        let begin = |relay: Rc<Relay>| {
            relay.begin(|call, down| self.supply.start(carrier, call, down));
        };
        begin(first);
        loop {
            let is_free = self.supply.freed(carrier).await;
            let relay = match self.next_waiting() {
                None if is_free => self.next_asked(carrier).await?,
                None => return None,
                Some(relay) => relay,
            };
            if !is_free || !self.supply.is_good(carrier) {
                return Some(relay);
            }
            begin(relay);
        }
    }
}

/// Leads calls over one carrier after another, as long as there are any.
async fn work<S: Supply>(pool: Weak<Pool<S>>, first: Rc<Relay>) {
    let Some(pool) = pool.upgrade() else { return };
    let mut next = Some(first);
    while let Some(relay) = next.take() {
        match pool.supply.make(relay.give_up_at()).await {
            Ok(carrier) => next = pool.lead(&carrier, relay).await,
            Err(failure) => {
                relay.fail(failure);
                next = pool.next_waiting();
            }
        }
    }
}

/// A carrier is counted as free as long as this lives.
struct Free<'a>(&'a Cell<usize>);

impl Free<'_> {
    fn new(count: &Cell<usize>) -> Free<'_> {
        count.set(count.get() + 1);
        Free(count)
    }
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
