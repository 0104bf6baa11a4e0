//! Parts made into one reply, for wires that cannot stream (`design` §2).
//!
//! Blobs become `{"$bytes":"<base64>"}`, parts that are all text become one text, and what
//! grows has a limit: a reply over it is a failure that names it.

use crate::channel::Down;
use crate::json::{Json, write_string};
use crate::tool::{Failure, FailureKind, Outcome, Part, Piece};

/// What a collected reply may weigh.
pub const COLLECTED_BYTES_MAX: usize = 16 << 20;

/// Collects one reply.
#[derive(Debug)]
pub struct Collector {
    bytes_max: usize,
    head: Option<Json>,
    /// Some once the reply has said that it comes in parts.
    elements: Option<Vec<Element>>,
    /// The blob whose pieces are arriving.
    blob: Option<Vec<u8>>,
    weight: usize,
}

#[derive(Debug)]
enum Element {
    Text(String),
    Json(Json),
    Bytes(Vec<u8>),
}

impl Collector {
    /// Collects at most [`COLLECTED_BYTES_MAX`].
    pub fn new() -> Collector {
        Collector::with_limit(COLLECTED_BYTES_MAX)
    }

    /// Collects at most `bytes_max`.
    pub fn with_limit(bytes_max: usize) -> Collector {
        Collector { bytes_max, head: None, elements: None, blob: None, weight: 0 }
    }

    /// Takes the next of a reply; gives the whole once it has ended. A limit that is met ends
    /// it too: the rest need not be awaited.
    pub fn take(&mut self, down: Down) -> Option<Result<Outcome, Failure>> {
        self.weight += down.weight();
        if self.bytes_max < self.weight {
            let message = format!("the reply is over the limit of {} bytes", self.bytes_max);
            return Some(Err(Failure::new(FailureKind::TooLarge, message)));
        }
        match down {
            Down::Begin(head) => {
                self.head = head.filter(|head| !head.is_null());
                self.elements.get_or_insert_default();
            }
            Down::Part(part) => self.take_part(part),
            Down::Progress(_) | Down::Log(_) | Down::Ask(..) => {}
            Down::Done(Ok(Outcome::End(end))) => return Some(Ok(self.whole(end))),
            Down::Done(outcome) => return Some(outcome),
        }
        None
    }

    fn take_part(&mut self, part: Part) {
        let elements = self.elements.get_or_insert_default();
        match part {
            Part::Text(text) => elements.push(Element::Text(text)),
            Part::Json(json) => elements.push(Element::Json(json)),
            Part::Bytes(Piece { data, last, .. }) => {
                let blob = self.blob.get_or_insert_default();
                blob.extend_from_slice(&data);
                if last {
                    elements.push(Element::Bytes(self.blob.take().unwrap_or_default()));
                }
            }
        }
    }

    fn whole(&mut self, end: Option<Json>) -> Outcome {
        let elements = self.elements.take().unwrap_or_default();
        let tail = end.filter(|end| !end.is_null());
        let is_bare = self.head.is_none() && tail.is_none() && !elements.is_empty();
        if is_bare && elements.iter().all(|element| matches!(element, Element::Text(_))) {
            let texts: Vec<_> = elements.into_iter().map(Element::into_text).collect();
            return Outcome::Text(texts.join("\n"));
        }
        let mut text = br#"{"elements":["#.to_vec();
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            element.write(&mut text);
        }
        text.push(b']');
        for (name, value) in [("res", &self.head), ("tail", &tail)] {
            if let Some(value) = value {
                text.extend_from_slice(format!(",\"{name}\":").as_bytes());
                text.extend_from_slice(value.compact().as_bytes());
            }
        }
        text.push(b'}');
        Outcome::Value(Json::from_trusted(text))
    }
}

impl Default for Collector {
    fn default() -> Collector {
        Collector::new()
    }
}

impl Element {
    fn into_text(self) -> String {
        match self {
            Element::Text(text) => text,
            Element::Json(json) => json.shown(),
            Element::Bytes(bytes) => base64(&bytes),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Element::Text(text) => write_string(out, text),
            Element::Json(json) => out.extend_from_slice(json.compact().as_bytes()),
            Element::Bytes(bytes) => {
                out.extend_from_slice(br#"{"$bytes":""#);
                out.extend_from_slice(base64(bytes).as_bytes());
                out.extend_from_slice(br#""}"#);
            }
        }
    }
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place <= chunk.len() {
                let index = bits >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[index as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    fn piece(data: &'static [u8], last: bool) -> Down {
        let data = Bytes::from_static(data);
        Down::Part(Part::Bytes(Piece { data, media_type: None, last }))
    }

    fn collect(downs: impl IntoIterator<Item = Down>) -> Result<Outcome, Failure> {
        let mut collector = Collector::with_limit(64);
        downs.into_iter().find_map(|down| collector.take(down)).expect("a reply ends")
    }

    #[test]
    fn a_single_value_passes_as_it_is() {
        let value = Outcome::Value(json("[ 1.0 ]"));
        assert_eq!(collect([Down::Done(Ok(value.clone()))]), Ok(value));
    }

    #[test]
    fn parts_become_one_object() {
        let parts = [
            Down::Begin(Some(json("1"))),
            Down::Progress(json("9")),
            Down::Part(Part::Json(json("[ 2 ]"))),
            piece(b"h", false),
            piece(b"i", true),
            Down::Part(Part::Text("t".into())),
            Down::Done(Ok(Outcome::End(Some(json("3"))))),
        ];
        let whole = r#"{"elements":[[2],{"$bytes":"aGk="},"t"],"res":1,"tail":3}"#;
        assert_eq!(collect(parts), Ok(Outcome::Value(json(whole))));
        let empty = [Down::Begin(None), Down::Done(Ok(Outcome::End(None)))];
        assert_eq!(collect(empty), Ok(Outcome::Value(json(r#"{"elements":[]}"#))));
    }

    #[test]
    fn parts_that_are_all_text_are_one_text() {
        let text = |text: &str| Down::Part(Part::Text(text.into()));
        let parts = [text("a"), text("b"), Down::Done(Ok(Outcome::End(None)))];
        assert_eq!(collect(parts), Ok(Outcome::Text("a\nb".into())));
    }

    #[test]
    fn what_is_too_much_is_refused_by_name() {
        let failure = collect(std::iter::repeat_n(piece(b"0123456789", false), 7)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLarge);
        assert_eq!(failure.message, "the reply is over the limit of 64 bytes");
    }

    #[test]
    fn base64_of_every_length() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
