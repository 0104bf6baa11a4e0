//! One connection of a server: its bytes, and when its patience with them ends.
//!
//! hyper reads and writes through [`Io`]; the [`ServerSocket`] beside it sees enough to know whether
//! the other side sends a head, sends nothing, or does not read.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::body::Owner;
use super::carried::Quiet;
use super::server::Limits;
use crate::transport::stream::{Stream, linger};

/// How long a connection that was told goodbye may take to go.
const PARTING: Duration = Duration::from_secs(1);

/// A server's connection, beside hyper.
pub(super) struct ServerSocket {
    /// `None` when it is closed.
    stream: RefCell<Option<Stream>>,
    limits: Rc<Limits>,
    /// Exchanges without a complete answer.
    in_flight: Cell<usize>,
    quiet_since: Cell<Instant>,
    /// Since when a head is awaited of which something is there.
    head_since: Cell<Option<Instant>>,
    /// No byte has come yet.
    is_fresh: Cell<bool>,
    /// Since when the other side does not read.
    blocked_since: Cell<Option<Instant>>,
    /// HTTP/2 parts its exchanges by itself, and pings a peer that is quiet.
    is_http2: Cell<bool>,
    is_parting: Cell<bool>,
    /// So many exchanges without a complete answer are of clients that were cut off.
    cut: Cell<usize>,
    /// What is left of it is thrown away.
    is_cut_off: Cell<bool>,
    /// The other side has closed or reset the connection.
    has_ended: Cell<bool>,
    rest: RefCell<Option<Rest>>,
    waker: RefCell<Option<Waker>>,
    /// Where the thread that accepts sees whether it is silent, if that is another one.
    quiet: OnceCell<Arc<Quiet>>,
}

/// A request body that the handler has dropped, read on so that the answer arrives.
struct Rest {
    incoming: Incoming,
    bytes_left: usize,
}

/// What becomes of a connection on which nothing happens until its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Say goodbye: the connection was not used.
    Part,
    /// Throw no more away.
    StopDraining,
    /// Give up at once.
    Close,
}

impl ServerSocket {
    pub(super) fn new(stream: Stream, limits: Rc<Limits>) -> ServerSocket {
        let now = Instant::now();
        ServerSocket {
            stream: RefCell::new(Some(stream)),
            limits,
            in_flight: Cell::new(0),
            quiet_since: Cell::new(now),
            head_since: Cell::new(None),
            is_fresh: Cell::new(true),
            blocked_since: Cell::new(None),
            is_http2: Cell::new(false),
            is_parting: Cell::new(false),
            cut: Cell::new(0),
            is_cut_off: Cell::new(false),
            has_ended: Cell::new(false),
            rest: RefCell::new(None),
            waker: RefCell::new(None),
            quiet: OnceCell::new(),
        }
    }

    /// Tells there from now on whether it is silent.
    pub(super) fn tell(&self, quiet: Arc<Quiet>) {
        quiet.set(true);
        let _ = self.quiet.set(quiet);
    }

    /// Nothing is under way any more, or has just been.
    fn is_quiet_now(&self) {
        self.quiet_since.set(Instant::now());
        if let Some(quiet) = self.quiet.get() {
            quiet.set(self.in_flight.get() == 0);
        }
    }

    /// A head was read.
    pub(super) fn begin(self: &Rc<ServerSocket>, is_http2: bool) -> InFlight {
        self.in_flight.set(self.in_flight.get() + 1);
        if let Some(quiet) = self.quiet.get() {
            quiet.set(false);
        }
        self.head_since.set(None);
        self.is_http2.set(is_http2);
        InFlight { socket: self.clone(), stage: Rc::default() }
    }

    /// The client of an exchange is cut off. So is the connection, unless it carries exchanges of
    /// others besides.
    fn cut(&self, stage: &Cell<SocketState>) {
        if stage.get() == SocketState::InFlight {
            stage.set(SocketState::Cut);
            self.cut.set(self.cut.get() + 1);
        }
        if !self.is_http2.get() || self.in_flight.get() <= self.cut.get() {
            self.is_cut_off.set(true);
            self.wake();
        }
    }

    /// Who has the body of an exchange over HTTP/2.
    pub(super) fn owner_of_stream(&self) -> Owner {
        let Limits { drains_streams, drain_bytes_max, drain_timeout, .. } = *self.limits;
        match drains_streams {
            true => Owner::Stream { bytes_max: drain_bytes_max, patience: drain_timeout },
            false => Owner::None,
        }
    }

    /// Is it over, whatever waits?
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off.get()
    }

    /// When patience ends, and what then. Nothing is timed while an exchange goes on and the
    /// other side reads: how long that may take is for the wire to say.
    pub(super) fn deadline(&self) -> Option<(Instant, Then)> {
        let Limits { head_timeout, first_byte_timeout, idle_timeout, .. } = *self.limits;
        let Limits { write_timeout, drain_timeout, .. } = *self.limits;
        let blocked = self.blocked_since.get().map(|since| (since + write_timeout, Then::Close));
        if 0 < self.in_flight.get() {
            return blocked;
        }
        let quiet = self.quiet_since.get();
        let head_since = self.head_since.get().filter(|_| !self.is_http2.get());
        let waiting = if self.is_parting.get() {
            (quiet + PARTING, Then::Close)
        } else if self.rest.borrow().is_some() {
            (quiet + drain_timeout, Then::StopDraining)
        } else if let Some(since) = head_since {
            (since + head_timeout, Then::Close)
        } else if self.is_fresh.get() {
            (quiet + first_byte_timeout, Then::Close)
        } else {
            (quiet + idle_timeout, Then::Part)
        };
        blocked.into_iter().chain([waiting]).min_by_key(|(at, _)| *at)
    }

    /// Since when no exchange is under way.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        (self.in_flight.get() == 0).then(|| self.quiet_since.get())
    }

    /// A goodbye was said: what is in flight may end, what is not has a moment left.
    pub(super) fn part(&self) {
        self.is_parting.set(true);
        self.quiet_since.set(Instant::now());
    }

    /// Reads on where the handler stopped, so that the other side gets to read the answer.
    pub(super) fn throw_away(&self, incoming: Incoming) {
        let bytes_left = self.limits.drain_bytes_max;
        // One at most: an HTTP/1.1 connection has one exchange at a time.
        *self.rest.borrow_mut() = Some(Rest { incoming, bytes_left });
        self.wake();
    }

    /// Throws away what has come.
    pub(super) fn poll_drain(&self, context: &mut Context<'_>) {
        let mut slot = self.rest.borrow_mut();
        while let Some(rest) = &mut *slot {
            let Poll::Ready(frame) = Pin::new(&mut rest.incoming).poll_frame(context) else {
                return;
            };
            let is_over = match frame {
                Some(Ok(frame)) => {
                    let count = frame.data_ref().map_or(0, Bytes::len);
                    let is_too_much = rest.bytes_left < count;
                    rest.bytes_left = rest.bytes_left.saturating_sub(count);
                    is_too_much
                }
                Some(Err(_)) | None => true,
            };
            if is_over {
                *slot = None;
                // What was read belonged to the old exchange, and not to a new head.
                self.head_since.set(None);
                self.is_quiet_now();
            }
        }
    }

    pub(super) fn stop_draining(&self) {
        *self.rest.borrow_mut() = None;
    }

    /// Does what was written wait for the other side to read?
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since.get().is_some()
    }

    /// Wakes the task of the connection, which looks again.
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    pub(super) fn wakes(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }
}

/// Holds the connection open. A handler that still has a body of it in its hands does not.
pub(super) struct Open(Rc<ServerSocket>);

impl Open {
    pub(super) fn new(socket: Rc<ServerSocket>) -> Open {
        Open(socket)
    }

    /// Parts from a connection that hyper is done with.
    pub(super) async fn close(self) {
        let stream = self.0.stream.borrow_mut().take();
        if let Some(mut stream) = stream
            && !self.0.has_ended.get()
            && !self.0.is_cut_off.get()
        {
            linger(&mut stream).await;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.stream.borrow_mut().take();
    }
}

/// One exchange without a complete answer.
pub(super) struct InFlight {
    socket: Rc<ServerSocket>,
    stage: Rc<Cell<SocketState>>,
}

/// What has become of an exchange.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum SocketState {
    #[default]
    InFlight,
    /// Its client was cut off.
    Cut,
    Over,
}

impl InFlight {
    /// The way to end it when its client is cut off.
    pub(super) fn exit(&self) -> Exit {
        Exit { socket: self.socket.clone(), stage: self.stage.clone() }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let InFlight { socket, stage } = self;
        socket.in_flight.set(socket.in_flight.get() - 1);
        if stage.replace(SocketState::Over) == SocketState::Cut {
            socket.cut.set(socket.cut.get() - 1);
        }
        socket.is_quiet_now();
        socket.wake();
    }
}

/// The way to end an exchange whose client is cut off: hyper forgets what it has for it.
pub(super) struct Exit {
    socket: Rc<ServerSocket>,
    stage: Rc<Cell<SocketState>>,
}

impl Exit {
    pub(super) fn take(&self) {
        self.socket.cut(&self.stage);
    }
}

/// What hyper reads from and writes to. Shutting it down only flushes: the socket does the rest.
pub(super) struct Io(pub(super) Rc<ServerSocket>);

impl Io {
    fn with<T>(
        &self,
        poll: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *self.0.stream.borrow_mut() {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Writes, and notes whether the other side reads.
    fn write<T>(
        &self,
        waker: &Waker,
        poll: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = self.with(poll);
        let blocked = &self.0.blocked_since;
        match &written {
            Poll::Pending => blocked.set(blocked.get().or_else(|| Some(Instant::now()))),
            Poll::Ready(Ok(_)) => {
                // A body that waits to break off until all is written looks again.
                if blocked.take().is_some() {
                    waker.wake_by_ref();
                }
            }
            Poll::Ready(Err(_)) => self.0.has_ended.set(true),
        }
        written
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = &self.0;
        let before = buffer.filled().len();
        let read = self.with(|stream| stream.poll_read(context, buffer));
        match &read {
            Poll::Pending => {}
            Poll::Ready(Ok(())) if before < buffer.filled().len() => {
                socket.is_fresh.set(false);
                if socket.in_flight.get() == 0 && socket.head_since.get().is_none() {
                    socket.head_since.set(Some(Instant::now()));
                }
            }
            Poll::Ready(_) => socket.has_ended.set(true),
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let waker = context.waker().clone();
        self.write(&waker, |stream| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let waker = context.waker().clone();
        self.write(&waker, |stream| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let waker = context.waker().clone();
        self.write(&waker, |stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn the_first_byte_and_the_rest_of_its_head_have_times_of_their_own() {
        let (first, rest) = (Duration::from_secs(300), Duration::from_secs(10));
        let limits = Limits { first_byte_timeout: first, head_timeout: rest, ..Limits::default() };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let before = Instant::now();
        let socket = Rc::new(ServerSocket::new(Stream::Unix(ours), Rc::new(limits)));
        let waits = |since: Instant, patience: Duration| {
            let (until, then) = socket.deadline().unwrap();
            assert_eq!(then, Then::Close);
            since + patience <= until && until <= Instant::now() + patience
        };
        assert!(waits(before, first));
        theirs.write_all(b"P").await.unwrap();
        let before = Instant::now();
        Io(socket.clone()).read_u8().await.unwrap();
        assert!(waits(before, rest));
    }
}
