//! The calling end of MCP over HTTP, replayed from `transcripts/mcp/remote`.

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{Down, Readiness, Ticket, Up};
use toolbus_proto::mcp::WIRE;
use toolbus_proto::mcp::calling::Settings;
use toolbus_proto::mcp::http::{ExchangeId, Remote, Verb};
use toolbus_proto::tool::{Call, Failure, FailureKind, What};
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
    remote: Remote,
    /// Whose body is arriving, and what of it was not taken.
    exchange: ExchangeId,
    input: BytesMut,
    was_broken: bool,
}

impl Back {
    fn new() -> Back {
        Back {
            clock: Clock::new(),
            remote: Remote::new(Settings::new("w", "VERSION")),
            exchange: ExchangeId(0),
            input: BytesMut::new(),
            was_broken: false,
        }
    }

    fn drain(&mut self) -> Vec<String> {
        let mut came: Vec<_> =
            std::iter::from_fn(|| self.remote.poll_down()).filter_map(learned_or_begun).collect();
        while self.remote.poll_notice().is_some() {}
        if let Readiness::Broken(fault) = self.remote.readiness()
            && !std::mem::replace(&mut self.was_broken, true)
        {
            came.push(format!("== broken {}: {}", fault.failure.kind, fault.failure));
        }
        while let Some((exchange, request)) = self.remote.poll_request() {
            let verb = match request.verb {
                Verb::Post => "POST",
                Verb::Get => "GET",
                Verb::Delete => "DELETE",
            };
            let mut pieces = vec![format!(">> {} {verb}", exchange.0)];
            // What every request has is not worth a word.
            let common = ["Content-Type", "Accept"];
            let headers = request.headers.iter().filter(|(name, _)| !common.contains(&&**name));
            pieces.extend(headers.map(|(name, value)| format!("{name}: {value}")));
            pieces.extend(Some(String::from_utf8(request.body.to_vec()).unwrap()));
            came.push(pieces.join(" | ").trim_end_matches(" | ").to_owned());
        }
        while let Some(exchange) = self.remote.poll_abort() {
            came.push(format!("== abort {}", exchange.0));
        }
        came
    }
}

fn learned_or_begun((ticket, down): (Ticket, Down)) -> Option<String> {
    match down {
        Down::Begin { head: Some(greeting), .. } => {
            Some(format!("== t{} begins {greeting}", ticket.0))
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
                self.remote.call(now, Ticket(ticket), call);
            }
            Some("session") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                let method = Bytes::from_static(b"initialize");
                let body = Bytes::from_static(b"{\"protocolVersion\":\"2025-11-25\"}");
                let what = What::Native { wire: WIRE, method, body };
                self.remote.call(now, Ticket(ticket), Call::of(now, what));
            }
            Some("cancel") => {
                let ticket = words.word().unwrap().strip_prefix('t').unwrap().parse().unwrap();
                self.remote.up(now, Ticket(ticket), Up::Cancel(None));
            }
            Some("input") => {
                let tool = words.word().unwrap();
                self.remote.set_input(tool, &words.json().unwrap());
            }
            Some("stop") => self.remote.close(now),
            Some("head") => {
                self.exchange = ExchangeId(words.word().unwrap().parse().unwrap());
                let mut pieces = words.rest().split(" | ");
                let status = pieces.next().unwrap().parse().unwrap();
                let headers: Vec<_> = pieces.map(|piece| piece.split_once(": ").unwrap()).collect();
                self.remote.handle_head(self.exchange, status, &headers);
            }
            Some("of") => {
                self.exchange = ExchangeId(words.word().unwrap().parse().unwrap());
            }
            Some("end") => {
                let exchange = ExchangeId(words.word().unwrap().parse().unwrap());
                self.remote.handle_end(now, exchange);
            }
            Some("unreachable") => {
                let exchange = ExchangeId(words.word().unwrap().parse().unwrap());
                let failure = Failure::new(FailureKind::Unavailable, "connection refused");
                self.remote.handle_failed(now, exchange, failure);
            }
            _ if self.clock.happen(what) => self.remote.handle_timeout(self.clock.now),
            _ => panic!("what is `{what}`?"),
        }
        self.drain()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.remote.handle_body(self.clock.now, self.exchange, &mut self.input);
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
