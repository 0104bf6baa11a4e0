//! MCP over HTTP with peers that say whatever chance brings.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use proptest::prelude::*;
use toolbus_proto::channel::{
    Asked, Calling, Down, Flow, Machine, Outbox, Serving, StreamId, StreamLost, Streams, Ticket, Up,
};
use toolbus_proto::http::{Admission, RequestHead, ResponseHead};
use toolbus_proto::mcp::Behind;
use toolbus_proto::mcp::http::{Endpoint, Entrance, HttpClient, Settings};
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::mcp_faults::{fragment, native, reply};
use crate::mcp_remote::settings;

proptest! {
    #[test]
    fn no_request_can_break_an_endpoint(
        requests in prop::collection::vec(
            (
                prop::sample::select(&["POST", "GET", "DELETE", "PUT"][..]),
                prop::sample::select(&["", "2025-11-25", "2026-07-28", "x"][..]),
                any::<bool>(),
                fragment(),
                any::<u8>(),
            ),
            0..20,
        ),
    ) {
        let mut now = Instant::now();
        let entrance = Entrance {
            admission: Admission::LOOPBACK,
            path: "/".into(),
            sse: true,
            body_bytes_max: 1 << 20,
        };
        let settings =
            Settings { version: "1".into(), behind: Behind::Hub, entrance, first_caller: 0 };
        let mut names = 0;
        let mut endpoint = Endpoint::new(settings, move || {
            names += 1;
            format!("s{names}")
        });
        let mut open: Vec<(Ticket, Call)> = Vec::new();
        for (number, (method, version, has_session, body, turn)) in requests.into_iter().enumerate() {
            let mut headers = vec![
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", "a"),
            ];
            headers.extend(Some(("MCP-Protocol-Version", version)).filter(|(_, v)| !v.is_empty()));
            headers.extend(has_session.then_some(("Mcp-Session-Id", "s1")));
            let mut head = RequestHead::new(method, "/");
            head.headers.extend(headers);
            let stream = StreamId::Theirs(number as u64);
            let mut input = BytesMut::from(&body[..]);
            if endpoint.handle_opened(now, stream, head) == Flow::More
                && endpoint.handle_bytes(now, stream, &mut input) == Flow::More
            {
                let flow = endpoint.handle_eof(now, stream, &mut input);
                prop_assert!(flow != Flow::More, "there is no more");
            }
            while let Some((ticket, asked)) = endpoint.poll_up() {
                match asked {
                    Asked::Call(call) => open.push((ticket, call)),
                    Asked::Up(Up::Cancel(_)) => open.retain(|(known, _)| *known != ticket),
                    Asked::Up(_) => {}
                }
            }
            if let Some((ticket, call)) = open.get(usize::from(turn) % open.len().max(1)).cloned() {
                let down = reply(turn.into(), &call);
                if matches!(down, Down::Done(_)) {
                    open.retain(|(known, _)| *known != ticket);
                }
                endpoint.down(now, ticket, down);
            }
            if turn % 5 == 0 {
                let failure = Failure::new(FailureKind::Gone, "gone");
                let why = StreamLost { code: None, failure };
                endpoint.handle_lost(now, StreamId::Theirs(u64::from(turn) % 8), why);
            }
            now += Duration::from_secs(turn.into());
            endpoint.handle_timeout(now);
            while let Some(stream) = endpoint.poll_ready() {
                endpoint.poll_transmit(stream, &mut Outbox::new());
                endpoint.poll_answer(stream);
            }
        }
    }

    #[test]
    fn no_answer_can_break_a_client_over_http(
        answers in prop::collection::vec(
            (
                prop::sample::select(&[200u16, 202, 400, 401, 404, 500][..]),
                prop::sample::select(&["application/json", "text/event-stream", ""][..]),
                any::<bool>(),
                fragment(),
                0..4u64,
            ),
            0..30,
        ),
    ) {
        let mut now = Instant::now();
        let mut client = HttpClient::new(settings());
        let mut open: std::collections::BTreeSet<_> = (0..3).map(Ticket).collect();
        client.call(now, Ticket(0), native(now, "initialize", "{}"));
        client.call(now, Ticket(1), native(now, "x", "{}"));
        client.call(now, Ticket(2), Call::tool(now, "a", None));
        let mut streams = Vec::new();
        for (status, kind, has_session, body, turn) in answers {
            while let Some((stream, _)) = client.poll_open() {
                streams.push(stream);
            }
            let Some(stream) = streams.pop() else { break };
            let mut head = ResponseHead::new(status);
            head.headers.push("Content-Type", kind);
            head.headers.extend(has_session.then_some(("Mcp-Session-Id", "s")));
            client.handle_answered(now, stream, head);
            let event = [b"id: 1\ndata: ", &body[..], b"\n\n"].concat();
            let body = if kind == "text/event-stream" { event } else { body };
            let mut input = BytesMut::from(&body[..]);
            client.handle_bytes(now, stream, &mut input);
            if turn > 0 {
                client.handle_eof(now, stream, &mut input);
            }
            now += Duration::from_secs(turn);
            client.handle_timeout(now);
            while let Some((ticket, down)) = client.poll_down() {
                prop_assert!(open.contains(&ticket), "{:?} is over and gets {:?}", ticket, down);
                if matches!(down, Down::Done(_)) {
                    open.remove(&ticket);
                }
            }
        }
        client.close(now, Duration::ZERO);
        while let Some((ticket, down)) = client.poll_down() {
            prop_assert!(open.contains(&ticket), "{:?} is over and gets {:?}", ticket, down);
            if matches!(down, Down::Done(_)) {
                open.remove(&ticket);
            }
        }
        prop_assert!(open.is_empty(), "never ended: {:?}", open);
    }
}

/// A byte now and then is no way to hold a place for ever, whatever version of HTTP it comes by.
#[test]
fn a_body_that_drips_is_given_up() {
    let begun = Instant::now();
    let slow = |bytes_a_second: usize, seconds_max: u32| {
        let path = "/".to_owned();
        let entrance =
            Entrance { admission: Admission::LOOPBACK, path, sse: false, body_bytes_max: 1 << 20 };
        let settings =
            Settings { version: "1".into(), behind: Behind::Hub, entrance, first_caller: 0 };
        let mut endpoint = Endpoint::new(settings, || "s".to_owned());
        let mut head = RequestHead::new("POST", "/");
        head.headers.push("Content-Type", "application/json");
        let (stream, mut input) = (StreamId::Theirs(1), BytesMut::new());
        assert_eq!(endpoint.handle_opened(begun, stream, head), Flow::More);
        for second in 1..=seconds_max {
            let now = begun + Duration::from_secs(1) * second;
            endpoint.handle_timeout(now);
            if let Some(head) = endpoint.poll_answer(stream) {
                let mut out = Outbox::new();
                endpoint.poll_transmit(stream, &mut out);
                let piece = out.take_piece(usize::MAX).unwrap_or_default();
                return Some((second, head.status, String::from_utf8(piece.to_vec()).unwrap()));
            }
            input.extend(std::iter::repeat_n(b' ', bytes_a_second));
            Streams::handle_bytes(&mut endpoint, now, stream, &mut input);
        }
        None
    };
    let (second, status, body) = slow(1, 3600).unwrap();
    assert_eq!((second, status), (31, 408));
    assert_eq!(
        body,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body comes too slowly: at least 1024 bytes a second are needed"}}"#
    );
    assert_eq!(slow(0, 3600).unwrap(), (30, 408, String::new()));
    assert_eq!(slow(1024, 600), None);
}
