//! Exchanges of connections that another thread has.
//!
//! That thread reads and writes, shakes hands, and speaks HTTP: there is an [`Outpost`] of the
//! server. Each exchange is given to the one handler, on the thread of the bus: there is a [`Home`]
//! for each outpost, and what the handler holds of an exchange is the same as of any other. Between
//! the two heads and bodies pass as they are, those of one turn together, and of each exchange only
//! so much as has been asked for or may be unread.

mod home;
mod outpost;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::http::{Response, request};
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolbus_proto::channel::Outbox;

use super::body::BodyError;
use super::server::Stop;
use super::sink::Ending;
use crate::transport::accept::Departed;
use crate::transport::io::BYTES_WAITING_MAX;
use crate::transport::{PeerIdentity, Whereabouts};

pub(super) use home::{FarBody, FarPipe, Home, Seat};
pub(super) use outpost::{Outpost, Watch};

/// What of the body of a request may be with us and not taken by the handler.
const UNTAKEN_MAX: usize = 64 * 1024;
/// With so much of an answer unwritten, no more is sent to the thread that writes it.
pub(super) const UNWRITTEN_MAX: usize = BYTES_WAITING_MAX;
/// What was written is told when it is so much.
const TOLD_FROM: usize = 16 * 1024;

/// What a connection's thread says.
pub(super) enum ToHome {
    /// A request has come.
    Begun(Box<Begun>),
    /// More of its body.
    Part(u64, Bytes),
    /// Its body is over.
    Ended(u64, Result<(), BodyError>),
    /// So many bytes of the answer are not kept any more.
    Released(u64, usize),
    /// The client has left.
    Left(u64),
    /// Nothing is kept of the answer, and nothing more is taken of it.
    Over(u64),
}

/// A request, with as much of its body as had come with its head.
pub(super) struct Begun {
    id: u64,
    head: request::Parts,
    parts: VecDeque<Bytes>,
    /// Is that all of it?
    is_whole: bool,
    /// Its client sends a body only once that is asked for.
    waits: bool,
    peer: Whereabouts,
    identity: PeerIdentity,
}

/// What the thread of the bus says.
pub(super) enum ToOutpost {
    /// A client has connected.
    Connection(Box<Moved>),
    /// More of an answer.
    Answer(Box<Shipment>),
    /// So much more of a body may come.
    Credit(u64, usize),
    /// The rest of a body is of no interest.
    Unwanted(u64),
    /// The client is to be cut off.
    Cut(u64),
}

/// More of an answer.
pub(super) struct Shipment {
    pub(super) id: u64,
    pub(super) head: Option<Response<()>>,
    pub(super) body: Outbox,
    /// That is all of it, and its head says how long it is.
    pub(super) is_whole: bool,
    /// How it ends; [`Ending::Open`] if there may be more.
    pub(super) ending: Ending,
}

/// A connection on its way to another thread.
pub(super) struct Moved {
    arrival: Departed,
    stop: Stop,
    quiet: Arc<Quiet>,
    /// Closed when the connection is to end at once.
    keep: oneshot::Receiver<()>,
    /// Closed when it has ended.
    ended: oneshot::Sender<()>,
}

/// Since when no exchange is under way on a connection, as another thread sees it.
#[derive(Debug)]
pub(in crate::transport) struct Quiet {
    came: Instant,
    /// Microseconds from then on, and one more; 0 while an exchange is under way.
    since: AtomicU64,
}

impl Quiet {
    fn new() -> Arc<Quiet> {
        Arc::new(Quiet { came: Instant::now(), since: AtomicU64::new(1) })
    }

    pub(super) fn set(&self, is_quiet: bool) {
        let since = match is_quiet {
            true => u64::try_from(self.came.elapsed().as_micros()).unwrap_or(u64::MAX - 1) + 1,
            false => 0,
        };
        self.since.store(since, Ordering::Relaxed);
    }

    fn since(&self) -> Option<Instant> {
        let since = self.since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.came + Duration::from_micros(since))
    }
}
