//! The eleven fields of an object as they stand on the wire, and what each may hold.
//!
//! Which of them count depends on where the object stands; that is for `decode`.

use bytes::Bytes;

use super::event::{FramingCode, Note, Notes, PeerError};
use super::matcher::FRAME_BYTES_MAX;
use crate::json::{Json, Kind, Scanner};
use crate::jsonrpc::{kind, string};

/// The largest length that can be announced.
pub(super) const LEN_MAX: u64 = (1 << 53) - 1;

/// The fields of one object, as raw JSON. `null` counts as absent, but not for `el`.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) method: Field<'a>,
    pub(super) args: Field<'a>,
    pub(super) debug: Field<'a>,
    pub(super) stream_start: Field<'a>,
    pub(super) stream_len: Field<'a>,
    pub(super) el: Field<'a>,
    pub(super) frame: Field<'a>,
    pub(super) blob_len: Field<'a>,
    pub(super) stream_end: Field<'a>,
    pub(super) res: Field<'a>,
    pub(super) err: Field<'a>,
    /// One of them stands there twice.
    pub(super) is_doubled: bool,
    /// There is an `id`, which this wire does not have.
    has_id: bool,
    /// There is what answers and requests of JSON-RPC have, and this wire does not.
    has_rpc: bool,
}

/// One field: the raw value, if the key is there.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Field<'a>(Option<&'a str>);

impl<'a> Fields<'a> {
    pub(super) fn read(object: &'a Bytes) -> Result<Fields<'a>, FramingCode> {
        let text = str::from_utf8(object).map_err(|_| FramingCode::BadJson)?;
        let mut fields = Fields::default();
        let mut scanner = Scanner::new(text);
        let mut is_first = scanner.enter_object();
        while let Some((key, value)) = scanner.member(is_first).map_err(|_| FramingCode::BadJson)? {
            is_first = false;
            let field = match string(key).as_deref() {
                Some("method") => &mut fields.method,
                Some("args") => &mut fields.args,
                Some("debug") => &mut fields.debug,
                Some("streamStart") => &mut fields.stream_start,
                Some("streamLen") => &mut fields.stream_len,
                Some("el") => &mut fields.el,
                Some("elBytesFrame") => &mut fields.frame,
                Some("elBytesLen") => &mut fields.blob_len,
                Some("streamEnd") => &mut fields.stream_end,
                Some("res") => &mut fields.res,
                Some("err") => &mut fields.err,
                Some("id") => {
                    fields.has_id = true;
                    continue;
                }
                Some("result" | "error" | "jsonrpc") => {
                    fields.has_rpc = true;
                    continue;
                }
                _ => continue,
            };
            fields.is_doubled |= field.0.replace(value).is_some();
        }
        Ok(fields)
    }

    /// Is one of the two bools neither true nor false?
    pub(super) fn has_bad_type(&self) -> bool {
        let is_bad = |field: Field<'_>| field.value().is_some_and(|raw| kind(raw) != Kind::Bool);
        is_bad(self.stream_start) || is_bad(self.stream_end)
    }

    /// Would this be the message of a peer that speaks JSON-RPC, or nearly? Read as a response
    /// of ours it would be a success without a value.
    pub(super) fn is_of_another_wire(&self) -> bool {
        let own = [self.res, self.err, self.stream_start];
        self.has_id && self.has_rpc && !own.iter().any(|field| field.is_there())
    }

    /// Does the object have the mark of a blob?
    pub(super) fn has_frame(&self) -> bool {
        self.frame.value().is_some_and(|raw| raw != "\"\"")
    }

    /// The metadata, without what is not an object.
    pub(super) fn debug(&self, object: &Bytes, notes: &mut Notes) -> Option<Json> {
        let debug = self.debug.json(object)?;
        if debug.kind() != Kind::Object {
            notes.add(Note::DebugDropped);
            return None;
        }
        Some(debug).filter(|debug| !is_empty_container(debug.as_str()))
    }

    /// The announced number of elements.
    pub(super) fn stream_len(&self, notes: &mut Notes) -> Option<u64> {
        let len = self.stream_len.len();
        notes.add_if(len.is_err(), Note::StreamLenIgnored);
        len.ok().flatten()
    }

    /// The frame of a blob.
    pub(super) fn frame(&self, notes: &mut Notes) -> Result<Bytes, FramingCode> {
        let frame = self.frame.value().and_then(string).ok_or(FramingCode::BadFrame)?;
        let is_frame = frame.len() <= FRAME_BYTES_MAX
            && frame.bytes().all(|byte| byte.is_ascii_graphic())
            && !frame.is_empty();
        if !is_frame {
            return Err(FramingCode::BadFrame);
        }
        notes.add_if(!frame.bytes().all(|byte| byte.is_ascii_alphanumeric()), Note::FrameCharset);
        Ok(Bytes::copy_from_slice(frame.as_bytes()))
    }
}

impl<'a> Field<'a> {
    pub(super) fn is_there(self) -> bool {
        self.0.is_some()
    }

    /// The raw value, unless it is `null`.
    pub(super) fn value(self) -> Option<&'a str> {
        self.0.filter(|raw| kind(raw) != Kind::Null)
    }

    pub(super) fn json(self, object: &Bytes) -> Option<Json> {
        self.value().map(|raw| Json::part_of(object, raw))
    }

    pub(super) fn is_true(self) -> bool {
        self.0 == Some("true")
    }

    /// The characters of a string that is not empty.
    pub(super) fn text(self) -> Option<String> {
        self.value().and_then(string).filter(|text| !text.is_empty()).map(Into::into)
    }

    /// Is it a string with an escape that stands for no character?
    pub(super) fn is_broken_text(self) -> bool {
        self.value().is_some_and(|raw| kind(raw) == Kind::String && string(raw).is_none())
    }

    /// A length in plain digits; 0 counts as absent.
    pub(super) fn len(self) -> Result<Option<u64>, NotALength> {
        let Some(raw) = self.value() else { return Ok(None) };
        // Valid JSON, so that a leading zero is nothing but zero.
        let is_plain = raw.bytes().all(|byte| byte.is_ascii_digit());
        let len = raw.parse().ok().filter(|len| is_plain && *len <= LEN_MAX).ok_or(NotALength)?;
        Ok(Some(len).filter(|len| 0 < *len))
    }
}

/// Something else than a length in plain digits.
#[derive(Debug)]
pub(super) struct NotALength;

/// What `err` holds, where it may stand at all.
#[derive(Debug)]
pub(super) struct ErrField {
    error: PeerError,
    /// It has neither a message nor anything else in it.
    is_empty: bool,
    is_malformed: bool,
    pub(super) is_doubled: bool,
}

impl ErrField {
    /// What the object says went wrong, if the key is there and not `null`.
    pub(super) fn read(
        fields: &Fields<'_>,
        object: &Bytes,
    ) -> Result<Option<ErrField>, FramingCode> {
        let Some(raw) = fields.err.value() else { return Ok(None) };
        let mut scanner = Scanner::new(raw);
        if !scanner.enter_object() {
            return ErrField::odd(raw, object).map(Some);
        }
        let (mut msg, mut meta) = (Field::default(), Field::default());
        let (mut is_doubled, mut has_more, mut is_first) = (false, false, true);
        while let Some((key, value)) = scanner.member(is_first).map_err(|_| FramingCode::BadJson)? {
            is_first = false;
            let field = match string(key).as_deref() {
                Some("msg") => &mut msg,
                Some("meta") => &mut meta,
                _ => {
                    has_more = true;
                    continue;
                }
            };
            is_doubled |= field.0.replace(value).is_some();
        }
        let meta = meta.json(object);
        let (msg, is_malformed) = message(msg, object)?;
        let is_empty = !has_more && msg.is_empty() && meta.is_none();
        let error = PeerError { msg, meta };
        Ok(Some(ErrField { error, is_empty, is_malformed, is_doubled }))
    }

    /// Something else than an object.
    fn odd(raw: &str, object: &Bytes) -> Result<ErrField, FramingCode> {
        let is_empty = matches!(raw, "\"\"" | "0" | "false") || is_empty_container(raw);
        let is_text = kind(raw) == Kind::String;
        let msg = match is_text {
            true => string(raw).ok_or(FramingCode::BadJson)?.into(),
            false => String::new(),
        };
        let meta = (!is_empty && !is_text).then(|| Json::part_of(object, raw));
        let error = PeerError { msg, meta };
        Ok(ErrField { error, is_empty, is_malformed: true, is_doubled: false })
    }

    /// The failure of a single response. Beside a result an empty `err` is none; alone it is
    /// one: a failure never becomes a success.
    pub(super) fn of_single(self, has_res: bool, notes: &mut Notes) -> Option<PeerError> {
        if self.is_empty && has_res {
            notes.add_if(self.is_malformed, Note::ErrMalformed);
            return None;
        }
        Some(self.told(has_res, notes))
    }

    /// The failure in a stream, where there should be none.
    pub(super) fn of_stream(self, has_res: bool, notes: &mut Notes) -> Option<PeerError> {
        if self.is_empty {
            return None;
        }
        notes.add(Note::ErrInStream);
        Some(self.told(has_res, notes))
    }

    fn told(self, has_res: bool, notes: &mut Notes) -> PeerError {
        notes.add_if(self.is_malformed, Note::ErrMalformed);
        notes.add_if(has_res, Note::ResAndErr);
        self.error
    }
}

/// The message in an `err`, and whether it is something else than a string.
fn message(msg: Field<'_>, object: &Bytes) -> Result<(String, bool), FramingCode> {
    let Some(raw) = msg.value() else { return Ok((String::new(), false)) };
    if kind(raw) == Kind::String {
        return Ok((string(raw).ok_or(FramingCode::BadJson)?.into(), false));
    }
    Ok((Json::part_of(object, raw).compact().to_string(), true))
}

/// `[]` or `{}`, with or without blanks inside.
pub(super) fn is_empty_container(raw: &str) -> bool {
    let is_container = matches!(kind(raw), Kind::Array | Kind::Object);
    is_container && raw[1..raw.len() - 1].trim_ascii().is_empty()
}

/// The members of an object in their order, or `None` if the value is none.
pub(super) fn members(json: &Json) -> Option<Vec<(String, Json)>> {
    let mut scanner = Scanner::new(json.as_str());
    let mut is_first = true;
    let mut members = Vec::new();
    if !scanner.enter_object() {
        return None;
    }
    while let Some((key, value)) = scanner.member(is_first).ok()? {
        is_first = false;
        if let Some(name) = string(key) {
            members.push((name.into(), Json::part_of(json.as_bytes(), value)));
        }
    }
    Some(members)
}
