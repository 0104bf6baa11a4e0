//! What the machines of MCP keep for a peer that does not take it has a limit.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Machine, Outbox, Serving, StreamId, StreamLost, Streams,
    Ticket, Up,
};
use toolbus_proto::http::{Admission, RequestHead, ResponseHead};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::Behind;
use toolbus_proto::mcp::calling::{self, Client};
use toolbus_proto::mcp::http::{Endpoint, Entrance, HttpClient, Settings};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};

use crate::mcp_remote::settings;

const INITIALIZED: &str =
    r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

/// A client whose server is legacy and ready, and has been sent all there was.
fn client(now: Instant) -> Client {
    let mut client = Client::new(calling::Settings::new("w", "1"));
    let setup = Ticket(u64::MAX);
    client.call(now, setup, Call::tool(now, "", None));
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}"#;
    hear(&mut client, now, &mut BytesMut::from(&*format!("{refused}\n{INITIALIZED}\n")));
    client.up(now, setup, Up::Cancel(None));
    while client.poll_down().is_some() {}
    transmit(&mut client, &mut Outbox::new());
    client
}

fn call(now: Instant, bytes: usize) -> Call {
    let args = format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes));
    Call::tool(now, "f", Some(Json::parse(args).unwrap()))
}

/// A pipe has two traits by these names.
fn transmit(client: &mut Client, out: &mut Outbox) {
    Channel::poll_transmit(client, out);
}

fn hear(client: &mut Client, now: Instant, input: &mut BytesMut) -> Flow {
    Channel::handle_bytes(client, now, input)
}

fn text(out: &mut Outbox) -> String {
    String::from_utf8(out.take().to_vec()).unwrap()
}

#[test]
fn a_call_that_ends_before_its_first_byte_was_written_leaves_the_outbox() {
    let now = Instant::now();
    let mut client = client(now);
    let mut out = Outbox::new();
    for ticket in 0..3 {
        client.call(now, Ticket(ticket), call(now, 100_000));
    }
    assert_eq!(client.weight(), 3 * 100_008);
    transmit(&mut client, &mut out);
    assert_eq!(client.weight(), 2 * 100_008, "the others wait where they can be taken back");
    out.advance(1);
    // The first has begun, and the server is told; the second was in the line.
    client.up(now, Ticket(0), Up::Cancel(None));
    client.up(now, Ticket(1), Up::Cancel(None));
    transmit(&mut client, &mut out);
    let said = text(&mut out);
    assert_eq!(said.matches("tools/call").count(), 1, "the rest of it");
    transmit(&mut client, &mut out);
    // The third is handed out, and no byte of it has left.
    client.up(now, Ticket(2), Up::Cancel(None));
    transmit(&mut client, &mut out);
    let said = text(&mut out);
    assert!(!said.contains("tools/call"), "{said}");
    assert_eq!(said.matches("notifications/cancelled").count(), 1, "{said}");
    assert_eq!(client.weight(), 0);
}

#[test]
fn a_server_that_asks_and_does_not_read_is_not_listened_to() {
    let now = Instant::now();
    let mut client = client(now);
    let mut asked = 0;
    let mut input = BytesMut::new();
    let flow = loop {
        for id in 0..1000 {
            let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
            input.extend_from_slice(ping.as_bytes());
        }
        asked += 1000;
        match hear(&mut client, now, &mut input) {
            Flow::More => assert!(asked < 100_000, "it is listened to for ever"),
            flow => break flow,
        }
    };
    assert_eq!(flow, Flow::Pause);
    assert!(client.weight() <= (1 << 20) + 100, "{}", client.weight());
    let mut out = Outbox::new();
    transmit(&mut client, &mut out);
    assert!(out.len() < 1 << 17, "{}", out.len());
    // It reads on, and is answered to the end.
    let mut answered = text(&mut out).lines().count();
    while answered < asked {
        hear(&mut client, now, &mut input);
        transmit(&mut client, &mut out);
        answered += text(&mut out).lines().count();
    }
    assert_eq!((answered, client.weight(), input.len()), (asked, 0, 0));
}

/// The streams that a client has opened since, as what they say.
fn opened(client: &mut HttpClient) -> Vec<(StreamId, String)> {
    let opened = std::iter::from_fn(|| client.poll_open()).collect::<Vec<_>>().into_iter();
    let said = opened.map(|(stream, _)| {
        let mut body = Outbox::new();
        client.poll_transmit(stream, &mut body);
        (stream, text(&mut body))
    });
    said.collect()
}

fn answer(client: &mut HttpClient, now: Instant, stream: StreamId, kind: &str, body: &str) -> Flow {
    let mut head = ResponseHead::new(if body.is_empty() { 202 } else { 200 });
    head.headers.push("Content-Type", kind);
    client.handle_answered(now, stream, head);
    let mut input = BytesMut::from(body);
    let flow = client.handle_bytes(now, stream, &mut input);
    match kind {
        "text/event-stream" => flow,
        _ => client.handle_eof(now, stream, &mut input),
    }
}

#[test]
fn answers_to_a_remote_server_go_out_a_few_at_a_time() {
    const JSON: &str = "application/json";
    let now = Instant::now();
    let mut client = HttpClient::new(settings());
    let method = Bytes::from_static(b"initialize");
    let what = What::Native { wire: toolbus_proto::mcp::WIRE, method, body: Bytes::new() };
    client.call(now, Ticket(0), Call::of(now, what));
    let (stream, _) = opened(&mut client)[0];
    let greeting = INITIALIZED.replace(r#""id":2"#, r#""id":1"#);
    answer(&mut client, now, stream, JSON, &greeting);
    let (stream, said) = opened(&mut client).remove(0);
    assert!(said.contains("notifications/initialized"), "{said}");
    answer(&mut client, now, stream, JSON, "");
    let (stream, _) = opened(&mut client).remove(0);
    let before = client.weight();
    let ping = |id| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n\n");
    let pings: String = (0..1000).map(ping).collect();
    answer(&mut client, now, stream, "text/event-stream", &pings);
    let mut more = BytesMut::from(&*ping(1000));
    assert_eq!(client.handle_bytes(now, stream, &mut more), Flow::Pause, "it asks too much");
    assert!(before < client.weight(), "they are counted");
    while client.poll_ready().is_some() {}
    let mut posted = opened(&mut client);
    assert_eq!(posted.len(), 16);
    let mut answered = 0;
    while let Some((stream, said)) = posted.pop() {
        assert!(said.contains(r#""result":{}"#), "{said}");
        answer(&mut client, now, stream, JSON, "");
        answered += 1;
        posted.extend(opened(&mut client));
        assert!(posted.len() <= 16, "{}", posted.len());
    }
    assert_eq!(answered, 1000);
    assert!(std::iter::from_fn(|| client.poll_ready()).any(|ready| ready == stream));
    assert_eq!(client.handle_bytes(now, stream, &mut more), Flow::More);
    assert_eq!(opened(&mut client).len(), 1);
}

#[test]
fn a_list_of_tools_has_a_limit_that_is_named() {
    let now = Instant::now();
    let list = |client: &mut Client, page: String| {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{page}}}\n");
        client.call(now, Ticket(7), Call::of(now, What::Tools));
        transmit(client, &mut Outbox::new());
        hear(client, now, &mut BytesMut::from(&*line));
        match client.poll_down() {
            Some((Ticket(7), Down::Done(done))) => done,
            other => panic!("{other:?}"),
        }
    };
    let tools = |count: usize| {
        let tools: Vec<_> = (0..count).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        format!(r#"{{"tools":[{}]}}"#, tools.join(","))
    };
    let fine = list(&mut client(now), tools(10_000)).unwrap();
    assert!(matches!(fine, Outcome::Tools(tools) if tools.len() == 10_000));
    let refused = list(&mut client(now), tools(10_001)).unwrap_err();
    let why = "it offers more than 10000 tools, which is the limit for one peer";
    assert_eq!((refused.kind, &*refused.message), (FailureKind::TooLarge, why));
    let large = format!(r#"{{"tools":[{{"name":"t","description":"{}"}}]}}"#, "x".repeat(17 << 20));
    let refused = list(&mut client(now), large).unwrap_err();
    let why = "its tools take more than 16 MiB, which is the limit for one peer";
    assert_eq!((refused.kind, &*refused.message), (FailureKind::TooLarge, why));
}

/// An endpoint, and what its clients do.
struct Served {
    endpoint: Endpoint,
    now: Instant,
    streams: u64,
}

impl Served {
    fn new() -> Served {
        let entrance = Entrance {
            admission: Admission::LOOPBACK,
            path: "/".into(),
            sse: false,
            body_bytes_max: 1 << 20,
        };
        let settings =
            Settings { version: "1".into(), behind: Behind::Hub, entrance, first_caller: 0 };
        let mut names = 0;
        let endpoint = Endpoint::new(settings, move || {
            names += 1;
            format!("s{names}")
        });
        Served { endpoint, now: Instant::now(), streams: 0 }
    }

    fn open(&mut self, session: &str) -> StreamId {
        let stream = StreamId::Theirs(self.streams);
        self.streams += 1;
        let mut head = RequestHead::new("POST", "/");
        head.headers.push("Content-Type", "application/json");
        head.headers.push("Accept", "application/json, text/event-stream");
        if !session.is_empty() {
            head.headers.push("Mcp-Session-Id", session);
        }
        assert_eq!(self.endpoint.handle_opened(self.now, stream, head), Flow::More);
        stream
    }

    fn post(&mut self, session: &str, body: &str) -> StreamId {
        let stream = self.open(session);
        self.endpoint.handle_eof(self.now, stream, &mut BytesMut::from(body));
        stream
    }

    fn session(&mut self) {
        self.post("", r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#);
        while let Some((ticket, _)) = self.endpoint.poll_up() {
            let tools = Outcome::Tools(Vec::new().into());
            self.endpoint.down(self.now, ticket, Down::Done(Ok(tools)));
        }
    }

    /// A call whose answer is a stream of one event and an answer of so many bytes.
    fn streamed(&mut self, session: &str, bytes: usize) {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","_meta":{"progressToken":1}}}"#;
        self.post(session, call);
        let mut asked = None;
        while let Some((ticket, up)) = self.endpoint.poll_up() {
            if let Asked::Call(_) = up {
                asked = Some(ticket);
            }
        }
        let ticket = asked.expect("it is passed on");
        let progress = Down::Progress(Json::from_trusted(r#"{"progress":1}"#));
        self.endpoint.down(self.now, ticket, progress);
        let done = Outcome::Text("x".repeat(bytes));
        self.endpoint.down(self.now, ticket, Down::Done(Ok(done)));
        while let Some(stream) = self.endpoint.poll_ready() {
            self.endpoint.poll_answer(stream);
            self.endpoint.poll_transmit(stream, &mut Outbox::new());
        }
    }
}

#[test]
fn what_is_kept_for_resumption_is_bounded_for_all_sessions_together() {
    let mut served = Served::new();
    let names = ["s1", "s2", "s3"];
    names.iter().for_each(|_| served.session());
    let mut most = 0;
    for turn in 0..90 {
        served.streamed(names[turn % 3], 1 << 19);
        most = most.max(served.endpoint.weight());
        assert!(served.endpoint.weight() <= 32 << 20, "{}", served.endpoint.weight());
    }
    assert!(30 << 20 < most, "{most}");
    // What has been kept long enough is given back.
    served.now += std::time::Duration::from_secs(301);
    served.endpoint.handle_timeout(served.now);
    assert_eq!(served.endpoint.weight(), 0);
}

#[test]
fn a_request_belongs_to_its_session_and_is_refused_if_there_is_no_room() {
    let mut served = Served::new();
    served.session();
    served.session();
    let (mine, yours, nobody) = (served.open("s1"), served.open("s2"), served.open(""));
    let owner = |stream| served.endpoint.owner(stream);
    assert!(owner(mine).is_some() && owner(yours).is_some() && owner(mine) != owner(yours));
    assert_eq!(owner(nobody), None);
    let failure = Failure::new(FailureKind::Unavailable, "there is no room");
    let why = StreamLost { code: None, failure };
    let mut input = BytesMut::from("{");
    let flow = served.endpoint.handle_cut(served.now, mine, &mut input, why);
    assert_eq!((flow, input.len()), (Flow::Close, 0));
    let head = served.endpoint.poll_answer(mine).expect("it is told");
    let mut body = Outbox::new();
    served.endpoint.poll_transmit(mine, &mut body);
    assert_eq!(head.status, 503);
    assert!(text(&mut body).contains("there is no room"));
}
