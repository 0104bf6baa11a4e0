//! What a transport supplies: ends of bytes to read from and to write to, and for
//! conversations over many streams the way to open one.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use toolbus_proto::channel::{Outbox, StreamLost, Streams};
use toolbus_proto::tool::{Failure, FailureKind};

use super::buffers;
use crate::account::Account;
use crate::transport::pipe::{Input, Output};

/// How many pieces one write carries.
pub(crate) const PIECES_MAX: usize = 16;

/// Opens streams for a machine that speaks over many.
pub trait Opener<M: Streams> {
    /// What the peer answers by.
    type Reader: Reader<Head = M::Answer>;
    /// What we write to.
    type Writer: Writer<Head = M::Answer>;

    /// Opens a stream that begins with `head`. Waits for a free one if it must; who drops the
    /// future waits no longer.
    fn open(
        &self,
        head: M::Opening,
    ) -> impl Future<Output = Result<(Self::Reader, Self::Writer), StreamLost>>;
}

/// The reading side of a stream that we opened.
pub trait Reader: Source {
    /// What the peer's side begins with.
    type Head;

    /// Waits for the peer to answer; asked once, before the first read. One that is dropped
    /// has taken nothing.
    fn head(&mut self) -> impl Future<Output = Result<Self::Head, StreamLost>>;
}

/// The writing side of one of many streams. Dropped, it breaks off.
pub trait Writer: Sink {
    /// What our side begins with, on a stream that the peer opened.
    type Head;

    /// Begins to answer. Called once, before anything else is written.
    fn answer(&mut self, head: Self::Head);

    /// What it keeps is on this account from now on.
    fn charge_to(&self, account: &Account) {
        let _ = account;
    }

    /// That was all of it.
    fn finish(self);

    /// Breaks off behind what was written, and tells the peer the code if that can be told.
    fn reset(self, code: u64);

    /// Waits until the peer will read no more of this stream, or is lost.
    fn stopped(&self) -> impl Future<Output = Stop> + 'static;
}

/// Why the peer reads no more of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It has enough, and may have said by a code why. What it writes may still come.
    Asked(Option<u64>),
    /// It is gone, and with it the whole stream.
    Lost(StreamLost),
}

/// A lost stream as an error of [`Source`] and [`Sink`], so that its code gets through.
#[derive(Debug)]
pub struct Lost(pub StreamLost);

impl Lost {
    /// What an error means for its stream.
    pub fn of(error: io::Error) -> StreamLost {
        match error.downcast::<Lost>() {
            Ok(Lost(lost)) => lost,
            Err(error) => {
                let message = format!("the connection broke: {error}");
                StreamLost { code: None, failure: Failure::new(FailureKind::Gone, message) }
            }
        }
    }
}

impl From<Lost> for io::Error {
    fn from(lost: Lost) -> io::Error {
        io::Error::other(lost)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.failure.message)
    }
}

impl std::error::Error for Lost {}

/// What can be read from, bit by bit. A read that is dropped has taken nothing.
pub trait Source {
    /// Waits until there is something and appends it; 0 is the end of the stream.
    fn read(&mut self, input: &mut BytesMut) -> impl Future<Output = io::Result<usize>>;

    /// Is it known already, after a read, that nothing follows what was read?
    fn is_at_end(&self) -> bool {
        false
    }

    /// Waits until the writer has gone, whatever is left to be read; for ever where only a read
    /// can find out.
    fn ended(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }
}

/// What can be written to, bit by bit. A write that is dropped has written nothing.
pub trait Sink {
    /// Waits until something can be written and writes as much as fits; says how much.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> impl Future<Output = io::Result<usize>>;

    /// Asked before it is looked at whether there is something to write: what has to go ahead
    /// of the first byte goes now.
    fn begin(&mut self) {}

    /// All there was to write is written, and it is dropped next.
    fn end(&mut self) {}

    /// Waits until the reader has gone; for ever where only a write can find out.
    fn closed(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// The same, taken out of `outbox`. For those who can keep a large piece without a copy.
    fn take_from(&mut self, outbox: &mut Outbox) -> impl Future<Output = io::Result<()>> {
        async {
            let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
            let filled = outbox.slices(&mut pieces);
            let count = self.write(&pieces[..filled]).await?;
            outbox.advance(count);
            Ok(())
        }
    }
}

impl Source for Input {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        Input::read(self, input).await
    }

    async fn ended(&self) {
        Input::ended(self).await;
    }
}

impl Sink for Output {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Output::write(self, pieces).await
    }

    async fn closed(&self) {
        Output::closed(self).await;
    }
}

impl<R: AsyncRead + Unpin> Source for R {
    /// Reads by way of the thread's buffers: who waits holds none.
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        poll_fn(|context| poll_buffered(input, |buffer| pin!(self.read_buf(buffer)).poll(context)))
            .await
    }
}

/// Appends to `input` what `read` reads to a buffer of the thread.
pub(crate) fn poll_buffered<T>(
    input: &mut BytesMut,
    read: impl FnOnce(&mut BytesMut) -> Poll<T>,
) -> Poll<T> {
    let mut buffer = buffers::take(input);
    let read = read(&mut buffer);
    buffers::give_back(buffer, input);
    read
}

impl<W: AsyncWrite + Unpin> Sink for W {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        poll_fn(|context| Pin::new(&mut *self).poll_write_vectored(context, pieces)).await
    }
}

/// What may wait for a slow reader, in bytes, before it counts as full.
pub const BYTES_WAITING_MAX: usize = 256 * 1024;

/// Can more be sent right away?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Pressure {
    /// Go on.
    Ready,
    /// It was taken, but wait until told that there is room again.
    Full,
}
