//! A capture of Orchestra, told message by message, as `toolbus decode orchestra` prints it
//! (`docs/protocols/orchestra.md` 13).

use bytes::{Bytes, BytesMut};

use super::FRAME_BYTES_MAX;
use super::envelope::Envelope;
use super::protobuf::Malformed;
use super::protobuf::message::print_name;
use super::wire::{Request, Response};
use crate::capture::{Event, Side};
use crate::frame::length::Lengths;
use crate::json::{Json, write_string};

/// Reads one direction of a stream, or of several behind each other.
#[derive(Debug)]
pub struct Capture {
    side: Side,
    frames: Lengths,
    has_trouble: bool,
}

impl Capture {
    /// Reads what `side` wrote.
    pub fn new(side: Side) -> Capture {
        Capture { side, frames: Lengths::new(FRAME_BYTES_MAX), has_trouble: false }
    }

    /// What the next whole frame says; `None` until it is there. After trouble it goes on.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Json> {
        let event = match self.frames.next(input)? {
            Ok(frame) => message(self.side, &frame)
                .map_err(|malformed| ("not_protobuf", malformed.to_string())),
            Err(too_long) => Err(("too_large", too_long.to_string())),
        };
        Some(event.unwrap_or_else(|(kind, message)| self.trouble(kind, &message)))
    }

    /// The input has ended; what it says if that was inside a frame.
    pub fn end(&mut self, input: &BytesMut) -> Option<Json> {
        let truncated = self.frames.end(input).err()?;
        Some(self.trouble("truncated", &truncated.to_string()))
    }

    /// Was there anything that could not be read?
    pub fn has_trouble(&self) -> bool {
        self.has_trouble
    }

    fn trouble(&mut self, kind: &str, message: &str) -> Json {
        self.has_trouble = true;
        Event::new("error").text("kind", kind).text("message", message).end()
    }
}

fn message(side: Side, frame: &Bytes) -> Result<Json, Malformed> {
    let printed = print(side, frame)?;
    let bytes = frame.len().to_string();
    Ok(Event::new("message").raw("bytes", &bytes).json("message", &printed).end())
}

/// One message as JSON: its fields by name and in order, defaults left out.
pub fn print(side: Side, message: &Bytes) -> Result<Json, Malformed> {
    let envelope = Envelope::read(side, message)?;
    let mut out = vec![b'{'];
    if !envelope.request_id.is_empty() {
        print_name(&mut out, "request_id");
        write_string(&mut out, &envelope.request_id);
    }
    if let Some((number, body)) = &envelope.member {
        print_name(&mut out, envelope.name(side));
        match side {
            Side::Call => Request::read(*number, body)?.iter().for_each(|it| it.print(&mut out)),
            Side::Response => {
                Response::read(*number, body)?.iter().for_each(|it| it.print(&mut out));
            }
        }
    }
    out.push(b'}');
    Ok(Json::from_trusted(out))
}
