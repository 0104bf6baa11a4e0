//! Who asks a hub: connections from outside, plugins among them.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Instant;

use tokio::task::JoinSet;
use toolbus_proto::channel::{Asked, StreamLost, Ticket, Up};
use toolbus_proto::orchestra::hub::Asker;
use toolbus_proto::orchestra::{Role, Server, ServerSettings};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind};

use super::{Asking, Inner};
use crate::bus::Route;
use crate::bus::observe::Observed;
use crate::engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use crate::engine::front::Front;
use crate::task::boxed;
use crate::transport::io::{Sink, Stop, Writer};
use crate::transport::pipe::Output;
use crate::transport::quic::{Connection, HANDSHAKE, Listener};
use crate::transport::stream::WriteHalf;
use crate::transport::{self, Stream};
use crate::wire::orchestra::certificates::common_name;
use crate::wire::orchestra::wall_time;

/// Serves whoever connects.
pub(super) async fn accept(inner: Rc<Inner>, listener: Rc<Listener>) {
    let mut callers = JoinSet::new();
    while let Some(arrival) = listener.accept().await {
        while callers.try_join_next().is_some() {}
        let inner = inner.clone();
        callers.spawn_local(boxed(async move {
            let peer = arrival.peer_address();
            match arrival.open(HANDSHAKE).await {
                Ok(connection) => serve(&inner, connection).await,
                Err(error) => tracing::info!("{peer} was not let in: {error}"),
            }
        }));
    }
}

async fn serve(inner: &Rc<Inner>, connection: Connection) {
    let name = connection.peer_chain().first().and_then(|certificate| common_name(certificate));
    let (front, id) = join(inner, name);
    let accepting = async {
        while let Some((reader, writer)) = connection.accept().await {
            front.welcome((), reader, writer);
        }
    };
    tokio::select! {
        () = accepting => {}
        () = front.run() => {}
    }
    leave(inner, &front, id);
}

/// Serves whoever connects without TLS: a request each.
pub(super) async fn accept_tcp(inner: Rc<Inner>, listener: transport::Listener) {
    let mut callers = JoinSet::new();
    loop {
        let arrival = listener.accept().await;
        while callers.try_join_next().is_some() {}
        let inner = inner.clone();
        callers.spawn_local(boxed(async move {
            if let Ok(stream) = arrival.open(HANDSHAKE).await {
                serve_tcp(&inner, stream).await;
            }
        }));
    }
}

async fn serve_tcp(inner: &Rc<Inner>, stream: Stream) {
    // Where it cannot be watched, the next write finds out.
    let socket = stream.duplicate().and_then(Output::from_pipe).ok().map(Rc::new);
    let (front, id) = join(inner, None);
    let (read, write, rest) = stream.split();
    front.welcome((), read, TcpWriter { half: write, socket });
    tokio::select! {
        () = front.quiet() => {}
        () = front.run() => {}
    }
    leave(inner, &front, id);
    drop(front);
    rest.close().await;
}

/// A caller of this name, if it has shown one.
fn join(inner: &Rc<Inner>, name: Option<String>) -> (Rc<Front<Server>>, CallerId) {
    let connection = inner.next_caller();
    inner.act(|hub, _| hub.handle_connected(connection, name));
    let inner = Rc::downgrade(inner);
    let route = Rc::new_cyclic(|this| Caller {
        this: this.clone(),
        inner,
        connection,
        next_ticket: Cell::new(0),
    });
    let server = Server::new(ServerSettings::new(Role::Hub, connection));
    (Front::over_many(server, route, None), connection)
}

fn leave(inner: &Inner, front: &Front<Server>, id: CallerId) {
    front.disconnected();
    inner.act(|hub, _| hub.handle_disconnected(id));
    inner.asked.borrow_mut().retain(|asker, _| asker.connection != id);
}

/// One connection, as the way of its requests to the hub.
struct Caller {
    this: Weak<Caller>,
    inner: Weak<Inner>,
    connection: CallerId,
    next_ticket: Cell<u64>,
}

impl Caller {
    fn asker(&self, ticket: Ticket) -> Asker {
        Asker { connection: self.connection, ticket }
    }
}

impl Route for Caller {
    fn start(&self, call: Call, reply: ReplyTo) -> RunningCall {
        let (Some(this), Some(inner)) = (self.this.upgrade(), self.inner.upgrade()) else {
            return RunningCall::ended();
        };
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        let asker = self.asker(ticket);
        let ask = |call, reply, seen: Option<&Rc<Observed>>| {
            let asking = Asking { reply, unrouted: seen.map(Rc::downgrade), slow: None };
            inner.asked.borrow_mut().insert(asker, asking);
            inner.act(|hub, now| hub.ask(now, wall_time(), asker, Asked::Call(call)));
            RunningCall::new(this, ticket)
        };
        match inner.observers.get() {
            Some(observers) => observers.start(call, reply, ask),
            None => ask(call, reply, None),
        }
    }
}

impl Answerer for Caller {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        let Some(inner) = self.inner.upgrade() else { return Pressure::Ready };
        let asker = self.asker(ticket);
        if let Up::Cancel(_) = up {
            let asking = inner.asked.borrow_mut().remove(&asker);
            inner.read_on(asking.and_then(|asking| asking.slow));
        }
        inner.act(|hub, now: Instant| hub.ask(now, wall_time(), asker, Asked::Up(up)));
        Pressure::Ready
    }

    /// The caller reads on: so does whoever answers.
    fn resume(&self, ticket: Ticket) {
        let Some(inner) = self.inner.upgrade() else { return };
        let asker = self.asker(ticket);
        let slow = inner.asked.borrow_mut().get_mut(&asker).and_then(|asking| asking.slow.take());
        inner.read_on(slow);
    }
}

/// The writing side of a connection that is one stream.
struct TcpWriter {
    half: WriteHalf,
    /// The same socket, in order to see that it was hung up.
    socket: Option<Rc<Output>>,
}

impl Sink for TcpWriter {
    async fn write(&mut self, pieces: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
        Sink::write(&mut self.half, pieces).await
    }
}

impl Writer for TcpWriter {
    type Head = ();

    fn answer(&mut self, (): ()) {}

    /// Dropped, it says that no more will be written.
    fn finish(self) {}

    fn reset(self, _code: u64) {}

    /// A caller that hangs up is gone. One that only ends its side may wait for the answer, and
    /// if it does not, the first write finds out.
    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let socket = self.socket.clone();
        async move {
            match socket {
                Some(socket) => socket.closed().await,
                None => std::future::pending().await,
            }
            let failure = Failure::new(FailureKind::Gone, "the caller hung up");
            Stop::Lost(StreamLost { code: None, failure })
        }
    }
}
