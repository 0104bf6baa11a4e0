//! The NATS wire: what a connection carries, and both ends at a server that says anything.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Machine as _, Outbox, Serving as _, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::nats::decode::Decoder;
use toolbus_proto::nats::headers::Headers;
use toolbus_proto::nats::{
    About, Client, ClientSettings, Info, NodeIdentity, Retry, Server, ServerSettings,
};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, Part, ToolSpec, What};

use super::{Piece, pieces};

/// Bytes of a connection are read the same wherever reads end; a header block is read or not.
pub fn reader(data: &[u8]) {
    let _ = Headers::read(&Bytes::copy_from_slice(data));
    let (mut parts, mut whole) = (Vec::new(), Vec::new());
    let mut decoder = Decoder::default();
    let mut input = BytesMut::new();
    let mut failed = None;
    for piece in pieces(data) {
        let Piece::Bytes(bytes) = piece else { continue };
        input.extend_from_slice(bytes);
        whole.extend_from_slice(bytes);
        if failed.is_none() {
            failed = read(&mut decoder, &mut input, &mut parts);
        }
    }
    let (mut at_once, mut input) = (Vec::new(), BytesMut::from(&whole[..]));
    let failed_at_once = read(&mut Decoder::default(), &mut input, &mut at_once);
    assert_eq!((parts, failed), (at_once, failed_at_once));
}

fn read(decoder: &mut Decoder, input: &mut BytesMut, told: &mut Vec<Json>) -> Option<String> {
    loop {
        match decoder.next(input) {
            Ok(Some(event)) => told.push(event),
            Ok(None) => return None,
            Err(why) => return Some(why),
        }
    }
}

fn info() -> Info {
    Info { headers: true, max_payload: 16 << 10, ..Info::default() }
}

/// Each call ends once, whatever the server says, and all do when the connection is lost.
pub fn client(data: &[u8]) {
    let mut now = Instant::now();
    let settings = ClientSettings {
        at: "h:4222".to_owned(),
        info: info(),
        service: Some("team".to_owned()),
        id: None,
        inbox: "in".to_owned(),
        retry: Retry::Idempotent,
        wires: Vec::new(),
        own: Rc::new(|_| false),
        watched: Rc::new(Cell::new(true)),
        memory: Rc::default(),
        asks_state: false,
    };
    let chance: fn(&mut [u8]) = |bytes| bytes.fill(0);
    let mut client = Client::new(now, settings, chance);
    let (mut waiting, mut next) = (BTreeSet::new(), 0);
    let mut input = BytesMut::new();
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                input.extend_from_slice(bytes);
                let _ = client.handle_bytes(now, &mut input);
            }
            Piece::Event(event @ 0..=3) => {
                let ticket = Ticket(next);
                next += 1;
                waiting.insert(ticket);
                let mut call = match event {
                    0 => Call::of(now, What::Tools),
                    _ => Call::tool(now, "x", Json::parse(r#"{"a":1}"#).ok()),
                };
                call.options.sends_parts = event == 2;
                call.deadline.quiet = Some(Duration::from_secs(60));
                client.call(now, ticket, call);
            }
            Piece::Event(event) => match (event % 4, waiting.last().copied()) {
                (0, Some(ticket)) => client.up(now, ticket, Up::Cancel(None)),
                (1, Some(ticket)) => client.up(now, ticket, Up::Part(Part::Json(Json::null()))),
                (2, Some(ticket)) => client.hold(now, ticket, event & 4 == 0),
                _ => {
                    now += Duration::from_millis(u64::from(event) * 20);
                    client.handle_timeout(now);
                }
            },
        }
        drain(&mut client, &mut waiting);
    }
    client.handle_lost(now, &Failure::new(FailureKind::Gone, "lost"));
    let tickets: Vec<_> = waiting.iter().copied().collect();
    tickets.iter().for_each(|ticket| client.hold(now, *ticket, false));
    drain(&mut client, &mut waiting);
    assert!(waiting.is_empty(), "{waiting:?}");
}

fn drain(client: &mut Client<fn(&mut [u8])>, waiting: &mut BTreeSet<Ticket>) {
    let mut out = Outbox::new();
    client.poll_transmit(&mut out);
    while client.poll_notice().is_some() || client.poll_room().is_some() {}
    while let Some((ticket, down)) = client.poll_down() {
        if let Down::Done(_) = down {
            assert!(waiting.remove(&ticket), "{ticket:?} ended twice");
        } else {
            assert!(waiting.contains(&ticket), "{ticket:?} is over");
        }
    }
}

/// A node answers whatever is asked of it, and calls nothing after it was told to stop.
pub fn server(data: &[u8]) {
    let mut now = Instant::now();
    let text = str::to_owned;
    let settings = ServerSettings {
        identity: NodeIdentity {
            name: text("team"),
            id: text("ID"),
            prefix: text("team"),
            started: text("2026-11-16T10:00:00.000000Z"),
        },
        at: text("h:4222"),
        info: info(),
        inbox: text("in"),
        wires: Vec::new(),
        windows: Rc::default(),
        in_flight: Rc::default(),
        trusted: None,
        about: Box::new(|_| Some(About::default())),
    };
    let mut server = Server::new(now, settings);
    let (mut input, mut running) = (BytesMut::new(), BTreeSet::new());
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                input.extend_from_slice(bytes);
                let _ = server.handle_bytes(now, &mut input);
            }
            Piece::Event(event) => {
                let ticket = running.first().copied().unwrap_or(Ticket(99));
                match event % 6 {
                    0 => {
                        running.remove(&ticket);
                        let value = Outcome::Value(Json::of(&"x".repeat(event.into())));
                        let _ = server.down(now, ticket, Down::Done(Ok(value)));
                    }
                    1 => drop(server.down(now, ticket, Down::Begin { head: None, parts: None })),
                    2 => drop(server.down(now, ticket, Down::Part(Part::Json(Json::null())))),
                    3 => server.hold(now, ticket, event & 1 == 0),
                    4 => server.close(now),
                    _ => {
                        now += Duration::from_millis(u64::from(event) * 50);
                        server.handle_timeout(now);
                    }
                }
            }
        }
        let mut out = Outbox::new();
        server.poll_transmit(&mut out);
        while server.poll_notice().is_some() || server.poll_room().is_some() {}
        while let Some((ticket, asked)) = server.poll_up() {
            match asked {
                Asked::Call(call) if call.what == What::Tools => {
                    let spec = |name| ToolSpec::new(name, Json::parse("{}").expect("it is JSON"));
                    let tools = Outcome::Tools(["x", "y"].map(spec).into());
                    let _ = server.down(now, ticket, Down::Done(Ok(tools)));
                }
                Asked::Call(_) => assert!(running.insert(ticket), "{ticket:?} began twice"),
                Asked::Up(Up::Cancel(_)) => drop(running.remove(&ticket)),
                Asked::Up(_) => {}
            }
        }
    }
}
