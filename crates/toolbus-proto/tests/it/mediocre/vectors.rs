//! The decoder, by the vectors of `transcripts/mediocre/`.

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolbus_proto::collect::base64;
use toolbus_proto::mediocre::decode::{BlobLen, Direction};
use toolbus_proto::mediocre::event::Said;
use toolbus_proto::mediocre::{Decoder, Reading, printed};
use toolbus_testkit::transcript;

#[derive(Deserialize)]
struct Vector<'a> {
    name: String,
    #[serde(rename = "as")]
    direction: String,
    #[serde(rename = "in")]
    input: String,
    #[serde(default)]
    blob_len: String,
    #[serde(default)]
    strict: bool,
    #[serde(borrow)]
    out: Vec<&'a RawValue>,
}

impl Vector<'_> {
    fn bytes(&self) -> Vec<u8> {
        self.input
            .chars()
            .map(|c| u8::try_from(c as u32).expect("one character one byte"))
            .collect()
    }

    fn reading(&self) -> (Direction, Reading) {
        let direction = match &*self.direction {
            "call" => Direction::Call,
            "response" => Direction::Response,
            other => panic!("no such direction: {other}"),
        };
        let blob_len = match &*self.blob_len {
            "" | "exact" => BlobLen::Exact,
            "hint" => BlobLen::Hint,
            other => panic!("no such way to end a blob: {other}"),
        };
        (direction, Reading { blob_len, is_strict: self.strict, ..Reading::default() })
    }
}

/// What `toolbus decode` prints of `bytes` that arrive cut at `cuts`.
pub(crate) fn printed(
    direction: Direction,
    reading: Reading,
    bytes: &[u8],
    cuts: &[usize],
) -> Vec<String> {
    let mut decoder = Decoder::new(direction, reading);
    let mut input = BytesMut::new();
    let mut lines = Vec::new();
    let mut blob = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let cut = cut.clamp(from, bytes.len());
        input.extend_from_slice(&bytes[from..cut]);
        from = cut;
        while let Some(next) = decoder.next(&mut input) {
            let event = match next {
                Ok(event) => event,
                Err(error) => {
                    lines.push(printed::error(&error));
                    return lines;
                }
            };
            match &event.said {
                Said::Piece(piece) => {
                    assert!(!piece.is_empty());
                    blob.extend_from_slice(piece);
                }
                Said::BlobEnd => lines.push(printed::blob(&base64(&std::mem::take(&mut blob)))),
                _ => lines.extend(printed::event(&event)),
            }
            lines.extend(printed::notes(&event));
        }
        assert!(input.len() <= reading.object_bytes_max, "more is kept than an object may have");
    }
    lines.push(match decoder.end(&input) {
        Ok(()) => printed::end(),
        Err(error) => printed::error(&error),
    });
    lines
}

#[test]
fn the_vectors_of_the_specification_at_every_cut() {
    check_file("vectors.jsonl", 58);
}

#[test]
fn faults_in_their_order_marks_and_outcomes_at_every_cut() {
    check_file("more_vectors.jsonl", 60);
}

fn check_file(file: &str, count_min: usize) {
    let text = transcript::read(format!("transcripts/mediocre/{file}"));
    assert!(count_min <= text.lines().count(), "{file} has too few lines");
    for line in text.lines() {
        let vector: Vector<'_> = serde_json::from_str(line).unwrap();
        let (direction, reading) = vector.reading();
        let bytes = vector.bytes();
        let expected: Vec<_> = vector.out.iter().map(|line| line.get().to_owned()).collect();
        let name = &vector.name;
        assert_eq!(printed(direction, reading, &bytes, &[]), expected, "{name}");
        let all: Vec<_> = (0..bytes.len()).collect();
        assert_eq!(printed(direction, reading, &bytes, &all), expected, "{name}, by bytes");
        for first in 0..bytes.len() {
            // Far apart, so that long ones do not take for ever.
            for second in (first..bytes.len()).step_by(bytes.len().div_ceil(40)) {
                let cut = printed(direction, reading, &bytes, &[first, second]);
                assert_eq!(cut, expected, "{name}, cut at {first} and {second}");
            }
        }
    }
}
