//! The MCP room: both ends on a pipe; `http` has both over HTTP, `sse` the events of its streams.

mod http;
mod sse;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    AskId, Asked, Calling, Channel, Down, Flow, Machine as _, Outbox, Serving as _, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::mcp::{Behind, Client, Server, calling, conversation};
use toolbus_proto::tool::{Call, CallerId, Failure, FailureKind, Outcome, Part, What};

use super::{Piece, assert_lines, pieces};

pub use http::{endpoint, http_client, sse_client};
pub use sse::events;

/// The longest line, body or event of a peer.
const BYTES_MAX: usize = 512;

/// What a server may write to us on a pipe: each call ends once, and only whole messages go out.
pub fn client(data: &[u8]) {
    let mut now = Instant::now();
    let mut client = Client::new(calling_settings());
    let mut asker = Asker::new(now, &mut client);
    let mut input = BytesMut::new();
    let mut out = Outbox::new();
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                input.extend_from_slice(bytes);
                client.handle_bytes(now, &mut input);
                assert!(input.len() <= BYTES_MAX, "no more than a line is kept");
            }
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                asker.go_on(now, &mut client, event);
                client.handle_timeout(now);
            }
        }
        asker.learn(&mut client);
        client.poll_transmit(&mut out);
    }
    client.handle_eof(now, &mut input);
    client.handle_lost(now, &gone());
    asker.learn(&mut client);
    assert!(asker.open.is_empty(), "never ended: {:?}", asker.open);
    client.poll_transmit(&mut out);
    assert_lines(&out.take());
}

/// What a client may write to us on a pipe: only whole messages come back, and the end of its
/// input is the end.
pub fn server(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let mut now = Instant::now();
    let settings = conversation::Settings::new("1", CallerId(1), behind(*kind));
    let settings = conversation::Settings { line_bytes_max: BYTES_MAX, calls_max: 3, ..settings };
    let mut server = Server::new(settings);
    let mut answerer = Answerer::default();
    let mut input = BytesMut::new();
    let mut out = Outbox::new();
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => input.extend_from_slice(bytes),
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                if let Some((ticket, down)) = answerer.reply(event) {
                    server.down(now, ticket, down);
                }
                server.handle_timeout(now);
            }
        }
        // A call that was taken lets the next be read.
        for _ in 0..64 {
            let flow = server.handle_bytes(now, &mut input);
            assert!(flow != Flow::More || input.len() <= BYTES_MAX, "no more than a line is kept");
            if !answerer.take(|| server.poll_up()) {
                break;
            }
        }
        server.poll_transmit(&mut out);
        while server.poll_notice().is_some() {}
    }
    server.handle_eof(now, &mut input);
    answerer.take(|| server.poll_up());
    server.handle_timeout(now + Duration::from_secs(6));
    answerer.take(|| server.poll_up());
    assert!(server.ended().is_some(), "the end of input is the end");
    server.poll_transmit(&mut out);
    assert_lines(&out.take());
}

fn calling_settings() -> calling::Settings {
    let settings = calling::Settings::new("w", "1");
    let tokens = Some(calling::Tokens::new(|| "TOKEN".to_owned()));
    calling::Settings { line_bytes_max: BYTES_MAX, calls_max: 6, tokens, ..settings }
}

fn behind(kind: u8) -> Behind {
    if kind.is_multiple_of(2) { Behind::Hub } else { Behind::Server }
}

fn gone() -> Failure {
    Failure::new(FailureKind::Gone, "gone")
}

/// What a modern client says that it can do and wants to hear of.
const MODERN: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]}}"#;

/// Asks a server for a bit of everything, and sees to it that each call ends once.
struct Asker {
    open: BTreeSet<Ticket>,
    asks: Vec<(Ticket, AskId)>,
}

impl Asker {
    fn new(now: Instant, client: &mut impl Calling) -> Asker {
        let native = |method: &'static str, body: &'static str| What::Native {
            wire: toolbus_proto::mcp::WIRE,
            method: Bytes::from_static(method.as_bytes()),
            body: Bytes::from_static(body.as_bytes()),
        };
        let calls = [
            native("initialize", r#"{"capabilities":{"elicitation":{}}}"#),
            native("x", r#"{"_meta":{"progressToken":"t"}}"#),
            // Of both eras: whichever the server speaks, some of them have to be translated.
            native("tools/call", MODERN),
            native("subscriptions/listen", MODERN),
            native("resources/subscribe", r#"{"uri":"a"}"#),
            What::Tool { name: "a".into(), args: None },
            What::Tools,
        ];
        let mut open = BTreeSet::new();
        for (number, what) in calls.into_iter().enumerate() {
            let ticket = Ticket(number as u64);
            let mut call = Call::of(now, what);
            call.deadline.quiet = Some(Duration::from_secs(60));
            open.insert(ticket);
            client.call(now, ticket, call);
        }
        Asker { open, asks: Vec::new() }
    }

    /// Answers a question, or has enough of a call.
    fn go_on(&mut self, now: Instant, client: &mut impl Calling, event: u8) {
        if event % 4 == 1 {
            client.up(now, Ticket(u64::from(event / 4 % 7)), Up::Cancel(None));
        } else if let Some((ticket, ask)) = self.asks.pop() {
            client.up(now, ticket, Up::Answer(ask, Json::from_trusted(r#"{"result":{}}"#)));
        }
    }

    fn learn(&mut self, client: &mut impl Calling) {
        while let Some((ticket, down)) = client.poll_down() {
            assert!(self.open.contains(&ticket), "{ticket:?} is over and gets {down:?}");
            match down {
                Down::Done(_) => drop(self.open.remove(&ticket)),
                Down::Ask(ask, _) => self.asks.push((ticket, ask)),
                _ => {}
            }
        }
        while client.poll_notice().is_some() {}
    }
}

/// Takes calls and says this and that to them.
#[derive(Default)]
struct Answerer {
    open: Vec<(Ticket, Call)>,
    seen: BTreeSet<Ticket>,
}

impl Answerer {
    /// Tells whether there was any.
    fn take(&mut self, mut poll_up: impl FnMut() -> Option<(Ticket, Asked)>) -> bool {
        let mut was_any = false;
        while let Some((ticket, asked)) = poll_up() {
            was_any = true;
            match asked {
                Asked::Call(call) => {
                    assert!(self.seen.insert(ticket), "{ticket:?} comes twice");
                    self.open.push((ticket, call));
                }
                Asked::Up(Up::Cancel(_)) => self.open.retain(|(known, _)| *known != ticket),
                Asked::Up(_) => assert!(self.seen.contains(&ticket), "{ticket:?} never came"),
            }
        }
        was_any
    }

    fn reply(&mut self, event: u8) -> Option<(Ticket, Down)> {
        let at = usize::from(event / 8) % self.open.len().max(1);
        let (ticket, call) = self.open.get(at)?.clone();
        let json = |text: &'static str| Json::from_trusted(text);
        let down = match (event % 8, call.what) {
            (0, _) => Down::Ask(AskId(1), json(r#"{"method":"roots/list","params":{}}"#)),
            (1, _) => Down::Begin { head: Some(json(r#"{"capabilities":{}}"#)), parts: None },
            (2, _) => Down::Part(Part::Json(json(r#"{"method":"notifications/tasks"}"#))),
            (3, _) => Down::Progress(json(r#"{"progress":1}"#)),
            (4, _) => Down::Done(Err(gone())),
            (_, What::Tools) => Down::Done(Ok(Outcome::Tools([].into()))),
            (_, What::Tool { .. }) => Down::Done(Ok(Outcome::Value(json("[1]")))),
            (_, What::Native { .. }) => Down::Done(Ok(Outcome::Native(Bytes::from_static(b"{}")))),
        };
        if let Down::Done(_) = down {
            self.open.remove(at);
        }
        Some((ticket, down))
    }
}
