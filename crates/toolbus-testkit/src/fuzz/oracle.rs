//! The oracle room: signatures, felts by their types, and both ends of the wire.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling as _, Channel as _, Down, Flow, Machine as _, Outbox, Serving as _, Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::jsonrpc::Message;
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::felt::Leniency;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{
    Client, Functions, RULES, Served, Server, Settings, codec, felts, signature,
};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, ToolName, What};

use super::{Piece, assert_lines, pieces};

/// A text of signatures: what is understood is printed so that it is understood again.
pub fn signatures(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for function in signature::parse(text).unwrap_or_default() {
        let canonical = function.canonical();
        let again = signature::parse(&canonical).expect("what we print can be read");
        assert_eq!(again, [function], "{canonical}");
    }
}

/// A line with a signature and a line with felts: what they mean stays the same when it is
/// written and read again.
pub fn codec(data: &[u8]) {
    let Some((text, list)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n'))
    else {
        return;
    };
    let Ok(list) = felts::read(list, Leniency::Lenient) else { return };
    for function in signature::parse(text).unwrap_or_default() {
        if let Ok(value) = codec::decode_result(&function, &list) {
            let written = codec::encode_result(&function, &value).expect("our own JSON fits");
            let again = codec::decode_result(&function, &written).expect("our own felts fit");
            assert_eq!(again, value, "{text}");
        }
    }
}

/// What an oracle may say to us: each call ends once, and only our own lines go out.
pub fn executor(data: &[u8]) {
    let settings = Settings { line_bytes_max: 512, ..Settings::default() };
    let mut machine = Client::new(settings, Functions::default());
    let now = Instant::now();
    let tickets: Vec<_> = (0..3).map(Ticket).collect();
    for ticket in &tickets {
        let method = Bytes::from_static(b"f");
        let what = What::Native { wire: WIRE, method, body: Bytes::from_static(b"[]") };
        let quiet = Some(Duration::from_secs(60));
        let deadline = Deadline { asked: now, quiet, total: None };
        machine.call(now, *ticket, Call { deadline, ..Call::of(now, what) });
    }
    let mut ended = vec![0; tickets.len()];
    let mut now = now;
    let mut input = BytesMut::new();
    let mut out = Outbox::new();
    let mut collect = |machine: &mut Client, out: &mut Outbox| {
        machine.poll_transmit(out);
        while let Some((ticket, down)) = machine.poll_down() {
            if let Down::Done(_) = down {
                ended[usize::try_from(ticket.0).expect("a ticket of ours")] += 1;
            }
        }
        while machine.poll_notice().is_some() {}
    };
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                input.extend_from_slice(bytes);
                machine.handle_bytes(now, &mut input);
            }
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                if event % 2 == 1 {
                    machine.up(now, tickets[usize::from(event) % tickets.len()], Up::Cancel(None));
                }
                machine.handle_timeout(now);
            }
        }
        collect(&mut machine, &mut out);
    }
    machine.handle_eof(now, &mut input);
    machine.handle_lost(now, &Failure::new(FailureKind::Gone, "gone"));
    collect(&mut machine, &mut out);
    assert_eq!(ended, [1, 1, 1]);
    assert_lines(&out.take());
}

/// What an executor may say to us: nothing but answers comes back, one line each.
pub fn oracle(data: &[u8]) {
    let offered = "f(x: u8, y: Option<ByteArray>) -> json; g() -> u8";
    let functions = signature::parse(offered).expect("is written right");
    let served = functions.into_iter().map(|function| Served {
        tool: ToolName::new(function.name()),
        binding: Binding::of_oracle(function),
    });
    let settings = Settings { line_bytes_max: 512, ..Settings::default() };
    let mut machine = Server::new(&settings, served.collect());
    let now = Instant::now();
    let mut input = BytesMut::from(&b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n"[..]);
    let mut out = Outbox::new();
    let mut reply = 0;
    let mut answer = |machine: &mut Server, out: &mut Outbox| {
        while let Some((ticket, asked)) = machine.poll_up() {
            let Asked::Call(_) = asked else { continue };
            reply += 1;
            let outcome = match reply % 3 {
                0 => Err(Failure::new(FailureKind::Failed, "no \"luck\"\n")),
                1 => Ok(Outcome::Value(Json::from_trusted("7"))),
                _ => Ok(Outcome::Text("text".to_owned())),
            };
            machine.down(now, ticket, Down::Done(outcome));
        }
        while machine.poll_notice().is_some() {}
        machine.poll_transmit(out);
    };
    for piece in pieces(data) {
        if let Piece::Bytes(bytes) = piece {
            input.extend_from_slice(bytes);
        }
        // Answering one call lets the next be read.
        for _ in 0..64 {
            let flow = machine.handle_bytes(now, &mut input);
            answer(&mut machine, &mut out);
            if flow == Flow::Close {
                break;
            }
        }
    }
    for _ in 0..1024 {
        if machine.handle_eof(now, &mut input) == Flow::Close {
            break;
        }
        answer(&mut machine, &mut out);
    }
    answer(&mut machine, &mut out);
    assert!(machine.ended().is_some(), "the end of input is the end");
    let said = out.take();
    assert_lines(&said);
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).skip(1) {
        let line = Bytes::copy_from_slice(line);
        let message = RULES.read(&line);
        assert!(matches!(message, Ok(Message::Response { .. })), "{line:?}");
    }
}
