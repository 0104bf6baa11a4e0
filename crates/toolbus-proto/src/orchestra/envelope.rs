//! The envelope of every message: an id, and one member that says what is meant.
//!
//! The hub forwards members unread, so an envelope is read without looking into its member.
//! Between a front and a back of this wire a message travels as its *body*: the bytes of the
//! envelope without the id, which each hop gives anew.

use bytes::{BufMut, Bytes};

use super::protobuf::Malformed;
use super::protobuf::read::{Field, Reader};
use super::protobuf::write::{bytes_len, put_bytes, put_bytes_header};
use super::wire::{Request, Response};
use crate::capture::Side;
use crate::channel::Outbox;
use crate::frame::length::put_header;

/// The field of the id.
const REQUEST_ID: u32 = 1;
/// The tag of the id, by which a body is told from a whole message.
const REQUEST_ID_TAG: u8 = (REQUEST_ID << 3 | 2) as u8;

/// What tag and length of the id take at most.
const ID_HEADER_BYTES_MAX: usize = 11;
/// What a frame has that is short.
const FRAME_BYTES_SHORT: usize = 1024;

/// One message, its member unread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Any text; echoed in every answer.
    pub request_id: String,
    /// The number of the member and its bytes; none if there is none that we know.
    pub member: Option<(u32, Bytes)>,
    /// The member with its tag and length; nothing if there is none.
    pub body: Bytes,
}

impl Envelope {
    /// Reads a message that `side` wrote.
    pub fn read(side: Side, message: &Bytes) -> Result<Envelope, Malformed> {
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(message);
        while let Some(field) = reader.field()? {
            match field.number {
                REQUEST_ID => field.text()?.clone_into(&mut envelope.request_id),
                number if name_of(side, number).is_some() => envelope.take(message, &field)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    /// The last member counts; given twice in a row, it is merged.
    fn take(&mut self, message: &Bytes, field: &Field<'_>) -> Result<(), Malformed> {
        let bytes = field.bytes()?;
        match &mut self.member {
            Some((number, member)) if *number == field.number => {
                *member = [member, bytes].concat().into();
                self.body = body(*number, member);
            }
            _ => {
                self.member = Some((field.number, message.slice_ref(bytes)));
                self.body = message.slice_ref(field.whole);
            }
        }
        Ok(())
    }

    /// What `side` calls its member; nothing if it has none.
    pub fn name(&self, side: Side) -> &'static str {
        self.member.as_ref().and_then(|(number, _)| name_of(side, *number)).unwrap_or_default()
    }

    /// The member of a request, read; `None` if it has none.
    pub fn request(&self) -> Result<Option<Request>, Malformed> {
        self.member.as_ref().map_or(Ok(None), |(number, body)| Request::read(*number, body))
    }

    /// The member of a response, read; `None` if it has none.
    pub fn response(&self) -> Result<Option<Response>, Malformed> {
        self.member.as_ref().map_or(Ok(None), |(number, body)| Response::read(*number, body))
    }
}

fn name_of(side: Side, number: u32) -> Option<&'static str> {
    match side {
        Side::Call => Request::name_of(number),
        Side::Response => Response::name_of(number),
    }
}

/// A member that is bytes already, with its tag and length.
pub fn body(number: u32, member: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes_len(number, member.len()));
    put_bytes(&mut out, number, member);
    out.into()
}

/// The body of a request.
pub fn request_body(request: impl Into<Request>) -> Bytes {
    let mut out = Vec::new();
    request.into().write(&mut out);
    out.into()
}

/// The body of a response.
pub fn response_body(response: impl Into<Response>) -> Bytes {
    let mut out = Vec::new();
    response.into().write(&mut out);
    out.into()
}

/// A request that has its id already: a body as well, which keeps it.
pub fn request_with_id(request_id: &str, request: impl Into<Request>) -> Bytes {
    let mut out = Vec::new();
    put_id(&mut out, request_id);
    request.into().write(&mut out);
    out.into()
}

/// Does this body bring its own id?
pub fn has_id(body: &[u8]) -> bool {
    body.first() == Some(&REQUEST_ID_TAG)
}

/// How many bytes the message will have.
pub fn message_len(request_id: &str, body: &[u8]) -> usize {
    let id = if request_id.is_empty() { 0 } else { bytes_len(REQUEST_ID, request_id.len()) };
    id + body.len()
}

/// Appends a frame with this id and body.
pub fn put_frame(out: &mut Outbox, request_id: &str, body: &Bytes) {
    let bytes = message_len(request_id, body);
    // A short frame finds its room at once. A long one is not copied.
    out.reserve(bytes.min(FRAME_BYTES_SHORT) + ID_HEADER_BYTES_MAX);
    put_header(out, bytes);
    if !request_id.is_empty() {
        let mut header = [0; ID_HEADER_BYTES_MAX];
        let mut room = &mut header[..];
        put_bytes_header(&mut room, REQUEST_ID, request_id.len());
        let written = ID_HEADER_BYTES_MAX - room.len();
        out.put(&header[..written]);
        out.put(request_id.as_bytes());
    }
    out.put_shared(body);
}

fn put_id(out: &mut impl BufMut, request_id: &str) {
    if !request_id.is_empty() {
        put_bytes(out, REQUEST_ID, request_id.as_bytes());
    }
}
