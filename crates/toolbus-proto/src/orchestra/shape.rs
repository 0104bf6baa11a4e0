//! What the chunks of a stream were before they were chunks.
//!
//! By `stream_start` every part of a reply is a chunk, and chunks alone do not say whether they are
//! the parts of one reply or one value cut in pieces. A plugin of ours says so at the end of the
//! stream, in a field that other peers skip, wherever the chunks joined would not be the result that
//! the same call by `tool_call` has.

use crate::channel::Down;
use crate::collect::Collector;
use crate::json::{Json, Kind};
use crate::tool::{Failure, Outcome, Part, Piece};

/// How many changes between kinds of parts are kept; a reply of more is not told.
const RUNS_MAX: usize = 4096;

/// How many blobs without bytes are believed in all: no chunks bound them.
const NO_BYTES_MAX: u64 = 1024;

/// The whole reply is one chunk, which is a JSON value.
const VALUE: &str = "value";
/// The reply has parts: behind the word stand marks of chunks, each with how many there are of it.
const PARTS: &str = "parts";

/// What a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The value before the parts.
    Head,
    Text,
    Json,
    /// Bytes of a blob that goes on.
    Piece,
    /// The last bytes of a blob.
    Blob,
    /// A blob without bytes, which is no chunk.
    NoBytes,
    /// The value behind the parts.
    End,
}

const MARKS: [(Mark, char); 7] = [
    (Mark::Head, 'h'),
    (Mark::Text, 't'),
    (Mark::Json, 'j'),
    (Mark::Piece, 'p'),
    (Mark::Blob, 'b'),
    (Mark::NoBytes, 'n'),
    (Mark::End, 'e'),
];

/// The shape of a reply that is being sent.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Marks, and how many there are of each in a row.
    runs: Vec<(Mark, u64)>,
    ended: Ended,
}

/// How the reply has ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Not yet, by a failure, or with what its one chunk says by itself.
    #[default]
    Plainly,
    /// With one value that is neither an object nor a text.
    WithValue,
    /// Behind its parts.
    InParts,
}

impl Shape {
    /// Takes note of what is sent next.
    pub(super) fn take(&mut self, down: &Down) {
        match down {
            Down::Begin { head: Some(head), .. } if !head.is_null() => self.push(Mark::Head),
            Down::Part(Part::Text(_)) => self.push(Mark::Text),
            Down::Part(Part::Json(_)) => self.push(Mark::Json),
            Down::Part(Part::Bytes(piece)) => self.push_bytes(piece),
            Down::Done(Ok(Outcome::End(end))) => {
                self.ended = Ended::InParts;
                if end.as_ref().is_some_and(|end| !end.is_null()) {
                    self.push(Mark::End);
                }
            }
            Down::Done(Ok(Outcome::Value(value))) => match value.kind() {
                Kind::Object | Kind::String => {}
                _ => self.ended = Ended::WithValue,
            },
            _ => {}
        }
    }

    fn push(&mut self, mark: Mark) {
        let is_full = RUNS_MAX < self.runs.len();
        match self.runs.last_mut() {
            Some((last, count)) if *last == mark => *count += 1,
            _ if !is_full => self.runs.push((mark, 1)),
            _ => {}
        }
    }

    /// Of a piece without bytes no chunk is made: the one before it was the last of its blob.
    fn push_bytes(&mut self, piece: &Piece) {
        match (piece.data.is_empty(), piece.last) {
            (false, false) => self.push(Mark::Piece),
            (false, true) => self.push(Mark::Blob),
            (true, false) => {}
            (true, true) => match self.runs.last_mut() {
                Some((Mark::Piece, count)) => {
                    *count -= 1;
                    if *count == 0 {
                        self.runs.pop();
                    }
                    self.push(Mark::Blob);
                }
                _ => self.push(Mark::NoBytes),
            },
        }
    }

    /// What the end of the stream says about its chunks: nothing where they are enough.
    pub(super) fn told(&self) -> String {
        match self.ended {
            Ended::Plainly => return String::new(),
            Ended::WithValue => return VALUE.to_owned(),
            Ended::InParts => {}
        }
        if RUNS_MAX < self.runs.len() || self.runs == [(Mark::Text, 1)] {
            return String::new();
        }
        let letter = |mark| MARKS.iter().find(|(of, _)| *of == mark).map_or('?', |(_, it)| *it);
        let mut told = PARTS.to_owned();
        for &(mark, count) in &self.runs {
            told.push_str(&format!(" {}{count}", letter(mark)));
        }
        told
    }
}

/// The reply whose chunks these are, by what the end of their stream says of them; `None` if that
/// does not fit them.
pub(super) fn reply<'a>(
    told: &str,
    mut chunks: impl Iterator<Item = &'a [u8]>,
) -> Option<Result<Outcome, Failure>> {
    if told == VALUE {
        let value = json(chunks.next()?)?;
        return chunks.next().is_none().then_some(Ok(Outcome::Value(value)));
    }
    let mut collector = Collector::new();
    let mut end = None;
    let mut no_bytes_left = NO_BYTES_MAX;
    let _ = collector.take(Down::Begin { head: None, parts: None });
    for run in told.strip_prefix(PARTS)?.split_whitespace() {
        let mut letters = run.chars();
        let letter = letters.next()?;
        let (mark, _) = MARKS.into_iter().find(|(_, known)| *known == letter)?;
        let count: u64 = letters.as_str().parse().ok()?;
        if mark == Mark::NoBytes {
            no_bytes_left = no_bytes_left.checked_sub(count)?;
        }
        for _ in 0..count {
            let chunk = match mark {
                Mark::NoBytes => &[],
                _ => chunks.next()?,
            };
            let down = match mark {
                Mark::Head => Down::Begin { head: Some(json(chunk)?), parts: None },
                Mark::Text => Down::Part(Part::Text(String::from_utf8(chunk.to_vec()).ok()?)),
                Mark::Json => Down::Part(Part::Json(json(chunk)?)),
                Mark::Piece => Down::Part(bytes(chunk, false)),
                Mark::Blob | Mark::NoBytes => Down::Part(bytes(chunk, true)),
                Mark::End => {
                    end = Some(json(chunk)?);
                    continue;
                }
            };
            if let Some(too_large) = collector.take(down) {
                return Some(too_large);
            }
        }
    }
    match chunks.next() {
        Some(_) => None,
        None => collector.take(Down::Done(Ok(Outcome::End(end)))),
    }
}

fn json(chunk: &[u8]) -> Option<Json> {
    Json::parse(chunk.to_vec()).ok()
}

fn bytes(chunk: &[u8], last: bool) -> Part {
    let data = bytes::Bytes::copy_from_slice(chunk);
    Part::Bytes(Piece { data, media_type: None, len: None, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orchestra::translate;

    fn value(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    /// The chunks that a plugin makes of a reply, and what it says of them.
    fn sent(downs: &[Down]) -> (String, Vec<Vec<u8>>) {
        let mut shape = Shape::default();
        let mut chunks = Vec::new();
        for down in downs {
            shape.take(down);
            let part = match down.clone() {
                Down::Begin { head: Some(head), .. } => Some(Part::Json(head)),
                Down::Part(part) => Some(part),
                Down::Done(Ok(outcome)) => translate::part(outcome),
                _ => None,
            };
            let data = part.map(|part| translate::chunk(part).data);
            chunks.extend(data.filter(|data| !data.is_empty()).map(|data| data.to_vec()));
        }
        (shape.told(), chunks)
    }

    fn check(told: &str, downs: &[Down]) {
        let (said, chunks) = sent(downs);
        assert_eq!(said, told);
        let mut collector = Collector::new();
        let whole = downs.iter().find_map(|down| collector.take(down.clone()));
        assert_eq!(reply(&said, chunks.iter().map(Vec::as_slice)), whole);
    }

    fn piece(data: &'static [u8], last: bool) -> Down {
        Down::Part(bytes(data, last))
    }

    #[test]
    fn a_reply_comes_back_as_it_was_sent() {
        let head = || Down::Begin { head: Some(value("1")), parts: None };
        let one = |text| Down::Part(Part::Json(value(text)));
        let text = |text: &str| Down::Part(Part::Text(text.to_owned()));
        let end = |end| Down::Done(Ok(Outcome::End(end)));
        check("parts", &[end(None)]);
        check("parts j3", &[one("1"), one("[2]"), one("{\"a\":3}"), end(None)]);
        check("parts t2", &[text("a"), text("b"), end(None)]);
        check("parts h1 j1 t1 e1", &[head(), one("2"), text("3"), end(Some(value("4")))]);
        let blobs = [piece(b"a", false), piece(b"b", true), piece(b"c", true)];
        check("parts p1 b2", &[&blobs[..], &[end(None)]].concat());
        let ends_empty = [piece(b"a", false), piece(b"b", false), piece(b"", true)];
        check("parts p1 b1 n1", &[&ends_empty[..], &[piece(b"", true), end(None)]].concat());
        for text in ["[1]", "1.5", "true", "null"] {
            check("value", &[Down::Done(Ok(Outcome::Value(value(text))))]);
        }
    }

    #[test]
    fn what_a_chunk_says_by_itself_is_not_told() {
        let done = |outcome| sent(&[Down::Done(Ok(outcome))]).0;
        assert_eq!(done(Outcome::Value(value(r#"{"a":1}"#))), "");
        assert_eq!(done(Outcome::Value(value(r#""a""#))), "");
        assert_eq!(done(Outcome::Text("a".to_owned())), "");
        let text = Down::Part(Part::Text("a".to_owned()));
        assert_eq!(sent(&[text, Down::Done(Ok(Outcome::End(None)))]).0, "");
    }

    #[test]
    fn what_does_not_fit_the_chunks_is_not_believed() {
        let chunks = [&b"1"[..], b"\xff"];
        for told in ["", "x", "parts", "parts j1", "parts j2", "parts t2", "parts j3", "value"] {
            assert_eq!(reply(told, chunks.into_iter()), None, "{told}");
        }
        for told in ["parts q1", "parts j", "parts j-1", "parts j99999999999999999999"] {
            assert_eq!(reply(told, chunks.into_iter()), None, "{told}");
        }
        let many = "parts n9999999999 j1 b1";
        assert_eq!(reply(many, chunks.into_iter()), None);
    }

    #[test]
    fn a_reply_of_too_many_changes_is_not_told() {
        let mut shape = Shape::default();
        for _ in 0..RUNS_MAX {
            shape.take(&Down::Part(Part::Text(String::new())));
            shape.take(&Down::Part(Part::Json(Json::null())));
        }
        shape.take(&Down::Done(Ok(Outcome::End(None))));
        assert_eq!(shape.told(), "");
    }
}
