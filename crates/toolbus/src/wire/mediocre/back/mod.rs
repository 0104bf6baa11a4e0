//! A mediocre-rpc server behind the bus: its methods are tools (`docs/protocols/mediocre.md` §5, §9).
//!
//! A connection carries one call at a time, so a host has a pool of them; over HTTP a call is
//! an exchange. A program has one pair of pipes: there calls wait for each other.

mod connections;
#[cfg(feature = "http")]
mod exchanges;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::mediocre::{Client, Methods, Reading};
use toolbus_proto::tool::{Call, Failure, FailureKind, LastWords, Outcome, ToolSpec, What, Wire};

use self::connections::Connections;
#[cfg(feature = "http")]
use self::exchanges::Exchanges;
use crate::bus::back::{Back, Connection, LocalFuture};
use crate::chance::OsRandom;
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::engine::calls::{Inbox, ReplyTo, RunningCall, Sharing};
use crate::engine::pool::{Limits, Pool};
use crate::engine::program::Child;
#[cfg(feature = "http")]
use crate::wire::mediocre::reach::Site;

/// How many connections one server has, or exchanges at a time, and how long they are kept.
const LIMITS: Limits = Limits {
    kept_max: 16,
    waiting_max: 1024,
    idle: Duration::from_secs(60),
    stop: crate::wire::mediocre::PATIENCE.goodbye,
};

/// All that can be set about a mediocre-rpc server behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the log calls it.
    pub name: String,
    /// How its bytes are read.
    pub reading: Reading,
    /// Which methods it has.
    pub methods: Methods,
    /// How long it may be quiet when it is asked for its methods.
    pub timeout: Duration,
}

/// Where a server listens.
#[derive(Clone)]
pub enum Host {
    /// A host and a port.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket file.
    Unix(PathBuf),
    /// A host and a port, spoken to over TLS.
    #[cfg(feature = "tls")]
    Tls {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// Whom to trust, and who we are.
        tls: crate::transport::tls::ClientTls,
    },
}

/// What is started, and for how long it is waited for.
#[derive(Debug, Clone)]
pub struct Started {
    /// What to start.
    pub program: Program,
    /// How long to wait at each turn of its life.
    pub patience: Patience,
    /// May it be started again once it has died?
    pub restart: Restart,
}

/// A server that is connected to, or started, by the first call.
pub struct Mediocre {
    peer: Peer,
    timeout: Duration,
    /// How long a program has for its first answer, until that has come.
    first: Cell<Option<Duration>>,
}

enum Peer {
    Host(Rc<Pool<Connections>>),
    #[cfg(feature = "http")]
    Http(Exchanges),
    Program(Child<Client<OsRandom>>),
}

impl Mediocre {
    /// Does not connect yet. Must be called inside a `LocalSet`.
    pub fn at(host: Host, options: Options, patience: Duration) -> Mediocre {
        let (name, timeout) = (options.name.clone(), options.timeout);
        let pool = Pool::new(name, LIMITS, Connections::new(host, options, patience));
        Mediocre { peer: Peer::Host(pool), timeout, first: Cell::new(None) }
    }

    /// Does not connect yet; calls go to `path`. Must be called inside a `LocalSet`.
    #[cfg(feature = "http")]
    pub fn over_http(site: Site, options: Options, patience: Duration) -> Mediocre {
        let timeout = options.timeout;
        let peer = Peer::Http(Exchanges::new(site, options, patience));
        Mediocre { peer, timeout, first: Cell::new(None) }
    }

    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn program(started: Started, options: Options) -> Mediocre {
        let Started { program, patience, restart } = started;
        let Options { name, reading, methods, timeout } = options;
        let make = move || Client::new(Instant::now(), reading, methods.clone(), OsRandom::new());
        let supervisor = Supervisor::new(name.clone(), patience, restart);
        // One call at a time: what its caller does not take is not read.
        let child = Child::new(name, program, Sharing::Alone, supervisor, make);
        Mediocre { peer: Peer::Program(child), timeout, first: Cell::new(Some(patience.start)) }
    }
}

impl Back for Mediocre {
    fn wire(&self) -> Wire {
        toolbus_proto::mediocre::WIRE
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        let (inbox, reply_to) = Inbox::new();
        let mut call = Call::of(Instant::now(), What::Tools);
        let first = self.first.get().map(|first| first.min(self.timeout));
        call.deadline.quiet = first.or(Some(self.timeout));
        let running = self.start(call, reply_to);
        Box::pin(async move {
            match inbox.whole(running).await? {
                Outcome::Tools(tools) => {
                    self.first.set(None);
                    Ok(tools)
                }
                _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list of tools")),
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &self.peer {
            Peer::Host(pool) => pool.start(call, down),
            #[cfg(feature = "http")]
            Peer::Http(exchanges) => exchanges.start(call, down),
            Peer::Program(child) => child.start(call, down),
        }
    }

    fn connection(&self, _call: &Call) -> Connection {
        match &self.peer {
            Peer::Program(child) => child.run().map_or(Connection::None, Connection::Open),
            _ => Connection::Remote,
        }
    }

    fn is_starting(&self) -> bool {
        matches!(&self.peer, Peer::Program(child) if child.is_starting())
    }

    fn last_words(&self) -> Option<LastWords> {
        match &self.peer {
            Peer::Program(child) => child.last_words(),
            _ => None,
        }
    }

    fn restarts(&self) -> Option<u64> {
        match &self.peer {
            Peer::Program(child) => Some(child.restarts()),
            _ => None,
        }
    }

    fn rest(&self) -> bool {
        match &self.peer {
            Peer::Program(child) => child.rest(),
            _ => false,
        }
    }

    fn shutdown(&self) -> LocalFuture<'_, ()> {
        match &self.peer {
            Peer::Host(pool) => Box::pin(pool.shutdown()),
            #[cfg(feature = "http")]
            Peer::Http(exchanges) => Box::pin(exchanges.shutdown()),
            Peer::Program(child) => Box::pin(child.shutdown()),
        }
    }

    fn kill(&self) {
        match &self.peer {
            Peer::Host(pool) => drop(pool.close()),
            #[cfg(feature = "http")]
            Peer::Http(exchanges) => exchanges.close(),
            Peer::Program(child) => child.kill(),
        }
    }
}

impl Drop for Mediocre {
    fn drop(&mut self) {
        if let Peer::Host(pool) = &self.peer {
            drop(pool.close());
        }
    }
}
