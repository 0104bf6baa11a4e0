//! How often the payload of a call is looked through on its way from a client to a server and
//! back.

use std::time::Instant;

use bytes::BytesMut;

use super::calling;
use super::conversation;
use super::http::{Endpoint, Entrance, Settings};
use super::{Behind, Client, Server};
use crate::channel::{Asked, Calling, Channel, Outbox, Serving, StreamId, Streams};
use crate::http::{Admission, RequestHead};
use crate::json::looks::counted;
use crate::tool::CallerId;

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
/// As long as what a call and its answer carry.
const PAYLOAD: usize = 1 << 20;
/// Whatever else is read of them is no more than this.
const ENVELOPES: usize = 1 << 13;

/// A server on a pipe, behind whatever serves its clients.
struct Back {
    now: Instant,
    client: Client,
    /// How the `_meta` of the call begins.
    meta: &'static str,
}

impl Back {
    fn new() -> Back {
        let settings = calling::Settings::new("w", "1");
        Back { now: Instant::now(), client: Client::new(settings), meta: r#""_meta":{"# }
    }

    /// Passes on what the front has asked; gives what the server is told.
    fn pass_up(&mut self, front: &mut impl Serving) -> usize {
        while let Some((ticket, asked)) = front.poll_up() {
            let Asked::Call(call) = asked else { panic!("no call is cancelled: {asked:?}") };
            self.client.call(self.now, ticket, call);
        }
        let mut out = Outbox::new();
        Channel::poll_transmit(&mut self.client, &mut out);
        out.take().len()
    }

    /// Passes on what the server says.
    fn pass_down(&mut self, front: &mut impl Serving, line: &str) {
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        Channel::handle_bytes(&mut self.client, self.now, &mut input);
        while let Some((ticket, down)) = self.client.poll_down() {
            front.down(self.now, ticket, down);
        }
    }

    /// Looks at the payload of one call, and at the payload of its answer.
    fn looks<F: Serving>(&mut self, front: &mut F, ask: impl Fn(&mut F, &str)) -> (usize, usize) {
        ask(front, &request("server/discover", 0, ""));
        assert_ne!(self.pass_up(front), 0);
        let greeting = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#;
        self.pass_down(front, greeting);
        assert_eq!(self.pass_up(front), 0);
        let payload = "x".repeat(PAYLOAD);
        let arguments = format!(r#","name":"echo","arguments":{{"text":"{payload}"}}"#);
        let asked = request("tools/call", 1, &arguments).replacen(r#""_meta":{"#, self.meta, 1);
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"content":[],"text":"{payload}"}}}}"#);
        counted::take();
        ask(front, &asked);
        assert!(PAYLOAD < self.pass_up(front), "it is passed on at once");
        let up = counted::take();
        self.pass_down(front, &answer);
        (times(up), times(counted::take()))
    }
}

fn request(method: &str, id: u64, params: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{META}}}{params}}}}}"#
    )
}

fn times(bytes: usize) -> usize {
    assert!(bytes % PAYLOAD < ENVELOPES, "{bytes}");
    bytes / PAYLOAD
}

fn over_http(mut back: Back, spelled: fn(&str) -> String) -> (usize, usize) {
    let entrance = Entrance {
        admission: Admission::LOOPBACK,
        path: "/mcp".into(),
        sse: false,
        body_bytes_max: 16 << 20,
    };
    let settings =
        Settings { version: "1".into(), behind: Behind::Server, entrance, first_caller: 1 };
    let mut endpoint = Endpoint::new(settings, || "SESSION".to_owned());
    let now = back.now;
    back.looks(&mut endpoint, |endpoint, body| {
        let is_call = body.contains("tools/call");
        let mut head = RequestHead::new("POST", "/mcp");
        head.headers.push("Content-Type", "application/json");
        head.headers.push("Accept", "application/json, text/event-stream");
        head.headers.push("MCP-Protocol-Version", "2026-07-28");
        head.headers.push("Mcp-Method", if is_call { "tools/call" } else { "server/discover" });
        if is_call {
            head.headers.push("Mcp-Name", "echo");
        }
        let stream = StreamId::Theirs(u64::from(is_call));
        let mut input = BytesMut::from(spelled(body).as_bytes());
        endpoint.handle_opened(now, stream, head);
        Streams::handle_bytes(endpoint, now, stream, &mut input);
        Streams::handle_eof(endpoint, now, stream, &mut input);
    })
}

#[test]
fn between_http_and_a_pipe_a_body_is_looked_at_twice() {
    // It is read, and searched for line breaks.
    assert_eq!(over_http(Back::new(), str::to_owned), (2, 1));
}

#[test]
fn a_body_of_several_lines_is_looked_at_three_times() {
    let spelled = |body: &str| body.replacen(r#","id""#, ",\n\"id\"", 1);
    assert_eq!(over_http(Back::new(), spelled), (3, 1));
}

#[test]
fn a_token_is_exchanged_in_one_look() {
    let back = Back { meta: r#""_meta":{"progressToken":7,"#, ..Back::new() };
    assert_eq!(over_http(back, str::to_owned), (3, 1));
}

#[test]
fn between_two_pipes_a_request_is_looked_at_twice_and_its_answer_once() {
    let settings = conversation::Settings::new("1", CallerId(1), Behind::Server);
    let mut server = Server::new(settings);
    let mut back = Back::new();
    let now = back.now;
    let looks = back.looks(&mut server, |server, line| {
        let mut input = BytesMut::from(format!("{line}\n").as_bytes());
        Channel::handle_bytes(server, now, &mut input);
    });
    assert_eq!(looks, (2, 1));
}
