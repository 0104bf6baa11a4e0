//! The thread of the bus: exchanges whose connections another thread has.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use toolbus_proto::counted::Counted;

use super::super::body::{Body, BodyError};
use super::super::server::{Exchange, Limits, Responder, Stop};
use super::super::sink::Pipe;
use super::{Begun, Moved, Outpost, Quiet, ToHome, ToOutpost, UNTAKEN_MAX};
use crate::scope::Scope;
use crate::task::boxed;
use crate::transport::Arrival;
use crate::transport::crowd::Member;
use crate::transport::mailbox::{Mailbox, Post, mailbox};
use crate::transport::threads::Thread;
use crate::wake::Wake;

/// What the thread of the bus has of an outpost.
pub(in crate::transport::http) struct Home {
    post: Post<ToOutpost>,
    /// What is to be said, sent when all that can run has run.
    unsaid: RefCell<Vec<ToOutpost>>,
    /// Answers of which there is more.
    unshipped: RefCell<Vec<u64>>,
    bell: Wake,
    answers: RefCell<Counted<u64, Rc<Pipe>>>,
    /// The bodies of which there is more to come.
    bodies: RefCell<Counted<u64, Weak<FarBody>>>,
    connections: Cell<usize>,
    is_lost: Cell<bool>,
    /// Told once, to those who wait for the end of a connection.
    lost: Notify,
}

impl Home {
    /// Founds an outpost on that thread. It is given up when the task is dropped that is put into
    /// `tasks`.
    pub(in crate::transport::http) fn found(
        thread: &Thread,
        limits: Limits,
        handler: Rc<dyn Fn(Exchange)>,
        tasks: &mut JoinSet<()>,
    ) -> Rc<Home> {
        let (down, downs) = mailbox();
        let (up, ups) = mailbox();
        let home = Rc::new(Home {
            post: down,
            unsaid: RefCell::default(),
            unshipped: RefCell::default(),
            bell: Wake::default(),
            answers: RefCell::default(),
            bodies: RefCell::default(),
            connections: Cell::new(0),
            is_lost: Cell::new(false),
            lost: Notify::new(),
        });
        let secrets = Scope::secrets();
        thread.run(move || Outpost::begin(up, downs, limits, secrets));
        tasks.spawn_local(boxed(home.clone().keep(ups, handler)));
        home
    }

    /// Is its thread gone?
    pub(in crate::transport::http) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// How many connections it has.
    pub(in crate::transport::http) fn connections(&self) -> usize {
        self.connections.get()
    }

    /// A place for one more connection.
    pub(in crate::transport::http) fn seat(self: &Rc<Home>) -> Seat {
        self.connections.set(self.connections.get() + 1);
        Seat(self.clone())
    }

    fn say(&self, down: ToOutpost) {
        self.unsaid.borrow_mut().push(down);
        self.bell.ring();
    }

    /// Passes on what comes and goes.
    async fn keep(self: Rc<Home>, mut mailbox: Mailbox<ToHome>, handler: Rc<dyn Fn(Exchange)>) {
        let _lost = Loses(&self);
        let mut batch = Vec::new();
        loop {
            let mut has_waited = false;
            let take = poll_fn(|context| {
                loop {
                    self.ship();
                    let is_rung = self.bell.poll_rung(context).is_ready();
                    match mailbox.poll_take(context, &mut batch) {
                        Poll::Pending if is_rung => {}
                        Poll::Pending => {
                            has_waited = true;
                            return Poll::Pending;
                        }
                        ready => return ready,
                    }
                }
            });
            if !take.await {
                return;
            }
            batch.drain(..).for_each(|up| self.take(up, &handler));
            if !has_waited {
                // However much comes, others have their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Sends what there is of answers, and what else is to be said.
    fn ship(&self) {
        let mut unsaid = self.unsaid.take();
        let mut unshipped = self.unshipped.take();
        for id in unshipped.drain(..) {
            let pipe = self.answers.borrow().get(&id).cloned();
            unsaid.extend(
                pipe.and_then(|pipe| pipe.ship()).map(|it| ToOutpost::Answer(Box::new(it))),
            );
        }
        if !unsaid.is_empty() {
            self.post.send(&mut unsaid);
            // Perhaps with the room of the last time.
            unsaid.clear();
        }
        // Nothing was said meanwhile: nothing of all this calls anything.
        self.unsaid.replace(unsaid);
        self.unshipped.replace(unshipped);
    }

    fn take(self: &Rc<Home>, up: ToHome, handler: &Rc<dyn Fn(Exchange)>) {
        match up {
            ToHome::Begun(begun) => self.welcome(*begun, handler),
            ToHome::Part(id, chunk) => self.with_body(id, |body| body.put(chunk)),
            ToHome::Ended(id, end) => {
                self.with_body(id, |body| body.end(end));
                self.bodies.borrow_mut().remove(&id);
            }
            ToHome::Released(id, bytes) => {
                let pipe = self.answers.borrow().get(&id).cloned();
                if let Some(pipe) = pipe {
                    pipe.released(bytes);
                }
            }
            ToHome::Left(id) => {
                let pipe = self.answers.borrow().get(&id).cloned();
                if let Some(pipe) = pipe {
                    pipe.leave();
                }
            }
            ToHome::Over(id) => {
                let pipe = self.answers.borrow_mut().remove(&id);
                if let Some(pipe) = pipe {
                    pipe.over();
                }
            }
        }
    }

    fn welcome(self: &Rc<Home>, begun: Begun, handler: &Rc<dyn Fn(Exchange)>) {
        let Begun { id, head, parts, is_whole, waits, peer, identity } = begun;
        let end = is_whole.then_some(Ok(()));
        let body = Rc::new(FarBody {
            home: self.clone(),
            id,
            state: RefCell::new(BodyState { parts, end, taker: None }),
            untold: Cell::new(0),
            waits: Cell::new(waits),
        });
        if !is_whole {
            self.bodies.borrow_mut().insert(id, Rc::downgrade(&body));
        }
        let far = FarPipe { home: self.clone(), id, is_listed: Cell::new(false) };
        let pipe = Rc::new(Pipe::far(far));
        self.answers.borrow_mut().insert(id, pipe.clone());
        let responder = Responder::of(pipe);
        let exchange = Exchange { head, body: Body::far(body), responder, peer, identity };
        // The others of this thread are none of its business.
        let _ = catch_unwind(AssertUnwindSafe(|| handler(exchange)));
    }

    fn with_body(&self, id: u64, tell: impl FnOnce(&FarBody)) {
        let body = self.bodies.borrow().get(&id).and_then(Weak::upgrade);
        if let Some(body) = body {
            tell(&body);
        }
    }

    /// Nothing will be heard of the outpost any more: all clients have left.
    fn lose(&self) {
        self.is_lost.set(true);
        self.post.close();
        self.lost.notify_waiters();
        let (answers, bodies) = (self.answers.take(), self.bodies.take());
        for pipe in answers.into_values() {
            pipe.leave();
            pipe.over();
        }
        for body in bodies.into_values().filter_map(|body| body.upgrade()) {
            let source = Box::new(io::Error::from(io::ErrorKind::ConnectionReset));
            body.end(Err(BodyError::Cut { source }));
        }
    }
}

/// The place of one connection at an outpost, for as long as it lives.
pub(in crate::transport::http) struct Seat(Rc<Home>);

impl Seat {
    /// Gives a connection to the outpost, and waits until it has ended. Dropped meanwhile, it closes
    /// the connection.
    pub(in crate::transport::http) async fn carry(
        self,
        arrival: Arrival,
        member: &Member,
        stop: Stop,
    ) {
        let home = &self.0;
        let peer = arrival.peer.clone();
        let arrival = match arrival.depart() {
            Ok(arrival) => arrival,
            Err(error) => return tracing::debug!("{peer}: {error}"),
        };
        let quiet = Quiet::new();
        let seen = quiet.clone();
        member.opened(move || seen.since());
        let (_kept, keep) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let lost = home.lost.notified();
        if home.is_lost() {
            return;
        }
        home.say(ToOutpost::Connection(Box::new(Moved { arrival, stop, quiet, keep, ended })));
        tokio::select! {
            // Also by the end of its thread.
            _ = has_ended => {}
            () = lost => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
    }
}

/// Gives up an outpost, also by a panic.
struct Loses<'a>(&'a Home);

impl Drop for Loses<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// Where an answer goes that another thread writes.
pub(in crate::transport::http) struct FarPipe {
    home: Rc<Home>,
    id: u64,
    is_listed: Cell<bool>,
}

impl FarPipe {
    pub(in crate::transport::http) fn id(&self) -> u64 {
        self.id
    }

    /// There is more of it.
    pub(in crate::transport::http) fn list(&self) {
        if !self.is_listed.replace(true) {
            self.home.unshipped.borrow_mut().push(self.id);
            self.home.bell.ring();
        }
    }

    pub(in crate::transport::http) fn unlist(&self) {
        self.is_listed.set(false);
    }

    /// Its client is to be cut off.
    pub(in crate::transport::http) fn cut(&self) {
        self.home.say(ToOutpost::Cut(self.id));
    }
}

/// A body that another thread reads.
pub(in crate::transport::http) struct FarBody {
    home: Rc<Home>,
    id: u64,
    state: RefCell<BodyState>,
    /// Taken since more was asked for.
    untold: Cell<usize>,
    /// Nothing comes before it is asked for.
    waits: Cell<bool>,
}

struct BodyState {
    parts: VecDeque<Bytes>,
    end: Option<Result<(), BodyError>>,
    taker: Option<Waker>,
}

impl FarBody {
    fn put(&self, chunk: Bytes) {
        let mut state = self.state.borrow_mut();
        state.parts.push_back(chunk);
        let taker = state.taker.take();
        drop(state);
        taker.into_iter().for_each(Waker::wake);
    }

    fn end(&self, end: Result<(), BodyError>) {
        let mut state = self.state.borrow_mut();
        state.end = Some(end);
        let taker = state.taker.take();
        drop(state);
        taker.into_iter().for_each(Waker::wake);
    }

    pub(in crate::transport::http) fn poll_next(
        &self,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        let mut state = self.state.borrow_mut();
        if let Some(part) = state.parts.pop_front() {
            let is_over = state.end.is_some();
            drop(state);
            let untold = self.untold.get() + part.len();
            if !is_over && UNTAKEN_MAX / 2 <= untold {
                self.home.say(ToOutpost::Credit(self.id, untold));
                self.untold.set(0);
            } else {
                self.untold.set(untold);
            }
            return Poll::Ready(Ok(Some(part)));
        }
        match state.end.take() {
            Some(Ok(())) => {
                state.end = Some(Ok(()));
                return Poll::Ready(Ok(None));
            }
            Some(Err(error)) => {
                // Told once; then there is nothing.
                state.end = Some(Ok(()));
                return Poll::Ready(Err(error));
            }
            None => {}
        }
        state.taker = Some(context.waker().clone());
        drop(state);
        if self.waits.take() {
            self.home.say(ToOutpost::Credit(self.id, UNTAKEN_MAX));
        }
        Poll::Pending
    }

    /// The handler takes no more of it.
    pub(in crate::transport::http) fn leave(&self) {
        self.home.bodies.borrow_mut().remove(&self.id);
        if self.state.borrow().end.is_none() {
            self.home.say(ToOutpost::Unwanted(self.id));
        }
    }
}
