//! The messages of the run socket as they stand on the wire: a greeting of one line, then frames.
//!
//! A frame is a line of JSON, its head. Where the head counts bytes, so many follow it as they are,
//! and a newline behind them: what passes keeps its bytes, its own newlines included.

use bytes::{Buf, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::channel::Outbox;
use crate::frame::lines::Lines;
use crate::json::Json;

/// The longest head, and the longest greeting.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What one frame may carry: the largest reply that a command may ask for, written as text.
const PAYLOAD_BYTES_MAX: usize = 256 << 20;

/// What a `toolbus serve` says of itself to whom it lets in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Its version.
    pub toolbus: String,
    /// What is spoken behind this line.
    pub protocol: u32,
    /// Its process.
    pub pid: u32,
    /// The real path of its config.
    pub config: String,
    /// The digest of that config and its lock, as it last took them.
    pub digest: String,
    /// The digest of the variables that the config names.
    pub env: String,
}

impl Greeting {
    /// How long the line may be.
    pub const BYTES_MAX: usize = HEAD_BYTES_MAX;

    /// The line, with its end.
    pub fn write(&self) -> String {
        format!("{}\n", Json::of(self))
    }

    /// Reads the line; `None` if it is none, or leaves something out.
    pub fn read(line: &[u8]) -> Option<Greeting> {
        Json::parse(Bytes::copy_from_slice(line)).ok()?.read().ok()
    }
}

/// What stands before the bytes of a frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// Of which request.
    pub(super) id: u64,
    /// What is said.
    pub(super) say: String,
    /// Of a part: what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<String>,
    /// Of a question, and of its answer: which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ask: Option<u64>,
    /// How many parts there will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<u64>,
    /// The media type of a run of bytes.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
    /// The length of a run of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) len: Option<u64>,
    /// The run of bytes goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) more: bool,
    /// How many bytes follow; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<usize>,
}

impl Head {
    pub(super) fn new(id: u64, say: &str) -> Head {
        Head { id, say: say.to_owned(), ..Head::default() }
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) head: Head,
    pub(super) payload: Option<Bytes>,
}

impl Frame {
    pub(super) fn of(head: Head, payload: Option<Bytes>) -> Frame {
        Frame { head, payload }
    }

    pub(super) fn write(self, out: &mut Outbox) {
        let bytes = self.payload.as_ref().map(Bytes::len);
        let head = Head { bytes, ..self.head };
        out.put(Json::of(&head).as_bytes());
        out.put(b"\n");
        if let Some(payload) = self.payload {
            out.put_shared(&payload);
            out.put(b"\n");
        }
    }
}

/// Cuts frames.
#[derive(Debug)]
pub(super) struct Frames {
    heads: Lines,
    /// A head whose bytes are still to come.
    begun: Option<Head>,
}

impl Frames {
    pub(super) fn new() -> Frames {
        Frames { heads: Lines::new(HEAD_BYTES_MAX), begun: None }
    }

    /// The next whole frame, `None` until the rest of it arrives; or why there is none.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Option<Result<Frame, String>> {
        let head = match self.begun.take() {
            Some(head) => head,
            None => match self.heads.next(input)? {
                Ok(line) => match read_head(line) {
                    Ok(head) => head,
                    Err(why) => return Some(Err(why)),
                },
                Err(too_long) => return Some(Err(too_long.to_string())),
            },
        };
        let Some(bytes) = head.bytes else { return Some(Ok(Frame { head, payload: None })) };
        if input.len() <= bytes {
            self.begun = Some(head);
            return None;
        }
        let payload = input.split_to(bytes).freeze();
        if input[0] != b'\n' {
            return Some(Err(format!("no newline behind {bytes} bytes")));
        }
        input.advance(1);
        Some(Ok(Frame { head, payload: Some(payload) }))
    }
}

fn read_head(line: Bytes) -> Result<Head, String> {
    let json = Json::parse(line).map_err(|error| error.to_string())?;
    let head: Head = json.read().map_err(|error| error.to_string())?;
    match head.bytes.is_some_and(|bytes| PAYLOAD_BYTES_MAX < bytes) {
        true => Err(format!("a frame of more than {PAYLOAD_BYTES_MAX} bytes")),
        false => Ok(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_however_it_is_cut() {
        let mut out = Outbox::new();
        let frames = [
            Frame::of(Head::new(0, "value"), Some(Bytes::from_static(b"{\n}"))),
            Frame::of(Head::new(1, "cancel"), None),
            Frame::of(Head::new(2, "text"), Some(Bytes::new())),
        ];
        frames.iter().for_each(|frame| frame.clone().write(&mut out));
        let whole = out.take();
        for cut in 0..=whole.len() {
            let (mut reader, mut input, mut read) = (Frames::new(), BytesMut::new(), Vec::new());
            for piece in [&whole[..cut], &whole[cut..]] {
                input.extend_from_slice(piece);
                read.extend(std::iter::from_fn(|| reader.next(&mut input)).map(Result::unwrap));
            }
            let read: Vec<_> = read
                .into_iter()
                .map(|frame| Frame { head: Head { bytes: None, ..frame.head }, ..frame })
                .collect();
            assert_eq!(read, frames, "cut at {cut}");
        }
    }

    #[test]
    fn a_greeting_that_leaves_something_out_is_none() {
        let greeting = Greeting {
            toolbus: "0.1.0".to_owned(),
            protocol: 1,
            pid: 4711,
            config: "/etc/toolbus.toml".to_owned(),
            digest: "sha256:1".to_owned(),
            env: "sha256:2".to_owned(),
        };
        let line = greeting.write();
        assert_eq!(Greeting::read(line.as_bytes()), Some(greeting));
        assert_eq!(Greeting::read(b"{\"toolbus\":\"0.1.0\",\"protocol\":1}"), None);
        assert_eq!(Greeting::read(&line.as_bytes()[1..]), None);
    }
}
