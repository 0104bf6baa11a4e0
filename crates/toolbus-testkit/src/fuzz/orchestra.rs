//! The Orchestra room: the codec, both ends of a connection, the hub between them, and the
//! lines of `transport.stdio`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::capture::Side;
use toolbus_proto::channel::{
    Asked, Calling, Channel as _, Down, Flow, Machine as _, Outbox, Serving as _, StreamId, Ticket,
    Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::orchestra::decode::{Capture, print};
use toolbus_proto::orchestra::envelope::{Envelope, request_body, response_body};
use toolbus_proto::orchestra::hub::{Asker, Hub, HubSettings, Order, PluginConfig};
use toolbus_proto::orchestra::stdio::{Profile, Transport, TransportSettings};
use toolbus_proto::orchestra::{
    Client, ClientSettings, Ids, Role, Server, ServerSettings, Timestamp, WIRE,
};
use toolbus_proto::tool::{
    Call, CallOptions, CallerId, Deadline, Failure, FailureKind, Outcome, What,
};

use crate::in_memory::{Hands, Leaves};

fn ids() -> Ids {
    let mut count = 0;
    Ids::new(move || {
        count += 1;
        format!("id-{count}")
    })
}

/// One message: what is read of it is written again so that it is read the same, and a capture
/// of it is printed as JSON.
pub fn codec(data: &[u8]) {
    let message = Bytes::copy_from_slice(data);
    for side in [Side::Call, Side::Response] {
        let mut capture = Capture::new(side);
        let mut input = BytesMut::from(data);
        while capture.next(&mut input).is_some() {}
        capture.end(&input);
        let Ok(envelope) = Envelope::read(side, &message) else { continue };
        if let Ok(printed) = print(side, &message) {
            Json::parse(printed.as_bytes().clone()).expect("what we print is JSON");
        }
        if let (Side::Call, Ok(Some(request))) = (side, envelope.request()) {
            let again = Envelope::read(side, &request_body(request.clone()));
            let again = again.and_then(|again| again.request());
            assert_eq!(again, Ok(Some(request)));
        }
        if let (Side::Response, Ok(Some(response))) = (side, envelope.response()) {
            let again = Envelope::read(side, &response_body(response.clone()));
            let again = again.and_then(|again| again.response());
            assert_eq!(again, Ok(Some(response)));
        }
    }
}

/// What a peer may answer to a client: each call ends once.
pub fn client(data: &[u8]) {
    let settings = ClientSettings { frame_bytes_max: 256, ..ClientSettings::default() };
    let mut hands = Hands::new(Client::new(settings, ids()));
    let mut now = Instant::now();
    let native = |method: &'static [u8], body: &'static [u8]| What::Native {
        wire: WIRE,
        method: Bytes::from_static(method),
        body: Bytes::from_static(body),
    };
    let asked = [
        (What::Tools, false),
        (What::Tool { name: "t".into(), args: None }, false),
        (What::Tool { name: "t".into(), args: None }, true),
        (native(b"stream_start", b"\xc2\x02\x06\x0a\x01s\x12\x01t"), false),
        (native(b"tool_call", b"\x0a\x01r\xa2\x01\x03\x0a\x01t"), true),
        (native(b"stream_cancel", b"\xca\x02\x00"), false),
    ];
    let mut ended = BTreeMap::new();
    for (ticket, (what, progress)) in asked.into_iter().enumerate() {
        let deadline = Deadline { asked: now, quiet: Some(Duration::from_secs(60)), total: None };
        let options = CallOptions { progress, ..CallOptions::default() };
        let ticket = Ticket(ticket as u64);
        hands.machine.call(now, ticket, Call { deadline, options, ..Call::of(now, what) });
        ended.insert(ticket, 0);
    }
    let mut learn = |hands: &mut Hands<Client>, now| {
        for (_, leaves) in hands.leaves(now) {
            if let Leaves::Bytes(bytes, ends) = leaves {
                assert!(ends, "a frame and its end leave together");
                assert_frames(&bytes);
            }
        }
        while let Some((ticket, down)) = hands.machine.poll_down() {
            let count = ended.get_mut(&ticket).expect("a ticket of ours");
            assert_eq!(*count, 0, "{down:?} behind the end");
            *count += usize::from(matches!(down, Down::Done(_)));
        }
        while hands.machine.poll_notice().is_some() {}
    };
    learn(&mut hands, now);
    for step in steps(data) {
        let stream = StreamId::Ours(step.stream % 8);
        match step.what {
            Happens::Bytes(bytes) => hands.bytes(now, stream, bytes),
            Happens::End => {
                hands.end(now, stream);
            }
            Happens::Other(kind) => match kind % 4 {
                0 => hands.reset(now, stream, u64::from(kind)),
                1 => hands.machine.up(now, Ticket(step.stream % 6), Up::Cancel(None)),
                2 => hands.stop(now, stream, 0),
                _ => {
                    now += Duration::from_secs(u64::from(kind));
                    hands.machine.handle_timeout(now);
                }
            },
        }
        learn(&mut hands, now);
    }
    let gone = Failure::new(FailureKind::Gone, "gone");
    Calling::handle_lost(&mut hands.machine, now, &gone);
    learn(&mut hands, now);
    assert!(ended.values().all(|count| *count == 1), "{ended:?}");
}

/// What a peer may ask a plugin or a hub: whatever is said are whole frames, and each call is
/// answered or cancelled.
pub fn server(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    let role = if first % 2 == 0 { Role::Plugin } else { Role::Hub };
    let settings = ServerSettings {
        frame_bytes_max: 256,
        drain_bytes_max: 64,
        ..ServerSettings::new(role, CallerId(1))
    };
    let mut hands = Hands::new(Server::new(settings));
    let mut hub = ready_hub();
    let mut now = Instant::now();
    let mut count = 0u64;
    for step in steps(data) {
        let stream = StreamId::Theirs(step.stream % 4);
        match step.what {
            Happens::Bytes(bytes) => hands.bytes(now, stream, bytes),
            Happens::End => {
                hands.end(now, stream);
            }
            Happens::Other(kind) => match kind % 3 {
                0 => hands.reset(now, stream, 0),
                1 => hands.stop(now, stream, 0),
                _ => {
                    now += Duration::from_secs(u64::from(kind));
                    hands.machine.handle_timeout(now);
                    hub.handle_timeout(now);
                }
            },
        }
        while let Some((ticket, asked)) = hands.machine.poll_up() {
            if role == Role::Hub {
                let asker = Asker { connection: CallerId(1), ticket };
                hub.ask(now, Timestamp::default(), asker, asked);
                continue;
            }
            let Asked::Call(call) = asked else { continue };
            count += 1;
            let outcome = match (call.what, count % 3) {
                (What::Tools, _) => Ok(Outcome::Tools([].into())),
                (_, 0) => Ok(Outcome::Value(Json::from_trusted("[1]"))),
                (_, 1) => Err(Failure::new(FailureKind::Failed, "no")),
                _ => continue,
            };
            hands.machine.down(now, ticket, Down::Done(outcome));
        }
        obey(&mut hub, now, step.stream, &mut hands);
        for (_, leaves) in hands.leaves(now) {
            if let Leaves::Bytes(bytes, _) = leaves {
                assert_frames(&bytes);
            }
        }
        while hands.machine.poll_notice().is_some() {}
    }
    hands.machine.handle_disconnected(now);
    assert!(hands.machine.ended().is_some());
    assert_eq!(hands.machine.weight(), 0, "nothing is kept for a peer that is gone");
}

/// A hub with one plugin, which has come up and lists nothing.
fn ready_hub() -> Hub {
    let mut hub = Hub::new(HubSettings::default(), vec![PluginConfig::new("p")], ids());
    let now = Instant::now();
    hub.start();
    hub.handle_line(0, "READY x:1");
    hub.handle_dialled(now, 0);
    while let Some(order) = hub.poll_order() {
        let Order::Call(_, ticket, call) = order else { continue };
        let What::Native { method, .. } = call.what else { continue };
        let answer: &[u8] = match &method[..] {
            b"register" => b"\x52\x02\x08\x01",
            b"boot" => b"\x5a\x02\x08\x01",
            b"list_tools" => b"\xaa\x01\x05\x0a\x03\x0a\x01t",
            _ => b"\xb2\x01\x00",
        };
        let done = Down::Done(Ok(Outcome::Native(Bytes::copy_from_slice(answer))));
        hub.down(now, ticket, done);
    }
    hub
}

/// The plugin behind the hub answers as chance has it.
fn obey(hub: &mut Hub, now: Instant, chance: u64, hands: &mut Hands<Server>) {
    for _ in 0..1000 {
        let Some(order) = hub.poll_order() else { return };
        match order {
            Order::Down(asker, down) => {
                hands.machine.down(now, asker.ticket, down);
            }
            Order::Call(_, ticket, _) => {
                let outcome = match chance % 4 {
                    0 => Ok(Outcome::Native(Bytes::from_static(b"\xa2\x01\x02\x08\x01"))),
                    1 => Ok(Outcome::Native(Bytes::new())),
                    2 => Err(Failure::new(FailureKind::Gone, "gone")),
                    _ => continue,
                };
                hub.down(now, ticket, Down::Done(outcome));
            }
            _ => {}
        }
    }
    panic!("a hub that never comes to rest");
}

/// What a client of `transport.stdio` may write: nothing but lines of JSON comes back, and the
/// end of input is the end.
pub fn stdio(data: &[u8]) {
    let settings = TransportSettings {
        profile: Profile::Full,
        line_bytes_max: 512,
        in_flight_max: 4,
        ..TransportSettings::default()
    };
    let mut transport = Transport::new(settings);
    let now = Instant::now();
    let mut input = BytesMut::new();
    let mut out = Outbox::new();
    let mut count = 0usize;
    let answers: [&[u8]; 5] =
        [b"\xa2\x01\x02\x08\x01", b"\xaa\x01\x00", b"\x8a\x02\x00", b"", b"\xff"];
    let mut answer = |transport: &mut Transport, out: &mut Outbox| {
        while let Some((ticket, asked)) = transport.poll_up() {
            let Asked::Call(_) = asked else { continue };
            count += 1;
            let outcome = match count % 6 {
                5 => Err(Failure::new(FailureKind::TimedOut, "late")),
                kind => Ok(Outcome::Native(Bytes::from_static(answers[kind]))),
            };
            let progress = Down::Progress(Json::from_trusted(r#"{"progress":1}"#));
            transport.down(now, ticket, progress);
            transport.down(now, ticket, Down::Done(outcome));
        }
        while transport.poll_notice().is_some() {}
        transport.poll_transmit(out);
    };
    for piece in data.split(|byte| *byte == 0xfe) {
        input.extend_from_slice(piece);
        transport.handle_bytes(now, &mut input);
        answer(&mut transport, &mut out);
    }
    for _ in 0..1000 {
        if transport.handle_eof(now, &mut input) == Flow::Close {
            break;
        }
        answer(&mut transport, &mut out);
    }
    answer(&mut transport, &mut out);
    assert!(transport.ended().is_some(), "the end of input is the end");
    assert_eq!(transport.weight(), 0, "nothing is kept when all is answered");
    let said = out.take();
    assert!(said.is_empty() || said.ends_with(b"\n"), "{said:?}");
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        assert!(Json::parse(Bytes::copy_from_slice(line)).is_ok(), "{line:?}");
    }
}

/// All that leaves on a stream is whole frames.
fn assert_frames(mut bytes: &[u8]) {
    while let Some((header, rest)) = bytes.split_first_chunk::<4>() {
        let len = u32::from_be_bytes(*header) as usize;
        bytes = rest.get(len..).expect("a whole frame");
    }
    assert!(bytes.is_empty());
}

struct Step<'a> {
    stream: u64,
    what: Happens<'a>,
}

/// What may happen on a stream.
enum Happens<'a> {
    Bytes(&'a [u8]),
    End,
    Other(u8),
}

/// The data as steps: a byte for the stream and what happens, a byte for how much of it.
fn steps(mut data: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || {
        let [first, second, rest @ ..] = data else { return None };
        let stream = u64::from(first >> 3);
        let what = match first & 7 {
            0..=4 => {
                let (bytes, behind) = rest.split_at(usize::from(*second).min(rest.len()));
                data = behind;
                Happens::Bytes(bytes)
            }
            5 => {
                data = rest;
                Happens::End
            }
            _ => {
                data = rest;
                Happens::Other(*second)
            }
        };
        Some(Step { stream, what })
    })
}
