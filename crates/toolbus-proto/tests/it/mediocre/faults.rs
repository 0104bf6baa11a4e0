//! One conversation with everything in it, spoiled at every byte.

use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::{Client, Methods, Reading, Server, ServerSettings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, Piece};
use toolbus_testkit::faults;
use toolbus_testkit::pair::Pair;

use super::Counting;

const READING: Reading = Reading {
    blob_len: toolbus_proto::mediocre::decode::BlobLen::Exact,
    is_strict: false,
    object_bytes_max: 300,
    depth_max: 16,
};

/// What an end may leave unread.
const UNREAD_BYTES_MAX: usize = 300;

fn caller(now: Instant) -> Client<Counting> {
    Client::new(now, READING, Methods::asked(), Counting::default())
}

fn server(now: Instant) -> Server<Counting> {
    let settings = ServerSettings {
        reading: READING,
        ahead_bytes_max: UNREAD_BYTES_MAX,
        drain_bytes_max: 500,
        ..ServerSettings::default()
    };
    Server::new(now, settings, Counting::default())
}

fn piece(data: &'static [u8], len: Option<u64>, last: bool) -> Part {
    Part::Bytes(Piece { data: Bytes::from_static(data), media_type: None, len, last })
}

fn json(text: &'static str) -> Json {
    Json::parse(text).unwrap()
}

/// A pair in whose conversation everything occurs that the wire has.
fn everything(now: Instant) -> Pair<Client<Counting>, Server<Counting>> {
    let mut pair = Pair::new(now, caller(now), server(now));
    let call = |tool: &'static str, sends_parts: bool| {
        let mut call = Call::tool(now, tool, Some(json(r#"{"a": [1]}"#)));
        call.deadline.quiet = Some(Duration::from_secs(5));
        call.options.sends_parts = sends_parts;
        call
    };
    let (streamed, single, failed) = (Ticket(1), Ticket(2), Ticket(3));
    pair.call(streamed, call("echo", true));
    pair.call(single, call("one", false));
    pair.call(failed, call("none", false));
    pair.run();
    let echo = pair.asked[0].0;
    pair.down(echo, Down::Begin { head: Some(json("\"h\"")), parts: Some(2) });
    pair.up(streamed, Up::Part(Part::Json(json("[2.50]"))));
    pair.up(streamed, Up::Part(piece(b"\x00\xff", Some(3), false)));
    pair.run();
    pair.down(echo, Down::Part(piece(b"AaaB{", None, false)));
    pair.up(streamed, Up::Part(piece(b"}", None, true)));
    pair.run();
    pair.down(echo, Down::Part(piece(b"Aa", None, true)));
    pair.down(echo, Down::Part(Part::Text("t\n".into())));
    pair.up(streamed, Up::End(Some(json("{}"))));
    pair.run();
    pair.down(echo, Down::Done(Ok(Outcome::End(Some(json("3"))))));
    pair.run();
    let (one, _) = *pair.asked.last().unwrap();
    pair.down(one, Down::Done(Ok(Outcome::Value(json("null")))));
    pair.run();
    let (none, _) = *pair.asked.last().unwrap();
    let failure = Failure::new(FailureKind::UnknownTool, "no such method: `none`");
    pair.down(none, Down::Done(Err(failure)));
    pair.run();
    assert_eq!(ends(&pair.learned), [1, 2, 3]);
    pair
}

fn ends(learned: &[(Ticket, Down)]) -> Vec<u64> {
    let ends = learned.iter().filter(|(_, down)| matches!(down, Down::Done(_)));
    ends.map(|(ticket, _)| ticket.0).collect()
}

#[test]
fn a_call_ends_once_whatever_fault_hits_its_caller() {
    let now = Instant::now();
    let recorded = everything(now).to_calling;
    faults::calling(now, &recorded, UNREAD_BYTES_MAX, || caller(now));
}

#[test]
fn a_server_ends_whatever_fault_hits_it() {
    let now = Instant::now();
    let recorded = everything(now).to_serving;
    faults::serving(now, &recorded, UNREAD_BYTES_MAX, || server(now));
}
