//! The Orchard room: types, values, schemas, and both ends of the wire.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Calling as _, Channel as _, Down, Flow, Goodbye, Machine as _, Outbox, Serving as _,
    Ticket, Up,
};
use toolbus_proto::json::Json;
use toolbus_proto::orchard::schema::{Oddity, ProviderSchema};
use toolbus_proto::orchard::translate::{Provider, Served, tool};
use toolbus_proto::orchard::types::{self, Type};
use toolbus_proto::orchard::{Client, Server, ServerSettings, Settings, value};
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind, Outcome, ToolSpec, What};

use super::{Piece, assert_lines, pieces};

/// A type expression: what is understood survives its text and its JSON Schema. Behind a NUL
/// stands a value: what was converted to the type stays as it is.
pub fn types(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (text, value) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(ty) = types::parse(text) else { return };
    assert_same(&ty);
    let Ok(value) = Json::parse(value.to_owned()) else { return };
    let fits = value::check(&ty, value.as_str()).is_ok();
    match value::convert(&ty, &value) {
        Ok(converted) => {
            let again = value::convert(&ty, &converted.value).expect("it was converted before");
            assert_eq!(again.value, converted.value, "{text}");
            assert!(again.dropped.is_empty(), "{text}");
        }
        Err(mismatch) => {
            let is_number = mismatch.fault == value::Misfit::TooManyDigits;
            assert!(!fits || is_number, "{value} fits {text}, and yet: {mismatch}");
        }
    }
}

fn assert_same(ty: &Type) {
    let text = ty.to_string();
    assert_eq!(types::parse(&text).as_ref(), Ok(ty), "{text}");
    let schema = types::schema::of(ty);
    assert_eq!(types::schema::read(schema.as_str()).ty, *ty, "{text} {schema}");
}

/// A JSON value: as a provider's schema it is understood again when we write it, as a JSON
/// Schema it gives a type that can be written, as a tool's input it gives an action.
pub fn schema(data: &[u8]) {
    let Ok(json) = Json::parse(Bytes::copy_from_slice(data)) else { return };
    if let Ok((schema, _)) = ProviderSchema::read(&json) {
        assert_written(&schema);
        for (name, action) in &schema.actions {
            let served = Served::new(&tool(name, action));
            assert!(served.action().attrs.keys().eq(action.attrs.keys()), "{name}");
        }
    }
    assert_same(&types::schema::read(json.as_str()).ty);
    let spec = ToolSpec { output: Some(json.clone()), ..ToolSpec::new("t", json) };
    let mut provider = Provider::new("toolbus", "1");
    provider.offer("t", Served::new(&spec)).expect("it is the only one");
    assert_written(&provider.schema());
}

fn assert_written(schema: &ProviderSchema) {
    let written = schema.write();
    let (again, notes) = ProviderSchema::read(&written).expect("what we write can be read");
    // A default whose text is JSON itself is taken for one that is encoded twice.
    if notes.iter().all(|note| note.oddity != Oddity::DoubleEncoded) {
        assert_eq!(again, *schema, "{written}");
    }
}

/// What a provider may say to us: each call ends once, and only our own lines go out.
pub fn host(data: &[u8]) {
    let settings = Settings { frame_bytes_max: 512, ..Settings::new("e") };
    let mut machine = Client::new(settings);
    let mut now = Instant::now();
    let tickets: Vec<_> = (0..4).map(Ticket).collect();
    for ticket in &tickets {
        let what = match ticket.0 {
            0 => What::Tools,
            number => What::Tool {
                name: "a".into(),
                args: (number < 3).then(|| Json::from_trusted("{\"x\":1}")),
            },
        };
        let deadline = Deadline { asked: now, quiet: Some(Duration::from_secs(60)), total: None };
        machine.call(now, *ticket, Call { deadline, ..Call::of(now, what) });
    }
    let mut ended = vec![0; tickets.len()];
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
                assert!(input.len() <= 512, "{} bytes are kept", input.len());
            }
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                match event % 8 {
                    1 => drop(machine.close(now, Duration::from_secs(5))),
                    odd if odd % 2 == 1 => {
                        let ticket = tickets[usize::from(event) % tickets.len()];
                        machine.up(now, ticket, Up::Cancel(None));
                    }
                    _ => machine.handle_timeout(now),
                }
            }
        }
        collect(&mut machine, &mut out);
    }
    machine.handle_eof(now, &mut input);
    machine.handle_lost(now, &Failure::new(FailureKind::Gone, "gone"));
    collect(&mut machine, &mut out);
    assert_eq!(ended, [1, 1, 1, 1]);
    assert_eq!(
        machine.close(now, Duration::from_secs(5)),
        Goodbye::Said,
        "who is lost does not answer"
    );
    assert_lines(&out.take());
}

/// What a host may say to us: nothing but answers comes back, one line each, and we end.
pub fn provider(data: &[u8]) {
    let input_schema = r#"{"type":"object","properties":{"n":{"type":"number"},"s":{"type":["string","null"]},"o.o":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}},"required":["n","s"]}"#;
    let named = ToolSpec::new("a", Json::from_trusted(input_schema));
    let whole = ToolSpec::new("b", Json::from_trusted("true"));
    let mut offered = Provider::new("toolbus", "1");
    for spec in [named, whole] {
        offered.offer(spec.name.as_str(), Served::new(&spec)).expect("their names differ");
    }
    let settings = ServerSettings { line_bytes_max: 512 };
    let mut machine = Server::new(&settings, offered);
    let mut now = Instant::now();
    let mut input = BytesMut::from(&b"{\"id\":0,\"method\":\"configure\"}\n"[..]);
    let mut out = Outbox::new();
    let mut reply = 0;
    let mut answer = |machine: &mut Server, out: &mut Outbox, now: Instant| {
        while let Some((ticket, asked)) = machine.poll_up() {
            let Asked::Call(_) = asked else { continue };
            reply += 1;
            let outcome = match reply % 4 {
                0 => Err(Failure::new(FailureKind::Failed, "no \"luck\"\n")),
                1 => Ok(Outcome::Value(Json::from_trusted("7"))),
                2 => Ok(Outcome::Text("text".to_owned())),
                // This one takes its time.
                _ => continue,
            };
            machine.down(now, ticket, Down::Done(outcome));
        }
        machine.poll_transmit(out);
    };
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => input.extend_from_slice(bytes),
            Piece::Event(event) => {
                now += Duration::from_secs(u64::from(event));
                machine.handle_timeout(now);
            }
        }
        if machine.handle_bytes(now, &mut input) == Flow::More {
            assert!(input.len() <= 512, "{} bytes are kept", input.len());
        }
        answer(&mut machine, &mut out, now);
    }
    machine.handle_eof(now, &mut input);
    answer(&mut machine, &mut out, now);
    machine.handle_timeout(now + Duration::from_secs(5));
    answer(&mut machine, &mut out, now);
    assert!(machine.ended().is_some(), "the end of input is the end, after its time");
    let said = out.take();
    assert_lines(&said);
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let is_answer = line.starts_with(b"{\"id\":");
        assert!(is_answer, "{}", line.escape_ascii());
    }
}
