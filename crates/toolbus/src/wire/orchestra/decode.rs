//! What a capture of this wire says, message by message.

use bytes::BytesMut;
use toolbus_proto::capture::Side;
use toolbus_proto::orchestra::decode;

use crate::peer::decode::{Decoded, Decoding};

/// One direction of a stream, or of several behind each other.
pub(super) struct Capture(decode::Capture);

impl Capture {
    pub(super) fn new(side: Side) -> Capture {
        Capture(decode::Capture::new(side))
    }
}

impl Decoding for Capture {
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded {
        while let Some(event) = self.0.next(input) {
            lines.push_str(&format!("{event}\n"));
        }
        if is_end && let Some(event) = self.0.end(input) {
            lines.push_str(&format!("{event}\n"));
        }
        if self.0.has_trouble() { Decoded::Wrong } else { Decoded::More }
    }
}
