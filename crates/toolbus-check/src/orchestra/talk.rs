//! Requests said by hand: our own machines are too kind to show what is wrong.

use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;
use toolbus_proto::capture::Side;
use toolbus_proto::channel::Outbox;
use toolbus_proto::orchestra::Client;
use toolbus_proto::orchestra::FRAME_BYTES_MAX;
use toolbus_proto::orchestra::envelope::{Envelope, put_frame, request_body};
use toolbus_proto::orchestra::wire::{Request, Response};

use super::ANSWER;
use toolbus_engine::transport::io::{Lost, Opener, Sink, Source, Writer};
use toolbus_engine::transport::quic::Connection;

/// One connection, on which requests are said byte by byte.
pub(super) struct Talk(Connection);

impl Talk {
    pub(super) fn new(connection: Connection) -> Talk {
        Talk(connection)
    }

    /// A request as it travels.
    pub(super) fn frame(id: &str, request: impl Into<Request>) -> Bytes {
        let mut out = Outbox::new();
        put_frame(&mut out, id, &request_body(request));
        out.take()
    }

    /// Asks as everybody does; gives the id of the answer, and its member.
    pub(super) async fn ask(
        &self,
        id: &str,
        request: impl Into<Request>,
    ) -> Result<(String, Option<Response>), String> {
        let frame = Talk::frame(id, request);
        self.say(&[&frame], true).await
    }

    /// Says these pieces one by one, each in a packet of its own, and then perhaps the end.
    pub(super) async fn say(
        &self,
        pieces: &[&[u8]],
        ends: bool,
    ) -> Result<(String, Option<Response>), String> {
        match timeout(ANSWER, self.try_say(pieces, ends)).await {
            Ok(said) => said,
            Err(_) => Err(format!("no answer within {ANSWER:?}")),
        }
    }

    async fn try_say(
        &self,
        pieces: &[&[u8]],
        ends: bool,
    ) -> Result<(String, Option<Response>), String> {
        let opener = self.0.opener();
        let opened = Opener::<Client>::open(&opener, ()).await;
        let (mut reader, mut writer) = opened.map_err(|lost| lost.failure.message)?;
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let written = writer.write(&[IoSlice::new(rest)]).await.map_err(told)?;
                rest = &rest[written..];
            }
            toolbus_engine::wake::turn().await;
        }
        let mut late = match ends {
            true => {
                writer.finish();
                None
            }
            false => Some(writer),
        };
        let mut input = BytesMut::new();
        loop {
            if let Some(frame) = whole(&input)? {
                if let Some(writer) = late.take() {
                    writer.finish();
                }
                let read = Envelope::read(Side::Response, &frame);
                let envelope = read.map_err(|error| error.to_string())?;
                let response = envelope.response().map_err(|error| error.to_string())?;
                return Ok((envelope.request_id, response));
            }
            if reader.read(&mut input).await.map_err(told)? == 0 {
                return Err("the stream ended before an answer".to_owned());
            }
        }
    }
}

fn told(error: std::io::Error) -> String {
    Lost::of(error).failure.message
}

fn whole(input: &BytesMut) -> Result<Option<Bytes>, String> {
    let Some(header) = input.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_be_bytes(*header) as usize;
    if FRAME_BYTES_MAX < len {
        return Err(format!("answer of {len} bytes is over the limit of {FRAME_BYTES_MAX}"));
    }
    Ok(input.get(4..4 + len).map(Bytes::copy_from_slice))
}
