//! A thread that has connections: what it reads and writes belongs to exchanges of the bus.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use hyper::http::header::EXPECT;
use toolbus_proto::counted::Counted;

use super::super::body::Body;
use super::super::server::{self, Exchange, Limits, Shared};
use super::super::sink::Pipe;
use super::super::socket::ServerSocket;
use super::{Begun, Moved, Shipment, TOLD_FROM, ToHome, ToOutpost, UNTAKEN_MAX};
use crate::account::BYTES_IN_FLIGHT_MAX;
use crate::scope::Scope;
use crate::secrets::Secrets;
use crate::task::spawn_local;
use crate::transport::mailbox::{Mailbox, Post};
use crate::wake::Wake;

/// The connections of one server on one thread.
pub(in crate::transport::http) struct Outpost {
    post: Post<ToHome>,
    /// What is to be said, sent when all that can run has run.
    unsaid: RefCell<Vec<ToHome>>,
    /// The same, but nobody waits for it.
    unhurried: RefCell<Vec<ToHome>>,
    /// Requests that have just come.
    fresh: RefCell<Vec<Exchange>>,
    bell: Wake,
    answers: RefCell<Counted<u64, OpenAnswer>>,
    bodies: RefCell<Counted<u64, Rc<Intake>>>,
    next: Cell<u64>,
}

/// An answer that is awaited or written.
struct OpenAnswer {
    pipe: Weak<Pipe>,
    /// Held for as long as there is no head.
    unanswered: Option<Rc<Pipe>>,
}

/// A body that is being read.
#[derive(Default)]
struct Intake {
    /// So much may still be sent; less than nothing if the last chunk was larger.
    credit: Cell<isize>,
    is_unwanted: Cell<bool>,
    /// Rung when one of them changes.
    changed: Wake,
}

impl Intake {
    /// So much more may be sent, and so much was.
    fn count(&self, allowed: usize, sent: usize) {
        // Chunks are no larger than the buffers that they come from.
        let change = allowed.cast_signed() - sent.cast_signed();
        self.credit.set(self.credit.get() + change);
    }
}

impl Outpost {
    /// Begins on this thread, inside its runtime.
    pub(super) fn begin(
        post: Post<ToHome>,
        mailbox: Mailbox<ToOutpost>,
        limits: Limits,
        secrets: Secrets,
    ) {
        let outpost = Rc::new(Outpost {
            post,
            unsaid: RefCell::default(),
            unhurried: RefCell::default(),
            fresh: RefCell::default(),
            bell: Wake::default(),
            answers: RefCell::default(),
            bodies: RefCell::default(),
            next: Cell::new(0),
        });
        let taken = outpost.clone();
        let shared = Shared::new(limits, move |exchange| {
            taken.fresh.borrow_mut().push(exchange);
            taken.bell.ring();
        });
        // What waits here for a client is on its account at home.
        let scope = Scope::new(secrets, BYTES_IN_FLIGHT_MAX);
        scope.enter(|| drop(spawn_local(outpost.keep(mailbox, shared))));
    }

    /// Passes on what comes and goes.
    async fn keep(self: Rc<Outpost>, mut mailbox: Mailbox<ToOutpost>, shared: Shared) {
        // If this ends in disorder, so does all: home must not wait for it.
        let _closes = Closes(&self);
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
            batch.drain(..).for_each(|down| self.take(down, &shared));
            if !has_waited {
                // However much comes, others have their turn.
                tokio::task::yield_now().await;
            }
        }
    }

    fn say(&self, up: ToHome) {
        self.unsaid.borrow_mut().push(up);
        self.bell.ring();
    }

    /// Sends the requests that have come, and what else is to be said.
    fn ship(self: &Rc<Outpost>) {
        let mut fresh = self.fresh.take();
        for exchange in fresh.drain(..) {
            if let Some(begun) = self.begun(exchange) {
                self.unsaid.borrow_mut().push(ToHome::Begun(Box::new(begun)));
            }
        }
        self.fresh.replace(fresh);
        let (mut unsaid, mut unhurried) = (self.unsaid.take(), self.unhurried.take());
        if !unsaid.is_empty() {
            self.post.send(&mut unsaid);
        }
        // Behind it: that an answer is over is the last that is said of it.
        if !unhurried.is_empty() {
            self.post.leave(&mut unhurried);
        }
        // Their room is used again. What is sent to nobody may have been dropped, and said more.
        for (place, mut room) in [(&self.unsaid, unsaid), (&self.unhurried, unhurried)] {
            room.clear();
            room.append(&mut place.borrow_mut());
            place.replace(room);
        }
    }

    /// A request with as much of its body as is there. `None`: its client has left.
    fn begun(self: &Rc<Outpost>, exchange: Exchange) -> Option<Begun> {
        let Exchange { head, mut body, responder, peer, identity } = exchange;
        let pipe = responder.into_pipe().filter(|pipe| !pipe.is_gone())?;
        let id = self.next.get();
        self.next.set(id + 1);
        pipe.watch(Watch { outpost: self.clone(), id, taken: Cell::new(0), told: Cell::new(0) });
        let answering = OpenAnswer { pipe: Rc::downgrade(&pipe), unanswered: Some(pipe) };
        self.answers.borrow_mut().insert(id, answering);
        let waits = head.headers.contains_key(EXPECT);
        let mut parts = VecDeque::new();
        let mut bytes = 0;
        // Of most requests all is there already.
        let mut context = Context::from_waker(Waker::noop());
        let mut is_whole = body.has_ended();
        let mut broken = None;
        while !is_whole && !waits && bytes < UNTAKEN_MAX {
            match body.poll_next(&mut context) {
                Poll::Pending => break,
                Poll::Ready(Ok(Some(chunk))) => {
                    bytes += chunk.len();
                    parts.push_back(chunk);
                    is_whole = body.has_ended();
                }
                Poll::Ready(Ok(None)) => is_whole = true,
                Poll::Ready(Err(error)) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        match broken {
            // Said behind the request, which is sent first of all that is said from here on.
            Some(error) => {
                let (this, ended) = (self.clone(), ToHome::Ended(id, Err(error)));
                drop(spawn_local(async move { this.say(ended) }));
            }
            None if is_whole => {}
            None => {
                let reading = Rc::new(Intake::default());
                if !waits {
                    reading.count(UNTAKEN_MAX, bytes);
                }
                self.bodies.borrow_mut().insert(id, reading.clone());
                drop(spawn_local(self.clone().read(id, body, reading)));
            }
        }
        Some(Begun { id, head, parts, is_whole, waits, peer, identity })
    }

    /// Reads a body to its end, or as far as anything of it is wanted.
    async fn read(self: Rc<Outpost>, id: u64, mut body: Body, reading: Rc<Intake>) {
        let ended = loop {
            if reading.is_unwanted.get() {
                break None;
            }
            if reading.credit.get() <= 0 {
                reading.changed.rung().await;
                continue;
            }
            let next = tokio::select! {
                biased;
                () = reading.changed.rung() => continue,
                next = body.next() => next,
            };
            match next {
                Ok(Some(chunk)) => {
                    reading.count(0, chunk.len());
                    self.say(ToHome::Part(id, chunk));
                }
                Ok(None) => break Some(Ok(())),
                Err(error) => break Some(Err(error)),
            }
        };
        self.bodies.borrow_mut().remove(&id);
        if let Some(end) = ended {
            self.say(ToHome::Ended(id, end));
        }
    }

    fn take(self: &Rc<Outpost>, down: ToOutpost, shared: &Shared) {
        match down {
            ToOutpost::Connection(moved) => {
                let Moved { arrival, stop, quiet, keep, ended } = *moved;
                let shared = shared.clone();
                drop(spawn_local(async move {
                    // Dropped at the end of the connection, which is seen at home by that.
                    let _ended = ended;
                    let peer = match arrival.arrive() {
                        Ok(arrival) => arrival,
                        Err(error) => return tracing::debug!("a connection is lost: {error}"),
                    };
                    let opened = move |socket: &Rc<ServerSocket>| socket.tell(quiet);
                    tokio::select! {
                        () = server::serve(peer, opened, shared, stop) => {}
                        _ = keep => {}
                    }
                }));
            }
            ToOutpost::Answer(shipment) => self.answer(*shipment),
            ToOutpost::Credit(id, bytes) => {
                if let Some(reading) = self.bodies.borrow().get(&id) {
                    reading.count(bytes, 0);
                    reading.changed.ring();
                }
            }
            ToOutpost::Unwanted(id) => {
                if let Some(reading) = self.bodies.borrow().get(&id) {
                    reading.is_unwanted.set(true);
                    reading.changed.ring();
                }
            }
            ToOutpost::Cut(id) => {
                let pipe = self.answers.borrow().get(&id).and_then(|it| it.pipe.upgrade());
                if let Some(pipe) = pipe {
                    pipe.cut_off_with_all();
                }
            }
        }
    }

    fn answer(&self, shipment: Shipment) {
        let id = shipment.id;
        let (pipe, held) = match self.answers.borrow_mut().get_mut(&id) {
            Some(answering) => {
                let held = answering.unanswered.take_if(|_| shipment.head.is_some());
                (answering.pipe.upgrade(), held)
            }
            None => return,
        };
        if let Some(pipe) = pipe {
            pipe.refill(shipment);
        }
        drop(held);
    }
}

/// Closes the queue, also by a panic.
struct Closes<'a>(&'a Outpost);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.post.close();
        // What is held for an answer holds us.
        let answers = self.0.answers.take();
        drop((answers, self.0.fresh.take()));
    }
}

/// Sees what becomes of an answer, and tells home.
pub(in crate::transport::http) struct Watch {
    outpost: Rc<Outpost>,
    id: u64,
    /// How many bytes have come from home in all, and of how many it was told that they are gone.
    taken: Cell<usize>,
    told: Cell<usize>,
}

impl Watch {
    /// So much more has come.
    pub(in crate::transport::http) fn takes(&self, bytes: usize) {
        self.taken.set(self.taken.get() + bytes);
    }

    /// So much of it is still kept.
    pub(in crate::transport::http) fn holds(&self, bytes: usize) {
        let released = (self.taken.get() - self.told.get()).saturating_sub(bytes);
        if released == 0 || (released < TOLD_FROM && bytes != 0) {
            return;
        }
        self.told.set(self.told.get() + released);
        let up = ToHome::Released(self.id, released);
        if released < TOLD_FROM {
            self.outpost.unhurried.borrow_mut().push(up);
            self.outpost.bell.ring();
        } else {
            self.outpost.say(up);
        }
    }

    /// The client has left.
    pub(in crate::transport::http) fn left(&self) {
        self.outpost.say(ToHome::Left(self.id));
        let held = {
            let mut answers = self.outpost.answers.borrow_mut();
            answers.get_mut(&self.id).and_then(|answering| answering.unanswered.take())
        };
        drop(held);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.outpost.answers.borrow_mut().remove(&self.id);
        self.outpost.unhurried.borrow_mut().push(ToHome::Over(self.id));
        self.outpost.bell.ring();
    }
}
