//! Messages as we write them (`docs/protocols/mediocre.md` 3): an object a line, what is empty left out.
//!
//! A [`Writer`] writes one direction. It keeps the frame of the blob that is open and looks
//! through our own data for it: the source of the data must not be able to end the blob.

use thiserror::Error;

use super::event::PeerError;
use super::frames::{Random, draw};
use super::matcher::Matcher;
use crate::channel::Outbox;
use crate::json::{Json, write_string};
use crate::tool::{Part, Piece};

/// A sized blob that is no longer wanted is finished if no more than this is missing.
const FINISHED_BYTES_MAX: u64 = 64 * 1024;
/// How often another frame is drawn for a blob that holds the one drawn before.
const DRAWS_MAX: usize = 8;

/// Writes one direction of a connection.
#[derive(Debug)]
pub struct Writer<C> {
    chance: C,
    blob: Option<Open>,
}

/// A blob whose second frame has not been written.
#[derive(Debug)]
struct Open {
    matcher: Matcher,
    /// So many bytes are still announced.
    missing: Option<u64>,
}

/// Why a part cannot be written; what was written before cannot be gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unwritable {
    /// The frame around a blob stands inside of it, too.
    #[error("the data holds the frame that was drawn for it")]
    FrameCollision,
    /// A blob is not as long as it was said to be.
    #[error("a blob is not as long as it was said to be")]
    WrongLength,
}

/// A stream that begins: how many elements it will have, if that is known.
#[derive(Debug, Clone, Copy)]
pub struct StreamStart(pub Option<u64>);

impl<C: Random> Writer<C> {
    /// Nothing has been written.
    pub fn new(chance: C) -> Writer<C> {
        Writer { chance, blob: None }
    }

    /// The source of its random bytes.
    pub fn chance(&mut self) -> &mut C {
        &mut self.chance
    }

    /// An element, or a piece of one.
    pub fn part(&mut self, out: &mut Outbox, part: &Part) -> Result<(), Unwritable> {
        match part {
            Part::Bytes(piece) => self.piece(out, piece),
            Part::Json(json) => self.value(out, json),
            Part::Text(text) => self.value(out, &Json::of(text)),
        }
    }

    /// The end of a stream.
    pub fn tail(&mut self, out: &mut Outbox, value: Option<&Json>) -> Result<(), Unwritable> {
        self.end_blob(out)?;
        Object::new(out).json("args", value).flag("streamEnd").end();
        Ok(())
    }

    /// Ends a stream that the peer needs no more, as short as can be. Tells whether it could:
    /// a sized blob of which much is missing can neither be cut nor be given up.
    pub fn cut_short(&mut self, out: &mut Outbox) -> bool {
        if let Some(Open { missing: Some(missing), .. }) = &mut self.blob {
            if FINISHED_BYTES_MAX < *missing {
                return false;
            }
            // A peer that has answered already does not look at what is still to come.
            let filler = vec![0; usize::try_from(*missing).unwrap_or_default()];
            *missing = 0;
            out.put_shared(&filler.into());
        }
        self.tail(out, None).is_ok()
    }

    /// Is a new message due? Forgets a stream that was given up.
    pub fn reset(&mut self) {
        self.blob = None;
    }

    fn value(&mut self, out: &mut Outbox, value: &Json) -> Result<(), Unwritable> {
        if self.blob.is_some() {
            self.end_blob(out)?;
        }
        out.put(b"{\"el\":");
        out.put_shared(value.as_bytes());
        out.put(b"}\n");
        Ok(())
    }

    fn piece(&mut self, out: &mut Outbox, piece: &Piece) -> Result<(), Unwritable> {
        let blob = match &mut self.blob {
            Some(blob) => blob,
            none => {
                let matcher = drawn(&mut self.chance, piece);
                Object::new(out)
                    .text("elBytesFrame", matcher.frame())
                    .number("elBytesLen", piece.len)
                    .end();
                out.put(matcher.frame());
                none.insert(Open { matcher, missing: piece.len })
            }
        };
        if blob.matcher.look(&piece.data).end.is_some() {
            return Err(Unwritable::FrameCollision);
        }
        if let Some(missing) = &mut blob.missing {
            let len = piece.data.len() as u64;
            *missing = missing.checked_sub(len).ok_or(Unwritable::WrongLength)?;
        }
        out.put_shared(&piece.data);
        if piece.last { self.end_blob(out) } else { Ok(()) }
    }

    fn end_blob(&mut self, out: &mut Outbox) -> Result<(), Unwritable> {
        let Some(Open { matcher, missing }) = self.blob.take() else { return Ok(()) };
        if missing.is_some_and(|missing| 0 < missing) {
            return Err(Unwritable::WrongLength);
        }
        out.put(matcher.frame());
        out.put(b"\n");
        Ok(())
    }
}

/// A frame for the blob that begins with `piece`. If that is all of it, one that it does not
/// hold; else the pieces are looked through as they pass.
fn drawn(chance: &mut impl Random, piece: &Piece) -> Matcher {
    let mut matcher = Matcher::new(draw(chance));
    for _ in 1..DRAWS_MAX {
        if !piece.last || matcher.look(&piece.data).end.is_none() {
            break;
        }
        matcher = Matcher::new(draw(chance));
    }
    Matcher::new(matcher.frame().clone())
}

/// A call, or the head of one.
pub fn call(
    out: &mut Outbox,
    method: &str,
    args: Option<&Json>,
    debug: Option<&Json>,
    stream: Option<StreamStart>,
) {
    let object = Object::new(out).text("method", method.as_bytes());
    object.json("args", args).json("debug", debug).stream(stream).end();
}

/// The answer of a single response.
pub fn result(out: &mut Outbox, res: &Json) {
    Object::new(out).raw("res", res).end();
}

/// The head of a stream response.
pub fn response(out: &mut Outbox, res: Option<&Json>, stream: StreamStart) {
    Object::new(out).json("res", res).stream(Some(stream)).end();
}

/// The failure of a single response. Its message must not be empty.
pub fn failure(out: &mut Outbox, error: &PeerError) {
    let mut text = Vec::new();
    write_string(&mut text, &error.msg);
    out.put(br#"{"err":{"msg":"#);
    out.put(&text);
    if let Some(meta) = &error.meta {
        out.put(br#","meta":"#);
        out.put_shared(meta.as_bytes());
    }
    out.put(b"}}\n");
}

/// An object being written, its members in the order of the calls; what is empty is left out.
struct Object<'a> {
    out: &'a mut Outbox,
    /// What stands before the next member.
    mark: &'static [u8],
}

impl<'a> Object<'a> {
    fn new(out: &'a mut Outbox) -> Object<'a> {
        Object { out, mark: b"{\"" }
    }

    fn name(&mut self, name: &str) {
        self.out.put(self.mark);
        self.mark = b",\"";
        self.out.put(name.as_bytes());
        self.out.put(b"\":");
    }

    fn raw(mut self, name: &str, json: &Json) -> Self {
        self.name(name);
        self.out.put_shared(json.as_bytes());
        self
    }

    fn json(self, name: &str, json: Option<&Json>) -> Self {
        match json {
            Some(json) if !json.is_null() => self.raw(name, json),
            _ => self,
        }
    }

    fn text(mut self, name: &str, text: &[u8]) -> Self {
        self.name(name);
        let mut quoted = Vec::with_capacity(text.len() + 2);
        write_string(&mut quoted, &String::from_utf8_lossy(text));
        self.out.put(&quoted);
        self
    }

    fn number(mut self, name: &str, number: Option<u64>) -> Self {
        if let Some(number @ 1..) = number {
            self.name(name);
            self.out.put(number.to_string().as_bytes());
        }
        self
    }

    fn flag(mut self, name: &str) -> Self {
        self.name(name);
        self.out.put(b"true");
        self
    }

    fn stream(self, stream: Option<StreamStart>) -> Self {
        match stream {
            Some(StreamStart(len)) => self.flag("streamStart").number("streamLen", len),
            None => self,
        }
    }

    fn end(self) {
        self.out.put(b"}\n");
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Frames that can be foreseen: `Aaa…`, then `Baa…` and so on.
    fn counting() -> Writer<impl Random> {
        let (mut letter, mut count) = (0u8, 0);
        Writer::new(move |bytes: &mut [u8]| {
            bytes.fill(0);
            if count % 25 == 0 {
                bytes[3] = letter;
                letter += 10;
            }
            count += 1;
        })
    }

    fn piece(data: &[u8], len: Option<u64>, last: bool) -> Part {
        let data = Bytes::copy_from_slice(data);
        Part::Bytes(Piece { data, media_type: None, len, last })
    }

    fn written(parts: &[Part]) -> Result<String, Unwritable> {
        let (mut writer, mut out) = (counting(), Outbox::new());
        for part in parts {
            writer.part(&mut out, part)?;
        }
        writer.tail(&mut out, None)?;
        Ok(String::from_utf8(out.take().to_vec()).unwrap())
    }

    const A: &str = "Aaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "Baaaaaaaaaaaaaaaaaaaaaaaa";

    #[test]
    fn each_blob_has_a_frame_of_its_own() {
        let parts = [
            piece(b"x", None, false),
            piece(b"", None, true),
            Part::Text("t\n".into()),
            piece(b"yz", Some(2), false),
        ];
        let text = format!(
            "{{\"elBytesFrame\":\"{A}\"}}\n{A}x{A}\n{{\"el\":\"t\\n\"}}\n\
             {{\"elBytesFrame\":\"{B}\",\"elBytesLen\":2}}\n{B}yz{B}\n{{\"streamEnd\":true}}\n"
        );
        assert_eq!(written(&parts), Ok(text));
    }

    #[test]
    fn our_own_frame_in_the_data_is_found_before_it_is_written() {
        let whole = written(&[piece(A.as_bytes(), None, true)]).unwrap();
        assert_eq!(
            whole,
            format!("{{\"elBytesFrame\":\"{B}\"}}\n{B}{A}{B}\n{{\"streamEnd\":true}}\n")
        );
        let halves =
            [piece(&A.as_bytes()[..9], None, false), piece(&A.as_bytes()[9..], None, true)];
        assert_eq!(written(&halves), Err(Unwritable::FrameCollision));
    }

    #[test]
    fn a_length_that_was_announced_is_kept() {
        assert_eq!(written(&[piece(b"xy", Some(1), true)]), Err(Unwritable::WrongLength));
        assert_eq!(written(&[piece(b"xy", Some(3), true)]), Err(Unwritable::WrongLength));
        let parts = [piece(b"xy", Some(3), false), Part::Json(Json::null())];
        assert_eq!(written(&parts), Err(Unwritable::WrongLength));
        let empty = written(&[piece(b"", Some(0), true)]).unwrap();
        assert!(empty.starts_with(&format!("{{\"elBytesFrame\":\"{A}\"}}\n{A}{A}\n")), "{empty}");
    }

    #[test]
    fn a_stream_is_cut_short_wherever_it_is() {
        let cut = |missing: Option<u64>| {
            let (mut writer, mut out) = (counting(), Outbox::new());
            writer.part(&mut out, &piece(b"x", missing.map(|missing| missing + 1), false)).unwrap();
            out.take();
            let could = writer.cut_short(&mut out);
            (could, String::from_utf8(out.take().to_vec()).unwrap())
        };
        assert_eq!(cut(None), (true, format!("{A}\n{{\"streamEnd\":true}}\n")));
        assert_eq!(cut(Some(2)), (true, format!("\0\0{A}\n{{\"streamEnd\":true}}\n")));
        assert!(cut(Some(65536)).0);
        assert_eq!(cut(Some(65537)), (false, String::new()));
    }
}
