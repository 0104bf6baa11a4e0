//! The way to a server that is tested, whatever carries it.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::talk;
use toolbus_engine::transport::Stream;
use toolbus_engine::transport::http::{Answer, Body, BodySink};

/// One connection, one run of a program, or one exchange.
pub(super) enum Line {
    Stream(Stream),
    Program(Box<talk::Talk>),
    Exchange {
        /// `None` once all is said.
        request: Option<BodySink>,
        answer: Heard,
    },
}

pub(super) enum Heard {
    Nothing(Answer),
    Head(Body),
}

impl Line {
    pub(super) fn exchange(request: BodySink, answer: Answer) -> Line {
        Line::Exchange { request: Some(request), answer: Heard::Nothing(answer) }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        match self {
            Line::Stream(stream) => {
                // TLS keeps what it has taken until it is told to send it.
                if stream.write_all(bytes).await.is_ok() {
                    let _ = stream.flush().await;
                }
            }
            Line::Program(talk) => talk.write(bytes).await,
            Line::Exchange { request, .. } => {
                if let Some(request) = request {
                    let _ = request.send(&bytes::Bytes::copy_from_slice(bytes));
                }
            }
        }
    }

    pub(super) async fn hang_up(&mut self) {
        match self {
            Line::Stream(stream) => {
                let _ = stream.shutdown().await;
            }
            Line::Program(talk) => talk.hang_up(),
            Line::Exchange { request, .. } => {
                if let Some(request) = request.take() {
                    request.end();
                }
            }
        }
    }

    /// Appends what it says next; nothing once it has ended.
    pub(super) async fn read(&mut self, input: &mut BytesMut) -> io::Result<usize> {
        match self {
            Line::Stream(stream) => stream.read_buf(input).await,
            Line::Program(talk) => Ok(talk.bytes(input).await),
            Line::Exchange { answer, .. } => {
                if let Heard::Nothing(head) = answer {
                    let response = head.await.map_err(io::Error::other)?;
                    *answer = Heard::Head(response.into_body());
                }
                let Heard::Head(body) = answer else { return Ok(0) };
                let chunk = body.next().await.map_err(io::Error::other)?.unwrap_or_default();
                input.extend_from_slice(&chunk);
                Ok(chunk.len())
            }
        }
    }
}
