//! What a capture of a wire says, event by event: `toolbus decode`.

use bytes::{Bytes, BytesMut};
use toolbus_proto::capture::Event;
use toolbus_proto::frame::lines::Lines;
use toolbus_proto::json::Json;

/// What one side of a conversation wrote, being read.
pub trait Decoding {
    /// Takes what has arrived, and adds a line of JSON to `lines` for each event. `is_end` if
    /// nothing follows.
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded;
}

/// How reading a capture goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// It goes on, unless that was the end.
    More,
    /// Nothing behind this can be understood: the last line says why.
    Broken,
    /// It went on, but a message was wrong: a line says so.
    Wrong,
    /// It has said how it ends, by the last line and this exit code; what follows is not read.
    Ended(u8),
}

/// Captures of a wire whose messages are lines.
pub struct DecodedLines<F> {
    lines: Lines,
    event: F,
}

impl<F: Fn(&Bytes) -> Option<Json>> DecodedLines<F> {
    /// `event` tells what a line says, if that is worth telling.
    pub fn new(line_bytes_max: usize, event: F) -> DecodedLines<F> {
        DecodedLines { lines: Lines::new(line_bytes_max), event }
    }
}

impl<F: Fn(&Bytes) -> Option<Json>> Decoding for DecodedLines<F> {
    fn take(&mut self, input: &mut BytesMut, is_end: bool, lines: &mut String) -> Decoded {
        loop {
            let next = match self.lines.next(input) {
                None if is_end => self.lines.last(input),
                next => next,
            };
            let event = match next {
                Some(Ok(line)) => (self.event)(&line),
                Some(Err(too_long)) => Some(Event::other(&too_long.to_string())),
                None => return Decoded::More,
            };
            lines.extend(event.map(|event| format!("{event}\n")));
        }
    }
}
