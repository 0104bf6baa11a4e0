//! A server that streams anything, and a child that writes anything.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use serde_json::Value;
use toolbus_proto::godex::ask::Reader;
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::flags::message;
use toolbus_proto::godex::{Function, Lost, Request, Run, RunSettings, Signal, Wanted};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Exit, LastWords, ToolSpec};

use super::{Piece, assert_lines, pieces};

/// A run before a server that says anything. The first byte chooses what is printed.
pub fn run(data: &[u8]) {
    let (&choice, data) = data.split_first().unwrap_or((&0, &[]));
    let Some(mut run) = begin(choice) else { return };
    let mut now = Instant::now();
    run.start(now);
    let mut input = BytesMut::new();
    let mut lines = Vec::new();
    let mut is_answered = false;
    for piece in pieces(data) {
        if run.poll_exchange().is_some() {
            input.clear();
            is_answered = false;
        }
        match piece {
            Piece::Bytes(bytes) => {
                if !is_answered && run.is_asking() {
                    run.handle_answered(now, SystemTime::UNIX_EPOCH, ResponseHead::new(200));
                    is_answered = true;
                }
                input.extend_from_slice(bytes);
                run.handle_bytes(now, &mut input);
            }
            Piece::Event(0) => run.handle_eof(now, &mut input),
            Piece::Event(1) => {
                run.handle_lost(now, &mut input, &Lost { message: "lost".to_owned() });
            }
            Piece::Event(2) => run.interrupt(Signal::Interrupt),
            Piece::Event(3) => {
                now += Duration::from_secs(10);
                run.handle_timeout(now);
            }
            Piece::Event(status) => {
                let head = ResponseHead::new(u16::from(status) + 300);
                run.handle_answered(now, SystemTime::UNIX_EPOCH, head);
                is_answered = true;
            }
        }
        while let Some(call) = run.poll_call() {
            run.handle_output(now, call.index, "out".to_owned(), false);
        }
        lines.append(run.said().lines());
    }
    // However it stands, it ends, and once.
    run.handle_eof(now, &mut input);
    run.interrupt(Signal::Terminate);
    lines.append(run.said().lines());
    let ended = run.ended().expect("it was interrupted").clone();
    run.handle_timeout(now + Duration::from_secs(10_000));
    assert_eq!(run.ended(), Some(&ended));
    assert_eq!((run.poll_exchange(), run.poll_call(), run.poll_timeout()), (None, None, None));
    assert_lines(&lines.clone().into());
    judge(&lines, ended.exit, choice & 1 != 0);
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
