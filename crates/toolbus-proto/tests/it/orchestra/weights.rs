//! What the machines keep is counted, and nothing of it is left in the end.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{Calling, Channel, Down, Machine, Outbox, Serving, StreamId, Ticket};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::envelope::{put_frame, request_body, response_body};
use toolbus_proto::orchestra::stdio::{Transport, TransportSettings};
use toolbus_proto::orchestra::wire::{
    PluginManifest, Response, StreamChunk, StreamEnd, Subscribe, ToolRequest, ToolResponse,
};
use toolbus_proto::orchestra::{
    Client, ClientSettings, EVENTS_BYTES_MAX, Role, Server, ServerSettings, WIRE,
};
use toolbus_proto::tool::{Call, CallOptions, CallerId, Outcome, Part, Piece, What};
use toolbus_testkit::in_memory::Hands;

use super::ids;

const LARGE: usize = 100_000;

fn frame(body: &Bytes) -> Vec<u8> {
    let mut out = Outbox::new();
    put_frame(&mut out, "x", body);
    out.take().to_vec()
}

fn piece(data: Vec<u8>) -> Down {
    let piece = Piece { data: data.into(), media_type: None, len: None, last: true };
    Down::Part(Part::Bytes(piece))
}

#[test]
fn a_request_weighs_until_it_is_sent() {
    let now = Instant::now();
    let mut hands = Hands::new(Client::new(ClientSettings::default(), ids("id").0));
    hands.has_credit = false;
    let method = Bytes::from_static(b"tool_call");
    let body = request_body(ToolRequest { tool_name: "t".repeat(LARGE), ..Default::default() });
    let what = What::Native { wire: WIRE, method, body };
    hands.machine.call(now, Ticket(1), Call::of(now, what.clone()));
    hands.machine.call(now, Ticket(2), Call::of(now, what.clone()));
    hands.leaves(now);
    assert!(2 * LARGE <= hands.machine.weight() && hands.machine.weight() < 3 * LARGE);
    let cancel = toolbus_proto::channel::Up::Cancel(None);
    hands.machine.up(now, Ticket(2), cancel);
    assert!(hands.machine.weight() < 2 * LARGE);
    hands.has_credit = true;
    hands.leaves(now);
    assert_eq!(hands.machine.weight(), 0);
    // What another connection takes over weighs there.
    hands.has_credit = false;
    hands.machine.call(now, Ticket(3), Call::of(now, what));
    hands.leaves(now);
    assert!(LARGE <= hands.machine.weight());
    assert_eq!(hands.machine.take_unsent().len(), 1);
    assert_eq!(hands.machine.weight(), 0);
}

#[test]
fn chunks_weigh_until_they_are_one_answer() {
    let now = Instant::now();
    let mut hands = Hands::new(Client::new(ClientSettings::default(), ids("id").0));
    let options = CallOptions { progress: true, ..CallOptions::default() };
    let call = Call { options, ..Call::tool(now, "t", None) };
    hands.machine.call(now, Ticket(1), call);
    hands.leaves(now);
    let stream = StreamId::Ours(0);
    let chunk = StreamChunk { data: vec![b'a'; LARGE].into(), ..StreamChunk::default() };
    for count in 1..4 {
        hands.bytes(now, stream, &frame(&response_body(chunk.clone())));
        assert!(count * LARGE <= hands.machine.weight());
    }
    let end = StreamEnd { success: true, ..StreamEnd::default() };
    hands.bytes(now, stream, &frame(&response_body(end)));
    hands.end(now, stream);
    hands.leaves(now);
    assert_eq!(hands.machine.weight(), 0);
}

#[test]
fn parts_weigh_until_they_are_one_answer_and_that_until_it_is_handed_out() {
    let now = Instant::now();
    let settings = ServerSettings::new(Role::Plugin, CallerId(1));
    let mut hands = Hands::new(Server::new(settings));
    let stream = StreamId::Theirs(0);
    let request = ToolRequest { tool_name: "t".into(), ..ToolRequest::default() };
    hands.bytes(now, stream, &frame(&request_body(request)));
    let mut running = None;
    while let Some((ticket, asked)) = hands.machine.poll_up() {
        let toolbus_proto::channel::Asked::Call(call) = asked else { panic!() };
        match call.what {
            What::Tools => {
                let tools = Down::Done(Ok(Outcome::Tools([].into())));
                hands.machine.down(now, ticket, tools);
            }
            _ => running = Some(ticket),
        }
    }
    let running = running.unwrap();
    hands.machine.down(now, running, Down::Begin { head: None, parts: None });
    for count in 1..4 {
        hands.machine.down(now, running, Down::Part(Part::Text("a".repeat(LARGE))));
        assert!(count * LARGE <= hands.machine.weight());
    }
    hands.machine.down(now, running, Down::Done(Ok(Outcome::End(None))));
    assert!(3 * LARGE <= hands.machine.weight() && hands.machine.weight() < 4 * LARGE);
    hands.leaves(now);
    assert_eq!(hands.machine.weight(), 0);
}

#[test]
fn events_weigh_while_they_wait_and_only_so_much_may() {
    let now = Instant::now();
    let mut server = Server::new(ServerSettings::new(Role::Hub, CallerId(1)));
    let stream = StreamId::Theirs(0);
    use toolbus_proto::channel::Streams as _;
    server.handle_opened(now, stream, ());
    let subscribe = Subscribe { topic: "t".into(), ..Subscribe::default() };
    let mut input = BytesMut::from(&frame(&request_body(subscribe))[..]);
    server.handle_bytes(now, stream, &mut input);
    let (ticket, _) = server.poll_up().unwrap();
    let mut out = Outbox::new();
    // The first is on its way and not known to be written: the others wait for it.
    server.down(now, ticket, piece(vec![0; 10]));
    server.poll_transmit(stream, &mut out);
    assert_eq!(server.weight(), 0);
    for _ in 0..20 {
        server.down(now, ticket, piece(vec![0; EVENTS_BYTES_MAX / 10]));
        assert!(server.weight() <= EVENTS_BYTES_MAX);
    }
    assert!(EVENTS_BYTES_MAX / 2 < server.weight());
    server.handle_disconnected(now);
    assert_eq!(server.weight(), 0);
}

#[test]
fn ids_tokens_and_arrays_weigh_until_they_are_answered() {
    let now = Instant::now();
    let mut transport = Transport::new(TransportSettings::default());
    let revision = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
    let (id, token) = ("i".repeat(LARGE), "t".repeat(LARGE));
    let params = format!(r#"{{"name":"t","_meta":{{"progressToken":"{token}"}}}}"#);
    let call =
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#);
    let ping = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#);
    let text = format!("{revision}\n[{call},{ping}]\n{call}\n");
    transport.handle_bytes(now, &mut BytesMut::from(text.as_bytes()));
    let mut out = Outbox::new();
    transport.poll_transmit(&mut out);
    // Twice an id and a token, and the answer to `ping`, which waits for the rest of its array.
    assert!(5 * LARGE <= transport.weight() && transport.weight() < 6 * LARGE);
    let answer = Response::from(ToolResponse { success: true, ..ToolResponse::default() });
    let mut tickets = Vec::new();
    while let Some((ticket, _)) = transport.poll_up() {
        tickets.push(ticket);
    }
    for ticket in tickets {
        let done = Down::Done(Ok(Outcome::Native(response_body(answer.clone()))));
        transport.down(now, ticket, done);
    }
    transport.poll_transmit(&mut out);
    assert_eq!(transport.weight(), 0);
    let said = out.take();
    let lines: Vec<_> = said.split(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 4);
    assert!(Json::parse(Bytes::copy_from_slice(lines[1])).is_ok());
}

#[test]
fn a_manifest_is_no_answer_that_is_kept() {
    let now = Instant::now();
    let mut hands = Hands::new(Server::new(ServerSettings::new(Role::Plugin, CallerId(1))));
    let manifest = PluginManifest { id: "p".repeat(LARGE), ..PluginManifest::default() };
    hands.bytes(now, StreamId::Theirs(0), &frame(&request_body(manifest)));
    hands.leaves(now);
    assert_eq!(hands.machine.weight(), 0);
}
