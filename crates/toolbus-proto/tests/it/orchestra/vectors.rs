//! The codec, by the vectors of `transcripts/orchestra/`, and by chance.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use serde_json::Value;
use toolbus_proto::capture::Side;
use toolbus_proto::orchestra::decode::Capture;
use toolbus_proto::orchestra::envelope::{Envelope, put_frame, request_body, response_body};
use toolbus_proto::orchestra::protobuf::message::Message as _;
use toolbus_proto::orchestra::wire::{Request, Response, ToolRequest};
use toolbus_testkit::transcript;

/// What `toolbus decode` prints of pieces that arrive one after the other.
fn printed<'a>(side: Side, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Value> {
    let mut capture = Capture::new(side);
    let mut input = BytesMut::new();
    let mut events = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        events.extend(std::iter::from_fn(|| capture.next(&mut input)));
    }
    events.extend(capture.end(&input));
    let has_trouble = events.iter().any(|event| event.as_str().starts_with(r#"{"event":"error""#));
    assert_eq!(capture.has_trouble(), has_trouble);
    events.iter().map(|event| event.read().unwrap()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

struct Vector {
    name: String,
    side: Side,
    chunks: Vec<Vec<u8>>,
    events: Vec<Value>,
}

fn vectors() -> Vec<Vector> {
    let text = transcript::read("transcripts/orchestra/vectors.jsonl");
    let vectors: Vec<_> = text.lines().map(vector).collect();
    assert!(45 <= vectors.len());
    vectors
}

fn vector(line: &str) -> Vector {
    let vector: Value = serde_json::from_str(line).unwrap();
    let side = match vector["as"].as_str() {
        Some("call") => Side::Call,
        Some("response") => Side::Response,
        other => panic!("no such side: {other:?}"),
    };
    let chunks = vector["chunks"].as_array().unwrap().iter();
    Vector {
        name: vector["name"].as_str().unwrap().to_owned(),
        side,
        chunks: chunks.map(|chunk| hex(chunk.as_str().unwrap())).collect(),
        events: vector["events"].as_array().unwrap().clone(),
    }
}

/// The words of an error are free, but there are some.
fn without_words(mut events: Vec<Value>) -> Vec<Value> {
    for event in &mut events {
        if event["event"] == "error" {
            let words = event.as_object_mut().unwrap().remove("message");
            assert!(words.is_some_and(|words| !words.as_str().unwrap().is_empty()));
        }
    }
    events
}

#[test]
fn the_vectors_of_the_specification_at_every_cut() {
    for Vector { name, side, chunks, events } in vectors() {
        let check = |how: &str, found: Vec<Value>| {
            // Compared as text: the order of members counts.
            let text = |events: &[Value]| events.iter().map(Value::to_string).collect::<Vec<_>>();
            assert_eq!(text(&without_words(found)), text(&events), "{name}, {how}");
        };
        check("as it is", printed(side, chunks.iter().map(Vec::as_slice)));
        let whole = chunks.concat();
        check("by bytes", printed(side, whole.chunks(1)));
        for at in 0..whole.len() {
            let (before, behind) = whole.split_at(at);
            check(&format!("cut at {at}"), printed(side, [before, behind]));
        }
    }
}

/// Every vector is written the way we write, so what is read is written again to the byte.
#[test]
fn what_is_read_is_written_again() {
    for Vector { name, side, chunks, events } in vectors() {
        if events.len() != 1 || events[0]["event"] != "message" || name.contains("unknown") {
            continue;
        }
        let frame = Bytes::from(chunks.concat());
        let envelope = Envelope::read(side, &frame.slice(4..)).unwrap();
        let body = match side {
            Side::Call => envelope.request().unwrap().map(request_body),
            Side::Response => envelope.response().unwrap().map(response_body),
        };
        if name.contains("oneof") {
            assert_eq!(body.unwrap(), envelope.body);
            continue;
        }
        let mut out = toolbus_proto::channel::Outbox::new();
        put_frame(&mut out, &envelope.request_id, &body.unwrap_or_default());
        assert_eq!(out.take(), frame, "{name}");
    }
}

#[test]
fn a_member_travels_with_what_we_do_not_know_of_it() {
    // Field 99 in the member, a group, and field 9 in the arguments.
    let member = b"\x0a\x01t\x12\x02\x48\x01\x9a\x06\x03new\x3b\x3c";
    let message = [b"\xa2\x01", &[member.len() as u8][..], member, b"\x0a\x01r"].concat();
    let envelope = Envelope::read(Side::Call, &message.into()).unwrap();
    assert_eq!(envelope.request_id, "r");
    let Some(Request::ToolCall(call)) = envelope.request().unwrap() else { panic!() };
    assert_eq!(call.unknown.as_bytes(), b"\x9a\x06\x03new\x3b\x3c");
    assert_eq!(request_body(call), envelope.body);
}

fn fields() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        (1u32..30, any::<u64>()).prop_map(|(number, value)| {
            let mut out = Vec::new();
            toolbus_proto::orchestra::protobuf::write::put_number(&mut out, number, value);
            out
        }),
        (1u32..60, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(number, bytes)| {
            let mut out = Vec::new();
            toolbus_proto::orchestra::protobuf::write::put_bytes(&mut out, number, &bytes);
            out
        }),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(field, 0..6).prop_map(|fields| fields.concat())
}

proptest! {
    #[test]
    fn bytes_by_chance_never_panic(message in fields()) {
        let message = Bytes::from(message);
        for side in [Side::Call, Side::Response] {
            let Ok(envelope) = Envelope::read(side, &message) else { continue };
            let _ = toolbus_proto::orchestra::decode::print(side, &message);
            if let Ok(Some(request)) = envelope.request() {
                // Written and read again it says the same, unknown fields included.
                let body = request_body(request.clone());
                let again = Envelope::read(Side::Call, &body).unwrap().request().unwrap();
                prop_assert_eq!(again, Some(request));
            }
            if let Ok(Some(response)) = envelope.response() {
                let body = response_body(response.clone());
                let again = Envelope::read(Side::Response, &body).unwrap().response().unwrap();
                prop_assert_eq!(again, Some(response));
            }
        }
    }

    #[test]
    fn unknown_fields_survive(name in any::<String>(), value in any::<u64>(), at in 7u32..1000) {
        let mut bytes = ToolRequest { tool_name: name, ..ToolRequest::default() }.to_bytes().to_vec();
        let known = bytes.len();
        toolbus_proto::orchestra::protobuf::write::put_number(&mut bytes, at, value);
        let read = ToolRequest::read(&bytes.clone().into()).unwrap();
        prop_assert_eq!(read.unknown.as_bytes(), &bytes[known..]);
        prop_assert_eq!(read.to_bytes(), bytes);
    }
}

#[test]
fn a_response_may_have_no_member() {
    let envelope = Envelope::read(Side::Response, &Bytes::from_static(b"\x0a\x02un")).unwrap();
    assert_eq!(envelope.response(), Ok(None::<Response>));
    assert!(envelope.body.is_empty());
}
