//! The two ends of NATS, each at one connection to a server that the conversation plays.
//!
//! A message is written `SUBJECT REPLY HEADERS PAYLOAD`: `-` stands for no reply subject, and for
//! no headers; `503` for the headers by which a server says that nobody is there.

mod calling;
mod serving;

use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::Outbox;
use toolbus_proto::json::{Json, edit};
use toolbus_proto::nats::Info;
use toolbus_proto::nats::headers::{Block, Headers};
use toolbus_proto::nats::protocol::{Message, Op, OpReader};
use toolbus_testkit::transcript::Words;

/// What the server says about itself.
fn info() -> Info {
    Info { version: "2.11.0".to_owned(), headers: true, max_payload: 1 << 20, ..Info::default() }
}

/// What was written, an operation a line.
fn written(out: &mut Outbox) -> Vec<String> {
    let mut input = BytesMut::from(&out.take()[..]);
    let mut reader = OpReader::default();
    let mut lines = Vec::new();
    while let Some(op) = reader.next(&mut input).unwrap() {
        lines.push(match op {
            Op::Pub(message) => format!(">> {}", shown(&message)),
            Op::Sub { subject, queue: Some(queue), sid } => {
                format!(">> SUB {subject} {queue} {sid}")
            }
            Op::Sub { subject, queue: None, sid } => format!(">> SUB {subject} {sid}"),
            Op::Unsub { sid, .. } => format!(">> UNSUB {sid}"),
            Op::Ping => ">> PING".to_owned(),
            Op::Pong => ">> PONG".to_owned(),
            other => format!(">> {other:?}"),
        });
    }
    assert!(input.is_empty(), "{input:?}");
    lines
}

fn shown(message: &Message) -> String {
    let headers = message.head.as_ref().map(|head| {
        let headers = Headers::read(head).unwrap();
        let fields: Vec<String> = headers
            .fields()
            .map(|(name, value)| format!("{}:{}", Json::of(&name), Json::of(&value)))
            .collect();
        format!("{{{}}}", fields.join(","))
    });
    let headers = headers.unwrap_or_else(|| "-".to_owned());
    let reply = message.reply.as_deref().unwrap_or("-");
    let payload = match message.payload.len() {
        bytes if 2000 < bytes => format!("({bytes} bytes)"),
        _ => String::from_utf8_lossy(&message.payload).into_owned(),
    };
    format!("{} {reply} {headers} {payload}", message.subject).trim_end().to_owned()
}

/// The bytes of what the server says. `(N bytes)` is a payload of so many.
fn said(text: &str) -> Vec<u8> {
    let mut words = Words::new(text);
    let first = words.word().unwrap_or_default();
    if matches!(first, "PING" | "PONG" | "+OK" | "-ERR" | "INFO") {
        return format!("{text}\r\n").into_bytes();
    }
    let reply = words.word().filter(|reply| *reply != "-");
    let head = if words.is("-") {
        Vec::new()
    } else if words.is("503") {
        b"NATS/1.0 503\r\n\r\n".to_vec()
    } else {
        let headers = words.json().unwrap();
        let members = edit::members(headers.as_str());
        let block = members.fold(Block::new(), |block, (name, value)| {
            block.with(&name, &Json::parse(value.to_owned()).unwrap().string().unwrap())
        });
        block.end()
    };
    let payload = match words.rest().strip_prefix('(').and_then(|n| n.strip_suffix(" bytes)")) {
        Some(bytes) => vec![b'x'; bytes.parse().unwrap()],
        None => words.rest().as_bytes().to_vec(),
    };
    let reply = reply.map(|reply| format!("{reply} ")).unwrap_or_default();
    let mut bytes = match head.is_empty() {
        true => format!("MSG {first} 1 {reply}{}\r\n", payload.len()),
        false => format!("HMSG {first} 1 {reply}{} {}\r\n", head.len(), head.len() + payload.len()),
    }
    .into_bytes();
    bytes.extend(head);
    bytes.extend(payload);
    bytes.extend(b"\r\n");
    bytes
}

/// The instant after which something is due, for a machine that is told the time in steps.
fn due(timeout: Option<Instant>, now: Instant) -> bool {
    timeout.is_some_and(|timeout| timeout <= now)
}
