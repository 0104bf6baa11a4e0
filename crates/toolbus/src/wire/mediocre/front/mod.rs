//! Being a mediocre-rpc server: the tools of the bus for the clients that connect (`docs/protocols/mediocre.md` §5, §6).
//!
//! Each connection, and each exchange over HTTP, has a machine of its own before one bus;
//! calls of one connection wait for each other, calls of many do not.

mod door;
#[cfg(feature = "http")]
mod http;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::sync::watch;
use toolbus_proto::channel::Ended;
use toolbus_proto::mediocre::Server;

use crate::bus::Route;
use crate::chance::OsRandom;
use crate::engine::calls::Sharing;
use crate::engine::front::Front;
use crate::peer::guests::{Entry, Guests};
use crate::transport::crowd::{self, Member, Room};
use crate::transport::io::{Sink, Source};
use crate::transport::{Arrival, Listener, PeerIdentity};

pub use door::{ListenAddress, ListenAddressError, OpenError, OpenListener};
pub use toolbus_proto::mediocre::ServerSettings as Settings;

/// What calls in flight have when we are asked to stop.
const STOP_PATIENCE: Duration = crate::wire::mediocre::PATIENCE.last_calls;
/// How long shaking hands may take, where that is asked for.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// A server on any number of listeners and streams. Cheap to clone; lives inside a `LocalSet`.
#[derive(Clone)]
pub struct Mediocre {
    guests: Rc<Guests>,
    settings: Settings,
    /// How long calls in flight have, once none is taken any more.
    stop: Rc<watch::Sender<Option<Duration>>>,
}

impl Mediocre {
    /// Calls go to `route`.
    pub fn new(route: Rc<dyn Route>, settings: Settings) -> Mediocre {
        Mediocre::of(Rc::new(Guests::by(route)), settings)
    }

    /// Calls go where `guests` are led.
    pub(super) fn of(guests: Rc<Guests>, settings: Settings) -> Mediocre {
        Mediocre { guests, settings, stop: Rc::new(watch::Sender::new(None)) }
    }

    /// No call is taken any more; those in flight have a while to be answered.
    pub fn stop(&self) {
        self.drain(STOP_PATIENCE);
    }

    /// No call is taken any more; those in flight have so long to be answered.
    pub fn drain(&self, patience: Duration) {
        self.stop.send_replace(Some(patience));
    }

    /// Serves the clients that connect, until it is told to stop and the last call is over.
    pub async fn listen(&self, listener: Listener) {
        let welcome = |arrival, member| self.clone().welcome(arrival, member);
        let (patience, mut connections) =
            crowd::serve_all(listener, Room::USUAL, self.stopped(), welcome).await;
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(patience, all).await;
    }

    async fn welcome(self, arrival: Arrival, member: Rc<Member>) {
        let peer = arrival.peer.to_string();
        let stream = match arrival.open(HANDSHAKE_PATIENCE).await {
            Ok(stream) => stream,
            Err(error) => return tracing::info!(peer, "the handshake failed: {error}"),
        };
        let entry = self.guests.enter(stream.identity(), &peer);
        let (source, sink, rest) = stream.split();
        let front = self.front(entry.route());
        front.set_peer(peer.clone());
        let heard = Rc::new(Cell::new(tokio::time::Instant::now()));
        let (quiet, last) = (front.clone(), heard.clone());
        member.opened(move || quiet.is_idle().then(|| last.get()));
        match self.talk_by(&front, &entry, Heard { source, heard }, sink).await {
            // The machine has read to the end already.
            Talked::ToTheEnd(Ended::Broke(why)) => tracing::info!(peer, "broke off: {why}"),
            Talked::ToTheEnd(_) => {}
            Talked::UntilStopped => rest.close().await,
        }
    }

    /// Serves one connection whose streams are there already, until it is over.
    pub async fn talk(&self, source: impl Source, sink: impl Sink) -> Talked {
        let entry = self.guests.enter(PeerIdentity::default(), "the client");
        self.talk_by(&self.front(entry.route()), &entry, source, sink).await
    }

    fn front(&self, route: Rc<dyn Route>) -> Rc<Front<Server<OsRandom>>> {
        let machine = Server::new(Instant::now(), self.settings, OsRandom::new());
        // The machine itself says how long its calls may be quiet.
        Front::with_sharing(machine, route, None, Sharing::Alone)
    }

    async fn talk_by(
        &self,
        front: &Front<Server<OsRandom>>,
        entry: &Entry,
        source: impl Source,
        sink: impl Sink,
    ) -> Talked {
        let sink = Patient { sink, patience: self.settings.call_timeout, since: None };
        let stopped = async {
            let patience = self.stopped().await;
            let _ = tokio::time::timeout(patience, front.idle()).await;
        };
        tokio::select! {
            biased;
            ended = front.serve(source, sink) => Talked::ToTheEnd(ended),
            () = stopped => Talked::UntilStopped,
            () = entry.over(front.idle()) => Talked::UntilStopped,
        }
    }

    /// Waits until no call is to be taken any more, and gives how long those in flight have.
    async fn stopped(&self) -> Duration {
        let mut stop = self.stop.subscribe();
        // Cannot fail: the sender is ours.
        let asked = stop.wait_for(Option::is_some).await;
        asked.ok().and_then(|asked| *asked).unwrap_or(STOP_PATIENCE)
    }
}

/// A stream of which is known when something came last.
struct Heard<S> {
    source: S,
    heard: Rc<Cell<tokio::time::Instant>>,
}

impl<S: Source> Source for Heard<S> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let read = self.source.read(input).await;
        self.heard.set(tokio::time::Instant::now());
        read
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talked {
    /// The client left, broke the protocol, or was left.
    ToTheEnd(Ended),
    /// We were told to stop, or the client is no caller of the front.
    UntilStopped,
}

/// A stream that counts as broken if nothing can be written for too long.
struct Patient<S> {
    sink: S,
    patience: Duration,
    /// Since when the other side takes nothing.
    since: Option<tokio::time::Instant>,
}

impl<S: Sink> Sink for Patient<S> {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // A write is often dropped and begun anew: what counts is when the first of them was.
        let since = *self.since.get_or_insert_with(tokio::time::Instant::now);
        let wrote = tokio::time::timeout_at(since + self.patience, self.sink.write(pieces)).await;
        self.since = None;
        wrote.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn closed(&self) {
        self.sink.closed().await;
    }
}
