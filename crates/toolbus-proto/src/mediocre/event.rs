//! What a decoder says: events, notes beside them, and the errors that end it (`docs/protocols/mediocre.md` 2).

use std::fmt;

use bytes::Bytes;
use thiserror::Error;

use crate::json::Json;

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What was said.
    pub said: Said,
    /// Rules that it broke and we do not insist on.
    pub notes: Notes,
    /// How many streams it stands inside of others: none in this dialect.
    pub depth: u32,
    /// Is the stream given up by it? Never in this dialect.
    pub canceled: bool,
}

impl Event {
    pub(super) fn new(said: Said, notes: Notes) -> Event {
        Event { said, notes, depth: 0, canceled: false }
    }
}

/// What can be said. Elements are many and small, so what is large is boxed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message begins; a single one ends with it, too.
    Head(Box<Head>),
    /// A call without a method; what follows of its stream is passed over.
    MethodMissing {
        /// Does a stream follow?
        is_stream: bool,
    },
    /// An element that is a JSON value.
    Value(Json),
    /// An element that is a blob begins.
    BlobBegin,
    /// Some of its bytes, never none. How many a piece has depends on how they arrived.
    Piece(Bytes),
    /// The blob is complete.
    BlobEnd,
    /// The stream ends.
    Tail(Box<Tail>),
}

/// The beginning of a message, or all of a single one. What is empty is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Do elements and a tail follow?
    pub is_stream: bool,
    /// How many elements are announced.
    pub stream_len: Option<u64>,
    /// What it calls for or answers.
    pub message: Message,
    /// For tracing and logs; deleting it changes no answer.
    pub debug: Option<Json>,
}

/// What a head calls for or answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Message {
    Call { method: String, args: Option<Json> },
    Response { res: Option<Json>, err: Option<PeerError> },
}

/// The end of a stream. What is empty is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The value behind the elements.
    pub value: Option<Json>,
    /// A failure that came too late to be allowed, and is believed.
    pub err: Option<PeerError>,
    /// For tracing and logs.
    pub debug: Option<Json>,
}

/// The failure a response tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerError {
    /// The message; may be empty.
    pub msg: String,
    /// What a program could act on.
    pub meta: Option<Json>,
}

/// A rule that was broken and that we do not insist on, unless told to be strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
// In the order of their names: the order in which they are told.
pub enum Note {
    BlobLenHintWrong,
    DebugDropped,
    ErrInStream,
    ErrMalformed,
    FrameCharset,
    ResAndArgs,
    ResAndErr,
    StreamLenIgnored,
    StreamLenMismatch,
}

impl Note {
    const ALL: [Note; 9] = [
        Note::BlobLenHintWrong,
        Note::DebugDropped,
        Note::ErrInStream,
        Note::ErrMalformed,
        Note::FrameCharset,
        Note::ResAndArgs,
        Note::ResAndErr,
        Note::StreamLenIgnored,
        Note::StreamLenMismatch,
    ];

    /// Its name in the protocol.
    pub fn code(self) -> &'static str {
        match self {
            Note::BlobLenHintWrong => "blob_len_hint_wrong",
            Note::DebugDropped => "debug_dropped",
            Note::ErrInStream => "err_in_stream",
            Note::ErrMalformed => "err_malformed",
            Note::FrameCharset => "frame_charset",
            Note::ResAndArgs => "res_and_args",
            Note::ResAndErr => "res_and_err",
            Note::StreamLenIgnored => "stream_len_ignored",
            Note::StreamLenMismatch => "stream_len_mismatch",
        }
    }
}

/// The notes of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notes(u16);

impl Notes {
    pub(super) fn add(&mut self, note: Note) {
        self.0 |= 1 << note as u16;
    }

    pub(super) fn add_if(&mut self, condition: bool, note: Note) {
        if condition {
            self.add(note);
        }
    }

    /// Are there none?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The notes in the order of their names.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        Note::ALL.into_iter().filter(move |note| self.0 & 1 << *note as u16 != 0)
    }
}

/// What came cannot be read on from here: nothing behind it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{} at byte {offset}", self.code.meaning())]
pub struct FramingError {
    /// Which rule was broken.
    pub code: FramingCode,
    /// Where, counted from the first byte of the connection or body.
    pub offset: u64,
}

/// The rules that reading cannot go on without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FramingCode {
    NotAnObject,
    BadJson,
    BadType,
    DuplicateKey,
    ElementOutsideStream,
    UnknownElement,
    AmbiguousElement,
    BadFrame,
    BadLen,
    BlobPrefix,
    BlobLength,
    TruncatedObject,
    TruncatedStream,
    TruncatedBlob,
    TooLarge,
    TooDeep,
    /// A note, where we were told to be strict.
    Insisted(Note),
}

impl FramingCode {
    /// Its name in the protocol.
    pub fn code(self) -> &'static str {
        match self {
            FramingCode::NotAnObject => "not_an_object",
            FramingCode::BadJson => "bad_json",
            FramingCode::BadType => "bad_type",
            FramingCode::DuplicateKey => "duplicate_key",
            FramingCode::ElementOutsideStream => "element_outside_stream",
            FramingCode::UnknownElement => "unknown_element",
            FramingCode::AmbiguousElement => "ambiguous_element",
            FramingCode::BadFrame => "bad_frame",
            FramingCode::BadLen => "bad_len",
            FramingCode::BlobPrefix => "blob_prefix",
            FramingCode::BlobLength => "blob_length",
            FramingCode::TruncatedObject => "truncated_object",
            FramingCode::TruncatedStream => "truncated_stream",
            FramingCode::TruncatedBlob => "truncated_blob",
            FramingCode::TooLarge => "too_large",
            FramingCode::TooDeep => "too_deep",
            FramingCode::Insisted(note) => note.code(),
        }
    }

    /// Did the bytes just end too early?
    pub fn is_truncation(self) -> bool {
        use FramingCode::{TruncatedBlob, TruncatedObject, TruncatedStream};
        matches!(self, TruncatedObject | TruncatedStream | TruncatedBlob)
    }

    /// Was a limit met?
    pub fn is_limit(self) -> bool {
        matches!(self, FramingCode::TooLarge | FramingCode::TooDeep)
    }

    /// What is wrong, for people; `at byte N` follows.
    fn meaning(self) -> &'static str {
        match self {
            FramingCode::NotAnObject => "expected an object",
            FramingCode::BadJson => "not a JSON object",
            FramingCode::BadType => "`streamStart` and `streamEnd` must be true or false",
            FramingCode::DuplicateKey => "a field stands twice in an object",
            FramingCode::ElementOutsideStream => "an element outside a stream",
            FramingCode::UnknownElement => "not an element of a stream",
            FramingCode::AmbiguousElement => "more than one element in an object",
            FramingCode::BadFrame => "not a frame that can stand around a blob",
            FramingCode::BadLen => "not the length of a blob",
            FramingCode::BlobPrefix => "a blob does not begin with its frame",
            FramingCode::BlobLength => "a blob does not end where its length says",
            FramingCode::TruncatedObject => "the bytes end inside an object",
            FramingCode::TruncatedStream => "the bytes end before the tail of a stream",
            FramingCode::TruncatedBlob => "the bytes end inside a blob",
            FramingCode::TooLarge => "an object is over the limit of its size",
            FramingCode::TooDeep => "an object is nested too deep",
            FramingCode::Insisted(note) => match note {
                Note::BlobLenHintWrong => "a blob is not as long as announced",
                Note::DebugDropped => "`debug` must be an object",
                Note::ErrInStream => "a stream cannot hold `err`",
                Note::ErrMalformed => "`err` must be an object with a string `msg`",
                Note::FrameCharset => "a frame must be of letters and digits",
                Note::ResAndArgs => "a tail with both `res` and `args`",
                Note::ResAndErr => "a response with both `res` and `err`",
                Note::StreamLenIgnored => "not the length of a stream",
                Note::StreamLenMismatch => "a stream is not as long as announced",
            },
        }
    }
}

impl fmt::Display for FramingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
