//! The framing of events alone, by its vectors.

use bytes::BytesMut;
use serde_json::Value;
use toolbus_proto::frame::sse::Events;
use toolbus_testkit::transcript;

#[test]
fn every_vector_comes_out() {
    for line in transcript::read("transcripts/godex/vectors.jsonl").lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        // Each character is one byte.
        let bytes = |text: &Value| -> Vec<u8> {
            text.as_str().unwrap().chars().map(|char| u8::try_from(char).unwrap()).collect()
        };
        let chunks: Vec<_> = vector["chunks"].as_array().unwrap().iter().map(bytes).collect();
        let whole = chunks.concat();
        let single = whole.iter().map(|byte| vec![*byte]).collect();
        for chunks in [chunks, vec![whole], single] {
            assert_eq!(events(&chunks), vector["events"], "{}", vector["name"]);
        }
    }
}

/// As a run reads them: events without data do not count, bytes that are no UTF-8 are replaced,
/// and what is pending at the end is an event if it is JSON.
fn events(chunks: &[Vec<u8>]) -> Value {
    let mut events = Events::new(1000);
    let mut input = BytesMut::new();
    let mut found = Vec::new();
    for chunk in chunks {
        input.extend_from_slice(chunk);
        found.extend(std::iter::from_fn(|| events.next(&mut input)).map(Result::unwrap));
    }
    let last = events.last(&mut input).map(Result::unwrap);
    found.extend(last.filter(|last| serde_json::from_slice::<Value>(&last.data).is_ok()));
    let events = found.iter().filter(|event| !event.data.is_empty()).map(|event| {
        let name = event.name.as_ref().map(|name| String::from_utf8_lossy(name));
        serde_json::json!({ "event": name, "data": String::from_utf8_lossy(&event.data) })
    });
    events.collect()
}
