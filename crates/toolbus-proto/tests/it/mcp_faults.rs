//! MCP with peers that die, stall, garble and flood, and with whatever chance brings.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use toolbus_proto::channel::{
    AskId, Asked, Calling, Channel, Down, Flow, Machine, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{Behind, Client, Server, calling};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind, Outcome, Part, What};
use toolbus_testkit::faults;
use toolbus_testkit::pair::{ToCalling, ToServing};

const LINE_BYTES_MAX: usize = 600;
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}"#;

fn server(behind: Behind) -> Server {
    let settings = Settings::new("1", CallerId(1), behind);
    Server::new(Settings { line_bytes_max: LINE_BYTES_MAX, calls_max: 3, ..settings })
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn bytes(lines: &[&str]) -> Bytes {
    lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into()
}

#[test]
fn a_server_of_tools_survives_its_client() {
    let modern = format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"a",{META}}}}}"#
    );
    let listen = format!(
        r#"{{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{{{META},"notifications":{{}}}}}}"#
    );
    let recorded = [
        ToServing::Bytes(bytes(&[
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        ])),
        ToServing::Down(Ticket(1), Down::Done(Ok(Outcome::Tools([].into())))),
        ToServing::Down(Ticket(2), Down::Done(Ok(Outcome::Tools([].into())))),
        ToServing::Bytes(bytes(&[
            &modern,
            r#"[{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b","arguments":{"value":1}}},{"jsonrpc":"2.0","id":4,"method":"ping"}]"#,
            &listen,
        ])),
        ToServing::Down(Ticket(3), Down::Part(Part::Text("p".into()))),
        ToServing::Down(Ticket(3), Down::Done(Ok(Outcome::End(None)))),
        ToServing::Bytes(bytes(&[
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#,
        ])),
    ];
    faults::serving(Instant::now(), &recorded, LINE_BYTES_MAX, || server(Behind::Hub));
}

#[test]
fn a_server_that_passes_on_survives_its_client() {
    let recorded = [
        ToServing::Bytes(bytes(&[
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        ])),
        ToServing::Down(
            Ticket(1),
            Down::Begin { head: Some(json(r#"{"capabilities":{}}"#)), parts: None },
        ),
        ToServing::Bytes(bytes(&[
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":7}}}"#,
        ])),
        ToServing::Down(Ticket(2), Down::Ask(AskId(5), json(r#"{"method":"roots/list"}"#))),
        ToServing::Down(Ticket(2), Down::Progress(json(r#"{"progress":1}"#))),
        ToServing::Bytes(bytes(&[r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#])),
        ToServing::Down(Ticket(1), Down::Done(Err(Failure::new(FailureKind::Gone, "gone")))),
        ToServing::Bytes(bytes(&[r#"{"jsonrpc":"2.0","id":2,"method":"y"}"#])),
        ToServing::Down(Ticket(2), Down::Done(Ok(Outcome::Native(Bytes::from_static(b"{}"))))),
    ];
    faults::serving(Instant::now(), &recorded, LINE_BYTES_MAX, || server(Behind::Server));
}

/// A client whose server is legacy and ready.
fn client(now: Instant) -> Client {
    let settings = calling::Settings::new("w", "1");
    let mut client = Client::new(calling::Settings { line_bytes_max: LINE_BYTES_MAX, ..settings });
    let setup = Ticket(u64::MAX);
    client.call(now, setup, Call::tool(now, "", None));
    let mut answers = BytesMut::from(
        &bytes(&[
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
        ])[..],
    );
    client.handle_bytes(now, &mut answers);
    client.up(now, setup, Up::Cancel(None));
    while client.poll_down().is_some() {}
    client.poll_transmit(&mut Outbox::new());
    client
}

pub(crate) fn native(now: Instant, method: &'static str, body: &'static str) -> Call {
    let (method, body) =
        (Bytes::from_static(method.as_bytes()), Bytes::from_static(body.as_bytes()));
    let mut call = Call::of(now, What::Native { wire: WIRE, method, body });
    call.deadline.quiet = Some(Duration::from_secs(5));
    call
}

#[test]
fn a_client_survives_its_server() {
    let now = Instant::now();
    let mut tool = Call::tool(now, "a", None);
    tool.options.progress = true;
    tool.deadline.quiet = Some(Duration::from_secs(5));
    let mut session = native(now, "initialize", r#"{"capabilities":{"roots":{}}}"#);
    session.deadline.quiet = None;
    let recorded = [
        ToCalling::Call(Ticket(1), session),
        ToCalling::Call(Ticket(2), tool),
        ToCalling::Call(Ticket(3), native(now, "x", r#"{"_meta":{"progressToken":"t"}}"#)),
        ToCalling::Call(Ticket(4), Call::of(now, What::Tools)),
        ToCalling::Bytes(bytes(&[
            "banner",
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#,
            r#"[{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no"}}]"#,
        ])),
        ToCalling::Up(Ticket(3), Up::Answer(AskId(0), json(r#"{"result":{}}"#))),
        ToCalling::Bytes(bytes(&[
            r#"{"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"b"}],"nextCursor":"n"}}"#,
            r#"{"jsonrpc":"2.0","id":6,"result":{"tools":[]}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"who?"}}"#,
            r#"{"jsonrpc":"2.0","id":4,"result":{"x":1}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#,
        ])),
        ToCalling::Close,
    ];
    faults::calling(now, &recorded, LINE_BYTES_MAX, || client(now));
}

#[test]
fn who_waits_behind_endless_listening_is_let_go_in_time() {
    let now = Instant::now();
    let settings = calling::Settings { calls_max: 2, ..calling::Settings::new("w", "1") };
    let mut client = Client::new(settings);
    let listen = |ticket| {
        let body = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        (Ticket(ticket), native(now, "subscriptions/listen", body))
    };
    let (first, second) = (listen(0), listen(1));
    client.call(now, first.0, first.1);
    client.call(now, second.0, second.1);
    let found = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#;
    client.handle_bytes(now, &mut BytesMut::from(&bytes(&[found])[..]));
    client.poll_transmit(&mut Outbox::new());
    let agreed = [2, 3].map(|id| format!(r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#));
    client.handle_bytes(now, &mut BytesMut::from(&bytes(&[&agreed[0], &agreed[1]])[..]));
    while client.poll_down().is_some() {}

    // A call that can never go out, and one that would listen.
    let mut late = Call::tool(now, "a", None);
    late.deadline.quiet = Some(Duration::from_secs(5));
    client.call(now, Ticket(2), late);
    let (ticket, third) = listen(3);
    client.call(now, ticket, third);
    assert_eq!(client.poll_timeout(), Some(now + Duration::from_secs(5)));
    let mut out = Outbox::new();
    client.poll_transmit(&mut out);
    assert!(out.is_empty(), "there is no room for more");

    client.handle_timeout(now + Duration::from_secs(5));
    let (ticket, down) = client.poll_down().expect("a call is late");
    let Down::Done(Err(failure)) = down else { panic!("{down:?}") };
    assert_eq!((ticket, failure.kind), (Ticket(2), FailureKind::TimedOut));
    assert_eq!(failure.message, "timed out after 5 s");
    assert!(client.poll_down().is_none(), "who listens does so for ever");
    assert_eq!(client.poll_timeout(), None);
    client.poll_transmit(&mut out);
    assert!(out.is_empty(), "what was never asked is not cancelled");
}

const METHODS: &[&str] = &[
    "initialize",
    "tools/call",
    "tools/list",
    "x/y",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "logging/setLevel",
    "elicitation/create",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/tools/list_changed",
];

const VALUES: &[&str] = &[
    "null",
    "{}",
    "[1]",
    r#"{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{}}}"#,
    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}"#,
    r#"{"name":"a","arguments":{"value":1},"_meta":{"progressToken":"t"}}"#,
    r#"{"requestId":1}"#,
    r#"{"level":"info","data":1}"#,
    r#"{"progressToken":1,"progress":1}"#,
    r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#,
    r#"{"tools":[{"name":"a"}],"nextCursor":"n"}"#,
    r#"{"content":[{"type":"text","text":"a"}],"isError":true}"#,
    r#"{"code":-32602,"message":"no"}"#,
    r#"{"name":"a","notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t","io.modelcontextprotocol/logLevel":"info"}}"#,
    r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}"#,
];

/// A message of some kind, whether it makes sense or not.
fn message() -> impl Strategy<Value = String> {
    let id = prop::sample::select(&["", "1", "2", "3", "4", "\"3\"", "null", "7.0e1"][..]);
    let method = prop::sample::select(METHODS);
    let value = prop::sample::select(VALUES);
    (id, method, value, 0..4).prop_map(|(id, method, value, kind)| {
        let id = if id.is_empty() { String::new() } else { format!(",\"id\":{id}") };
        match kind {
            0 => format!(r#"{{"jsonrpc":"2.0"{id},"result":{value}}}"#),
            1 => format!(r#"{{"jsonrpc":"2.0"{id},"error":{value}}}"#),
            _ => format!(r#"{{"jsonrpc":"2.0"{id},"method":"{method}","params":{value}}}"#),
        }
    })
}

/// Messages, batches of them, and what is neither.
pub(crate) fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let line = message().prop_map(|message| format!("{message}\n").into_bytes());
    let batch = prop::collection::vec(message(), 0..4)
        .prop_map(|all| format!("[{}]\n", all.join(",")).into_bytes());
    let chance = prop::collection::vec(any::<u8>(), 0..4);
    prop_oneof![20 => line, 3 => batch, 1 => chance, 1 => Just(b"\n".to_vec())]
}

fn fragments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(fragment(), 0..40)
}

/// What is said to a call that chance has made.
pub(crate) fn reply(turn: usize, call: &Call) -> Down {
    match (turn % 6, &call.what) {
        (0, _) => Down::Ask(AskId(1), json(r#"{"method":"roots/list","params":{}}"#)),
        (1, _) => Down::Begin {
            head: Some(json(r#"{"capabilities":{"tools":{"listChanged":true}}}"#)),
            parts: None,
        },
        (2, _) => Down::Part(Part::Json(json(r#"{"method":"notifications/tasks"}"#))),
        (3, _) => Down::Done(Err(Failure::new(FailureKind::Gone, "gone"))),
        (_, What::Tools) => Down::Done(Ok(Outcome::Tools([].into()))),
        (_, What::Tool { .. }) => Down::Done(Ok(Outcome::Value(json("[1]")))),
        (_, What::Native { .. }) => Down::Done(Ok(Outcome::Native(Bytes::from_static(b"{}")))),
    }
}

proptest! {
    #[test]
    fn no_client_can_break_a_server(pieces in fragments(), is_hub in any::<bool>()) {
        let now = Instant::now();
        let mut server = server(if is_hub { Behind::Hub } else { Behind::Server });
        let mut input = BytesMut::new();
        let mut open: Vec<(Ticket, Call)> = Vec::new();
        for (turn, piece) in pieces.iter().enumerate() {
            input.extend_from_slice(piece);
            let flow = server.handle_bytes(now, &mut input);
            prop_assert!(flow == Flow::Pause || input.len() <= LINE_BYTES_MAX);
            while let Some((ticket, asked)) = server.poll_up() {
                match asked {
                    Asked::Call(call) => open.push((ticket, call)),
                    Asked::Up(Up::Cancel(_)) => open.retain(|(known, _)| *known != ticket),
                    Asked::Up(_) => prop_assert!(open.iter().any(|(known, _)| *known == ticket)),
                }
            }
            if let Some((ticket, call)) = open.get(turn % open.len().max(1)).cloned() {
                let down = reply(turn, &call);
                if matches!(down, Down::Done(_)) {
                    open.retain(|(known, _)| *known != ticket);
                }
                server.down(now, ticket, down);
            }
            let mut out = Outbox::new();
            server.poll_transmit(&mut out);
            for line in out.take().split_inclusive(|byte| *byte == b'\n') {
                let line = Json::parse(line.to_vec());
                prop_assert!(line.is_ok(), "a message a line");
            }
        }
        server.handle_eof(now, &mut input);
        let later = now + Duration::from_secs(6);
        server.handle_timeout(later);
        prop_assert!(server.ended().is_some());
    }

    #[test]
    fn no_server_can_break_a_client(pieces in fragments(), is_ready in any::<bool>()) {
        let now = Instant::now();
        let mut client = match is_ready {
            true => client(now),
            false => Client::new(calling::Settings::new("w", "1")),
        };
        let calls = [
            native(now, "initialize", r#"{"capabilities":{"elicitation":{}}}"#),
            native(now, "x", r#"{"_meta":{"progressToken":"t"}}"#),
            Call::tool(now, "a", None),
            Call::of(now, What::Tools),
        ];
        let mut open = std::collections::BTreeSet::new();
        for (number, call) in calls.into_iter().enumerate() {
            open.insert(Ticket(number as u64));
            client.call(now, Ticket(number as u64), call);
        }
        let mut input = BytesMut::new();
        for piece in &pieces {
            input.extend_from_slice(piece);
            client.handle_bytes(now, &mut input);
            let mut out = Outbox::new();
            client.poll_transmit(&mut out);
            for line in out.take().split_inclusive(|byte| *byte == b'\n') {
                prop_assert!(Json::parse(line.to_vec()).is_ok(), "a message a line");
            }
            while let Some((ticket, down)) = client.poll_down() {
                prop_assert!(open.contains(&ticket), "{:?} is over and gets {:?}", ticket, down);
                if matches!(down, Down::Done(_)) {
                    open.remove(&ticket);
                }
            }
        }
        client.handle_eof(now, &mut input);
        client.handle_lost(now, &Failure::new(FailureKind::Gone, "gone"));
        while let Some((ticket, down)) = client.poll_down() {
            prop_assert!(open.contains(&ticket), "{:?} is over and gets {:?}", ticket, down);
            if matches!(down, Down::Done(_)) {
                open.remove(&ticket);
            }
        }
        prop_assert!(open.is_empty(), "never ended: {:?}", open);
    }
}
