//! The decoder: bytes of one direction in, events out (`docs/protocols/mediocre.md` 2).
//!
//! The bytes stay where the hands read them to. [`Decoder::next`] cuts events off their front
//! and never shows how they were cut: an unfinished object stays there, a blob leaves in
//! pieces that share the buffer and is never collected.

use bytes::{Buf, Bytes, BytesMut};

use super::blob::Blob;
use super::element;
use super::event::{Event, FramingCode, FramingError, Head, Message, Note, Notes, Said, Tail};
use super::extent::Extent;
use super::wire::{ErrField, Fields};
use crate::json::{DEPTH_MAX, Json};

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    Call,
    Response,
}

/// What decides where a blob of announced length ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlobLen {
    /// The length; then its frame must stand there.
    #[default]
    Exact,
    /// The frame; a wrong length is noted.
    Hint,
}

/// How strictly, and how much of it, a peer's bytes are read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What decides where a blob of announced length ends.
    pub blob_len: BlobLen,
    /// What would be noted is an error.
    pub is_strict: bool,
    /// The largest object, from `{` to `}`.
    pub object_bytes_max: usize,
    /// How deep an object may be nested, itself included; never more than 128.
    pub depth_max: usize,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            blob_len: BlobLen::Exact,
            is_strict: false,
            object_bytes_max: 16 << 20,
            depth_max: DEPTH_MAX,
        }
    }
}

/// Reads one direction of a connection, or one body.
#[derive(Debug)]
pub struct Decoder {
    direction: Direction,
    reading: Reading,
    state: State,
    /// The stream that is open, if one is.
    stream: Option<Stream>,
    extent: Extent,
    /// So many bytes have been taken.
    offset: u64,
    /// The last head was rather the message of a peer of another wire.
    is_of_another_wire: bool,
}

#[derive(Debug)]
enum State {
    /// An object is due: a head, or inside a stream an element or the tail.
    Due,
    Blob(Box<Blob>),
    Broken,
}

#[derive(Debug)]
struct Stream {
    len: Option<u64>,
    elements: u64,
    /// Nothing of it is told, because its call was refused.
    is_skipped: bool,
}

impl Decoder {
    /// Reads from the first byte on.
    pub fn new(direction: Direction, reading: Reading) -> Decoder {
        let depth_max = reading.depth_max.min(DEPTH_MAX);
        Decoder {
            direction,
            reading: Reading { depth_max, ..reading },
            state: State::Due,
            stream: None,
            extent: Extent::default(),
            offset: 0,
            is_of_another_wire: false,
        }
    }

    /// Is the head that was read last rather the message of a peer that speaks another wire?
    pub fn is_of_another_wire(&self) -> bool {
        self.is_of_another_wire
    }

    /// The next event, or `None` until more arrives. Behind an error there is nothing.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Result<Event, FramingError>> {
        if let Some(value) = self.next_plain(input) {
            return Some(Ok(Event::new(Said::Value(value), Notes::default())));
        }
        loop {
            let is_skipped = self.stream.as_ref().is_some_and(|stream| stream.is_skipped);
            // `Ok(None)` is the header of a blob: told of only when its first frame is there.
            let step = match &self.state {
                State::Broken => return None,
                State::Due => self.next_object(input)?,
                State::Blob(_) => self.next_of_blob(input)?.map(Some),
            };
            match step {
                Ok(None) => {}
                Ok(Some(event)) => {
                    let is_refusal = matches!(event.said, Said::MethodMissing { .. });
                    if let Said::Tail(_) = event.said {
                        self.stream = None;
                    }
                    // A refusal is told; what follows of its stream is not.
                    if !is_skipped || is_refusal {
                        return Some(Ok(event));
                    }
                }
                Err(error) => {
                    self.state = State::Broken;
                    return Some(Err(error));
                }
            }
        }
    }

    /// The bytes have ended: an error if that is inside a message.
    pub fn end(&mut self, input: &BytesMut) -> Result<(), FramingError> {
        let code = match (&self.state, &self.stream) {
            (State::Broken, _) => return Ok(()),
            (State::Blob(_), _) => FramingCode::TruncatedBlob,
            (State::Due, _) if !input.is_empty() => FramingCode::TruncatedObject,
            (State::Due, Some(_)) => FramingCode::TruncatedStream,
            (State::Due, None) => return Ok(()),
        };
        self.state = State::Broken;
        Err(FramingError { code, offset: self.offset + input.len() as u64 })
    }

    /// How many bytes have been taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Is it between two messages? Some of the next may already lie in the input.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Due) && self.stream.is_none()
    }

    /// Are these bytes, which are about to be read, a sign of life? Blanks mean nothing, except
    /// inside a blob.
    pub(super) fn is_progress(&self, came: &[u8]) -> bool {
        matches!(self.state, State::Blob(_)) || count_blanks(came) < came.len()
    }

    /// The stream that is open is of no use any more, so it may end where it likes: its length
    /// is not compared with what was announced (`docs/protocols/mediocre.md` 2).
    pub(super) fn drain(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.len = None;
        }
    }

    /// The next element, if it is one of the many that hold a value and nothing else.
    fn next_plain(&mut self, input: &mut BytesMut) -> Option<Json> {
        let stream = self.stream.as_mut().filter(|stream| !stream.is_skipped)?;
        // Only while none of the object has been looked at: else an element that arrives byte by
        // byte would be looked at from its start with every byte.
        if !matches!(self.state, State::Due) || !self.extent.is_new() {
            return None;
        }
        let (value, len) = element::take(input, &self.reading)?;
        self.offset += len as u64;
        stream.elements += 1;
        Some(value)
    }

    fn next_of_blob(&mut self, input: &mut BytesMut) -> Option<Result<Event, FramingError>> {
        let State::Blob(blob) = &mut self.state else { return None };
        let before = input.len();
        let next = blob.next(input, self.offset);
        self.offset += (before - input.len()) as u64;
        let event = match next? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        if let Said::BlobEnd = event.said {
            let offset = blob.header();
            self.state = State::Due;
            if let Err(code) = self.insist(event.notes) {
                return Some(Err(FramingError { code, offset }));
            }
        }
        Some(Ok(event))
    }

    fn next_object(&mut self, input: &mut BytesMut) -> Option<Result<Option<Event>, FramingError>> {
        self.offset += skip_blanks(input);
        let first = *input.first()?;
        let offset = self.offset;
        let fail = |code| Some(Err(FramingError { code, offset }));
        if first != b'{' {
            return fail(FramingCode::NotAnObject);
        }
        let Reading { object_bytes_max, depth_max, .. } = self.reading;
        let len = match self.extent.find(input, object_bytes_max, depth_max) {
            Ok(len) => len?,
            Err(code) => return fail(code),
        };
        // Shares the buffer: values are cut out of it, never copied.
        let object = input.split_to(len).freeze();
        self.offset += len as u64;
        match self.read_object(&object, offset) {
            Ok(event) => Some(Ok(event)),
            Err(code) => fail(code),
        }
    }

    /// Of several faults the first counts, in the order in which they are looked for here.
    fn read_object(&mut self, object: &Bytes, offset: u64) -> Result<Option<Event>, FramingCode> {
        let fields = Fields::read(object)?;
        let is_head = self.stream.is_none();
        let is_call = self.direction == Direction::Call;
        let may_have_err = !is_call && (is_head || fields.stream_end.is_true());
        let err = if may_have_err { ErrField::read(&fields, object)? } else { None };
        let has_broken_method = is_call && is_head && fields.method.is_broken_text();
        if has_broken_method || fields.frame.is_broken_text() {
            return Err(FramingCode::BadJson);
        }
        if fields.is_doubled || err.as_ref().is_some_and(|err| err.is_doubled) {
            return Err(FramingCode::DuplicateKey);
        }
        if fields.has_bad_type() {
            return Err(FramingCode::BadType);
        }
        self.is_of_another_wire = is_head && fields.is_of_another_wire();
        let event = if is_head {
            self.read_head(&fields, err, object)?
        } else {
            match mark(&fields)? {
                Mark::Tail => self.read_tail(&fields, err, object),
                Mark::Value => self.read_value(&fields, object),
                // Told of when its first frame is there.
                Mark::Blob => {
                    self.read_blob_header(&fields, offset)?;
                    return Ok(None);
                }
            }
        };
        self.insist(event.notes)?;
        Ok(Some(event))
    }

    fn read_head(
        &mut self,
        fields: &Fields<'_>,
        err: Option<ErrField>,
        object: &Bytes,
    ) -> Result<Event, FramingCode> {
        // A peer that writes all its empty values writes an empty `el` in heads, too.
        let known = [fields.method, fields.res, fields.err, fields.stream_start];
        let may_have_null = known.iter().any(|field| field.is_there());
        let has_el = fields.el.is_there() && (fields.el.value().is_some() || !may_have_null);
        if has_el || fields.has_frame() || fields.stream_end.is_true() {
            return Err(FramingCode::ElementOutsideStream);
        }
        let is_stream = fields.stream_start.is_true();
        let mut notes = Notes::default();
        let stream_len = if is_stream { fields.stream_len(&mut notes) } else { None };
        let message = match self.direction {
            Direction::Call => {
                let Some(method) = fields.method.text() else {
                    self.open_stream(is_stream, None, true);
                    let said = Said::MethodMissing { is_stream };
                    return Ok(Event::new(said, Notes::default()));
                };
                Message::Call { method, args: fields.args.json(object) }
            }
            Direction::Response => {
                let res = fields.res.json(object);
                let err = err.and_then(|err| match is_stream {
                    true => err.of_stream(res.is_some(), &mut notes),
                    false => err.of_single(res.is_some(), &mut notes),
                });
                Message::Response { res: res.filter(|_| err.is_none()), err }
            }
        };
        self.open_stream(is_stream, stream_len, false);
        let debug = fields.debug(object, &mut notes);
        let head = Head { is_stream, stream_len, message, debug };
        Ok(Event::new(Said::Head(Box::new(head)), notes))
    }

    fn open_stream(&mut self, is_stream: bool, len: Option<u64>, is_skipped: bool) {
        self.stream = is_stream.then_some(Stream { len, elements: 0, is_skipped });
    }

    fn read_tail(&self, fields: &Fields<'_>, err: Option<ErrField>, object: &Bytes) -> Event {
        let mut notes = Notes::default();
        let (res, args) = (fields.res.json(object), fields.args.json(object));
        let err = err.and_then(|err| err.of_stream(res.is_some(), &mut notes));
        // Beside an error a result is dropped.
        let res = res.filter(|_| err.is_none());
        notes.add_if(res.is_some() && args.is_some(), Note::ResAndArgs);
        let is_as_announced = self
            .stream
            .as_ref()
            .is_none_or(|stream| stream.len.is_none_or(|len| len == stream.elements));
        notes.add_if(!is_as_announced, Note::StreamLenMismatch);
        let debug = fields.debug(object, &mut notes);
        let tail = Tail { value: res.or(args), err, debug };
        Event::new(Said::Tail(Box::new(tail)), notes)
    }

    fn read_value(&mut self, fields: &Fields<'_>, object: &Bytes) -> Event {
        self.count_element();
        let value = fields.el.json(object).unwrap_or(Json::null());
        Event::new(Said::Value(value), Notes::default())
    }

    fn read_blob_header(&mut self, fields: &Fields<'_>, header: u64) -> Result<(), FramingCode> {
        let mut notes = Notes::default();
        let frame = fields.frame(&mut notes)?;
        let len = fields.blob_len.len().map_err(|_| FramingCode::BadLen)?;
        self.count_element();
        let blob = Blob::new(frame, self.reading.blob_len, len, header, notes);
        self.state = State::Blob(Box::new(blob));
        self.insist(notes)
    }

    fn count_element(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.elements += 1;
        }
    }

    /// When we are strict, the first note is an error.
    fn insist(&self, notes: Notes) -> Result<(), FramingCode> {
        match notes.iter().next().filter(|_| self.reading.is_strict) {
            Some(note) => Err(FramingCode::Insisted(note)),
            None => Ok(()),
        }
    }
}

/// What an object in a stream is.
enum Mark {
    Tail,
    Blob,
    Value,
}

/// An object in a stream has exactly one mark; an empty `el` beside another does not count.
fn mark(fields: &Fields<'_>) -> Result<Mark, FramingCode> {
    let has_value = fields.el.value().is_some();
    let is_start = fields.stream_start.is_true();
    match (fields.stream_end.is_true(), fields.has_frame(), fields.el.is_there()) {
        (false, false, false) => Err(FramingCode::UnknownElement),
        (true, false, _) if !has_value && !is_start => Ok(Mark::Tail),
        (false, true, _) if !has_value && !is_start => Ok(Mark::Blob),
        (false, false, true) if !is_start => Ok(Mark::Value),
        _ => Err(FramingCode::AmbiguousElement),
    }
}

/// Takes the blanks at the front; tells how many there were.
pub(super) fn skip_blanks(input: &mut BytesMut) -> u64 {
    let count = count_blanks(input);
    input.advance(count);
    count as u64
}

/// How many blanks stand at the front.
pub(super) fn count_blanks(input: &[u8]) -> usize {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    input.iter().take_while(is_blank).count()
}
