//! What a capture of one side says, as lines of JSON.

use bytes::BytesMut;
use toolbus_proto::nats::decode::Decoder;

use crate::peer::decode::{Decoded, Decoding};

/// A capture that is read.
#[derive(Default)]
pub struct Capture(Decoder);

impl Decoding for Capture {
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded {
        let mut add = |line: &str| {
            lines.push_str(line);
            lines.push('\n');
        };
        loop {
            match self.0.next(input) {
                Ok(Some(event)) => add(event.as_str()),
                Ok(None) if is_end && self.0.is_inside(input) => {
                    add(Decoder::error("truncated").as_str());
                    return Decoded::Broken;
                }
                Ok(None) => return Decoded::More,
                Err(why) => {
                    add(Decoder::error(&why).as_str());
                    return Decoded::Broken;
                }
            }
        }
    }
}
