//! A mediocre-rpc server behind the bus: its methods are tools (`specs` §5, §9).
//!
//! A connection carries one call at a time, so a host has a pool of them; over HTTP a call is
//! an exchange. A program has one pair of pipes: there calls wait for each other.

#[cfg(feature = "http")]
mod exchanges;
mod journey;
mod pool;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::mediocre::{Client, Methods, Reading};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What, Wire};

#[cfg(feature = "http")]
use self::exchanges::Exchanges;
use self::pool::Pool;
use crate::bus::back::{Back, LocalFuture};
use crate::chance::OsRandom;
use crate::child::supervisor::{Restart, Supervisor};
use crate::child::{Patience, Program};
use crate::engine::calls::{Inbox, ReplyTo, RunningCall, Sharing};
use crate::engine::program::Child;
#[cfg(feature = "http")]
use crate::transport::http::{Origin, Uri};

/// All that can be set about a mediocre-rpc server behind the bus.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the log calls it.
    pub name: String,
    /// How its bytes are read.
    pub reading: Reading,
    /// Which methods it has.
    pub methods: Methods,
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
}

enum Peer {
    Host(Rc<Pool>),
    #[cfg(feature = "http")]
    Http(Exchanges),
    Program(Child<Client<OsRandom>>),
}

impl Mediocre {
    /// Connects to nobody yet. Must be called inside a `LocalSet`.
    pub fn at(host: Host, options: Options, patience: Duration) -> Mediocre {
        Mediocre { peer: Peer::Host(Pool::new(host, options, patience)) }
    }

    /// Connects to nobody yet; calls go to `path`. Must be called inside a `LocalSet`.
    #[cfg(feature = "http")]
    pub fn over_http(origin: Origin, path: Uri, options: Options, patience: Duration) -> Mediocre {
        Mediocre { peer: Peer::Http(Exchanges::new(origin, path, options, patience)) }
    }

    /// Starts nothing yet. Must be called inside a `LocalSet`.
    pub fn program(started: Started, options: Options) -> Mediocre {
        let Started { program, patience, restart } = started;
        let Options { name, reading, methods } = options;
        let make = move || Client::new(Instant::now(), reading, methods.clone(), OsRandom::new());
        let supervisor = Supervisor::new(name.clone(), patience, restart, make);
        // One call at a time: what its caller does not take is not read.
        Mediocre { peer: Peer::Program(Child::new(name, program, Sharing::Alone, supervisor)) }
    }
}

impl Back for Mediocre {
    fn wire(&self) -> Wire {
        toolbus_proto::mediocre::WIRE
    }

    fn tools(&self) -> LocalFuture<'_, Result<Arc<[ToolSpec]>, Failure>> {
        Box::pin(async {
            let (inbox, slot) = Inbox::new();
            let mut call = Call::of(Instant::now(), What::Tools);
            call.deadline.quiet = Some(crate::bus::TIMEOUT);
            let uplink = self.start(call, slot);
            match inbox.whole(uplink).await? {
                Outcome::Tools(tools) => Ok(tools),
                _ => Err(Failure::new(FailureKind::BrokeProtocol, "expected a list of tools")),
            }
        })
    }

    fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        match &self.peer {
            Peer::Host(pool) => pool.start(call, down),
            #[cfg(feature = "http")]
            Peer::Http(exchanges) => exchanges.start(call, down),
            Peer::Program(child) => child.start(call, down),
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
            Peer::Http(exchanges) => drop(exchanges.close()),
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
