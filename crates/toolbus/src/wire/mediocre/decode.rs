//! What a capture of one direction of a connection says, as lines of JSON.

use bytes::BytesMut;
use sha2::{Digest as _, Sha256};
use toolbus_proto::capture::Side;
use toolbus_proto::collect::base64;
use toolbus_proto::mediocre::decode::Direction;
use toolbus_proto::mediocre::event::{Event, Said};
use toolbus_proto::mediocre::{Decoder, Reading, printed};

use crate::peer::decode::{Decoded, Decoding};

/// A blob over this is told by its length and hash.
const BLOB_SHOWN_MAX: usize = 16 << 20;

/// A capture that is read.
pub struct Capture {
    decoder: Decoder,
    blob: Blob,
    had_error: bool,
}

impl Capture {
    /// What one side wrote, from the first byte of its connection or body on.
    pub fn new(side: Side, reading: Reading) -> Capture {
        let direction = match side {
            Side::Call => Direction::Call,
            Side::Response => Direction::Response,
        };
        let decoder = Decoder::new(direction, reading);
        Capture { decoder, blob: Blob::default(), had_error: false }
    }

    fn event(&mut self, event: &Event, lines: &mut String) {
        self.had_error |= matches!(event.said, Said::MethodMissing { .. });
        match &event.said {
            Said::Piece(data) => self.blob.take(data),
            Said::BlobEnd => add(lines, &std::mem::take(&mut self.blob).line()),
            _ => {
                if let Some(line) = printed::event(event) {
                    add(lines, &line);
                }
            }
        }
        for note in printed::notes(event) {
            add(lines, &note);
        }
    }
}

impl Decoding for Capture {
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded {
        while let Some(next) = self.decoder.next(input) {
            match next {
                Ok(event) => self.event(&event, lines),
                Err(error) => {
                    add(lines, &printed::error(&error));
                    return Decoded::Broken;
                }
            }
        }
        if is_end {
            match self.decoder.end(input) {
                Ok(()) => add(lines, &printed::end()),
                Err(error) => {
                    add(lines, &printed::error(&error));
                    return Decoded::Broken;
                }
            }
        }
        if self.had_error { Decoded::Wrong } else { Decoded::More }
    }
}

fn add(lines: &mut String, line: &str) {
    lines.push_str(line);
    lines.push('\n');
}

/// The blob that is arriving; kept only as long as it can be shown.
#[derive(Default)]
pub struct Blob {
    kept: Vec<u8>,
    /// Since it is too large: its hash and length so far.
    large: Option<(Sha256, u64)>,
}

impl Blob {
    /// Takes a piece.
    pub fn take(&mut self, data: &[u8]) {
        if self.large.is_none() && BLOB_SHOWN_MAX < self.kept.len() + data.len() {
            let kept = std::mem::take(&mut self.kept);
            self.large = Some((Sha256::new_with_prefix(&kept), kept.len() as u64));
        }
        match &mut self.large {
            Some((hash, len)) => {
                hash.update(data);
                *len += data.len() as u64;
            }
            None => self.kept.extend_from_slice(data),
        }
    }

    /// The line of JSON that tells it, once it is whole.
    pub fn line(self) -> String {
        match self.large {
            None => printed::blob(&base64(&self.kept)),
            Some((hash, len)) => {
                let hash = hash.finalize();
                let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                printed::large_blob(len, &hex)
            }
        }
    }
}
