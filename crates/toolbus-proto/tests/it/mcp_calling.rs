//! The calling end of MCP on a pipe, replayed from `transcripts/mcp/calling`.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    AskId, Calling, Channel, Down, Machine, Notice, Outbox, Proof, Readiness, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::Client;
use toolbus_proto::mcp::Memory;
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::calling::{Introduction, Settings, User};
use toolbus_proto::mcp::wire::Era;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words};

use crate::mcp_serving::{arriving, lines};

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/mcp/calling", |_| Back::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/mcp/calling") {
        transcript::sweep(&transcript::read(&file), Back::new);
    }
}

/// What a caller allows in all is counted from when it asked: the start is no excuse.
#[test]
fn what_a_call_may_take_in_all_includes_the_start() {
    let mut back = Back::new();
    let now = back.now();
    let mut call = Call::tool(now, "slow", None);
    call.deadline.total = Some(Duration::from_secs(3));
    back.client.call(now, Ticket(1), call);
    let end = now + Duration::from_secs(3);
    let blanks = "\n  \n".repeat(100);
    for line in [&*blanks, r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, "x"] {
        back.hear(line);
    }
    back.client.handle_timeout(end - Duration::from_millis(1));
    assert!(back.client.poll_down().is_none());
    back.client.handle_timeout(end);
    let told = back.client.poll_down().and_then(learned);
    assert_eq!(told.as_deref(), Some("== t1 failed timed_out - timed out after 3 s"));

    let mut back = Back::new();
    let now = back.now();
    let mut call = Call::tool(now, "slow", None);
    call.deadline.total = Some(Duration::from_secs(3));
    back.client.call(now, Ticket(1), call);
    back.clock.now += Duration::from_secs(2);
    back.hear(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}"#);
    back.hear(INITIALIZED);
    back.client.poll_transmit(&mut Outbox::new());
    assert_eq!(back.client.poll_timeout(), Some(now + Duration::from_secs(3)));
}

/// Our end of a pipe, before a server that the conversation plays.
struct Back {
    clock: Clock,
    settings: Settings,
    client: Client,
    input: BytesMut,
    timeout: Option<Duration>,
    was_ready: bool,
    stderr: String,
    /// Calls that wait for the next process.
    waiting: Option<Vec<(Ticket, Call)>>,
}

/// Who sets the scene and wants no answer.
const NOBODY: Ticket = Ticket(0);

impl Back {
    fn new() -> Back {
        let settings = Settings::new("w", "VERSION");
        Back {
            clock: Clock::new(),
            client: Client::new(settings.clone()),
            settings,
            input: BytesMut::new(),
            timeout: None,
            was_ready: false,
            stderr: String::new(),
            waiting: None,
        }
    }

    fn now(&self) -> Instant {
        self.clock.now
    }

    /// `legacy 2025-11-25, next id 3, timeout 500 ms, timeout_total 1200 ms`
    fn set_scene(&mut self, scene: &str) {
        for setting in scene.split(", ").skip(2) {
            let millis = setting.split(' ').nth(1).unwrap().parse().map(Duration::from_millis);
            match setting.split(' ').next() {
                Some("timeout") => self.timeout = Some(millis.unwrap()),
                Some("timeout_total") => self.settings.timeout_total = Some(millis.unwrap()),
                other => panic!("no such setting: {other:?}"),
            }
        }
        self.client = Client::new(self.settings.clone());
        let now = self.now();
        self.client.call(now, NOBODY, Call::tool(now, "", None));
        self.hear(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}"#);
        self.client.up(now, NOBODY, Up::Cancel(None));
        self.hear(INITIALIZED);
        self.client.poll_transmit(&mut Outbox::new());
        while self.client.poll_down().is_some() {}
        self.was_ready = true;
        assert!(scene.starts_with("legacy 2025-11-25, next id 3"), "another scene: {scene}");
    }

    fn hear(&mut self, line: &str) {
        self.client.poll_transmit(&mut Outbox::new());
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        self.client.handle_bytes(self.now(), &mut input);
    }

    fn call(&mut self, ticket: Ticket, mut call: Call) {
        call.deadline.quiet = self.timeout;
        match &mut self.waiting {
            Some(waiting) => waiting.push((ticket, call)),
            None => self.client.call(self.clock.now, ticket, call),
        }
    }

    /// The process ended; what it was never told waits for the next one.
    fn close(&mut self, status: &str) {
        let now = self.now();
        self.client.handle_eof(now, &mut self.input);
        let is_ready = *self.client.readiness() == Readiness::Open;
        let moves_on = is_ready || self.client.proof() == Proof::AskAnother;
        let unsent = if moves_on { self.client.take_unsent() } else { Vec::new() };
        let message = format!("exited with status {status}: {}", self.stderr);
        self.client.handle_lost(now, &Failure::new(FailureKind::Gone, message));
        self.waiting = Some(unsent);
    }

    fn start_again(&mut self) {
        self.client = Client::new(self.settings.clone());
        self.was_ready = false;
        for (ticket, call) in self.waiting.take().unwrap_or_default() {
            self.client.call(self.clock.now, ticket, call);
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came: Vec<_> =
            std::iter::from_fn(|| self.client.poll_down()).filter_map(learned).collect();
        while let Some(notice) = self.client.poll_notice() {
            match notice {
                Notice::Stray(what) => came.push(format!("== noise {what}")),
                Notice::Hangs => came.push("== hangs".to_owned()),
                _ => {}
            }
        }
        if let Readiness::Broken(fault) = self.client.readiness()
            && !std::mem::replace(&mut self.was_ready, true)
        {
            came.push(format!("== broken {}: {}", fault.failure.kind, fault.failure));
        }
        let mut out = Outbox::new();
        self.client.poll_transmit(&mut out);
        let mut left = lines(&out.take());
        if *self.client.readiness() == Readiness::Open && !self.was_ready {
            self.was_ready = true;
            let revision = self.client.revision().unwrap();
            let is_greeting = |line: &String| line.contains("notifications/initialized");
            let at = left.iter().position(is_greeting).map_or(0, |at| at + 1);
            left.insert(at, format!("== ready {} {revision}", revision.era()));
        }
        came.extend(left);
        came
    }
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"w","version":"3"}}}"#;

pub(crate) fn learned((ticket, down): (Ticket, Down)) -> Option<String> {
    let who = format!("== t{}", ticket.0);
    Some(match down {
        _ if ticket == NOBODY => return None,
        Down::Done(Ok(Outcome::Text(text))) => {
            format!("{who} ok {}", serde_json::to_string(&text).unwrap())
        }
        Down::Done(Ok(Outcome::Value(value))) => format!("{who} ok {value}"),
        Down::Done(Ok(Outcome::Tools(tools))) => {
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("{who} tools {}", names.join(" "))
        }
        Down::Done(Err(failure)) => {
            let code = failure.code.map_or("-".to_owned(), |code| code.to_string());
            let message = failure.message.replace('\n', "\\n");
            format!("{who} failed {} {code} {message}", failure.kind)
        }
        Down::Progress(told) => {
            let told: serde_json::Value = told.read().unwrap();
            format!("{who} progress {}", told["progress"])
        }
        Down::Ask(ask, question) => format!("{who} asks {} {question}", ask.0),
        other => panic!("unexpected {other:?}"),
    })
}

impl Player for Back {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let mut words = Words::new(what);
        match words.word() {
            Some("ready") => self.set_scene(words.rest()),
            Some("call") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let tool = words.word().unwrap();
                let mut call = Call::tool(self.now(), tool, words.json());
                match words.word() {
                    Some("with") => call.options.progress = true,
                    Some("typed") => call.options.typed = true,
                    _ => {}
                }
                self.call(Ticket(ticket), call);
            }
            Some("list") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                self.call(Ticket(ticket), Call::of(self.now(), What::Tools));
            }
            Some("cancel") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                self.client.up(self.clock.now, Ticket(ticket), Up::Cancel(words.json()));
            }
            Some("answer") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let ask = AskId(words.word().unwrap().parse().unwrap());
                let answer = Up::Answer(ask, words.json().unwrap());
                self.client.up(self.clock.now, Ticket(ticket), answer);
            }
            Some("the") if what.starts_with("the era is ") => {
                let era = if words.rest().ends_with("legacy") { Era::Legacy } else { Era::Modern };
                self.settings.memory = Memory::of(era);
                self.client = Client::new(self.settings.clone());
                self.was_ready = false;
            }
            Some("the") => self.settings.line_bytes_max = 200,
            Some("closed,") => self.close(words.rest().strip_prefix("status ").unwrap()),
            Some("started") => self.start_again(),
            Some("stderr") => self.stderr = words.rest().to_owned(),
            Some("a") if what == "a user can be asked" => {
                let user = User { forms: true, ..User::default() };
                self.settings.introduction = Introduction::AsUser(user);
                self.client = Client::new(self.settings.clone());
            }
            Some("a") if what == "a user has roots and a model" => {
                let roots = r#"{"roots":[{"uri":"file:///home"}]}"#;
                let roots = Some(Json::parse(roots).unwrap());
                let user = User { sampling: true, roots, forms: false };
                self.settings.introduction = Introduction::AsUser(user);
                self.client = Client::new(self.settings.clone());
            }
            Some("a") => {
                let scene = what.strip_prefix("a legacy client is there with capabilities ");
                let (capabilities, name) = scene.unwrap().split_once(" and is called ").unwrap();
                let params = format!(
                    r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"{name}","version":"1"}}}}"#
                );
                let method = Bytes::from_static(b"initialize");
                let what = What::Native { wire: WIRE, method, body: params.into() };
                self.call(NOBODY, Call::of(self.now(), what));
            }
            _ if self.clock.happen(what) => {
                let now = self.now();
                self.client.handle_timeout(now);
            }
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.client.handle_bytes(self.clock.now, &mut self.input);
        self.drain()
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        vec![Arrival::Bytes(arriving(text))]
    }
}
