//! The serving end of MCP over HTTP, replayed from `transcripts/mcp/http`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{Asked, Calling, Channel, Down, Machine, Outbox, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::calling;
use toolbus_proto::mcp::http::{Admission, Bound, Endpoint, ExchangeId, Head, Settings, Write};
use toolbus_proto::mcp::{Behind, Client};
use toolbus_proto::tool::{Call, Outcome, ToolSpec, What};
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
    exchanges: u64,
    /// What stands behind the arrows of the client.
    wire: &'static str,
}

const TIMEOUT: Duration = Duration::from_secs(3600);
const SETUP: Ticket = Ticket(u64::MAX - 1);

fn gate() -> Admission {
    Admission {
        bound: Bound::Loopback,
        path: "/mcp".into(),
        origins: Vec::new(),
        token: None,
        body_bytes_max: 16 << 20,
    }
}

fn endpoint(behind: Behind, gate: Admission) -> Endpoint {
    let settings = Settings { version: "VERSION".into(), behind, gate, first_caller: 1 };
    Endpoint::new(settings, || "SESSION".to_owned())
}

impl Front {
    fn new() -> Front {
        Front {
            clock: Clock::new(),
            endpoint: endpoint(Behind::Hub, gate()),
            tools: Vec::new(),
            back: None,
            input: BytesMut::new(),
            calls: Vec::new(),
            passed: HashMap::new(),
            exchanges: 0,
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
        let headers = pieces.iter().map(|piece| piece.split_once(": ").unwrap()).collect();
        let head = Head { method, path, headers };
        self.exchanges += 1;
        let exchange = ExchangeId(self.exchanges);
        let body = Bytes::copy_from_slice(body.as_bytes());
        self.endpoint.handle_request(self.clock.now, exchange, &head, &body);
    }

    fn set_scene(&mut self, scene: &str) {
        if let Some(schema) = scene.strip_prefix("the tool where has ") {
            let tool = ToolSpec::new("where", Json::parse(schema.to_owned()).unwrap());
            self.tools = vec![tool];
            return self.endpoint.set_tools(self.tools.clone().into());
        }
        match scene {
            "listening on 127.0.0.1:8932, no token" => return,
            "listening on 0.0.0.0:8932, token s3cret" => {
                let token = Some("s3cret".into());
                let gate = Admission { bound: Bound::Elsewhere, token, ..gate() };
                self.endpoint = endpoint(Behind::Hub, gate);
                return;
            }
            _ => {}
        }
        self.wire = "c";
        self.endpoint = endpoint(Behind::Server, gate());
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

    fn hear(&mut self, line: &str) {
        self.drain();
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        self.back.as_mut().unwrap().handle_bytes(self.clock.now, &mut input);
        self.drain();
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            while self.endpoint.poll_notice().is_some() {}
            while let Some((_, write)) = self.endpoint.poll_write() {
                came.push(format!(">>{} {}", self.wire, shown(&write)));
            }
            if let Some((ticket, asked)) = self.endpoint.poll_up() {
                came.extend(self.asked(ticket, asked));
                continue;
            }
            let Some(back) = &mut self.back else { return came };
            let mut out = Outbox::new();
            back.poll_transmit(&mut out);
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
            (Asked::Up(Up::Cancel(_)), None) => None,
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

fn shown(write: &Write) -> String {
    let head = |answer: &toolbus_proto::mcp::http::Answer| {
        let mut pieces = vec![answer.status.to_string()];
        pieces.extend(answer.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if !answer.body.is_empty() {
            pieces.push(String::from_utf8(answer.body.to_vec()).unwrap());
        }
        pieces.join(" | ")
    };
    match write {
        Write::Whole(answer) | Write::Begin(answer) => head(answer),
        Write::Piece(piece) => str::from_utf8(piece).unwrap().replace('\n', "\\n"),
        Write::End => "end".to_owned(),
    }
}

impl Player for Front {
    fn happen(&mut self, what: &str) -> Vec<String> {
        if let Some(request) = what.strip_prefix("request ") {
            self.request(request);
            return self.drain();
        }
        let mut words = Words::new(what);
        match what {
            "the client closes the connection" => {
                self.endpoint.handle_gone(self.clock.now, ExchangeId(self.exchanges));
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
        back.handle_bytes(self.clock.now, &mut self.input);
        self.drain()
    }

    fn arrival(&self, wire: &str, text: &str) -> Vec<Arrival> {
        if wire == "b" {
            return vec![Arrival::Bytes(format!("{text}\n").into_bytes())];
        }
        vec![Arrival::Event(format!("request {text}"))]
    }
}
