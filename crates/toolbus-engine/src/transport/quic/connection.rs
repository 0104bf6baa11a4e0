//! An open connection: streams of either side, who the peer is, and how it ends.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use quinn::VarInt;
use rustls::pki_types::CertificateDer;
use toolbus_proto::channel::{StreamLost, Streams};
use toolbus_proto::tool::{Failure, FailureKind};

use super::error::{cause, code, with_connection};
use super::streams::{QuicReader, QuicWriter, Side};
use super::tuning::{STREAMS_BUSY, STREAMS_MANY};
use crate::transport::PeerIdentity;
use crate::transport::io::Opener;
use crate::wake::turn;

/// What a client says when it closes; a server says nothing.
const CLIENT_CLOSED: &[u8] = b"client closed";

/// An open connection. Cheap to clone; it is closed, streams and all, when the last of its clones
/// and openers is dropped.
#[derive(Clone)]
pub struct Connection(Rc<Shared>);

struct Shared {
    connection: quinn::Connection,
    heard: Heard,
    /// How many of the peer's streams are open.
    open: Rc<Cell<usize>>,
    /// The peer may have many of them.
    is_busy: Cell<bool>,
    /// What is said when it is closed.
    reason: &'static [u8],
}

/// Has the peer ever said something inside?
#[derive(Debug, Clone, Default)]
pub(super) struct Heard(Rc<Cell<bool>>);

impl Heard {
    pub(super) fn set(&self) {
        self.0.set(true);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.get()
    }
}

impl Connection {
    pub(super) fn dialled(connection: quinn::Connection) -> Connection {
        Connection::new(connection, CLIENT_CLOSED)
    }

    pub(super) fn accepted(connection: quinn::Connection) -> Connection {
        Connection::new(connection, b"")
    }

    fn new(connection: quinn::Connection, reason: &'static [u8]) -> Connection {
        let (heard, open, is_busy) = (Heard::default(), Rc::default(), Cell::new(false));
        Connection(Rc::new(Shared { connection, heard, open, is_busy, reason }))
    }

    /// Opens streams for a machine, and keeps the connection open.
    pub fn opener(&self) -> QuicOpener {
        QuicOpener(self.clone())
    }

    /// The next stream that the peer opens; `None` when there is no connection any more.
    pub async fn accept(&self) -> Option<(QuicReader, QuicWriter)> {
        let Shared { connection, open, is_busy, .. } = &*self.0;
        let (send, receive) = connection.accept_bi().await.ok()?;
        open.set(open.get() + 1);
        if STREAMS_BUSY <= open.get() && !is_busy.replace(true) {
            connection.set_max_concurrent_bi_streams(VarInt::from_u32(STREAMS_MANY));
        }
        Some(self.stream(send, receive, Side::Peer(open.clone())))
    }

    /// Waits until the connection is over, and tells why.
    pub async fn closed(&self) -> Failure {
        let error = self.0.connection.closed().await;
        Failure::new(FailureKind::Gone, cause(&error, self.0.heard.is_set()))
    }

    /// By which code of QUIC the peer ended it, if it did so: 0x100 and more are alerts of TLS.
    pub fn closed_by_code(&self) -> Option<u64> {
        self.0.connection.close_reason().as_ref().and_then(code)
    }

    /// Is it over?
    pub fn is_closed(&self) -> bool {
        self.0.connection.close_reason().is_some()
    }

    /// Closes it, with code 0: what is not written yet is lost.
    pub fn close(&self) {
        self.0.close();
    }

    /// Closes it, and waits until the peer has been told.
    pub async fn say_goodbye(&self) {
        self.close();
        // The transport has its turn, and what it does in it is to send.
        turn().await;
        turn().await;
    }

    /// Closes it with this code and reason, and waits until the peer has been told.
    pub async fn refuse(&self, code: u32, reason: &str) {
        self.0.connection.close(VarInt::from_u32(code), reason.as_bytes());
        // The transport has its turn, and what it does in it is to send.
        turn().await;
        turn().await;
    }

    /// What it shows of who the peer is.
    pub fn identity(&self) -> PeerIdentity {
        PeerIdentity::of_chain(&self.peer_chain())
    }

    /// Where the peer is.
    pub fn peer_address(&self) -> SocketAddr {
        self.0.connection.remote_address()
    }

    /// By which certificates the peer proved who it is, its own first. None if it did not.
    pub fn peer_chain(&self) -> Vec<CertificateDer<'static>> {
        let identity = self.0.connection.peer_identity();
        let chain = identity.and_then(|identity| identity.downcast().ok());
        chain.map_or_else(Vec::new, |chain: Box<Vec<CertificateDer<'static>>>| *chain)
    }

    fn stream(
        &self,
        send: quinn::SendStream,
        receive: quinn::RecvStream,
        opened_by: Side,
    ) -> (QuicReader, QuicWriter) {
        let heard = &self.0.heard;
        let writer = QuicWriter::new(send, opened_by, heard.clone());
        (QuicReader::new(receive, heard.clone()), writer)
    }
}

impl Shared {
    fn close(&self) {
        self.connection.close(VarInt::from_u32(0), self.reason);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens streams on one connection.
#[derive(Clone)]
pub struct QuicOpener(Connection);

impl<M: Streams<Opening = (), Answer = ()>> Opener<M> for QuicOpener {
    type Reader = QuicReader;
    type Writer = QuicWriter;

    /// Waits until the peer allows one more stream.
    async fn open(&self, (): ()) -> Result<(QuicReader, QuicWriter), StreamLost> {
        match self.0.0.connection.open_bi().await {
            Ok((send, receive)) => Ok(self.0.stream(send, receive, Side::Us)),
            Err(error) => Err(with_connection(&error, self.0.0.heard.is_set())),
        }
    }
}
