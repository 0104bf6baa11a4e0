//! One stream of a connection, as the engine reads and writes it.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use quinn::{ReadError, RecvStream, SendStream, VarInt};
use tokio::io::AsyncReadExt;
use toolbus_proto::channel::{Outbox, StreamLost};

use super::connection::Heard;
use super::error;
use crate::transport::io::{PIECES_MAX, Reader, Sink, Source, Stop, Writer, poll_buffered};

/// What the peer writes. Dropped before its end, the peer is told to stop, with code 0.
pub struct QuicReader {
    stream: RecvStream,
    heard: Heard,
    /// All of it has been read.
    is_at_end: bool,
}

impl QuicReader {
    pub(super) fn new(stream: RecvStream, heard: Heard) -> QuicReader {
        QuicReader { stream, heard, is_at_end: false }
    }
}

impl Source for QuicReader {
    /// Looks for the end behind what it has read: mostly it came in the same packet, and both are
    /// then handled at once.
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        let QuicReader { stream, is_at_end, .. } = self;
        let read = poll_fn(|context| {
            poll_buffered(input, |buffer| {
                let mut taken = ready!(pin!(stream.read_buf(buffer)).poll(context))?;
                *is_at_end = taken == 0;
                // A reset or a loss behind it is met again by the next read.
                if 0 < taken
                    && buffer.len() < buffer.capacity()
                    && let Poll::Ready(Ok(more)) = pin!(stream.read_buf(buffer)).poll(context)
                {
                    taken += more;
                    *is_at_end = more == 0;
                }
                Poll::Ready(Ok::<_, io::Error>(taken))
            })
        });
        match read.await {
            Ok(count) => {
                self.heard.set();
                Ok(count)
            }
            Err(failed) => match failed.downcast::<ReadError>() {
                Ok(lost) => Err(error::reading(lost, self.heard.is_set()).into()),
                Err(other) => Err(other),
            },
        }
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end
    }
}

impl Reader for QuicReader {
    type Head = ();

    /// A stream is bytes alone.
    async fn head(&mut self) -> Result<(), StreamLost> {
        Ok(())
    }
}

/// What we write. Dropped, it is reset with code 0.
pub struct QuicWriter {
    /// `None` once it has ended.
    stream: Option<SendStream>,
    opened_by: Side,
    heard: Heard,
}

/// Who opened a stream.
pub(super) enum Side {
    Us,
    /// The peer, so many of whose streams are open.
    Peer(Rc<Cell<usize>>),
}

impl QuicWriter {
    pub(super) fn new(stream: SendStream, opened_by: Side, heard: Heard) -> QuicWriter {
        QuicWriter { stream: Some(stream), opened_by, heard }
    }
}

impl Sink for QuicWriter {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        poll_fn(|context| self.poll_write(context, pieces)).await
    }

    /// The pieces are laid out anew each time, so that a stream that waits has no room for them.
    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        poll_fn(|context| {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let filled = outbox.slices(&mut pieces);
            let count = ready!(self.poll_write(context, &pieces[..filled]))?;
            outbox.advance(count);
            Poll::Ready(Ok(()))
        })
        .await
    }
}

impl Writer for QuicWriter {
    type Head = ();

    fn answer(&mut self, (): ()) {}

    fn finish(mut self) {
        if let Some(mut stream) = self.stream.take() {
            // Fails if the peer has stopped it: then there is nothing to end.
            let _ = stream.finish();
        }
    }

    fn reset(mut self, code: u64) {
        self.break_off(code);
    }

    /// A caller of ours may lose interest at any time, and what it asked for is then to end. A
    /// peer that does not read all of a request may answer all the same: the next write, or
    /// the answer, tells enough.
    fn stopped(&self) -> impl Future<Output = Stop> + 'static {
        let stream = self.stream.as_ref().filter(|_| matches!(self.opened_by, Side::Peer(_)));
        // In a box: streams that are not watched should not have room for it.
        let stopped = stream.map(|stream| Box::pin(stream.stopped()));
        let heard = self.heard.clone();
        async move {
            let Some(stopped) = stopped else { return std::future::pending().await };
            match stopped.await {
                Ok(Some(code)) => Stop::Asked(Some(code.into_inner())),
                // All of it has arrived, and nothing more can be said against it.
                Ok(None) => std::future::pending().await,
                Err(lost) => error::stopped(lost, heard.is_set()),
            }
        }
    }
}

impl QuicWriter {
    /// Never waits once something was taken: what follows in the same turn, the end of the
    /// stream above all, leaves with it.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let mut taken = 0;
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            match Pin::new(&mut *stream).poll_write(context, piece) {
                Poll::Ready(Ok(count)) => {
                    taken += count;
                    if count < piece.len() {
                        break;
                    }
                }
                Poll::Ready(Err(_)) | Poll::Pending if 0 < taken => break,
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(error::writing(error, self.heard.is_set()).into()));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn break_off(&mut self, code: u64) {
        if let Some(mut stream) = self.stream.take() {
            // Fails if it has ended already.
            let _ = stream.reset(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
        }
    }
}

impl Drop for QuicWriter {
    fn drop(&mut self) {
        self.break_off(0);
        if let Side::Peer(open) = &self.opened_by {
            open.set(open.get() - 1);
        }
    }
}
