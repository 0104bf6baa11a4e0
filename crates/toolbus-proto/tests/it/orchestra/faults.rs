//! Conversations that go wrong: at every byte, and in the ways this wire has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Asked, Calling, Down, Machine, Serving, StreamId, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::envelope::{put_frame, request_body, response_body};
use toolbus_proto::orchestra::stdio::{Transport, TransportSettings};
use toolbus_proto::orchestra::structure::Struct;
use toolbus_proto::orchestra::wire::{
    ListToolsResponse, Response, StreamCancel, StreamChunk, StreamEnd, StreamStart, ToolDefinition,
    ToolRequest, ToolResponse,
};
use toolbus_proto::orchestra::{
    Client, ClientSettings, FRAME_BYTES_MAX, Role, Server, ServerSettings, WIRE,
};
use toolbus_proto::tool::{
    Call, CallOptions, CallerId, Deadline, Failure, FailureKind, Outcome, Part, What,
};
use toolbus_testkit::faults;
use toolbus_testkit::in_memory::{Hands, Leaves};
use toolbus_testkit::pair::ToServing;

use super::ids;

const SECOND: Duration = Duration::from_secs(1);

fn frame(id: &str, body: &Bytes) -> Vec<u8> {
    let mut out = toolbus_proto::channel::Outbox::new();
    put_frame(&mut out, id, body);
    out.take().to_vec()
}

fn client() -> Hands<Client> {
    Hands::new(Client::new(ClientSettings::default(), ids("id").0))
}

fn server(role: Role) -> Hands<Server> {
    Hands::new(Server::new(ServerSettings::new(role, CallerId(1))))
}

fn call(now: Instant, what: What, progress: bool) -> Call {
    let deadline = Deadline { asked: now, quiet: Some(60 * SECOND), total: None };
    let options = CallOptions { progress, ..CallOptions::default() };
    Call { deadline, options, ..Call::of(now, what) }
}

fn tool(name: &str) -> What {
    What::Tool { name: name.into(), args: Some(Json::parse(r#"{"a":[1,{"b":"c"}]}"#).unwrap()) }
}

fn answer(text: &str) -> Response {
    let result = Struct::of_json(&format!("{{\"text\":\"{text}\"}}")).ok();
    ToolResponse { success: true, result, ..ToolResponse::default() }.into()
}

/// One call of each kind, and all that is answered to it.
fn everything() -> Vec<(What, bool, Vec<u8>)> {
    let definition = ToolDefinition { name: "t".into(), ..ToolDefinition::default() };
    let tools = ListToolsResponse { tools: vec![definition], ..ListToolsResponse::default() };
    let chunk = StreamChunk { data: Bytes::from_static(b"\xc3\xa9"), ..StreamChunk::default() };
    let end = StreamEnd { success: true, total_chunks: 1, ..StreamEnd::default() };
    let start = request_body(StreamStart { stream_id: "s".into(), ..StreamStart::default() });
    let chunks = [frame("x", &response_body(chunk)), frame("x", &response_body(end))].concat();
    let native = |method: &'static str, body| What::Native {
        wire: WIRE,
        method: Bytes::from_static(method.as_bytes()),
        body,
    };
    let call = request_body(ToolRequest { tool_name: "t".into(), ..ToolRequest::default() });
    vec![
        (What::Tools, false, frame("id-1", &response_body(tools))),
        (tool("t"), false, frame("id-1", &response_body(answer("hi")))),
        (tool("t"), true, chunks.clone()),
        (native("tool_call", call), false, frame("", &response_body(answer("hi")))),
        (native("stream_start", start), false, chunks),
    ]
}

/// How a stream goes wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    End,
    Reset,
    Stall,
    Garble(u8),
}

#[test]
fn a_call_ends_once_whatever_happens_to_its_stream() {
    let begun = Instant::now();
    for (what, progress, answer) in everything() {
        for at in 0..=answer.len() {
            for fault in
                [Fault::End, Fault::Reset, Fault::Stall, Fault::Garble(0xff), Fault::Garble(0)]
            {
                let mut now = begun;
                let mut hands = client();
                hands.machine.call(now, Ticket(7), call(now, what.clone(), progress));
                let mut ended = 0;
                let mut learn = |hands: &mut Hands<Client>, now| {
                    hands.leaves(now);
                    while let Some((ticket, down)) = hands.machine.poll_down() {
                        assert_eq!((ticket, ended), (Ticket(7), 0), "{down:?} {fault:?} {at}");
                        ended += usize::from(matches!(down, Down::Done(_)));
                    }
                    while hands.machine.poll_notice().is_some() {}
                };
                learn(&mut hands, now);
                let stream = StreamId::Ours(0);
                hands.bytes(now, stream, &answer[..at]);
                learn(&mut hands, now);
                match fault {
                    Fault::End => {
                        hands.end(now, stream);
                    }
                    Fault::Reset => hands.reset(now, stream, 9),
                    Fault::Stall => {}
                    Fault::Garble(byte) => {
                        hands.bytes(now, stream, &[byte]);
                        learn(&mut hands, now);
                        hands.bytes(now, stream, answer.get(at + 1..).unwrap_or_default());
                        hands.end(now, stream);
                    }
                }
                learn(&mut hands, now);
                for _ in 0..8 {
                    let Some(at) = hands.machine.poll_timeout() else { break };
                    now = at;
                    hands.machine.handle_timeout(now);
                    learn(&mut hands, now);
                }
                assert_eq!(hands.machine.poll_timeout(), None);
                assert_eq!(ended, 1, "{what:?} {fault:?} at {at}");
                assert!(hands.machine.is_idle());
                let gone = Failure::new(FailureKind::Gone, "gone");
                Calling::handle_lost(&mut hands.machine, now, &gone);
                assert!(hands.machine.poll_down().is_none());
            }
        }
    }
}

#[test]
fn a_request_is_answered_or_refused_whatever_its_bytes_are() {
    let now = Instant::now();
    let arguments = Struct::of_json(r#"{"value":{"a":[1]}}"#).ok();
    let requests = [
        request_body(ToolRequest {
            tool_name: "t".into(),
            arguments: arguments.clone(),
            ..Default::default()
        }),
        request_body(StreamStart { stream_id: "s".into(), arguments, ..Default::default() }),
        Bytes::new(),
    ];
    for (role, body) in [Role::Plugin, Role::Hub]
        .iter()
        .flat_map(|role| requests.iter().map(move |body| (*role, frame("id", body))))
    {
        for at in 0..=body.len() {
            for garbled in [None, Some(0xff), Some(0)] {
                let mut hands = server(role);
                let stream = StreamId::Theirs(0);
                let mut bytes = body.clone();
                match (garbled, bytes.get_mut(at)) {
                    (Some(byte), Some(at)) => *at = byte,
                    (None, _) => bytes.truncate(at),
                    _ => {}
                }
                hands.bytes(now, stream, &bytes);
                hands.end(now, stream);
                let mut left = hands.leaves(now);
                while let Some((ticket, asked)) = hands.machine.poll_up() {
                    let Asked::Call(call) = asked else { continue };
                    let outcome = match call.what {
                        What::Tools => Ok(Outcome::Tools([].into())),
                        _ => Ok(Outcome::Text("x".into())),
                    };
                    hands.machine.down(now, ticket, Down::Done(outcome));
                    left.extend(hands.leaves(now));
                }
                let ends =
                    left.iter().filter(|(_, leaves)| matches!(leaves, Leaves::Bytes(_, true)));
                assert_eq!(ends.count(), 1, "{left:?}");
                assert!(!hands.is_open(stream), "its credit is given back");
                while hands.machine.poll_notice().is_some() {}
            }
        }
    }
}

#[test]
fn lines_that_go_wrong_at_every_byte() {
    let begun = Instant::now();
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}"#,
        "\n",
        r#"[{"jsonrpc":"2.0","id":"x","method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
        "\n",
    );
    let done = |body: Bytes| Down::Done(Ok(Outcome::Native(body)));
    let recorded = [
        ToServing::Bytes(Bytes::from_static(lines.as_bytes())),
        ToServing::Down(Ticket(0), Down::Progress(Json::parse(r#"{"progress":1}"#).unwrap())),
        ToServing::Down(Ticket(0), done(response_body(answer("hi")))),
        ToServing::Down(Ticket(1), done(Bytes::new())),
    ];
    let settings = TransportSettings { line_bytes_max: 200, ..TransportSettings::default() };
    faults::serving(begun, &recorded, 200, || Transport::new(settings.clone()));
    let in_order = TransportSettings { in_order: true, ..settings };
    faults::serving(begun, &recorded, 200, || Transport::new(in_order.clone()));
}

#[test]
fn a_late_end_is_awaited_and_then_not() {
    let now = Instant::now();
    let health = frame("h", &Bytes::from_static(b"\x6a\x00"));
    let mut hands = server(Role::Plugin);
    // Late, but in time: nothing is stopped.
    let early = StreamId::Theirs(0);
    hands.bytes(now, early, &health);
    assert_eq!(hands.leaves(now).len(), 1);
    assert!(hands.is_open(early));
    assert!(hands.end(now + SECOND, early), "it is over with that");
    // Never: it is stopped after a while.
    let never = StreamId::Theirs(1);
    hands.bytes(now, never, &health);
    assert_eq!(hands.leaves(now).len(), 1);
    let until = hands.machine.poll_timeout().unwrap();
    hands.machine.handle_timeout(now + 5 * SECOND);
    assert!(until <= now + 5 * SECOND);
    assert_eq!(hands.leaves(now), [(never, Leaves::Stop(0))]);
    assert!(!hands.is_open(never));
    // Too much behind it.
    let flood = StreamId::Theirs(2);
    hands.bytes(now, flood, &health);
    hands.leaves(now);
    hands.bytes(now, flood, &[0; 64 * 1024]);
    assert!(hands.leaves(now).is_empty());
    hands.bytes(now, flood, &[0; 1]);
    assert_eq!(hands.leaves(now), [(flood, Leaves::Stop(0))]);
    hands.machine.handle_timeout(now + 60 * SECOND);
    assert!(hands.leaves(now).is_empty());
    assert_eq!(hands.machine.poll_timeout(), None);
}

#[test]
fn who_reads_no_more_cancels_its_call() {
    let now = Instant::now();
    let request = request_body(ToolRequest { tool_name: "t".into(), ..ToolRequest::default() });
    for is_reset in [false, true] {
        let mut hands = server(Role::Plugin);
        let stream = StreamId::Theirs(0);
        hands.bytes(now, stream, &frame("r", &request));
        let Some((ticket, Asked::Call(_))) = hands.machine.poll_up() else { panic!() };
        match is_reset {
            true => hands.reset(now, stream, 1),
            false => hands.stop(now, stream, 0),
        }
        let cancelled = hands.machine.poll_up();
        assert!(matches!(cancelled, Some((known, Asked::Up(Up::Cancel(None)))) if known == ticket));
        hands.machine.down(now, ticket, Down::Done(Ok(Outcome::Text("late".into()))));
        let expected = if is_reset { vec![] } else { vec![(stream, Leaves::Reset(0))] };
        assert_eq!(hands.leaves(now), expected);
    }
}

#[test]
fn a_stream_may_be_cancelled_on_itself() {
    let now = Instant::now();
    for role in [Role::Plugin, Role::Hub] {
        let mut hands = server(role);
        let stream = StreamId::Theirs(0);
        let start = StreamStart { stream_id: "s".into(), ..StreamStart::default() };
        hands.bytes(now, stream, &frame("r", &request_body(start)));
        let Some((ticket, Asked::Call(_))) = hands.machine.poll_up() else { panic!() };
        let cancel = |id: &str| {
            let stream_id = id.to_owned();
            frame("c", &request_body(StreamCancel { stream_id, ..StreamCancel::default() }))
        };
        hands.bytes(now, stream, &cancel("other"));
        assert!(hands.machine.poll_up().is_none());
        for piece in cancel("s").chunks(3) {
            hands.bytes(now, stream, piece);
        }
        match (role, hands.machine.poll_up()) {
            (Role::Plugin, Some((known, Asked::Up(Up::Cancel(None))))) => assert_eq!(known, ticket),
            // For a hub it is a request like any other, whose stream goes on.
            (Role::Hub, Some((other, Asked::Call(call)))) => {
                let What::Native { method, .. } = call.what else { panic!("only native calls") };
                assert_eq!((&method[..], other == ticket), (&b"stream_cancel"[..], false));
            }
            (_, up) => panic!("{up:?}"),
        }
        // A plugin has said so by now, and a hub says what the plugin says.
        let failure = Failure::new(FailureKind::Cancelled, "enough");
        hands.machine.down(now, ticket, Down::Done(Err(failure)));
        assert_eq!(hands.leaves(now).len(), 1);
    }
}

#[test]
fn a_hundred_unanswered_requests_are_no_lost_credit() {
    let begun = Instant::now();
    let mut hands = client();
    for number in 0..100 {
        hands.machine.call(begun, Ticket(number), call(begun, What::Tools, false));
    }
    assert_eq!(hands.leaves(begun).len(), 100);
    hands.has_credit = false;
    hands.machine.call(begun, Ticket(100), call(begun, What::Tools, false));
    hands.leaves(begun);
    hands.machine.handle_timeout(begun + 3 * SECOND);
    assert!(!hands.machine.is_starved());
    // One is answered, and still no stream can be opened: two seconds from now on.
    let now = begun + 4 * SECOND;
    let tools = response_body(ListToolsResponse::default());
    hands.bytes(now, StreamId::Ours(0), &frame("", &tools));
    hands.machine.handle_timeout(now + SECOND);
    assert!(!hands.machine.is_starved());
    hands.machine.handle_timeout(now + 2 * SECOND);
    assert!(hands.machine.is_starved());
    let unsent: Vec<_> =
        hands.machine.take_unsent().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(unsent, [Ticket(100)]);
    assert!(hands.machine.take_unsent().is_empty());
    // Waiting counts against the deadline: the others are given up with their own.
    let mut ended = BTreeMap::new();
    hands.machine.handle_timeout(begun + 60 * SECOND);
    while let Some((ticket, Down::Done(outcome))) = hands.machine.poll_down() {
        ended.insert(ticket, outcome.is_ok());
    }
    assert_eq!(ended.len(), 100);
    assert_eq!(ended.values().filter(|is_ok| **is_ok).count(), 1);
    assert!(hands.machine.is_idle());
}

#[test]
fn a_call_that_never_gets_a_stream_ends_by_its_deadline() {
    let now = Instant::now();
    let mut hands = client();
    hands.has_credit = false;
    hands.machine.call(now, Ticket(1), call(now, tool("t"), true));
    assert!(hands.leaves(now).is_empty());
    hands.machine.handle_timeout(now + 60 * SECOND);
    let Some((_, Down::Done(Err(failure)))) = hands.machine.poll_down() else { panic!() };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::TimedOut, "no answer within 60s")
    );
    hands.has_credit = true;
    assert!(hands.leaves(now).is_empty(), "it was never sent, so it is not cancelled either");
}

#[test]
fn what_is_over_the_limit_is_refused_both_ways() {
    let now = Instant::now();
    let mut hands = client();
    let large = Json::of(&serde_json::json!({ "x": "y".repeat(FRAME_BYTES_MAX) }));
    let what = What::Tool { name: "t".into(), args: Some(large) };
    hands.machine.call(now, Ticket(1), call(now, what, false));
    let Some((_, Down::Done(Err(failure)))) = hands.machine.poll_down() else { panic!() };
    assert_eq!(failure.kind, FailureKind::TooLarge);
    hands.machine.call(now, Ticket(2), call(now, tool("t"), false));
    hands.leaves(now);
    hands.bytes(now, StreamId::Ours(0), b"\x01\x00\x00\x01");
    let Some((_, Down::Done(Err(failure)))) = hands.machine.poll_down() else { panic!() };
    let message = "answer of 16777217 bytes is over the limit of 16777216";
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::TooLarge, message));
    assert_eq!(hands.leaves(now), [(StreamId::Ours(0), Leaves::Stop(0))]);
    // A result that does not fit becomes a failure that does.
    let mut hands = server(Role::Plugin);
    let request = request_body(ToolRequest { tool_name: "t".into(), ..ToolRequest::default() });
    hands.bytes(now, StreamId::Theirs(0), &frame("r", &request));
    let Some((ticket, _)) = hands.machine.poll_up() else { panic!() };
    let text = "y".repeat(FRAME_BYTES_MAX);
    hands.machine.down(now, ticket, Down::Done(Ok(Outcome::Text(text))));
    let [(_, Leaves::Bytes(bytes, true))] = &hands.leaves(now)[..] else { panic!() };
    assert!(bytes.len() < 200 && bytes.windows(9).any(|window| window == b"too_large"));
}

#[test]
fn a_shutdown_waits_for_calls_and_no_longer() {
    let now = Instant::now();
    for is_patient in [true, false] {
        let mut hands = server(Role::Plugin);
        let request = request_body(ToolRequest { tool_name: "t".into(), ..ToolRequest::default() });
        hands.bytes(now, StreamId::Theirs(0), &frame("r", &request));
        let Some((ticket, _)) = hands.machine.poll_up() else { panic!() };
        hands.bytes(now, StreamId::Theirs(1), &frame("s", &Bytes::from_static(b"\x62\x00")));
        assert!(hands.leaves(now).is_empty() && hands.machine.ended().is_none());
        hands.bytes(now, StreamId::Theirs(2), &frame("n", &request));
        assert_eq!(hands.leaves(now).len(), 1, "what comes now is refused");
        match is_patient {
            true => {
                hands.machine.down(now, ticket, Down::Done(Ok(Outcome::Text("x".into()))));
            }
            false => {
                assert_eq!(
                    hands.machine.poll_timeout().map(|at| at <= now + 5 * SECOND),
                    Some(true)
                );
                hands.machine.handle_timeout(now + 5 * SECOND);
                assert!(matches!(hands.machine.poll_up(), Some((_, Asked::Up(Up::Cancel(_))))));
            }
        }
        let clean = hands.leaves(now);
        let says_clean = |leaves: &Leaves| matches!(leaves, Leaves::Bytes(bytes, true) if bytes.ends_with(b"\x62\x02\x08\x01"));
        assert!(clean.iter().any(|(_, leaves)| says_clean(leaves)), "{clean:?}");
        assert!(hands.machine.ended().is_some());
    }
}

#[test]
fn a_subscriber_that_reads_slowly_loses_its_oldest_events() {
    let now = Instant::now();
    let mut machine = Server::new(ServerSettings::new(Role::Hub, CallerId(1)));
    let stream = StreamId::Theirs(0);
    use toolbus_proto::channel::Streams;
    machine.handle_opened(now, stream, ());
    let subscribe = frame("s", &Bytes::from_static(b"\x92\x03\x03\x12\x01t"));
    machine.handle_bytes(now, stream, &mut (&subscribe[..]).into());
    let Some((ticket, _)) = machine.poll_up() else { panic!() };
    let mut out = toolbus_proto::channel::Outbox::new();
    let mut tell = |machine: &mut Server, number: u32| {
        let data = Bytes::copy_from_slice(&number.to_be_bytes());
        let piece = toolbus_proto::tool::Piece { data, media_type: None, len: None, last: true };
        machine.down(now, ticket, Down::Part(Part::Bytes(piece)));
        machine.poll_transmit(stream, &mut out);
    };
    // The first is on its way and never written; the others wait.
    (0..2000).for_each(|number| tell(&mut machine, number));
    let written = out.take();
    assert_eq!(written.len(), 4 + 3 + 4);
    machine.handle_sent(now, stream);
    let mut rest = toolbus_proto::channel::Outbox::new();
    machine.poll_transmit(stream, &mut rest);
    let rest = rest.take();
    assert_eq!(rest.len(), 1024 * (4 + 3 + 4));
    assert!(rest.ends_with(&1999u32.to_be_bytes()));
    assert!(machine.poll_notice().is_some());
}

#[test]
fn what_streams_too_much_is_given_up_at_once() {
    let now = Instant::now();
    let mut hands = client();
    hands.machine.call(now, Ticket(1), call(now, tool("t"), true));
    hands.leaves(now);
    let data = Bytes::from(vec![b'x'; FRAME_BYTES_MAX / 2 + 1]);
    let chunk = response_body(StreamChunk { data, ..StreamChunk::default() });
    hands.bytes(now, StreamId::Ours(0), &frame("x", &chunk));
    assert!(matches!(hands.machine.poll_down(), Some((_, Down::Progress(_)))));
    hands.bytes(now, StreamId::Ours(0), &frame("x", &chunk));
    let Some((_, Down::Done(Err(failure)))) = hands.machine.poll_down() else { panic!() };
    assert_eq!(failure.kind, FailureKind::TooLarge);
    let left = hands.leaves(now);
    assert_eq!(left[0], (StreamId::Ours(0), Leaves::Stop(0)));
    assert!(matches!(left[1], (StreamId::Ours(1), Leaves::Bytes(_, true))), "and cancelled");
}
