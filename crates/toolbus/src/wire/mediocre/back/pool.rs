//! The connections to one host: at most sixteen, each with a task that leads calls over it.
//!
//! A call that finds no connection free waits in line. It is tried anew only as long as no
//! byte of it has been written.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use toolbus_proto::mediocre::{Client, Methods};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::journey::Journey;
use super::{Host, Options};
use crate::bus::back::{causes, hinted};
use crate::chance::OsRandom;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::engine::client::{Client as Connection, Sharing};
use crate::transport::tcp::ConnectError;
use crate::transport::{Stream, tcp, unix};

/// How many connections one peer has at most.
pub(super) const CONNECTIONS_MAX: usize = 16;
/// How many calls may wait for one of them.
pub(super) const WAITING_MAX: usize = 1024;
/// How long a connection is kept for the next call.
pub(super) const IDLE: Duration = Duration::from_secs(60);
/// How long connections may have something to write when they are to be closed.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// The connections to one host.
pub(super) struct Pool {
    this: Weak<Pool>,
    host: Host,
    name: String,
    reading: toolbus_proto::mediocre::Reading,
    /// As the server last told; the next connection has to know.
    methods: RefCell<Methods>,
    /// How long connecting may take.
    patience: Duration,
    waiting: RefCell<VecDeque<Rc<Journey>>>,
    /// Told when a call is put in line and somebody is free for it.
    asked: Notify,
    /// Connections without a call.
    free: Cell<usize>,
    workers: RefCell<JoinSet<()>>,
    is_closed: Cell<bool>,
}

impl Pool {
    pub(super) fn new(host: Host, options: Options, patience: Duration) -> Rc<Pool> {
        let Options { name, reading, methods } = options;
        Rc::new_cyclic(|this| Pool {
            this: this.clone(),
            host,
            name,
            reading,
            methods: RefCell::new(methods),
            patience,
            waiting: RefCell::default(),
            asked: Notify::new(),
            free: Cell::new(0),
            workers: RefCell::default(),
            is_closed: Cell::new(false),
        })
    }

    pub(super) fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        let journey = Journey::new(call, down);
        let uplink = journey.uplink();
        if self.is_closed.get() {
            let message = format!("`{}` is being left", self.name);
            journey.fail(Failure::new(FailureKind::Cancelled, message));
            return uplink;
        }
        let mut waiting = self.waiting.borrow_mut();
        if WAITING_MAX <= waiting.len() {
            waiting.retain(|journey| journey.is_waiting());
        }
        if WAITING_MAX <= waiting.len() {
            drop(waiting);
            let message = format!("more than {WAITING_MAX} calls wait for `{}`", self.name);
            journey.fail(Failure::new(FailureKind::Unavailable, message));
            return uplink;
        }
        let mut workers = self.workers.borrow_mut();
        while workers.try_join_next().is_some() {}
        if waiting.len() < self.free.get() {
            waiting.push_back(journey);
            self.asked.notify_one();
        } else if workers.len() < CONNECTIONS_MAX {
            workers.spawn_local(work(self.this.clone(), journey));
        } else {
            journey.set_alarm();
            waiting.push_back(journey);
        }
        uplink
    }

    /// Closes all connections and waits until they are closed. The end of a stream that was
    /// cut short is still written; a call that is under way after that is ended.
    pub(super) async fn shutdown(&self) {
        let mut workers = self.close();
        self.asked.notify_waiters();
        let all = async { while workers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(STOP_PATIENCE, all).await;
        workers.shutdown().await;
    }

    /// Ends the calls in line; dropping what it gives ends those under way.
    pub(super) fn close(&self) -> JoinSet<()> {
        self.is_closed.set(true);
        let waiting = self.waiting.take();
        for journey in waiting {
            let message = format!("`{}` was let go", self.name);
            journey.fail(Failure::new(FailureKind::Cancelled, message));
        }
        self.workers.take()
    }

    /// The next in line who still waits.
    fn next_waiting(&self) -> Option<Rc<Journey>> {
        loop {
            let journey = self.waiting.borrow_mut().pop_front()?;
            if journey.is_waiting() {
                return Some(journey);
            }
        }
    }

    /// Waits for a call to put on a connection that is free; not longer than it is worth while.
    async fn next_asked(&self, connection: &Connection<Client<OsRandom>>) -> Option<Rc<Journey>> {
        if self.is_closed.get() {
            return None;
        }
        let _free = Free::new(&self.free);
        let mut idle = pin!(tokio::time::sleep(IDLE));
        loop {
            let is_asked = tokio::select! {
                biased;
                () = self.asked.notified() => true,
                () = connection.ended() => false,
                () = &mut idle => false,
            };
            // Another connection may have been faster.
            let journey = self.next_waiting();
            if journey.is_some() || !is_asked || self.is_closed.get() {
                return journey;
            }
        }
    }

    async fn connect(&self, until: Option<Instant>) -> Result<Line, Failure> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let patience = left.map_or(self.patience, |left| left.min(self.patience));
        let unavailable = |error: &dyn std::error::Error, hint| {
            hinted(Failure::new(FailureKind::Unavailable, causes(error)), hint)
        };
        let refused = |error: ConnectError| unavailable(&error, error.hint());
        let stream = match &self.host {
            Host::Tcp { host, port } => {
                Stream::Tcp(tcp::connect(host, *port, patience).await.map_err(refused)?)
            }
            Host::Unix(path) => Stream::Unix(unix::connect(path, patience).await.map_err(refused)?),
            #[cfg(feature = "tls")]
            Host::Tls { host, port, tls } => {
                let stream = tcp::connect(host, *port, patience).await.map_err(refused)?;
                let stream = tls.connect(stream, host, patience).await;
                Stream::Tls(Box::new(stream.map_err(|error| unavailable(&error, error.hint()))?))
            }
        };
        let socket = stream.duplicate().map_err(|error| unavailable(&error, None))?;
        let methods = self.methods.borrow().clone();
        let machine = Client::new(Instant::now(), self.reading, methods, OsRandom::new());
        let (source, sink, _rest) = stream.split();
        let connection = Connection::new(&self.name, machine, Sharing::Alone, source, sink);
        Ok(Line { connection, socket })
    }
}

/// One connection, and a second hold on its socket.
struct Line {
    connection: Connection<Client<OsRandom>>,
    socket: OwnedFd,
}

impl Line {
    /// Can a call go out? The end of the stream, or a response that nobody asked for, may be
    /// there already, though nobody has read it.
    fn is_good(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(&self.socket, &mut byte, flags);
        let is_quiet = matches!(peeked, Err(rustix::io::Errno::AGAIN));
        is_quiet && self.connection.takes_calls()
    }
}

/// Leads calls over one connection after another, as long as there are any.
async fn work(pool: Weak<Pool>, first: Rc<Journey>) {
    let Some(pool) = pool.upgrade() else { return };
    let mut next = Some(first);
    while let Some(journey) = next.take() {
        match pool.connect(journey.give_up_at()).await {
            Ok(line) => next = lead(&pool, &line, journey).await,
            Err(failure) => {
                journey.fail(failure);
                next = pool.next_waiting();
            }
        }
    }
}

/// Leads calls over one connection until it is over, or nobody needs it; gives the call that
/// needs another.
async fn lead(pool: &Pool, line: &Line, first: Rc<Journey>) -> Option<Rc<Journey>> {
    let connection = &line.connection;
    first.begin(connection);
    drop(first);
    loop {
        let is_free = connection.until(Client::is_free).await;
        *pool.methods.borrow_mut() = connection.ask(|caller| caller.methods().clone());
        let journey = match pool.next_waiting() {
            None if is_free => pool.next_asked(connection).await?,
            None => return None,
            Some(journey) => journey,
        };
        if !is_free || !line.is_good() {
            return Some(journey);
        }
        journey.begin(connection);
    }
}

/// A connection is counted as free as long as this lives.
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
