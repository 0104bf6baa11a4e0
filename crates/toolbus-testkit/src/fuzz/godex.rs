//! A server that streams anything, and a child that writes anything.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use serde_json::Value;
use toolbus_proto::channel::{
    Asked, Down, Machine as _, Serving as _, StreamId, StreamLost, Streams as _, Writing,
};
use toolbus_proto::godex::ask::Reader;
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::flags::message;
use toolbus_proto::godex::{Function, Permission, Request, Run, RunSettings, Signal, Wanted};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Exit, Failure, FailureKind, LastWords, Outcome, ToolSpec};

use super::{Piece, assert_lines, pieces};

/// A run before a server that says anything. The first byte chooses what is printed.
pub fn run(data: &[u8]) {
    let (&choice, data) = data.split_first().unwrap_or((&0, &[]));
    let Some(mut run) = begin(choice) else { return };
    let mut now = Instant::now();
    run.start(now, SystemTime::UNIX_EPOCH);
    let mut input = BytesMut::new();
    let mut lines = Vec::new();
    let mut stream = StreamId::Ours(0);
    let mut is_answered = false;
    for piece in pieces(data) {
        if let Some((opened, _)) = run.poll_open() {
            stream = opened;
            input.clear();
            is_answered = false;
        }
        match piece {
            Piece::Bytes(bytes) => {
                if !is_answered && run.writing(stream) == Writing::Finish {
                    run.handle_answered(now, stream, ResponseHead::new(200));
                    is_answered = true;
                }
                input.extend_from_slice(bytes);
                run.handle_bytes(now, stream, &mut input);
            }
            Piece::Event(0) => {
                run.handle_eof(now, stream, &mut input);
            }
            Piece::Event(1) => {
                let why = StreamLost { code: None, failure: Failure::new(FailureKind::Gone, "") };
                run.handle_cut(now, stream, &mut input, why);
            }
            Piece::Event(2) => run.interrupt(Signal::Interrupt),
            Piece::Event(3) => {
                now += Duration::from_secs(10);
                run.handle_timeout(now);
            }
            Piece::Event(status) => {
                let head = ResponseHead::new(u16::from(status) + 300);
                run.handle_answered(now, stream, head);
                is_answered = true;
            }
        }
        lines.append(run.said().lines());
        show(&mut run, now);
        while let Some((ticket, asked)) = run.poll_up() {
            if let Asked::Call(_) = asked {
                run.down(now, ticket, Down::Done(Ok(Outcome::Text("out".to_owned()))));
            }
            lines.append(run.said().lines());
            show(&mut run, now);
        }
    }
    // However it stands, it ends, and once.
    run.handle_eof(now, stream, &mut input);
    run.interrupt(Signal::Terminate);
    lines.append(run.said().lines());
    let ended = run.ended().expect("it was interrupted").clone();
    run.handle_timeout(now + Duration::from_secs(10_000));
    assert_eq!(run.ended(), Some(&ended));
    assert!(run.poll_open().is_none() && run.poll_timeout().is_none());
    while let Some((_, asked)) = run.poll_up() {
        assert!(matches!(asked, Asked::Up(_)), "nothing is called any more");
    }
    assert_lines(&lines.clone().into());
    judge(&lines, ended.exit, choice & 1 != 0);
}

/// What it says is taken and shown; the user allows some of what it asks for.
fn show(run: &mut Run, now: Instant) {
    while run.said().poll_text().is_some() {}
    while run.said().poll_note().is_some() {}
    run.handle_taken(now);
    run.handle_shown(now);
    let permissions = [Permission::No, Permission::Once, Permission::Always];
    for permission in permissions {
        if run.poll_question().is_some() {
            run.handle_permission(now, permission);
            while run.said().poll_note().is_some() {}
        }
    }
}

fn begin(choice: u8) -> Option<Run> {
    let mut request = Request::new("s1", vec![message("hi", &[])]);
    request.runs_tools = choice & 2 != 0;
    if request.runs_tools {
        let tool = ToolSpec::new("f", Json::null());
        request.functions.push(Function::of_tool(&tool).ok()?);
    }
    let settings = RunSettings {
        request,
        wanted: Wanted {
            lines: true,
            all_events: choice & 1 != 0,
            text: choice & 4 != 0,
            refusals: true,
            last_message: true,
            trace: choice & 8 != 0,
            items: false,
        },
        base_url: BaseUrl::parse("http://127.0.0.1:1").ok()?,
        user_agent: "toolbus".to_owned(),
        credential: Credential::Key("a secret key".to_owned()),
        refresh_url: None,
        timeout: None,
        idle_timeout: Duration::from_secs(120),
        retries: 2,
        max_turns: 3,
        tool_timeout: Duration::from_secs(60),
        asks_user: choice & 16 != 0,
        mock: None,
    };
    Some(Run::new(settings, |bytes: &mut [u8]| bytes.fill(7)))
}

/// What a consumer may rely on.
fn judge(lines: &[u8], exit: u8, has_all: bool) {
    let events = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    // Deep JSON, and half characters, are more than this reader can take.
    let events = events.map(|line| serde_json::from_slice::<Value>(line).unwrap_or_default());
    let kinds: Vec<_> = events
        .map(|event| (event["type"].as_str().unwrap_or_default().to_owned(), event))
        .collect();
    let is_terminal = |kind: &str| kind == "response.completed" || kind == "error";
    let terminal: Vec<_> = (0..kinds.len()).filter(|at| is_terminal(&kinds[*at].0)).collect();
    let is_deep = kinds.iter().any(|(_, event)| event.is_null());
    assert!(is_deep || terminal == [kinds.len() - 1], "one terminal line, the last");
    if let Some((kind, event)) = kinds.last().filter(|_| !is_deep) {
        assert_eq!(exit == 0, kind == "response.completed");
        if exit == 0 {
            let usage = &event["response"]["usage"];
            for name in ["input_tokens", "output_tokens", "cached_tokens"] {
                assert!(usage[name].is_u64(), "{event}");
            }
        }
    }
    if has_all {
        return;
    }
    // The deltas of a call are its arguments, or a part of what contradicts them.
    let mut open: HashMap<String, String> = HashMap::new();
    for (kind, event) in &kinds {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match &**kind {
            "response.output_item.added" => {
                open.insert(text(&event["item"]["id"]), String::new());
            }
            "response.function_call_arguments.delta" => {
                let arguments = open.get_mut(&text(&event["item_id"]));
                arguments.expect("a delta follows its call").push_str(&text(&event["delta"]));
            }
            "response.output_item.done" => {
                assert!(open.contains_key(&text(&event["item"]["id"])), "added comes first");
                assert!(event["item"]["arguments"].is_string());
            }
            "response.output_text.delta" => assert!(event["delta"].is_string()),
            "response.content_part.added" => assert!(event["part"]["text"].is_string()),
            "response.completed" | "error" => {}
            "" if event.is_null() => return,
            kind => panic!("`{kind}` is none of the seven"),
        }
    }
}

/// A child that writes anything.
pub fn ask(data: &[u8]) {
    let mut reader = Reader::new();
    let mut input = BytesMut::new();
    let mut ended = None;
    for piece in pieces(data) {
        match piece {
            Piece::Bytes(bytes) => {
                input.extend_from_slice(bytes);
                reader.handle_bytes(&mut input);
            }
            Piece::Event(0) => reader.handle_eof(&mut input),
            Piece::Event(code) => {
                let exit = Some(Exit::Code(i32::from(code) - 1));
                reader.handle_exit(LastWords { exit, ..LastWords::default() });
            }
        }
        while reader.poll_progress(data.len().is_multiple_of(2)).is_some() {}
        while reader.poll_warning().is_some() {}
        if ended.is_some() {
            assert_eq!(ended.as_ref(), reader.outcome(), "a call ends once");
        }
        ended = reader.outcome().cloned();
    }
}
