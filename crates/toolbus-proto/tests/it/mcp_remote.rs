//! The calling end of MCP over HTTP, replayed from `transcripts/mcp/remote`.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Calling, Down, Machine, Notice, Outbox, Readiness, StreamId, StreamLost, Streams, Ticket, Up,
    Writing,
};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::calling::{Introduction, Settings, User};
use toolbus_proto::mcp::http::{ClientSettings, HttpClient};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words, unescape};

use crate::mcp_calling::learned;

#[test]
fn conversations_come_out_as_they_are_written() {
    transcript::check_folder("transcripts/mcp/remote", |_| Back::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/mcp/remote") {
        transcript::sweep(&transcript::read(&file), Back::new);
    }
}

/// Our end, before a server that the conversation plays.
struct Back {
    clock: Clock,
    client: HttpClient,
    /// Whose body is arriving.
    stream: StreamId,
    /// What of bodies was not taken.
    inputs: HashMap<StreamId, BytesMut>,
    was_broken: bool,
    /// We stop: whatever is under way is given up, and that is not worth a word.
    is_over: bool,
}

pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        calling: Settings::new("w", "VERSION"),
        path: "/mcp".into(),
        origin: "http://127.0.0.1:80".into(),
        sse: false,
        start_timeout: Duration::from_secs(3600),
    }
}

fn stream(words: &mut Words<'_>) -> StreamId {
    StreamId::Ours(words.word().unwrap().parse().unwrap())
}

impl Back {
    fn new() -> Back {
        Back {
            clock: Clock::new(),
            client: HttpClient::new(settings()),
            stream: StreamId::Ours(0),
            inputs: HashMap::new(),
            was_broken: false,
            is_over: false,
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came: Vec<_> =
            std::iter::from_fn(|| self.client.poll_down()).filter_map(learned_or_begun).collect();
        while let Some(notice) = self.client.poll_notice() {
            if let Notice::Unfit { tool, why } = notice {
                came.push(format!("== left out {tool}: {why}"));
            }
        }
        if let Readiness::Broken(fault) = self.client.readiness()
            && !std::mem::replace(&mut self.was_broken, true)
        {
            came.push(format!("== broken {}: {}", fault.failure.kind, fault.failure));
        }
        while let Some((stream, head)) = self.client.poll_open() {
            let StreamId::Ours(number) = stream else { panic!("{stream:?} is not ours") };
            let mut pieces = vec![format!(">> {number} {}", head.method)];
            if head.path != "/mcp" {
                pieces[0] = format!("{} {}", pieces[0], head.path);
            }
            // What every request has is not worth a word.
            let common = ["Content-Type", "Accept", "Content-Length"];
            let headers = head.headers.iter().filter(|(name, _)| !common.contains(name));
            pieces.extend(headers.map(|(name, value)| format!("{name}: {value}")));
            let mut body = Outbox::new();
            self.client.poll_transmit(stream, &mut body);
            let len = head.header("Content-Length").map_or(0, |len| len.parse().unwrap());
            assert_eq!(len, body.len());
            assert_eq!(self.client.writing(stream), Writing::Finish);
            pieces.push(String::from_utf8(body.take().to_vec()).unwrap());
            came.push(pieces.join(" | ").trim_end_matches(" | ").to_owned());
        }
        while let Some(stream) = self.client.poll_ready() {
            let is_given_up = self.client.writing(stream) == Writing::Reset(0);
            if let StreamId::Ours(number) = stream
                && is_given_up
                && !self.is_over
            {
                came.push(format!("== abort {number}"));
            }
        }
        came
    }
}

fn learned_or_begun((ticket, down): (Ticket, Down)) -> Option<String> {
    match down {
        Down::Begin { head: Some(greeting), .. } => {
            Some(format!("== t{} begins {greeting}", ticket.0))
        }
        Down::Done(Ok(Outcome::Native(raw))) => {
            Some(format!("== t{} ok {}", ticket.0, str::from_utf8(&raw).unwrap()))
        }
        down => learned((ticket, down)),
    }
}

impl Player for Back {
    fn happen(&mut self, what: &str) -> Vec<String> {
        let now = self.clock.now;
        let mut words = Words::new(what);
        match words.word() {
            Some("call") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let call = Call::tool(now, words.word().unwrap(), words.json());
                self.client.call(now, Ticket(ticket), call);
            }
            Some("session") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let method = Bytes::from_static(b"initialize");
                let body = Bytes::from_static(b"{\"protocolVersion\":\"2025-11-25\"}");
                let what = What::Native { wire: WIRE, method, body };
                self.client.call(now, Ticket(ticket), Call::of(now, what));
            }
            Some("list") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let method = Bytes::from_static(b"tools/list");
                let body = Bytes::from_static(br#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#);
                let what = What::Native { wire: WIRE, method, body };
                self.client.call(now, Ticket(ticket), Call::of(now, what));
            }
            Some("cancel") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                self.client.up(now, Ticket(ticket), Up::Cancel(None));
            }
            Some("input") => {
                let tool = words.word().unwrap();
                self.client.set_input(tool, &words.json().unwrap());
            }
            Some("stop") => {
                self.client.close(now, Duration::ZERO);
                self.is_over = true;
            }
            Some("a") if what == "a user can be asked" => {
                let user = User { forms: true, ..User::default() };
                let mut settings = settings();
                settings.calling.introduction = Introduction::AsUser(user);
                self.client = HttpClient::new(settings);
            }
            // By its address.
            Some("over") if what == "over HTTP+SSE" => {
                self.was_broken = false;
                self.is_over = false;
                self.inputs.clear();
                self.client = HttpClient::new(ClientSettings { sse: true, ..settings() });
            }
            Some("head") => {
                self.stream = stream(&mut words);
                let mut pieces = words.rest().split(" | ");
                let mut head = ResponseHead::new(pieces.next().unwrap().parse().unwrap());
                head.headers.extend(
                    pieces
                        .map(|piece| piece.split_once(": ").unwrap())
                        .map(|(name, value)| (name.to_owned(), value)),
                );
                self.client.handle_answered(now, self.stream, head);
            }
            Some("of") => self.stream = stream(&mut words),
            Some("end") => {
                let stream = stream(&mut words);
                let mut input = self.inputs.remove(&stream).unwrap_or_default();
                self.client.handle_eof(now, stream, &mut input);
            }
            Some("unreachable") => {
                let failure = Failure::new(FailureKind::Unavailable, "connection refused");
                let why = StreamLost { code: None, failure };
                Streams::handle_lost(&mut self.client, now, stream(&mut words), why);
            }
            _ if self.clock.happen(what) => self.client.handle_timeout(self.clock.now),
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        let input = self.inputs.entry(self.stream).or_default();
        input.extend_from_slice(bytes);
        self.client.handle_bytes(self.clock.now, self.stream, input);
        self.drain()
    }

    /// `1 200 | Header: value | body`: all of an answer; `1 piece BYTES`; `1 end`.
    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        let (exchange, rest) = text.split_once(' ').unwrap();
        if rest == "end" || rest == "unreachable" {
            return vec![Arrival::Event(format!("{rest} {exchange}"))];
        }
        if let Some(piece) = rest.strip_prefix("piece ") {
            let of = Arrival::Event(format!("of {exchange}"));
            return vec![of, Arrival::Bytes(unescape(piece))];
        }
        let mut pieces: Vec<_> = rest.split(" | ").collect();
        let body = pieces.pop_if(|piece| piece.starts_with('{') || piece.starts_with('<'));
        let head = Arrival::Event(format!("head {exchange} {}", pieces.join(" | ")));
        if rest.contains("text/event-stream") {
            return vec![head];
        }
        let body = body.map(|body| Arrival::Bytes(body.as_bytes().to_vec()));
        let end = Arrival::Event(format!("end {exchange}"));
        [Some(head), body, Some(end)].into_iter().flatten().collect()
    }
}
