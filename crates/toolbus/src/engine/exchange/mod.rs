//! The HTTP pump: drives one channel over one exchange, from either end.
//!
//! The request's body is one direction of the channel, the answer's the other. What HTTP has
//! beside the bytes is told to the channel: heads, bodies that break off, calls that fail. It
//! tells in return which head its answer has, and whether what it wrote may end well.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::Outbox;

use super::drive::{Drivable, Sink, Source, drive};
use crate::transport::http::{
    Answer, Body, BodyError, BodySink, CallError, Exchange, Response, response,
};

/// What the pump drives over an exchange.
pub(crate) trait Exchanged: Drivable {
    /// What the other side sent was cut short; the end of it is handled next.
    fn cut(&self, error: BodyError);
    /// Is what we wrote complete? If not, its body is cut.
    fn is_complete(&self) -> bool;
}

/// The end that is asked.
pub(crate) trait Answering: Exchanged {
    /// The head of the answer. Asked once, before its first byte, or when there is none.
    fn head(&self) -> Response<()>;
}

/// The end that asks.
pub(crate) trait Asking: Exchanged {
    /// The head of the answer is there; its bytes follow.
    fn answered(&self, head: &response::Parts);
    /// There will be no answer; the end of it is handled next.
    fn failed(&self, error: CallError);
}

/// Drives `driven` over an exchange that somebody asked for, until it wants no more or the
/// client has left. What it leaves unread of the request is the server's to throw away.
pub(crate) async fn answer(driven: &impl Answering, exchange: Exchange) {
    let Exchange { body, responder, .. } = exchange;
    let gone = responder.gone();
    let begin = Box::new(|| responder.respond(driven.head()));
    let sink = Outgoing { driven, begin: Some(begin), sink: None };
    tokio::select! {
        biased;
        () = drive(driven, Incoming { driven, body }, sink) => {}
        () = gone => {
            driven.write_failed(Instant::now(), io::ErrorKind::BrokenPipe.into());
        }
    }
}

/// Drives `driven` over a call of ours, until it wants no more. Dropping it cancels the call.
pub(crate) async fn ask(driven: &impl Asking, sink: BodySink, answer: Answer) {
    let source = Awaited::Head { driven, answer };
    drive(driven, source, Outgoing { driven, begin: None, sink: Some(sink) }).await;
}

/// A request being read.
struct Incoming<'a, D> {
    driven: &'a D,
    body: Body,
}

impl<D: Exchanged> Source for Incoming<'_, D> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        read(self.driven, &mut self.body, input).await
    }
}

/// An answer being waited for, then read.
enum Awaited<'a, D> {
    Head { driven: &'a D, answer: Answer },
    Body(Incoming<'a, D>),
}

impl<D: Asking> Source for Awaited<'_, D> {
    async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        if let Awaited::Head { driven, answer } = self {
            let driven: &D = driven;
            match answer.await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    driven.answered(&head);
                    *self = Awaited::Body(Incoming { driven, body });
                }
                Err(error) => {
                    driven.failed(error);
                    return Ok(0);
                }
            }
        }
        match self {
            Awaited::Body(incoming) => incoming.read(input).await,
            Awaited::Head { .. } => Ok(0),
        }
    }
}

async fn read(driven: &impl Exchanged, body: &mut Body, input: &mut BytesMut) -> io::Result<usize> {
    match body.next().await {
        Ok(Some(chunk)) => {
            input.extend_from_slice(&chunk);
            Ok(chunk.len())
        }
        Ok(None) => Ok(0),
        Err(error) => {
            driven.cut(error);
            Ok(0)
        }
    }
}

/// What we write. The pump drops it when all is written, or nothing more is to be.
struct Outgoing<'a, D: Exchanged> {
    driven: &'a D,
    /// Says which head the answer has, until it is out. A request's went out before.
    begin: Option<Box<dyn FnOnce() -> BodySink + 'a>>,
    sink: Option<BodySink>,
}

impl<D: Exchanged> Outgoing<'_, D> {
    fn begun(&mut self) -> Option<&BodySink> {
        if let Some(begin) = self.begin.take() {
            self.sink = Some(begin());
        }
        self.sink.as_ref()
    }
}

impl<D: Exchanged> Sink for Outgoing<'_, D> {
    async fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut outbox = Outbox::new();
        pieces.iter().for_each(|piece| outbox.put(piece));
        let count = outbox.len();
        self.take_from(&mut outbox).await?;
        Ok(count)
    }

    async fn take_from(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        let Some(sink) = self.begun().filter(|sink| !sink.is_gone()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // Dropped while it waits, it has taken nothing. What is too much makes the next wait.
        sink.room().await;
        let _ = sink.send_all(outbox);
        Ok(())
    }
}

impl<D: Exchanged> Drop for Outgoing<'_, D> {
    fn drop(&mut self) {
        self.begun();
        if let Some(sink) = self.sink.take()
            && self.driven.is_complete()
        {
            sink.end();
        }
    }
}
