//! A node, as the transcripts in `transcripts/nats/serving` have it.

use bytes::BytesMut;
use toolbus_proto::channel::{AskId, Asked, Channel, Down, Machine, Outbox, Serving, Ticket, Up};
use toolbus_proto::json::Json;
use toolbus_proto::nats::{About, NodeIdentity, Server, ServerSettings};
use toolbus_proto::tool::{Failure, FailureKind, Outcome, Part, Piece, ToolSpec, What, Wire};
use toolbus_testkit::transcript::{self, Arrival, Clock, Player, Words, check_folder};

#[test]
fn conversations() {
    check_folder("transcripts/nats/serving", |_| Node::new());
}

#[test]
fn where_a_read_ends_does_not_matter() {
    for file in transcript::files("transcripts/nats/serving") {
        transcript::sweep(&transcript::read(&file), Node::new);
    }
}

struct Node {
    clock: Clock,
    server: Server,
    input: BytesMut,
    was_ready: bool,
    has_moved: bool,
    has_ended: bool,
}

impl Node {
    fn new() -> Node {
        let clock = Clock::new();
        let text = |text: &str| text.to_owned();
        let settings = ServerSettings {
            identity: NodeIdentity {
                name: text("team"),
                id: text("ID"),
                prefix: text("team"),
                started: text("2026-11-16T10:00:00.000000Z"),
            },
            at: text("h:4222"),
            info: super::info(),
            inbox: text("_INBOX.node"),
            wires: vec![Wire::new("mcp")],
            windows: Default::default(),
            in_flight: Default::default(),
            trusted: None,
            about: Box::new(|_| Some(About { back: "b".to_owned(), pinned: false })),
        };
        let server = Server::new(clock.now, settings);
        let input = BytesMut::new();
        Node { clock, server, input, was_ready: false, has_moved: false, has_ended: false }
    }

    fn came(&mut self) -> Vec<String> {
        let now = self.clock.now;
        let _ = self.server.handle_bytes(now, &mut self.input);
        let mut lines = Vec::new();
        loop {
            let before = lines.len();
            while let Some(notice) = self.server.poll_notice() {
                lines.push(format!("== {notice:?}"));
            }
            while let Some((ticket, asked)) = self.server.poll_up() {
                lines.push(format!("== {} {}", ticket.0, told(&asked)));
            }
            while let Some(ticket) = self.server.poll_room() {
                lines.push(format!("== room for {}", ticket.0));
            }
            let mut out = Outbox::new();
            self.server.poll_transmit(&mut out);
            lines.extend(super::written(&mut out));
            if lines.len() == before {
                break;
            }
        }
        if self.server.is_ready() != self.was_ready {
            self.was_ready = !self.was_ready;
            lines.push(format!("== ready: {}", self.was_ready));
        }
        if self.server.has_moved() && !std::mem::replace(&mut self.has_moved, true) {
            lines.push("== moved".to_owned());
        }
        if let Some(ended) = self.server.ended()
            && !std::mem::replace(&mut self.has_ended, true)
        {
            lines.push(format!("== ended {ended:?}"));
        }
        lines
    }
}

fn told(asked: &Asked) -> String {
    match asked {
        Asked::Call(call) => match &call.what {
            What::Tools => "lists tools".to_owned(),
            What::Tool { name, args } => {
                let args = args.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                let parts = if call.options.sends_parts { " with parts" } else { "" };
                let caller = call.caller.0;
                let args = if args.len() < 2000 { args } else { format!("({} bytes)", args.len()) };
                let known = call.provenance.as_ref().map(|known| {
                    let asks = known.asks.as_ref().map_or("nothing", Json::as_str);
                    format!(" by {:?} who answers {asks}, hops {}", known.caller, known.hops)
                });
                let known = known.unwrap_or_default();
                let total = call.deadline.total;
                format!("calls {name} {args}{parts} of {caller} in {total:?}{known}")
            }
            What::Native { .. } => "native".to_owned(),
        },
        Asked::Up(Up::Part(Part::Bytes(piece))) => {
            format!("part {} bytes last={}", piece.data.len(), piece.last)
        }
        Asked::Up(up) => format!("{up:?}"),
    }
}

impl Player for Node {
    fn happen(&mut self, words: &str) -> Vec<String> {
        if self.clock.happen(words) {
            if super::due(self.server.poll_timeout(), self.clock.now) {
                self.server.handle_timeout(self.clock.now);
            }
            return self.came();
        }
        let now = self.clock.now;
        let mut words = Words::new(words);
        let verb = words.word().unwrap();
        let mut ticket = || Ticket(words.word().unwrap().parse().unwrap());
        match verb {
            "begin" => {}
            "close" => self.server.close(now),
            "move" => self.server.move_away(now),
            "give_up" => self.server.give_up(now),
            "tools" => {
                let specs = words.rest().split(' ').filter(|name| !name.is_empty());
                let specs = specs.map(|name| ToolSpec::new(name, Json::parse("{}").unwrap()));
                let tools = Outcome::Tools(specs.collect());
                let _ = self.server.down(now, Ticket(0), Down::Done(Ok(tools)));
            }
            "value" => {
                let ticket = ticket();
                let value = match words.rest().strip_prefix("large ") {
                    Some(bytes) => Json::of(&"x".repeat(bytes.parse().unwrap())),
                    None => words.json().unwrap(),
                };
                let _ = self.server.down(now, ticket, Down::Done(Ok(Outcome::Value(value))));
            }
            "fail" => {
                let ticket = ticket();
                let failure = Failure::new(FailureKind::Failed, words.rest());
                let _ = self.server.down(now, ticket, Down::Done(Err(failure)));
            }
            "start" => {
                let ticket = ticket();
                let begin = Down::Begin { head: words.json(), parts: None };
                let _ = self.server.down(now, ticket, begin);
            }
            "part" => {
                let ticket = ticket();
                let part = match words.rest().strip_prefix("bytes ") {
                    Some(bytes) => Part::Bytes(Piece {
                        data: vec![b'x'; bytes.parse().unwrap()].into(),
                        media_type: None,
                        len: None,
                        last: false,
                    }),
                    None => Part::Json(words.json().unwrap()),
                };
                let _ = self.server.down(now, ticket, Down::Part(part));
                if self.server.is_full(ticket) {
                    let mut came = self.came();
                    came.push(format!("== {} is full", ticket.0));
                    return came;
                }
            }
            "progress" => {
                let ticket = ticket();
                let progress = words.json().unwrap();
                let _ = self.server.down(now, ticket, Down::Progress(progress));
            }
            "log" => {
                let ticket = ticket();
                let _ = self.server.down(now, ticket, Down::Log(words.json().unwrap()));
            }
            "ask" => {
                let ticket = ticket();
                let ask = AskId(words.word().unwrap().parse().unwrap());
                let _ = self.server.down(now, ticket, Down::Ask(ask, words.json().unwrap()));
            }
            "native" => {
                let ticket = ticket();
                let result = Outcome::Native(words.rest().to_owned().into());
                let _ = self.server.down(now, ticket, Down::Done(Ok(result)));
            }
            "end" => {
                let done = Down::Done(Ok(Outcome::End(None)));
                let _ = self.server.down(now, ticket(), done);
            }
            "hold" => self.server.hold(now, ticket(), true),
            "release" => self.server.hold(now, ticket(), false),
            other => panic!("what is {other:?}?"),
        }
        self.came()
    }

    fn bytes(&mut self, _wire: &str, bytes: &[u8]) -> Vec<String> {
        self.input.extend_from_slice(bytes);
        self.came()
    }

    fn arrival(&self, _wire: &str, text: &str) -> Vec<Arrival> {
        vec![Arrival::Bytes(super::said(text))]
    }
}
