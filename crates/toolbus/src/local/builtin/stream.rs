//! The tools whose reply or input comes in parts.

use std::time::Duration;

use bytes::Bytes;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, FailureKind, Outcome, Part, Piece};

use super::args::Args;
use super::elements::Tally;
use crate::engine::local_call::{Conversation, Input};

/// The largest integer that every reader of JSON takes as it is.
pub(super) const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
const PIECE_BYTES: usize = 64 * 1024;

/// Numbers from 0 up, one after the other.
pub(super) async fn count(
    conversation: &Conversation,
    args: Option<&Json>,
) -> Result<Outcome, Failure> {
    let args = Args::of(args)?;
    let count = args.integer("n", 0..=SAFE_INTEGER_MAX)?;
    let pause = args.integer_if_any("ms", 0..=u64::MAX)?.map(Duration::from_millis);
    let fail_at = args.integer_if_any("fail_at", 0..=u64::MAX)?;
    conversation.send(Down::Begin { head: None, parts: Some(count) }).await;
    for number in 0..count {
        if fail_at == Some(number) {
            let message = format!("failed at element {number}, as asked");
            let mut failure = Failure::new(FailureKind::Failed, message);
            failure.from_peer = true;
            return Err(failure);
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        let number = Json::from_trusted(number.to_string());
        conversation.send(Down::Part(Part::Json(number))).await;
    }
    Ok(Outcome::End(None))
}

/// Bytes that look like chance and are the same every time.
pub(super) async fn blob(
    conversation: &Conversation,
    args: Option<&Json>,
) -> Result<Outcome, Failure> {
    let args = Args::of(args)?;
    let whole = args.integer("bytes", 0..=SAFE_INTEGER_MAX)?;
    let mut left = whole;
    let seed = args.integer_if_any("seed", 0..=u64::MAX)?;
    let mut random = SplitMix64 { state: seed.unwrap_or(0) };
    conversation.send(Down::Begin { head: None, parts: Some(1) }).await;
    loop {
        // All pieces but the last are whole outputs long.
        let len = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        left -= len as u64;
        let data = random.bytes(len);
        let piece = Piece { data, media_type: None, len: Some(whole), last: left == 0 };
        conversation.send(Down::Part(Part::Bytes(piece))).await;
        if left == 0 {
            return Ok(Outcome::End(None));
        }
    }
}

/// Everything goes back as it comes.
pub(super) async fn echo(
    conversation: &Conversation,
    args: Option<Json>,
) -> Result<Outcome, Failure> {
    conversation.send(Down::Begin { head: args, parts: None }).await;
    loop {
        match conversation.input().await {
            Input::Part(part) => conversation.send(Down::Part(part)).await,
            Input::End(end) => return Ok(Outcome::End(end)),
        }
    }
}

/// Everything is counted and nothing kept.
pub(super) async fn sink(
    conversation: &Conversation,
    args: Option<&Json>,
) -> Result<Outcome, Failure> {
    let mut tally = Tally::new(&Args::of(args)?)?;
    loop {
        match conversation.input().await {
            Input::Part(part) => tally.take(&part),
            Input::End(_) => return Ok(Outcome::Value(tally.told())),
        }
    }
}

/// A generator of numbers, by Steele, Lea and Flood.
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The next outputs as little-endian bytes; the last one is cut.
    fn bytes(&mut self, len: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes.into()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::SplitMix64;

    /// A generator of seed 0 that has given `outputs` already.
    pub(in super::super) fn after(outputs: u64) -> impl FnMut(usize) -> bytes::Bytes {
        let state = outputs.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = SplitMix64 { state };
        move |len| random.bytes(len)
    }
}
