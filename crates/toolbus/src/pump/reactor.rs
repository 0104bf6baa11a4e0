//! The reactor pump: drives one channel over a pair of streams, on the bus's one thread.
//!
//! Reads what is there, lets the channel handle it, writes what that made ready in one go.
//! Reading goes on while a write waits, or two full pipes would wait for each other for ever.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use toolbus_proto::channel::{Flow, Outbox};

use super::wake::Wake;
use crate::transport::pipe::{Input, Output};

/// A read asks for this much at first.
const READ_BYTES_MIN: usize = 8 * 1024;
/// What a read may grow to while each one fills what it asked for.
const READ_BYTES_MAX: usize = 256 * 1024;
/// How many pieces one write carries.
const PIECES_MAX: usize = 16;

/// What the pump drives: a channel with all that hangs on it. The methods are called with
/// nothing borrowed, so that they may call into other peers and be called back.
pub(crate) trait Driven {
    fn bytes(&self, now: Instant, input: &mut BytesMut) -> Flow;
    fn eof(&self, now: Instant, input: &mut BytesMut) -> Flow;
    fn timeout(&self, now: Instant);
    fn poll_timeout(&self) -> Option<Instant>;
    /// Appends what is to be written.
    fn transmit(&self, out: &mut Outbox);
    /// So many bytes still wait to be written.
    fn wrote(&self, left: usize);
    /// The other side does not read any more, or the stream broke.
    fn write_failed(&self, now: Instant, error: io::Error) -> Flow;
    /// Is our writing side to be closed?
    fn closing(&self) -> Closing;
    /// Before something new is said: has the other side ended, though nobody was told yet?
    fn has_ended(&self) -> bool;
    /// Rung when something changed from another side: a call, a reply, room.
    fn wake(&self) -> &Wake;
}

/// What becomes of our writing side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    AfterWriting,
    /// Whatever still waits is thrown away.
    Now,
}

/// What can be read from, bit by bit. A read that is dropped has taken nothing.
pub trait Source {
    /// Waits until there is something and appends it; 0 is the end of the stream.
    fn read(&mut self, input: &mut BytesMut) -> impl Future<Output = io::Result<usize>>;
}

/// What can be written to, bit by bit. A write that is dropped has written nothing.
pub trait Sink {
    /// Waits until something can be written and writes as much as fits; says how much.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> impl Future<Output = io::Result<usize>>;
}

impl Source for Input {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        Input::read(self, input).await
    }
}

impl Sink for Output {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Output::write(self, pieces).await
    }
}

impl<R: AsyncRead + Unpin> Source for R {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        self.read_buf(input).await
    }
}

impl<W: AsyncWrite + Unpin> Sink for W {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        poll_fn(|context| Pin::new(&mut *self).poll_write_vectored(context, pieces)).await
    }
}

/// Drives `driven` until it wants no more.
pub(crate) async fn drive(driven: &impl Driven, mut source: impl Source, sink: impl Sink) {
    let mut sink = Some(sink);
    let mut input = BytesMut::new();
    let mut outbox = Outbox::new();
    let mut flow = Flow::More;
    let mut is_eof = false;
    let mut has_ended = false;
    let mut read_bytes = READ_BYTES_MIN;
    let mut alarm = pin!(Alarm::default());
    loop {
        if !has_ended {
            driven.transmit(&mut outbox);
        }
        match driven.closing() {
            Closing::Now => sink = None,
            Closing::AfterWriting if outbox.is_empty() => sink = None,
            Closing::AfterWriting | Closing::No => {}
        }
        if sink.is_none() {
            outbox = Outbox::new();
        }
        if flow == Flow::Close && outbox.is_empty() {
            return;
        }
        if input.capacity() - input.len() < read_bytes {
            input.reserve(read_bytes);
        }
        // Each arm may be dropped half-way without loss.
        tokio::select! {
            biased;
            wrote = write(&outbox, sink.as_mut()), if !outbox.is_empty() => match wrote {
                Ok(count) => {
                    outbox.advance(count);
                    driven.wrote(outbox.len());
                }
                Err(error) => {
                    sink = None;
                    flow = driven.write_failed(Instant::now(), error);
                }
            },
            read = source.read(&mut input), if flow == Flow::More && !is_eof => {
                // A stream that breaks has ended: what came before is all there is.
                let count = read.unwrap_or(0);
                read_bytes = match count {
                    _ if count < read_bytes => READ_BYTES_MIN,
                    _ => (read_bytes * 2).min(READ_BYTES_MAX),
                };
                is_eof = count == 0;
                flow = handle(driven, &mut input, is_eof);
            },
            () = alarm.as_mut().until(driven.poll_timeout()) => {
                driven.timeout(Instant::now());
                flow = handle(driven, &mut input, is_eof);
            }
            () = driven.wake().rung() => {
                flow = handle(driven, &mut input, is_eof);
                // The end that was seen will be read in a moment; until then nothing is said.
                has_ended = !is_eof && driven.has_ended();
            }
        }
    }
}

fn handle(driven: &impl Driven, input: &mut BytesMut, is_eof: bool) -> Flow {
    let now = Instant::now();
    let flow = driven.bytes(now, input);
    if is_eof && flow != Flow::Close { driven.eof(now, input) } else { flow }
}

async fn write(outbox: &Outbox, sink: Option<&mut impl Sink>) -> io::Result<usize> {
    let Some(sink) = sink else { return std::future::pending().await };
    let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
    let filled = outbox.slices(&mut pieces);
    sink.write(&pieces[..filled]).await
}

/// Waits until then, or for ever.
pub(crate) async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// One timer that is set anew only when it must ring earlier: deadlines mostly move away.
#[derive(Default)]
struct Alarm {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Alarm {
    async fn until(self: Pin<&mut Self>, instant: Option<Instant>) {
        let Some(instant) = instant else { return std::future::pending().await };
        let instant = tokio::time::Instant::from_std(instant);
        let sleep = &mut self.get_mut().sleep;
        let is_early_enough = sleep.as_ref().is_some_and(|sleep| sleep.deadline() <= instant);
        if !is_early_enough {
            match sleep {
                Some(sleep) => sleep.as_mut().reset(instant),
                None => *sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
            }
        }
        if let Some(sleep) = sleep.as_mut() {
            sleep.as_mut().await;
        }
        // Rung, perhaps too early: whoever asked looks at the time and asks again.
        *sleep = None;
    }
}
