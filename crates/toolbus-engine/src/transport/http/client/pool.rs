//! The connections to one origin: those in use are counted, those at rest are kept a while.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper::http::Request;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{CallError, Origin, Sent};
use crate::task::spawn_local;
use crate::transport::Stream;
use crate::transport::http::proxy::Proxy;
use crate::transport::http::sink::{Pipe, Pushed};
use crate::transport::http::{CONNECTION_WINDOW, OnThisThread, STREAM_WINDOW};
use crate::transport::tcp::{self, Vet};

/// The connections to one origin.
pub(super) struct Pool {
    pub(super) origin: Origin,
    pub(super) proxy: Option<Proxy>,
    /// Where connections may go, if that is not for the caller to say.
    vet: Option<Vet>,
    idle_timeout: Duration,
    /// One permit for each HTTP/1.1 connection in use.
    places: Arc<Semaphore>,
    at_rest: RefCell<Vec<Resting>>,
    /// The one HTTP/2 connection, shared by all calls.
    shared: RefCell<Option<Shared>>,
    /// Closes what rests too long; runs only while something rests.
    reaper: RefCell<Option<JoinHandle<()>>>,
}

struct Resting {
    connection: Connection,
    since: Instant,
}

struct Shared {
    sender: http2::SendRequest<Pushed<()>>,
    used: Instant,
}

/// A connection for one call.
pub(super) struct Kept {
    pub(super) sender: Sender,
    /// It has carried calls before, and may have been closed since.
    pub(super) was_used: bool,
}

pub(super) enum Sender {
    Http1 { connection: Connection, _place: OwnedSemaphorePermit },
    Http2(http2::SendRequest<Pushed<()>>),
}

/// An HTTP/1.1 connection. Dropping it closes it at once.
pub(super) struct Connection {
    sender: http1::SendRequest<Pushed<()>>,
    task: AbortHandle,
}

impl Pool {
    pub(super) fn new(
        origin: Origin,
        proxy: Option<Proxy>,
        connections_max: usize,
        idle_timeout: Duration,
    ) -> Pool {
        Pool {
            origin,
            proxy,
            vet: None,
            idle_timeout,
            places: Arc::new(Semaphore::new(connections_max.max(1))),
            at_rest: RefCell::default(),
            shared: RefCell::default(),
            reaper: RefCell::default(),
        }
    }

    /// The same, but its connections go to addresses that pass, and to no other.
    pub(super) fn vetted(mut self, vet: Vet) -> Pool {
        self.vet = Some(vet);
        self
    }

    /// A connection that is free, or a new one.
    pub(super) async fn take(self: &Rc<Pool>, patience: Duration) -> Result<Kept, CallError> {
        if let Some(kept) = self.shared() {
            return Ok(kept);
        }
        let place = self.places.clone().acquire_owned().await;
        let place = place.expect("the places of a pool are never closed");
        // A call before us in the line may have found out that the origin speaks HTTP/2.
        if let Some(kept) = self.shared() {
            return Ok(kept);
        }
        if !self.at_rest.borrow().is_empty() {
            // The reactor looks around once: what has been closed meanwhile is known then, and
            // is not asked in vain.
            tokio::task::yield_now().await;
        }
        while let Some(mut connection) = self.at_rest() {
            // Ready as soon as its task has put the last exchange away; fails if it closed.
            if poll_fn(|context| connection.sender.poll_ready(context)).await.is_ok() {
                let sender = Sender::Http1 { connection, _place: place };
                return Ok(Kept { sender, was_used: true });
            }
        }
        self.connect(patience, place).await
    }

    fn at_rest(&self) -> Option<Connection> {
        self.at_rest.borrow_mut().pop().map(|resting| resting.connection)
    }

    fn shared(&self) -> Option<Kept> {
        let mut shared = self.shared.borrow_mut();
        let there = shared.as_mut().filter(|shared| !shared.sender.is_closed())?;
        there.used = Instant::now();
        Some(Kept { sender: Sender::Http2(there.sender.clone()), was_used: true })
    }

    /// The shared connection takes no more calls.
    pub(super) fn forget_shared(&self) {
        *self.shared.borrow_mut() = None;
    }

    async fn connect(
        self: &Rc<Pool>,
        patience: Duration,
        place: OwnedSemaphorePermit,
    ) -> Result<Kept, CallError> {
        let (host, port) = match &self.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.origin.host, self.origin.port),
        };
        let until = Instant::now() + patience;
        let mut stream = tcp::connect_vetted(host, port, patience, self.vet.as_ref()).await?;
        if let Some(proxy) = self.proxy.as_ref().filter(|_| self.origin.is_secure()) {
            let at = self.origin.shown();
            let too_late = |_| CallError::TimedOut { at: at.clone(), patience };
            let tunnel = timeout_at(until, proxy.tunnel(&mut stream, &at));
            tunnel.await.map_err(too_late)??;
        }
        let left = until.saturating_duration_since(Instant::now());
        let (stream, is_http2) = self.secured(stream, left).await?;
        let io = TokioIo::new(stream);
        let closed = |error| CallError::Closed { at: self.origin.shown(), source: Box::new(error) };
        let sender = if is_http2 {
            let mut builder = http2::Builder::new(OnThisThread);
            builder
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW);
            let (sender, connection) = builder.handshake(io).await.map_err(closed)?;
            // Ends by itself when no call can go over it any more.
            spawn_local(connection);
            let shared = Shared { sender: sender.clone(), used: Instant::now() };
            *self.shared.borrow_mut() = Some(shared);
            self.reap();
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(closed)?;
            let task = spawn_local(connection).abort_handle();
            Sender::Http1 { connection: Connection { sender, task }, _place: place }
        };
        Ok(Kept { sender, was_used: false })
    }

    #[cfg(feature = "tls")]
    async fn secured(
        &self,
        stream: tokio::net::TcpStream,
        patience: Duration,
    ) -> Result<(Stream, bool), CallError> {
        let Some(tls) = &self.origin.tls else { return Ok((Stream::Tcp(stream), false)) };
        let fault = |source| CallError::Tls { at: self.origin.shown(), source };
        let stream = tls.connect(stream, &self.origin.host, patience).await.map_err(fault)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok((Stream::Tls(Box::new(stream)), is_http2))
    }

    #[cfg(not(feature = "tls"))]
    async fn secured(
        &self,
        stream: tokio::net::TcpStream,
        _patience: Duration,
    ) -> Result<(Stream, bool), CallError> {
        Ok((Stream::Tcp(stream), false))
    }

    fn rest(self: &Rc<Pool>, connection: Connection) {
        let resting = Resting { connection, since: Instant::now() };
        self.at_rest.borrow_mut().push(resting);
        self.reap();
    }

    /// Sees to it that what rests now is closed in time.
    fn reap(self: &Rc<Pool>) {
        let mut reaper = self.reaper.borrow_mut();
        if reaper.as_ref().is_none_or(JoinHandle::is_finished) {
            *reaper = Some(spawn_local(reap(Rc::downgrade(self))));
        }
    }

    /// Closes what has rested too long, and says when to look again.
    fn sweep(&self) -> Option<Instant> {
        let now = Instant::now();
        let too_long = |since: Instant| self.idle_timeout <= now - since;
        let mut at_rest = self.at_rest.borrow_mut();
        let mut shared = self.shared.borrow_mut();
        at_rest
            .retain(|resting| !too_long(resting.since) && !resting.connection.sender.is_closed());
        shared.take_if(|shared| too_long(shared.used) || shared.sender.is_closed());
        let since = at_rest.iter().map(|resting| resting.since);
        let first = since.chain(shared.iter().map(|shared| shared.used)).min()?;
        Some(first + self.idle_timeout)
    }
}

async fn reap(pool: Weak<Pool>) {
    loop {
        let Some(next) = pool.upgrade().and_then(|pool| pool.sweep()) else { return };
        sleep_until(next).await;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(reaper) = self.reaper.borrow_mut().take() {
            reaper.abort();
        }
    }
}

impl Kept {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }
}

impl Sender {
    pub(super) async fn send(&mut self, request: Request<Pushed<()>>) -> Sent {
        match self {
            Sender::Http1 { connection, .. } => connection.sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection of a call whose answer is being read. Dropping it closes the connection.
pub(in crate::transport::http) struct Lease {
    kept: Kept,
    pool: Rc<Pool>,
    request: Rc<Pipe>,
}

impl Lease {
    pub(super) fn new(kept: Kept, pool: Rc<Pool>, request: Rc<Pipe>) -> Lease {
        Lease { kept, pool, request }
    }

    /// The answer has ended well. If the request has not, the server does not want the rest of
    /// it, and closing the connection ends it (`docs/protocols/mediocre.md` 6).
    pub(in crate::transport::http) fn give_back(self) {
        if let Sender::Http1 { connection, .. } = self.kept.sender
            && self.request.is_done()
        {
            self.pool.rest(connection);
        }
    }
}
