//! Parts made into one reply or one input, for wires that cannot stream.
//!
//! Blobs become `{"$bytes":"<base64>"}`, parts that are all text become one text, and what
//! grows has a limit: a reply over it is a failure that names it.

use crate::channel::{Down, Up};
use crate::json::{Json, write_string};
use crate::printable::size;
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

    /// What it keeps.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Takes the next of a reply; gives the whole once it has ended. A limit that is met ends
    /// it too: the rest need not be awaited.
    pub fn take(&mut self, down: Down) -> Option<Result<Outcome, Failure>> {
        // A reply of one piece is bounded by its wire; only what is collected counts here.
        if let Down::Begin { .. } | Down::Part(_) | Down::Done(Ok(Outcome::End(_))) = down {
            self.weight += down.weight();
        }
        if self.bytes_max < self.weight {
            let message = format!("the reply is over the limit of {}", size(self.bytes_max));
            return Some(Err(Failure::new(FailureKind::TooLarge, message)));
        }
        match down {
            Down::Begin { head, .. } => {
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
        let mut text = vec![b'{'];
        write_elements(&mut text, &elements);
        for (name, value) in [("res", &self.head), ("tail", &tail)] {
            if let Some(value) = value {
                text.push(b',');
                write_member(&mut text, name, value);
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

/// Collects the input of one call, for a tool that takes it all at once.
#[derive(Debug)]
pub struct InputCollector {
    args: Option<Json>,
    /// The parts are those of a reply that goes the other way.
    parts: Collector,
}

impl InputCollector {
    /// Collects at most [`COLLECTED_BYTES_MAX`] behind `args`.
    pub fn new(args: Option<Json>) -> InputCollector {
        InputCollector { args, parts: Collector::new() }
    }

    /// Takes the next of the input; gives the arguments made of it once it has ended. Without
    /// a part and a value at its end they are just `args`.
    pub fn take(&mut self, up: Up) -> Option<Result<Option<Json>, Failure>> {
        self.parts.weight += up.weight();
        if self.parts.bytes_max < self.parts.weight {
            let message = format!("the input is over the limit of {}", size(self.parts.bytes_max));
            return Some(Err(Failure::new(FailureKind::TooLarge, message)));
        }
        match up {
            Up::Part(part) => self.parts.take_part(part),
            Up::End(tail) => return Some(Ok(self.whole(tail))),
            Up::Answer(..) | Up::Cancel(_) => {}
        }
        None
    }

    fn whole(&mut self, tail: Option<Json>) -> Option<Json> {
        let elements = self.parts.elements.take().unwrap_or_default();
        let tail = tail.filter(|tail| !tail.is_null());
        if elements.is_empty() && tail.is_none() {
            return self.args.take();
        }
        let mut text = vec![b'{'];
        if let Some(args) = self.args.take().filter(|args| !args.is_null()) {
            write_member(&mut text, "args", &args);
            text.push(b',');
        }
        write_elements(&mut text, &elements);
        if let Some(tail) = tail {
            text.push(b',');
            write_member(&mut text, "tail", &tail);
        }
        text.push(b'}');
        Some(Json::from_trusted(text))
    }
}

fn write_elements(out: &mut Vec<u8>, elements: &[Element]) {
    out.extend_from_slice(br#""elements":["#);
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        element.write(out);
    }
    out.push(b']');
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Json) {
    write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value.compact().as_bytes());
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

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = vec![b'='; bytes.len().div_ceil(3) * 4];
    let (whole, rest) = bytes.as_chunks::<3>();
    let (groups, _) = text.as_chunks_mut::<4>();
    // Megabytes: by index, which is quick also where nothing is optimized.
    let mut at = 0;
    while at < whole.len() {
        groups[at] = letters(whole[at]);
        at += 1;
    }
    if let Some(last) = groups.get_mut(at) {
        let mut padded = [0; 3];
        padded[..rest.len()].copy_from_slice(rest);
        let count = rest.len() + 1;
        last[..count].copy_from_slice(&letters(padded)[..count]);
    }
    String::from_utf8(text).expect("letters of base64 are ASCII")
}

#[inline]
fn letters([first, second, third]: [u8; 3]) -> [u8; 4] {
    [
        ALPHABET[(first >> 2) as usize],
        ALPHABET[((first & 3) << 4 | second >> 4) as usize],
        ALPHABET[((second & 15) << 2 | third >> 6) as usize],
        ALPHABET[(third & 63) as usize],
    ]
}

/// The bytes of standard base64 with padding, or `None` if `text` is something else.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (chunks, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(chunks.len() * 3);
    for (index, chunk) in chunks.iter().enumerate() {
        // Only the last may be padded, by one or two.
        let is_last = index + 1 == chunks.len();
        let padding = chunk.iter().rev().take_while(|&&byte| byte == b'=').count();
        if padding > 2 || (padding > 0 && !is_last) {
            return None;
        }
        let mut bits = 0u32;
        for &byte in &chunk[..4 - padding] {
            bits = bits << 6 | value_of(byte)?;
        }
        bits <<= 6 * padding;
        let group = bits.to_be_bytes();
        let (data, spare) = group[1..].split_at(3 - padding);
        // Bits that no byte has room for would make two texts of the same bytes.
        if spare.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(data);
    }
    Some(bytes)
}

fn value_of(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
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
        Down::Part(Part::Bytes(Piece { data, media_type: None, len: None, last }))
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
            Down::Begin { head: Some(json("1")), parts: None },
            Down::Progress(json("9")),
            Down::Part(Part::Json(json("[ 2 ]"))),
            piece(b"h", false),
            piece(b"i", true),
            Down::Part(Part::Text("t".into())),
            Down::Done(Ok(Outcome::End(Some(json("3"))))),
        ];
        let whole = r#"{"elements":[[2],{"$bytes":"aGk="},"t"],"res":1,"tail":3}"#;
        assert_eq!(collect(parts), Ok(Outcome::Value(json(whole))));
        let empty = [Down::Begin { head: None, parts: None }, Down::Done(Ok(Outcome::End(None)))];
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
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_base64(&base64(&all)), Some(all));
    }

    #[test]
    fn what_is_not_base64() {
        for text in ["Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zh==", "Zm9=", "Zm9-", "Zm\n9"]
        {
            assert_eq!(from_base64(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_input_is_its_arguments_unless_more_came() {
        let collect = |args: Option<Json>, ups: Vec<Up>| {
            let mut collector = InputCollector::new(args);
            let args = ups.into_iter().find_map(|up| collector.take(up)).expect("it ends");
            args.expect("it fits").map(|args| args.to_string())
        };
        let part = |text| Up::Part(Part::Json(json(text)));
        assert_eq!(collect(None, vec![Up::End(None)]), None);
        let null_at_the_end = vec![Up::End(Some(Json::null()))];
        assert_eq!(collect(Some(json("[ 1 ]")), null_at_the_end).unwrap(), "[ 1 ]");
        assert_eq!(
            collect(Some(Json::null()), vec![part("[ 2 ]"), Up::End(None)]).unwrap(),
            r#"{"elements":[[2]]}"#
        );
        assert_eq!(
            collect(Some(json("1")), vec![Up::End(Some(json("3")))]).unwrap(),
            r#"{"args":1,"elements":[],"tail":3}"#
        );
    }

    #[test]
    fn an_input_has_a_limit_too() {
        let mut collector = InputCollector { args: None, parts: Collector::with_limit(64) };
        let text = || Up::Part(Part::Text("x".repeat(60)));
        assert_eq!(collector.take(text()), None);
        let failure = collector.take(text()).unwrap().unwrap_err();
        assert_eq!(failure.message, "the input is over the limit of 64 bytes");
    }
}
