//! A body that we send, pushed chunk by chunk from wherever on our thread.
//!
//! Two sides hold it: a [`BodySink`], which fills it, and hyper, which takes what it can write.
//! A good end has to be said. Whatever else becomes of the sink cuts the body short, and the
//! other side can tell.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::http::{Response, StatusCode};
use thiserror::Error;
use toolbus_proto::channel::Outbox;

use super::carried::{FarPipe, Shipment, UNWRITTEN_MAX, Watch};
use super::given::{Giving, Piece, Tally};
use super::socket::{Exit, ServerSocket};
use crate::account::Account;
use crate::transport::io::{BYTES_WAITING_MAX, Pressure};

/// Where a body goes that we send. Dropped without [`BodySink::end`], it cuts the body short.
pub struct BodySink {
    pipe: Rc<Pipe>,
}

impl BodySink {
    pub(super) fn new(pipe: Rc<Pipe>) -> BodySink {
        BodySink { pipe }
    }

    /// Appends a chunk; what is ready together goes out together, at once.
    ///
    /// It is taken even if there is no room, and thrown away if the peer has left.
    pub fn send(&self, chunk: &Bytes) -> Pressure {
        self.pipe.fill(|waiting| waiting.put_shared(chunk))
    }

    /// Appends all that waits in `outbox`.
    pub fn send_all(&self, outbox: &mut Outbox) -> Pressure {
        self.pipe.fill(|waiting| waiting.append(outbox))
    }

    /// How many bytes wait until the peer reads.
    pub fn unsent(&self) -> usize {
        self.pipe.state.borrow().len()
    }

    /// What waits is on this account from now on.
    pub fn charge_to(&self, account: &Account) {
        self.pipe.charge_to(account);
    }

    /// Waits until there is room again, or the peer has left.
    pub async fn room(&self) {
        poll_fn(|context| {
            let mut state = self.pipe.state.borrow_mut();
            if state.is_gone || !state.told_full {
                return Poll::Ready(());
            }
            state.room = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until the peer has left. Only one task may wait at a time.
    pub fn gone(&self) -> impl Future<Output = ()> + use<> {
        self.pipe.clone().gone()
    }

    /// Has the other side left?
    pub fn is_gone(&self) -> bool {
        self.pipe.state.borrow().is_gone
    }

    /// That was all of it.
    pub fn end(self) {
        self.pipe.finish(Ending::Well);
    }

    /// Breaks off: what was sent before goes out, then the other side sees the body cut.
    pub fn abort(self) {}
}

impl Drop for BodySink {
    fn drop(&mut self) {
        self.pipe.finish(Ending::Cut);
    }
}

/// What hyper is given at once over HTTP/2, which holds it for as long as the client pleases.
const HTTP2_PIECE_MAX: usize = 64 * 1024;

/// What is between the two hands.
#[derive(Default)]
pub(super) struct Pipe {
    state: RefCell<State>,
    /// What all of it holds in memory, and whose it is.
    tally: Rc<Tally>,
    /// The other hand, if it is on another thread.
    far: Option<FarPipe>,
}

#[derive(Default)]
struct State {
    /// The head before the body, until it is taken; only a server has it here.
    head: Option<Response<()>>,
    waiting: Outbox,
    /// The first of what waits, as far as hyper has not taken it.
    giving: Option<Giving>,
    ending: Ending,
    /// With another thread, and not written there.
    shipped: usize,
    /// Of an answer that another thread writes: its head was sent there, and its end.
    is_begun: bool,
    is_ended: bool,
    /// All of it was there before its head, which says how long it is.
    is_whole: bool,
    /// The sender was told that there is no room.
    told_full: bool,
    is_gone: bool,
    /// The tasks that wait: hyper for something to write, the sender for room, one for the end.
    taker: Option<Waker>,
    room: Option<Waker>,
    gone: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// There may be more.
    #[default]
    Open,
    Well,
    Cut,
}

impl State {
    /// How many bytes hyper can take.
    fn len(&self) -> usize {
        self.waiting.len() + self.giving.as_ref().map_or(0, Giving::len) + self.shipped
    }

    /// Who waits for room, if there is some again.
    fn room_again(&mut self) -> Option<Waker> {
        if !self.told_full || BYTES_WAITING_MAX / 2 <= self.len() {
            return None;
        }
        self.told_full = false;
        self.room.take()
    }

    /// Lets go of what waits.
    fn clear(&mut self, tally: &Tally) {
        self.waiting = Outbox::new();
        self.giving = None;
        tally.set_waiting(0);
    }
}

impl Pipe {
    /// For an exchange that ends by `exit` if its client is cut off.
    pub(super) fn with_exit(exit: Exit) -> Pipe {
        let pipe = Pipe::default();
        pipe.tally.set_exit(exit);
        pipe
    }

    /// For an exchange whose connection another thread has.
    pub(super) fn far(far: FarPipe) -> Pipe {
        Pipe { far: Some(far), ..Pipe::default() }
    }

    /// What becomes of it is told to another thread.
    pub(super) fn watch(&self, watch: Watch) {
        self.tally.set_watch(watch);
    }

    /// What there is for the other thread, if there is something.
    pub(super) fn ship(&self) -> Option<Shipment> {
        let far = self.far.as_ref()?;
        far.unlist();
        let mut state = self.state.borrow_mut();
        let head = state.head.take();
        state.is_begun |= head.is_some();
        if state.is_gone || !state.is_begun || state.is_ended {
            return None;
        }
        let body = match state.shipped < UNWRITTEN_MAX {
            true => std::mem::take(&mut state.waiting),
            false => Outbox::new(),
        };
        state.shipped += body.len();
        self.tally.given_away(body.len(), state.waiting.len());
        let ending = if state.waiting.is_empty() { state.ending } else { Ending::Open };
        state.is_ended = ending != Ending::Open;
        if head.is_none() && body.is_empty() && !state.is_ended {
            return None;
        }
        Some(Shipment { id: far.id(), head, body, is_whole: state.is_whole, ending })
    }

    /// Takes what another thread has sent.
    pub(super) fn refill(&self, shipment: Shipment) {
        let Shipment { head, mut body, is_whole, ending, .. } = shipment;
        if let Some(watch) = self.tally.watch() {
            watch.takes(body.len());
        }
        let mut state = self.state.borrow_mut();
        if state.is_gone || state.ending != Ending::Open {
            drop(state);
            // Nothing of it is kept.
            return self.tally.let_go(0);
        }
        state.waiting.append(&mut body);
        state.is_whole |= is_whole;
        state.ending = ending;
        if head.is_some() {
            state.head = head;
        }
        self.tally.set_waiting(state.waiting.len());
        let taker = state.taker.take();
        drop(state);
        wake(taker);
    }

    /// So much of what the other thread was given is written, or thrown away.
    pub(super) fn released(&self, bytes: usize) {
        self.tally.let_go(bytes);
        let mut state = self.state.borrow_mut();
        state.shipped = state.shipped.saturating_sub(bytes);
        let has_more = !state.waiting.is_empty() && state.shipped < UNWRITTEN_MAX;
        let room = state.room_again();
        drop(state);
        wake(room);
        if has_more {
            self.list();
        }
    }

    /// The other thread keeps nothing of it, and takes nothing more.
    pub(super) fn over(&self) {
        let shipped = self.state.borrow().shipped;
        self.released(shipped);
    }

    /// There may be something for another thread.
    fn list(&self) {
        if let Some(far) = &self.far {
            far.list();
        }
    }

    /// What waits is thrown away, the body cut short, and what hyper has for it is forgotten.
    pub(super) fn cut_off_with_all(&self) {
        self.cut_off();
        self.tally.take_exit();
    }

    fn charge_to(self: &Rc<Pipe>, account: &Account) {
        self.tally.charge_to(account, self);
    }

    /// What waits is thrown away, and the body cut short.
    pub(super) fn cut_off(&self) {
        let mut state = self.state.borrow_mut();
        // What was taken to its end is not lost.
        if state.ending == Ending::Open || 0 < state.len() {
            state.ending = Ending::Cut;
        }
        state.clear(&self.tally);
        let (taker, room) = (state.taker.take(), state.room.take());
        state.told_full = false;
        drop(state);
        wake(taker);
        wake(room);
        if let Some(far) = &self.far {
            far.cut();
            far.list();
        }
    }

    fn fill(&self, put: impl FnOnce(&mut Outbox)) -> Pressure {
        let mut state = self.state.borrow_mut();
        put(&mut state.waiting);
        if state.is_gone {
            state.waiting = Outbox::new();
            return Pressure::Ready;
        }
        self.tally.set_waiting(state.waiting.len());
        state.told_full = BYTES_WAITING_MAX <= state.len();
        let room = if state.told_full { Pressure::Full } else { Pressure::Ready };
        let taker = state.taker.take();
        drop(state);
        wake(taker);
        self.list();
        room
    }

    /// That is all of it.
    pub(super) fn fill_whole(&self, body: &Bytes) {
        let _ = self.fill(|waiting| waiting.put_shared(body));
        self.state.borrow_mut().is_whole = true;
        self.finish(Ending::Well);
    }

    /// Only the first end counts.
    fn finish(&self, ending: Ending) {
        let mut state = self.state.borrow_mut();
        if state.ending != Ending::Open {
            return;
        }
        state.ending = ending;
        let taker = state.taker.take();
        drop(state);
        wake(taker);
        self.list();
    }

    /// The head of the answer is known.
    pub(super) fn begin(&self, head: Response<()>) {
        let mut state = self.state.borrow_mut();
        state.head = Some(head);
        let taker = state.taker.take();
        drop(state);
        wake(taker);
        self.list();
    }

    /// The handler was dropped without an answer.
    pub(super) fn give_up(&self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        self.finish(Ending::Well);
        self.begin(head);
    }

    pub(super) fn poll_head(&self, context: &mut Context<'_>) -> Poll<Response<()>> {
        let mut state = self.state.borrow_mut();
        match state.head.take() {
            Some(head) => Poll::Ready(head),
            None => {
                state.taker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// hyper takes nothing any more: the peer has left.
    pub(super) fn leave(&self) {
        let mut state = self.state.borrow_mut();
        state.is_gone = true;
        state.clear(&self.tally);
        let (room, gone) = (state.room.take(), state.gone.take());
        drop(state);
        wake(room);
        wake(gone);
        if let Some(watch) = self.tally.watch() {
            watch.left();
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.borrow().is_gone
    }

    pub(super) async fn gone(self: Rc<Pipe>) {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if state.is_gone {
                return Poll::Ready(());
            }
            state.gone = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The next piece for hyper.
    fn take_piece(&self, is_http2: bool) -> Option<Piece> {
        let mut state = self.state.borrow_mut();
        let mut giving = match state.giving.take() {
            Some(giving) => giving,
            None => {
                let run = state.waiting.take_piece(usize::MAX)?;
                let giving = self.tally.give(run);
                self.tally.set_waiting(state.waiting.len());
                giving
            }
        };
        let piece = match is_http2 {
            false => giving.next(BYTES_WAITING_MAX),
            true => giving.next_copied(HTTP2_PIECE_MAX),
        };
        state.giving = Some(giving).filter(|giving| 0 < giving.len());
        let room = state.room_again();
        drop(state);
        wake(room);
        Some(piece)
    }

    /// Was all of it taken, up to a good end?
    pub(super) fn is_done(&self) -> bool {
        let state = self.state.borrow();
        state.ending == Ending::Well && state.len() == 0
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The hand of hyper's.
pub(super) struct Pushed<G> {
    pipe: Rc<Pipe>,
    /// Where an HTTP/1.1 connection tells that written bytes wait for the other side to read.
    socket: Option<Rc<ServerSocket>>,
    /// It goes over an HTTP/2 connection of a server's.
    is_http2: bool,
    /// Nothing was taken since hyper had the time to flush what it has.
    is_flushed: bool,
    /// Dropped together with the body.
    _guard: G,
}

impl<G> Pushed<G> {
    pub(super) fn new(pipe: Rc<Pipe>, socket: Option<Rc<ServerSocket>>, guard: G) -> Pushed<G> {
        Pushed { pipe, socket, is_http2: false, is_flushed: false, _guard: guard }
    }

    /// The same over HTTP/2.
    pub(super) fn over_http2(pipe: Rc<Pipe>, guard: G) -> Pushed<G> {
        Pushed { pipe, socket: None, is_http2: true, is_flushed: false, _guard: guard }
    }
}

/// The sender broke off the body.
#[derive(Debug, Error)]
#[error("the body is cut short")]
pub(super) struct CutShort;

impl<G: Unpin> hyper::body::Body for Pushed<G> {
    type Data = Piece;
    type Error = CutShort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, CutShort>>> {
        let pipe = self.pipe.clone();
        // Piece by piece: what hyper has taken no longer counts towards the limit of the sender.
        if let Some(piece) = pipe.take_piece(self.is_http2) {
            self.is_flushed = false;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let mut state = pipe.state.borrow_mut();
        let was_flushed = std::mem::replace(&mut self.is_flushed, true);
        match state.ending {
            Ending::Open => state.taker = Some(context.waker().clone()),
            Ending::Well => return Poll::Ready(None),
            // An error would make hyper forget what it has not written. So it comes only
            // after a pause, in which hyper flushes…
            Ending::Cut if !was_flushed => context.waker().wake_by_ref(),
            // … and after the socket has taken it, which wakes us then.
            Ending::Cut if self.socket.as_ref().is_some_and(|socket| socket.is_blocked()) => {}
            Ending::Cut => return Poll::Ready(Some(Err(CutShort))),
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.pipe.is_done()
    }

    fn size_hint(&self) -> SizeHint {
        // A `Content-Length`. A body that was begun has none, however soon it ends: on
        // the wire a stream looks like a stream.
        let state = self.pipe.state.borrow();
        match state.is_whole {
            true => SizeHint::with_exact(state.len() as u64),
            false => SizeHint::default(),
        }
    }
}

impl<G> Drop for Pushed<G> {
    fn drop(&mut self) {
        if !self.pipe.is_done() {
            self.pipe.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Body as _;
    use tokio::io::{AsyncReadExt, AsyncWrite};
    use tokio::net::UnixStream;

    use super::super::Limits;
    use super::super::socket::Io;
    use super::*;
    use crate::transport::Stream;

    /// An error while written bytes wait for their reader would make hyper forget them.
    #[tokio::test]
    async fn a_break_waits_for_what_is_still_to_be_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = Rc::new(ServerSocket::new(Stream::Unix(ours), Rc::new(Limits::default())));
        let mut io = Io(socket.clone());
        let mut context = Context::from_waker(Waker::noop());
        let mut write = |context: &mut Context<'_>| {
            Pin::new(&mut io).poll_write(context, &[7; 64 * 1024]).map(Result::unwrap)
        };
        let mut unread = 0;
        while let Poll::Ready(count) = write(&mut context) {
            unread += count;
        }

        let pipe = Rc::new(Pipe::default());
        let mut body = Pushed::new(pipe.clone(), Some(socket), ());
        BodySink::new(pipe).abort();
        for _ in 0..3 {
            assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
        }
        // The other side reads, and what waited is written.
        theirs.read_exact(&mut vec![0; unread]).await.unwrap();
        poll_fn(write).await;
        let ended = Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(ended, Poll::Ready(Some(Err(CutShort)))));
    }
}
