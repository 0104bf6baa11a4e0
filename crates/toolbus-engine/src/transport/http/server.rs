//! Serving: both versions of HTTP on the same port, each exchange given to one handler.
//!
//! What a client can hold open is bounded everywhere: connections, heads, silence before and
//! between requests, answers it does not read, bodies that are no longer needed. Only the time
//! that a call itself takes is the handler's own business.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::http::{Request, Response, Version, request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, Sleep, timeout_at};

use super::body::{Body, Owner};
use super::carried::{Home, Seat};
use super::sink::{BodySink, Pipe, Pushed};
use super::socket::{InFlight, Io, Open, ServerSocket, Then};
use super::{CONNECTION_WINDOW, OnThisThread, STREAM_WINDOW};
use crate::transport::crowd::{self, Member, Room};
use crate::transport::{Arrival, Listener, PeerIdentity, Threads, Whereabouts};

/// What a server bears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait until one ends or has been silent for a while.
    pub connections_max: usize,
    /// How long a connection must have been silent to make room for another.
    pub silence: Duration,
    /// Exchanges at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// The size of a request's head.
    pub head_bytes_max: usize,
    /// Whether HTTP/2 is spoken besides HTTP/1.1, and then the size of the header fields of one
    /// request, as HTTP/2 counts them.
    pub http2_fields_max: Option<u32>,
    /// From the first byte of a head to its last, and for shaking hands before the first.
    pub head_timeout: Duration,
    /// How long a connection may be open before its first byte.
    pub first_byte_timeout: Duration,
    /// How long a connection may be open without being used.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of what is written to it.
    pub write_timeout: Duration,
    /// What is read of a body that the handler has dropped, so that its answer arrives.
    pub drain_bytes_max: usize,
    /// Whether that is done over HTTP/2, too, where else the stream is reset.
    pub drains_streams: bool,
    /// How long that may take after the answer is complete.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: Room::USUAL.connections_max,
            silence: Room::USUAL.silence,
            streams_max: 256,
            head_bytes_max: 64 * 1024,
            http2_fields_max: Some(64 * 1024),
            head_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            write_timeout: Duration::from_secs(60),
            drain_bytes_max: 1024 * 1024,
            drains_streams: false,
            drain_timeout: Duration::from_secs(2),
        }
    }
}

/// A request, and the way to answer it.
pub struct Exchange {
    /// The head of the request.
    pub head: request::Parts,
    /// The body of the request. To be read to its end before anything slow is begun, or
    /// by another task meanwhile: until then it is not seen that an HTTP/1.1 client leaves. A body that
    /// was cut is itself the notice; some clients still read an answer to it.
    pub body: Body,
    /// Where the answer goes.
    pub responder: Responder,
    /// Who asks.
    pub peer: Whereabouts,
    /// What its connection shows of that.
    pub identity: PeerIdentity,
}

/// Answers one request. Dropped without an answer, it is a 500.
pub struct Responder {
    pipe: Option<Rc<Pipe>>,
}

impl Responder {
    pub(super) fn of(pipe: Rc<Pipe>) -> Responder {
        Responder { pipe: Some(pipe) }
    }

    /// What the answer goes into: it is not given by this any more.
    pub(super) fn into_pipe(mut self) -> Option<Rc<Pipe>> {
        self.pipe.take()
    }

    /// Answers with a head; the body follows by the sink.
    pub fn respond(mut self, head: Response<()>) -> BodySink {
        let pipe = self.pipe.take().unwrap_or_default();
        let sink = BodySink::new(pipe.clone());
        pipe.begin(head);
        sink
    }

    /// Answers with all there is to say, and says how long it is.
    pub fn respond_whole(mut self, answer: Response<Bytes>) {
        let pipe = self.pipe.take().unwrap_or_default();
        let (head, body) = answer.into_parts();
        pipe.fill_whole(&body);
        pipe.begin(Response::from_parts(head, ()));
    }

    /// Waits until the client has left, also once the answer is being written. For one to
    /// wait at a time.
    pub fn gone(&self) -> impl Future<Output = ()> + use<> {
        self.pipe.clone().unwrap_or_default().gone()
    }

    /// Has the client left?
    pub fn is_gone(&self) -> bool {
        self.pipe.as_ref().is_some_and(|pipe| pipe.is_gone())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            pipe.give_up();
        }
    }
}

/// A server that runs. Dropping it ends everything at once.
pub struct Server {
    stop: watch::Sender<Option<Instant>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves every client that connects. The handler is called for each request and has to be quick:
    /// what takes time is a task of its own. Must be called inside a `LocalSet`.
    pub fn start(
        listener: Listener,
        limits: Limits,
        handler: impl Fn(Exchange) + 'static,
    ) -> Server {
        Server::start_on(&Threads::default(), listener, limits, handler)
    }

    /// The same, and these threads have connections, too. The handler is called here.
    pub fn start_on(
        threads: &Threads,
        listener: Listener,
        limits: Limits,
        handler: impl Fn(Exchange) + 'static,
    ) -> Server {
        let (stop, stopped) = watch::channel(None);
        let shared = Shared::new(limits, handler);
        let places = Places::new(threads, &shared);
        let task = crate::task::spawn_local(accept(listener, shared, places, stopped));
        Server { stop, task }
    }

    /// Stops accepting, closes idle connections, and gives exchanges in flight so long to end.
    pub async fn shutdown(mut self, patience: Duration) {
        self.stop.send_replace(Some(Instant::now() + patience));
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What all connections of a server have in common.
#[derive(Clone)]
pub(super) struct Shared {
    limits: Rc<Limits>,
    handler: Rc<dyn Fn(Exchange)>,
}

impl Shared {
    pub(super) fn new(limits: Limits, handler: impl Fn(Exchange) + 'static) -> Shared {
        Shared { limits: Rc::new(limits), handler: Rc::new(handler) }
    }
}

pub(super) type Stop = watch::Receiver<Option<Instant>>;

/// The threads that connections may be on.
struct Places {
    /// How many are on this one.
    here: Rc<Cell<usize>>,
    others: Vec<Rc<Home>>,
    /// This one has connections only if there is no other.
    others_have_all: bool,
    /// What speaks with the others.
    _tasks: JoinSet<()>,
}

impl Places {
    fn new(threads: &Threads, shared: &Shared) -> Places {
        let mut tasks = JoinSet::new();
        let found =
            |thread| Home::found(thread, *shared.limits, shared.handler.clone(), &mut tasks);
        let others = threads.each().map(found).collect();
        let others_have_all = threads.has_all();
        Places { here: Rc::default(), others, others_have_all, _tasks: tasks }
    }

    /// Where the next connection goes; `None` is this thread.
    ///
    /// This one also has all that is asked on the others, so that it takes fewer. But it takes the
    /// first: as long as there is little to do, what passes between threads would only cost time.
    fn choose(&self) -> Option<Seat> {
        let others = || self.others.iter().filter(|other| !other.is_lost());
        let all: usize = others().map(|other| other.connections()).sum();
        let mine = self.here.get() * OTHERS_SHARE * others().count();
        let least = others().min_by_key(|other| other.connections())?;
        (self.others_have_all || all < mine).then(|| least.seat())
    }
}

/// For each connection of the thread that has the bus, each other thread has so many.
const OTHERS_SHARE: usize = 3;

/// One more connection on this thread, for as long as it lives.
struct CountedHere(Rc<Cell<usize>>);

impl CountedHere {
    fn new(here: &Rc<Cell<usize>>) -> CountedHere {
        here.set(here.get() + 1);
        CountedHere(here.clone())
    }
}

impl Drop for CountedHere {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn accept(listener: Listener, shared: Shared, places: Places, mut stop: Stop) {
    let stopped = stop.clone();
    let serve = |arrival: Arrival, member: Rc<Member>| {
        let (shared, stop) = (shared.clone(), stopped.clone());
        let there = places.choose();
        let here = there.is_none().then(|| CountedHere::new(&places.here));
        async move {
            let _counted = here;
            match there {
                Some(there) => there.carry(arrival, &member, stop).await,
                None => {
                    let opened = move |socket: &Rc<ServerSocket>| {
                        let quiet = socket.clone();
                        member.opened(move || quiet.quiet_since());
                    };
                    serve(arrival, opened, shared, stop).await;
                }
            }
        }
    };
    let Limits { connections_max, silence, .. } = *shared.limits;
    let room = Room { connections_max, silence };
    let (until, mut connections) =
        crowd::serve_all(listener, room, stopping(&mut stop), serve).await;
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout_at(until, all).await.is_err() {
        connections.shutdown().await;
    }
}

/// Waits until it is said, and gives how long to wait then.
async fn stopping(stop: &mut Stop) -> Instant {
    match stop.wait_for(Option::is_some).await {
        Ok(until) => until.unwrap_or_else(Instant::now),
        // The server was dropped, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(
    arrival: Arrival,
    opened: impl FnOnce(&Rc<ServerSocket>),
    shared: Shared,
    mut stop: Stop,
) {
    let limits = shared.limits.clone();
    let peer = arrival.peer.clone();
    let stream = tokio::select! {
        stream = arrival.open(limits.head_timeout) => stream,
        _ = stopping(&mut stop) => return,
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!("{peer}: {error}"),
    };
    let identity = stream.identity();
    let socket = Rc::new(ServerSocket::new(stream, limits.clone()));
    opened(&socket);
    let open = Open::new(socket.clone());
    let asker = peer.clone();
    let service = Service { socket: socket.clone(), handler: shared.handler, peer, identity };
    let builder = builder(&limits);
    {
        let io = TokioIo::new(Io(socket.clone()));
        let connection = pin!(builder.serve_connection(io, service));
        if let Some(error) = drive(connection, &socket, stop).await {
            tracing::info!(peer = %asker, "refused: what came is no HTTP: {error}");
        }
    }
    open.close().await;
}

fn builder(limits: &Limits) -> auto::Builder<OnThisThread> {
    let mut builder = auto::Builder::new(OnThisThread);
    // Also the room for what hyper has taken from a body and not yet written.
    builder.http1().max_buf_size(limits.head_bytes_max.max(8192)).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(limits.http2_fields_max.unwrap_or_default())
        .max_send_buf_size(limits.head_bytes_max)
        // A client that has vanished is found out.
        .keep_alive_interval(limits.idle_timeout / 2)
        .keep_alive_timeout(limits.head_timeout);
    match limits.http2_fields_max {
        Some(_) => builder,
        None => builder.http1_only(),
    }
}

type Connection<'a> = auto::Connection<'a, TokioIo<Io>, Service, OnThisThread>;

/// Drives a connection until it ends, or patience with it does. Tells what is wrong with bytes that are no request.
async fn drive(
    mut connection: Pin<&mut Connection<'_>>,
    socket: &ServerSocket,
    mut stop: Stop,
) -> Option<String> {
    let mut stopping = pin!(stopping(&mut stop));
    let mut is_stopping = false;
    let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|context| {
        socket.wakes(context);
        if socket.is_cut_off() {
            return Poll::Ready(None);
        }
        if !is_stopping && stopping.as_mut().poll(context).is_ready() {
            is_stopping = true;
            socket.part();
            connection.as_mut().graceful_shutdown();
        }
        loop {
            // How it ended is told to each exchange on it.
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                let error = ended.err();
                let error = error.as_ref().and_then(|error| error.downcast_ref::<hyper::Error>());
                let unread = error.filter(|error| error.is_parse());
                return Poll::Ready(unread.map(ToString::to_string));
            }
            socket.poll_drain(context);
            let Some((deadline, then)) = socket.deadline() else { return Poll::Pending };
            if poll_alarm(alarm.as_mut(), context, deadline).is_pending() {
                return Poll::Pending;
            }
            match then {
                Then::Close => return Poll::Ready(None),
                Then::StopDraining => socket.stop_draining(),
                Then::Part => {
                    socket.part();
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    })
    .await
}

/// One timer, set anew only when it must ring earlier or has rung too early: a connection in
/// use moves its deadline with every request.
fn poll_alarm(
    mut alarm: Pin<&mut Sleep>,
    context: &mut Context<'_>,
    deadline: Instant,
) -> Poll<()> {
    loop {
        if deadline < alarm.deadline() {
            alarm.as_mut().reset(deadline);
        }
        std::task::ready!(alarm.as_mut().poll(context));
        if deadline <= Instant::now() {
            return Poll::Ready(());
        }
        alarm.as_mut().reset(deadline);
    }
}

/// What hyper calls for each request of a connection.
struct Service {
    socket: Rc<ServerSocket>,
    handler: Rc<dyn Fn(Exchange)>,
    peer: Whereabouts,
    identity: PeerIdentity,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Pushed<InFlight>>;
    type Error = Infallible;
    type Future = PendingAnswer;

    fn call(&self, request: Request<Incoming>) -> PendingAnswer {
        let is_http2 = request.version() == Version::HTTP_2;
        let in_flight = self.socket.begin(is_http2);
        let socket = (!is_http2).then(|| self.socket.clone());
        let owner = match &socket {
            Some(socket) => Owner::Server(socket.clone()),
            None => self.socket.owner_of_stream(),
        };
        let (head, incoming) = request.into_parts();
        let pipe = Rc::new(Pipe::with_exit(in_flight.exit()));
        let pending = PendingAnswer { pipe: pipe.clone(), socket, in_flight: Some(in_flight) };
        (self.handler)(Exchange {
            head,
            body: Body::new(incoming, owner),
            responder: Responder { pipe: Some(pipe) },
            peer: self.peer.clone(),
            identity: self.identity.clone(),
        });
        pending
    }
}

/// Waits for the head of the answer. hyper drops it when the client leaves before.
struct PendingAnswer {
    pipe: Rc<Pipe>,
    socket: Option<Rc<ServerSocket>>,
    /// `None` once the head is there.
    in_flight: Option<InFlight>,
}

impl Future for PendingAnswer {
    type Output = Result<Response<Pushed<InFlight>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let head = std::task::ready!(self.pipe.poll_head(context));
        let Some(in_flight) = self.in_flight.take() else { return Poll::Pending };
        let body = match self.socket.take() {
            Some(socket) => Pushed::new(self.pipe.clone(), Some(socket), in_flight),
            None => Pushed::over_http2(self.pipe.clone(), in_flight),
        };
        Poll::Ready(Ok(head.map(|()| body)))
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        if self.in_flight.is_some() {
            self.pipe.leave();
        }
    }
}
