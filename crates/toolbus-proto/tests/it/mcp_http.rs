//! The serving end of MCP over HTTP, replayed from `transcripts/mcp/http`.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling, Channel, Down, Flow, Machine, Outbox, Serving, StreamId, StreamLost, Streams,
    Ticket, Up, Writing,
};
use toolbus_proto::http::{Admission, Bound, RequestHead, ResponseHead, Token};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::calling;
use toolbus_proto::mcp::http::{Endpoint, Entrance, Settings};
use toolbus_proto::mcp::{Behind, Client};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words};

use crate::mcp_serving::lines;

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/mcp/http", |_| Front::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/mcp/http") {
        transcript::sweep(&transcript::read(&file), Front::new);
    }
}

/// Our end over HTTP; behind it the hub, or a server on a pipe.
struct Front {
    clock: Clock,
    endpoint: Endpoint,
    tools: Vec<ToolSpec>,
    back: Option<Client>,
    input: BytesMut,
    /// Calls of tools of the hub, by the number the conversation gives them.
    calls: Vec<Ticket>,
    /// Calls to the server: what they are called there, and here.
    passed: HashMap<Ticket, Ticket>,
    streams: u64,
    /// What stands behind the arrows of the client.
    wire: &'static str,
}

const TIMEOUT: Duration = Duration::from_secs(3600);
const SETUP: Ticket = Ticket(u64::MAX - 1);

fn endpoint(behind: Behind, admission: Admission, sse: bool) -> Endpoint {
    let entrance = Entrance { admission, path: "/mcp".into(), sse, body_bytes_max: 16 << 20 };
    let settings = Settings { version: "VERSION".into(), behind, entrance, first_caller: 1 };
    Endpoint::new(settings, || "SESSION".to_owned())
}

impl Front {
    fn new() -> Front {
        Front {
            clock: Clock::new(),
            endpoint: endpoint(Behind::Hub, Admission::LOOPBACK, false),
            tools: Vec::new(),
            back: None,
            input: BytesMut::new(),
            calls: Vec::new(),
            passed: HashMap::new(),
            streams: 0,
            wire: "",
        }
    }

    fn now(&self) -> Instant {
        self.clock.now
    }

    /// `POST /mcp | Header: value | … | body`
    fn request(&mut self, text: &str) {
        let mut pieces: Vec<_> = text.split(" | ").collect();
        let (method, path) = pieces.remove(0).split_once(' ').unwrap();
        let is_header = |piece: &&str| !piece.starts_with(['{', '[']) && piece.contains(": ");
        let body = pieces.pop_if(|piece| !is_header(&&**piece)).unwrap_or_default();
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        let mut head = RequestHead::new(method.to_owned(), path);
        head.query = query.map(str::to_owned);
        let headers = pieces.iter().map(|piece| piece.split_once(": ").unwrap());
        head.headers.extend(headers.map(|(name, value)| (name.to_owned(), value)));
        self.streams += 1;
        let stream = StreamId::Theirs(self.streams);
        let mut input = BytesMut::from(body);
        let now = self.clock.now;
        let mut flow = self.endpoint.handle_opened(now, stream, head);
        if flow == Flow::More {
            flow = Streams::handle_bytes(&mut self.endpoint, now, stream, &mut input);
        }
        if flow == Flow::More {
            Streams::handle_eof(&mut self.endpoint, now, stream, &mut input);
        }
    }

    fn set_scene(&mut self, scene: &str) {
        if let Some(schema) = scene.strip_prefix("the tool where has ") {
            let tool = ToolSpec::new("where", Json::parse(schema.to_owned()).unwrap());
            self.tools = vec![tool];
            return self.endpoint.set_tools(self.tools.clone().into());
        }
        if let Some(listening) = scene.strip_prefix("listening on ") {
            return self.listen(listening);
        }
        if scene == "client over HTTP+SSE, back legacy on stdio" {
            return self.open_pair();
        }
        self.wire = "c";
        self.endpoint = endpoint(Behind::Server, Admission::LOOPBACK, true);
        self.back = Some(Client::new(calling::Settings::new("w", "VERSION")));
        let json = "Content-Type: application/json";
        if scene.starts_with("client modern") {
            let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
            self.request(&format!(r#"POST /mcp | {json} | MCP-Protocol-Version: 2026-07-28 | Mcp-Method: server/discover | {{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{{{meta}}}}}"#));
            self.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#);
            return;
        }
        let version = scene.split(' ').nth(2).unwrap();
        let capabilities = scene
            .split_once(" with ")
            .map_or("{}", |(_, rest)| rest.split_once(" over").unwrap().0);
        self.request(&format!(r#"POST /mcp | {json} | {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities}}}}}"#));
        self.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"w","version":"3"}}}"#);
        // Uses up an id, so that the conversation begins where it says.
        let method = Bytes::from_static(b"x/setup");
        let what = What::Native { wire: WIRE, method, body: Bytes::new() };
        let now = self.now();
        self.back.as_mut().unwrap().call(now, SETUP, Call::of(now, what));
        self.hear(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    }

    /// `127.0.0.1:8932, token s3cret, origin https://app.example, host tools.example, sse`
    fn listen(&mut self, listening: &str) {
        let mut words = listening.split(", ");
        let mut admission = Admission::LOOPBACK;
        if words.next() == Some("0.0.0.0:8932") {
            admission.bound = Bound::Elsewhere;
        }
        let mut sse = false;
        for word in words {
            match word.split_once(' ') {
                Some(("no", "token")) => {}
                Some(("token", token)) => admission.token = Some(Token::new(token)),
                Some(("origin", origin)) => admission.origins.push(origin.to_owned()),
                Some(("host", host)) => admission.hosts.push(host.to_owned()),
                None if word == "sse" => sse = true,
                _ => panic!("what is `{word}`?"),
            }
        }
        self.endpoint = endpoint(Behind::Hub, admission, sse);
    }

    /// A session of the old pair, before a server on a pipe.
    fn open_pair(&mut self) {
        self.wire = "c";
        self.endpoint = endpoint(Behind::Server, Admission::LOOPBACK, true);
        self.back = Some(Client::new(calling::Settings::new("w", "VERSION")));
        self.request("GET /sse | Accept: text/event-stream");
        self.request(r#"POST /messages?session=SESSION | Content-Type: application/json | {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"roots":{}}}}"#);
        self.hear(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"w","version":"3"}}}"#);
    }

    fn hear(&mut self, line: &str) {
        self.drain();
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        Channel::handle_bytes(self.back.as_mut().unwrap(), self.clock.now, &mut input);
        self.drain();
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            while self.endpoint.poll_notice().is_some() {}
            let ready = std::iter::from_fn(|| self.endpoint.poll_ready());
            let ready: BTreeSet<_> = ready.collect();
            for stream in ready {
                let written = written(&mut self.endpoint, stream);
                came.extend(written.iter().map(|line| format!(">>{} {line}", self.wire)));
            }
            if let Some((ticket, asked)) = self.endpoint.poll_up() {
                came.extend(self.asked(ticket, asked));
                continue;
            }
            let Some(back) = &mut self.back else { return came };
            let mut out = Outbox::new();
            Channel::poll_transmit(back, &mut out);
            came.extend(lines(&out.take()).iter().map(|line| line.replacen(">>", ">>b", 1)));
            while back.poll_notice().is_some() {}
            let Some((ticket, down)) = back.poll_down() else { return came };
            if let Some(&own) = self.passed.get(&ticket) {
                self.endpoint.down(self.clock.now, own, down);
            }
        }
    }

    fn asked(&mut self, own: Ticket, asked: Asked) -> Option<String> {
        let now = self.clock.now;
        let passed = Ticket(own.0 + 1000);
        match (asked, &mut self.back) {
            (Asked::Call(mut call), Some(back)) => {
                call.deadline.quiet = Some(TIMEOUT);
                self.passed.insert(passed, own);
                back.call(now, passed, call);
                None
            }
            (Asked::Up(up), Some(back)) => {
                back.up(now, passed, up);
                None
            }
            (Asked::Up(Up::Cancel(_)), None) => {
                let number = self.calls.iter().position(|call| *call == own)?;
                Some(format!("== cancel {}", number + 1))
            }
            (Asked::Up(up), None) => panic!("unexpected {up:?}"),
            (Asked::Call(call), None) => match call.what {
                What::Tools => {
                    let tools = Outcome::Tools(self.tools.clone().into());
                    self.endpoint.down(now, own, Down::Done(Ok(tools)));
                    None
                }
                What::Tool { name, args } => {
                    self.calls.push(own);
                    Some(format!("== call {} {name} {}", self.calls.len(), args.unwrap()))
                }
                What::Native { .. } => panic!("the hub speaks no MCP"),
            },
        }
    }
}

/// What is written on a stream: a head, with its body if that is whole; events; the end.
fn written(endpoint: &mut Endpoint, stream: StreamId) -> Vec<String> {
    let mut out = Outbox::new();
    Streams::poll_transmit(endpoint, stream, &mut out);
    let body = String::from_utf8(out.take().to_vec()).unwrap();
    let head = endpoint.poll_answer(stream);
    let ends = endpoint.writing(stream) == Writing::Finish;
    let is_stream = |head: &ResponseHead| head.header("Content-Type") == Some("text/event-stream");
    let mut lines = Vec::new();
    if let Some(head) = &head {
        let mut pieces = vec![head.status.to_string()];
        // How long it is can be seen.
        let headers = head.headers.iter().filter(|(name, _)| *name != "Content-Length");
        pieces.extend(headers.map(|(name, value)| format!("{name}: {value}")));
        if !is_stream(head) {
            assert!(ends, "{stream:?} is neither whole nor a stream");
            let len = head.header("Content-Length").map(|len| len.parse().unwrap());
            assert_eq!(len, Some(body.len()).filter(|_| head.status != 204));
            pieces.extend(Some(body).filter(|body| !body.is_empty()));
            return vec![pieces.join(" | ")];
        }
        lines.push(pieces.join(" | "));
    }
    lines.extend(body.split_inclusive("\n\n").map(|event| event.replace('\n', "\\n")));
    lines.extend(ends.then(|| "end".to_owned()));
    lines
}

impl Player for Front {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if let Some(request) = what.strip_prefix("request ") {
            self.request(request);
            return self.drain();
        }
        let mut words = Words::new(what);
        match what {
            "the client closes its stream" => {
                let failure = Failure::new(FailureKind::Gone, "gone");
                let why = StreamLost { code: None, failure };
                let first = StreamId::Theirs(1);
                Streams::handle_lost(&mut self.endpoint, self.clock.now, first, why);
            }
            "the client closes the connection" => {
                let failure = Failure::new(FailureKind::Gone, "gone");
                let why = StreamLost { code: None, failure };
                let stream = StreamId::Theirs(self.streams);
                Streams::handle_lost(&mut self.endpoint, self.clock.now, stream, why);
            }
            _ if words.is("reply") => {
                let number: usize = words.word().unwrap().parse().unwrap();
                let outcome = Outcome::Value(words.json().unwrap());
                let ticket = self.calls[number - 1];
                self.endpoint.down(self.clock.now, ticket, Down::Done(Ok(outcome)));
            }
            _ if self.clock.happen(what) => {
                self.endpoint.handle_timeout(self.clock.now);
                if let Some(back) = &mut self.back {
                    back.handle_timeout(self.clock.now);
                }
            }
            scene => {
                self.set_scene(scene);
                self.drain();
            }
        }
        self.drain()
    }

    fn bytes(&mut self, wire: &str, bytes: &[u8]) -> Vec<String> {
        assert_eq!(wire, "b", "clients send requests");
        self.input.extend_from_slice(bytes);
        let back = self.back.as_mut().expect("there is a server");
        Channel::handle_bytes(back, self.clock.now, &mut self.input);
        self.drain()
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        if wire == "b" {
            return vec![Arrival::Bytes(format!("{text}\n").into_bytes())];
        }
        vec![Arrival::Event(format!("request {text}"))]
    }
}
