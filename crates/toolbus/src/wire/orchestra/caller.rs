//! One peer that is called: its connection is kept, made again when it is lost, and a further one
//! beside it when the peer has lost count of our streams.
//!
//! When to dial is decided by [`Redial`]; here that is done, and calls are carried. Those of which
//! nothing was sent move to the further connection; one that was under way on a lost connection is
//! never repeated.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::task::AbortHandle;
use toolbus_proto::orchestra::ClientSettings;
use toolbus_proto::orchestra::redial::{Again, Redial};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::link::Link;
use crate::bus::back::LocalFuture;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::drive::until;
use crate::engine::relay::Relay;
use crate::engine::waiting::WaitingCalls;
use crate::task::spawn_local;
use crate::transport::quic::Connection;

/// The way to a peer, and who is told what becomes of it.
pub trait Reach: 'static {
    /// Connects to it; starts it first, where that is ours to do.
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>>;

    /// Waits until it is known to be gone, though its connection may not tell for long.
    fn gone(&self) -> LocalFuture<'_, Failure> {
        Box::pin(std::future::pending())
    }

    /// It is connected. A further connection is beside one that is still in use.
    fn connected(&self, _is_further: bool) {}

    /// It was not reached; `peer` is what the log calls it.
    fn failed(&self, _peer: &str, _why: &Failure, _is_further: bool) {}

    /// Its connection is lost, and the calls on it have failed.
    fn lost(&self, peer: &str, why: &Failure) {
        tracing::info!(peer, "lost connection: {}", why.message);
    }
}

/// One peer that is called. Dropping it closes its connections and ends its calls.
pub(crate) struct Caller {
    this: Weak<Caller>,
    name: String,
    settings: ClientSettings,
    reach: Rc<dyn Reach>,
    redial: RefCell<Redial>,
    /// The last one is used if there is one to use; the others wait for their last answers.
    links: RefCell<Vec<Kept>>,
    /// Calls for which a connection is being made.
    waiting: RefCell<Vec<Rc<Relay>>>,
    /// The same, as they are counted.
    dialled_for: Rc<WaitingCalls>,
    dialling: RefCell<Option<Task>>,
}

/// A connection, and who looks after it.
struct Kept {
    link: Rc<Link>,
    keeper: Task,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.link.connection().close();
    }
}

/// Ends with who keeps it.
struct Task(AbortHandle);

impl Task {
    fn spawn(task: impl Future<Output = ()> + 'static) -> Task {
        Task(spawn_local(task).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Caller {
    /// Connects to nobody yet; `name` is what the log calls the peer.
    pub(crate) fn new(
        name: &str,
        settings: ClientSettings,
        again: Again,
        reach: Rc<dyn Reach>,
    ) -> Rc<Caller> {
        Rc::new_cyclic(|this| Caller {
            this: this.clone(),
            name: name.to_owned(),
            settings,
            reach,
            redial: RefCell::new(Redial::new(again)),
            links: RefCell::default(),
            waiting: RefCell::default(),
            dialled_for: WaitingCalls::new(format!("`{name}`")),
            dialling: RefCell::default(),
        })
    }

    /// Asks, at once or as soon as there is a connection. Must be called inside a `LocalSet`.
    pub(crate) fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        if let Some(link) = self.link() {
            if link.takes_calls() {
                self.want();
                return link.start(call, reply);
            }
            // Who looks after it has not had its turn yet.
            self.redial.borrow_mut().handle_lost(Instant::now());
        }
        let relay = self.dialled_for.relay(call, reply);
        let running = relay.running_call();
        if !relay.is_waiting() {
            return running;
        }
        if self.redial.borrow().is_over() {
            relay.finish(Err(self.is_left()));
        } else {
            relay.set_alarm();
            self.waiting.borrow_mut().push(relay);
            self.want();
        }
        running
    }

    /// The connection that is used, for those who do not wait for one.
    pub(super) fn link(&self) -> Option<Rc<Link>> {
        let links = self.links.borrow();
        links.last().filter(|_| self.redial.borrow().is_up()).map(|kept| kept.link.clone())
    }

    /// Connects, if it is not connected. Must be called inside a `LocalSet`.
    pub(super) fn want(&self) {
        if self.redial.borrow_mut().want() {
            self.dial();
        }
    }

    /// Dials no more.
    pub(super) fn rest(&self) {
        self.redial.borrow_mut().close();
        self.dialling.take();
    }

    /// Takes no more calls, and says goodbye.
    pub(crate) async fn shutdown(&self) {
        self.rest();
        let links = self.links.take();
        for Kept { link, .. } in &links {
            link.connection().say_goodbye().await;
        }
        self.close();
    }

    /// Takes no more calls, and ends those under way.
    pub(crate) fn close(&self) {
        self.rest();
        // Nothing is borrowed while calls end.
        let links = self.links.take();
        drop(links);
        let waiting = self.waiting.take();
        waiting.iter().for_each(|relay| relay.finish(Err(self.is_left())));
    }

    fn is_left(&self) -> Failure {
        Failure::new(FailureKind::Cancelled, format!("`{}` is being left", self.name))
    }

    fn dial(&self) {
        let (this, reach) = (self.this.clone(), self.reach.clone());
        let dialling = Task::spawn(async move {
            let reached = reach.reach().await;
            if let Some(this) = this.upgrade() {
                this.dialled(reached);
            }
        });
        self.dialling.replace(Some(dialling));
    }

    fn dialled(&self, reached: Result<Connection, Failure>) {
        let before = self.link();
        let is_further = before.is_some();
        let connection = match reached {
            Ok(connection) => connection,
            Err(why) => {
                self.redial.borrow_mut().handle_failed(Instant::now());
                let waiting = self.waiting.take();
                waiting.iter().for_each(|relay| relay.finish(Err(why.clone())));
                self.reach.failed(&self.name, &why, is_further);
                return self.dial_in_time();
            }
        };
        self.redial.borrow_mut().handle_dialled();
        let link = Rc::new(Link::new(&self.name, connection, self.settings.clone()));
        if let Some(before) = before {
            let leaving = leave(self.this.clone(), before.clone(), link.clone());
            self.keep(before, leaving);
        }
        self.keep(link.clone(), look_after(self.this.clone(), self.reach.clone(), link.clone()));
        for relay in self.waiting.take() {
            relay.begin(|call, reply| link.start(call, reply));
        }
        self.reach.connected(is_further);
    }

    /// This task looks after a connection from now on.
    fn keep(&self, link: Rc<Link>, task: impl Future<Output = ()> + 'static) {
        let mut links = self.links.borrow_mut();
        match links.iter_mut().find(|kept| Rc::ptr_eq(&kept.link, &link)) {
            Some(kept) => kept.keeper = Task::spawn(task),
            None => links.push(Kept { link, keeper: Task::spawn(task) }),
        }
    }

    fn dial_in_time(&self) {
        let Some(at) = self.redial.borrow().poll_timeout() else { return };
        let this = self.this.clone();
        let waiting = Task::spawn(async move {
            until(Some(at)).await;
            if let Some(this) = this.upgrade()
                && this.redial.borrow_mut().handle_timeout(Instant::now())
            {
                this.dial();
            }
        });
        self.dialling.replace(Some(waiting));
    }

    fn starved(&self, link: &Rc<Link>) {
        if self.is_used(link) && self.redial.borrow_mut().handle_starved() {
            let peer = &self.name;
            tracing::debug!(peer, "streams are not given back; dialling again");
            self.dial();
        }
    }

    /// A connection is gone, and its calls have failed.
    fn lost(&self, link: &Rc<Link>, why: &Failure) {
        let was_used = self.is_used(link);
        self.forget(link);
        if was_used {
            self.redial.borrow_mut().handle_lost(Instant::now());
            self.reach.lost(&self.name, why);
            self.dial_in_time();
        }
    }

    fn is_used(&self, link: &Rc<Link>) -> bool {
        self.link().is_some_and(|used| Rc::ptr_eq(&used, link))
    }

    fn forget(&self, link: &Rc<Link>) {
        let forgotten = {
            let mut links = self.links.borrow_mut();
            let at = links.iter().position(|kept| Rc::ptr_eq(&kept.link, link));
            at.map(|at| links.remove(at))
        };
        drop(forgotten);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells what becomes of a connection.
async fn look_after(this: Weak<Caller>, reach: Rc<dyn Reach>, link: Rc<Link>) {
    let starving = async {
        link.starved().await;
        if let Some(this) = this.upgrade() {
            this.starved(&link);
        }
        // Until there is another it goes on as it is.
        std::future::pending::<Failure>().await
    };
    let why = tokio::select! {
        // How its process ended says more than that its connection did.
        biased;
        why = reach.gone() => {
            link.fail(why.clone());
            why
        }
        why = link.closed() => why,
        why = starving => why,
    };
    if let Some(this) = this.upgrade() {
        // This task ends with the connection; nothing is waited for any more.
        this.lost(&link, &why);
    }
}

/// Leaves a connection for a further one when its last answer is in.
async fn leave(this: Weak<Caller>, link: Rc<Link>, further: Rc<Link>) {
    link.leave_to(&further).await;
    if let Some(this) = this.upgrade() {
        this.forget(&link);
    }
}
