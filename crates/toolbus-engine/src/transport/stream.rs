//! One connection, whatever carries it, and how to part from it without losing the last word.
//!
//! One type for TCP, Unix sockets and TLS: a wire, and all of HTTP below it, is compiled once.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// An open connection.
#[derive(Debug)]
pub enum Stream {
    /// Bare TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(Box<super::tls::TlsStream>),
}

/// How long and how much is read after our last word, before a connection is closed.
///
/// Closing with unread input resets the connection, and the reset may overtake the last answer
/// (`docs/protocols/mediocre.md` 5).
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// What a connection itself shows of who is at its other end.
#[derive(Debug, Clone, Default)]
pub struct PeerIdentity {
    /// The DER of a certificate that was found to be good.
    pub certificate: Option<Arc<[u8]>>,
    /// The user whose process it is, as the kernel says.
    pub uid: Option<u32>,
}

impl PeerIdentity {
    /// Of these certificates the first is the peer's own.
    #[cfg(any(feature = "quic", feature = "tls"))]
    pub(super) fn of_chain(chain: &[rustls::pki_types::CertificateDer<'_>]) -> PeerIdentity {
        let certificate = chain.first().map(|certificate| certificate.as_ref().into());
        PeerIdentity { certificate, uid: None }
    }
}

impl Stream {
    /// Says that no more will be written, then reads and throws away what still comes, for at
    /// most a second or 1 MiB, and closes.
    pub async fn close(mut self) {
        linger(&mut self).await;
    }

    /// What it shows of who is at its other end.
    pub fn identity(&self) -> PeerIdentity {
        match self {
            Stream::Tcp(_) => PeerIdentity::default(),
            Stream::Unix(stream) => PeerIdentity {
                uid: stream.peer_cred().ok().map(|of| of.uid()),
                ..PeerIdentity::default()
            },
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                PeerIdentity::of_chain(stream.get_ref().1.peer_certificates().unwrap_or_default())
            }
        }
    }

    /// A second descriptor of the socket, in order to poll it while the halves read and write.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        let socket = match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.get_ref().0.as_fd(),
        };
        socket.try_clone_to_owned()
    }

    /// Parts the two directions, for a task that drives both; [`Rest`] closes what they leave.
    pub fn split(self) -> (ReadHalf, WriteHalf, Rest) {
        let shared = Rc::new(RefCell::new(self));
        let write = WriteHalf { stream: shared.clone(), unflushed: Cell::new(0) };
        (ReadHalf(shared.clone()), write, Rest(shared))
    }
}

pub(super) async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let all = async {
        // Fails if the other side has gone; then no goodbye is needed.
        stream.shutdown().await?;
        let mut thrown_away = 0;
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        while thrown_away < LINGER_BYTES_MAX {
            buffer.clear();
            match stream.read_buf(&mut buffer).await? {
                0 => break,
                count => thrown_away += count,
            }
        }
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, all).await;
}

/// The direction to read from.
#[derive(Debug)]
pub struct ReadHalf(Rc<RefCell<Stream>>);

/// The direction to write to. Dropping it says that no more will be written.
///
/// What a write says it has written is on its way: over TLS too, where bytes can be taken and
/// then wait to be flushed.
#[derive(Debug)]
pub struct WriteHalf {
    stream: Rc<RefCell<Stream>>,
    /// Taken by the last write, which still waits for them to be on their way.
    unflushed: Cell<usize>,
}

/// What is left when both halves are in other hands.
#[derive(Debug)]
pub struct Rest(Rc<RefCell<Stream>>);

impl Rest {
    /// As [`Stream::close`], once the halves are dropped. Before, it does nothing.
    pub async fn close(self) {
        if let Some(stream) = Rc::into_inner(self.0) {
            stream.into_inner().close().await;
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        if self.unflushed.get() == 0 {
            let taken = ready!(Pin::new(&mut *stream).poll_write_vectored(context, pieces))?;
            self.unflushed.set(taken);
        }
        // A caller that drops this write comes back with the same bytes, and is told then.
        ready!(Pin::new(&mut *stream).poll_flush(context))?;
        Poll::Ready(Ok(self.unflushed.take()))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context)
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        // A socket does it at once. TLS does if its few bytes fit, and if they do not, the
        // other side sees an end without a goodbye, which is an end all the same.
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(&mut context);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                match ready!(Pin::new(stream).poll_read(context, buffer)) {
                    // An end without a goodbye: what is inside has its own way to know
                    // whether it was complete (`docs/protocols/mediocre.md` 6).
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Poll::Ready(Ok(()))
                    }
                    read => Poll::Ready(read),
                }
            }
        }
    }
}

/// Calls the same function of whichever stream it is.
macro_rules! of_each {
    ($self:expr, $stream:ident => $do:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $do,
            Stream::Unix($stream) => $do,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $do,
        }
    };
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_each!(self, stream => Pin::new(stream).poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        // True of all three.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_each!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
