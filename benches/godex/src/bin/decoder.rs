//! The decoder in memory: the events of a server made into lines, by us and by the crate
//! `eventsource-stream` with `serde_json`'s `RawValue`, over the same bytes.
//!
//! cargo run --release --manifest-path benches/godex/Cargo.toml

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use eventsource_stream::Eventsource as _;
use futures_util::{Stream as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolbus_proto::godex::decode::Decoder;

const EVENTS: usize = 200_000;
/// What one read of a socket brings.
const READ_BYTES: usize = 16 * 1024;
const ROUNDS: usize = 7;

/// What a server streams of a long answer.
fn stream_bytes() -> Bytes {
    let mut text = String::new();
    for number in 0..EVENTS {
        text.push_str("event: response.output_text.delta\ndata: ");
        text.push_str(&format!(
            r#"{{"type":"response.output_text.delta","item_id":"msg_68a1c0de0a5c81958c0f","output_index":0,"content_index":0,"delta":" token{}\n","logprobs":[],"obfuscation":"x9Qm","sequence_number":{number}}}"#,
            number % 100
        ));
        text.push_str("\n\n");
    }
    text.push_str("data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\"}}\n\n");
    text.into()
}

/// Lines written by us; how many bytes they were.
fn ours(whole: &Bytes) -> usize {
    let mut decoder = Decoder::new(false);
    let mut input = BytesMut::with_capacity(2 * READ_BYTES);
    let mut written = 0;
    for chunk in whole.chunks(READ_BYTES) {
        input.extend_from_slice(chunk);
        decoder.handle_bytes(&mut input);
        written += black_box(decoder.lines()).len();
        decoder.lines().clear();
    }
    assert_eq!(decoder.exit(), Some(0));
    written
}

/// The members that a line has, in its order, each as it came.
#[derive(Deserialize, Serialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    item_id: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    output_index: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    content_index: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    sequence_number: Option<&'a RawValue>,
}

/// The same by the crate: events, their members, lines.
fn theirs(whole: &Bytes) -> usize {
    let chunks = whole.chunks(READ_BYTES).map(|chunk| Ok::<_, Infallible>(whole.slice_ref(chunk)));
    let mut events = pin!(stream::iter(chunks).eventsource());
    let mut context = Context::from_waker(Waker::noop());
    let mut lines = Vec::new();
    let (mut written, mut count) = (0, 0);
    while let Poll::Ready(Some(event)) = events.as_mut().poll_next(&mut context) {
        let event = event.expect("the stream is good");
        let event: Event<'_> = serde_json::from_str(&event.data).expect("the event is good");
        serde_json::to_writer(&mut lines, &event).expect("memory takes all");
        lines.push(b'\n');
        count += 1;
        if READ_BYTES < lines.len() {
            written += black_box(&lines).len();
            lines.clear();
        }
    }
    assert_eq!(count, EVENTS + 1);
    written + lines.len()
}

fn main() {
    let whole = stream_bytes();
    println!("{EVENTS} events, {} bytes, the best of {ROUNDS} rounds", whole.len());
    let mut best = [Duration::MAX; 2];
    // One after the other in each round, so that both meet the same machine.
    for _ in 0..ROUNDS {
        for (best, decode) in best.iter_mut().zip([ours, theirs]) {
            let began = Instant::now();
            black_box(decode(&whole));
            *best = began.elapsed().min(*best);
        }
    }
    for (name, time) in ["toolbus", "eventsource-stream + RawValue"].into_iter().zip(best) {
        let each = time.as_nanos() as f64 / EVENTS as f64;
        let rate = whole.len() as f64 / time.as_secs_f64() / 1e6;
        println!("{name:32} {each:7.1} ns an event {rate:8.0} MB/s");
    }
    println!("{:.1} times as fast", best[1].as_secs_f64() / best[0].as_secs_f64());
}
