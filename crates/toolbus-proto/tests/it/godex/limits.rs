//! What has no conversation of its own: limits, odd servers, secrets, waits.

use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use expect_test::{Expect, expect};
use toolbus_proto::channel::{Flow, Machine as _, StreamId, StreamLost, Streams as _};
use toolbus_proto::godex::auth::Credential;
use toolbus_proto::godex::base_url::BaseUrl;
use toolbus_proto::godex::decode::Decoder;
use toolbus_proto::godex::flags::message;
use toolbus_proto::godex::{Note, Request, Run, RunSettings, Wanted};
use toolbus_proto::http::ResponseHead;
use toolbus_proto::tool::{Failure, FailureKind};

/// The exchange of a run that makes one.
const FIRST: StreamId = StreamId::Ours(0);

fn settings() -> RunSettings {
    RunSettings {
        request: Request::new("s1", vec![message("hi", &[])]),
        wanted: Wanted { lines: true, ..Wanted::default() },
        base_url: BaseUrl::parse("https://example.com/v1").unwrap(),
        user_agent: "toolbus/VERSION".to_owned(),
        credential: Credential::Key("sk-12345678".to_owned()),
        refresh_url: None,
        timeout: Some(Duration::from_secs(1000)),
        idle_timeout: Duration::from_secs(120),
        retries: 3,
        max_turns: 8,
        tool_timeout: Duration::from_secs(60),
        asks_user: false,
        mock: None,
    }
}

fn run(now: Instant, settings: RunSettings) -> Run {
    let mut run = Run::new(settings, |bytes: &mut [u8]| bytes.fill(0));
    run.start(now, SystemTime::UNIX_EPOCH);
    assert!(run.poll_open().is_some());
    assert_eq!(notes(&mut run), []);
    run
}

fn lost(why: &str) -> StreamLost {
    StreamLost { code: None, failure: Failure::new(FailureKind::Gone, why) }
}

fn lines(run: &mut Run) -> String {
    String::from_utf8(std::mem::take(run.said().lines())).unwrap()
}

fn notes(run: &mut Run) -> Vec<Note> {
    let notes = std::iter::from_fn(|| run.said().poll_note());
    notes.filter(|note| !matches!(note, Note::Request(_))).collect()
}

/// What is printed of these events, all of them and those of the document.
fn check(events: &[&str], expected: Expect) {
    let mut shown = String::new();
    for all_events in [false, true] {
        let mut decoder = Decoder::new(all_events);
        let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        decoder.handle_eof(&mut BytesMut::from(&*text));
        shown += if all_events { "all:\n" } else { "required:\n" };
        shown += str::from_utf8(decoder.lines()).unwrap();
        while let Some(note) = decoder.poll_note() {
            if let Note::Warning(text) = note {
                shown += &format!("warning: {text}\n");
            }
        }
    }
    expected.assert_eq(&shown);
}

#[test]
fn ids_may_differ_and_be_missing() {
    check(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"a","call_id":"c1","name":"f"}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"other","output_index":0,"delta":"{"}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"b","call_id":"c1","arguments":"{}"}}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"b","call_id":"c1","arguments":"{}"}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"function_call"}}"#,
            r#"{"type":"response.function_call_arguments.delta","delta":"x"}"#,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call","call_id":"c9","name":"g","arguments":"[1]"},{"type":"function_call","call_id":"c1","arguments":""}]}}"#,
        ],
        expect![[r#"
            required:
            {"type":"response.output_item.added","item":{"id":"a","type":"function_call","call_id":"c1","name":"f"},"output_index":0}
            {"type":"response.function_call_arguments.delta","item_id":"a","delta":"{","output_index":0}
            {"type":"response.function_call_arguments.delta","item_id":"a","delta":"}"}
            {"type":"response.output_item.done","item":{"id":"a","type":"function_call","call_id":"c1","name":"f","arguments":"{}"},"output_index":0}
            {"type":"response.output_item.added","item":{"id":"item_2","type":"function_call","call_id":"call_2","name":""}}
            {"type":"response.function_call_arguments.delta","item_id":"item_2","delta":"x"}
            {"type":"response.output_item.done","item":{"id":"item_2","type":"function_call","call_id":"call_2","name":"","arguments":"x"}}
            {"type":"response.output_item.added","item":{"id":"item_c9","type":"function_call","call_id":"c9","name":"g"}}
            {"type":"response.function_call_arguments.delta","item_id":"item_c9","delta":"[1]"}
            {"type":"response.output_item.done","item":{"id":"item_c9","type":"function_call","call_id":"c9","name":"g","arguments":"[1]"}}
            {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
            all:
            {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"a","call_id":"c1","name":"f"}}
            {"type":"response.function_call_arguments.delta","item_id":"other","output_index":0,"delta":"{"}
            {"type":"response.function_call_arguments.delta","item_id":"a","delta":"}"}
            {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"b","call_id":"c1","arguments":"{}","name":"f"}}
            {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"b","call_id":"c1","arguments":"{}"}}
            {"type":"response.output_item.added","item":{"type":"function_call","id":"item_2","call_id":"call_2","name":""}}
            {"type":"response.function_call_arguments.delta","delta":"x","item_id":"item_2"}
            {"type":"response.output_item.done","item":{"id":"item_2","type":"function_call","call_id":"call_2","name":"","arguments":"x"}}
            {"type":"response.output_item.added","item":{"id":"item_c9","type":"function_call","call_id":"c9","name":"g"}}
            {"type":"response.function_call_arguments.delta","item_id":"item_c9","delta":"[1]"}
            {"type":"response.output_item.done","item":{"id":"item_c9","type":"function_call","call_id":"c9","name":"g","arguments":"[1]"}}
            {"type":"response.completed","response":{"output":[{"type":"function_call","call_id":"c9","name":"g","arguments":"[1]"},{"type":"function_call","call_id":"c1","arguments":""}],"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
        "#]],
    );
}

#[test]
fn text_that_was_only_told_at_the_end_is_said() {
    check(
        &[
            r#"{"type":"response.output_text.done","item_id":"m","content_index":0,"text":"a"}"#,
            r#"{"type":"response.output_text.done","item_id":"m","content_index":0,"text":"a"}"#,
            r#"{"type":"response.output_text.done","item_id":"m","content_index":1,"text":""}"#,
            r#"{"type":"response.output_text.delta","delta":7}"#,
            r#"{"type":"response.completed"}"#,
        ],
        expect![[r#"
            required:
            {"type":"response.output_text.delta","delta":"a","item_id":"m","content_index":0}
            {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
            all:
            {"type":"response.output_text.delta","delta":"a","item_id":"m","content_index":0}
            {"type":"response.output_text.done","item_id":"m","content_index":0,"text":"a"}
            {"type":"response.output_text.done","item_id":"m","content_index":0,"text":"a"}
            {"type":"response.output_text.done","item_id":"m","content_index":1,"text":""}
            {"type":"response.output_text.delta","delta":7}
            {"type":"response.completed","response":{"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
        "#]],
    );
    check(
        &[
            r#"{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]},{"type":"reasoning"},{"type":"message","content":[]}],"usage":{"output_tokens":1}}}"#,
        ],
        expect![[r#"
            required:
            {"type":"response.output_text.delta","delta":"ab"}
            {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":1,"cached_tokens":0}}}
            all:
            {"type":"response.output_text.delta","delta":"ab"}
            {"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]},{"type":"reasoning"},{"type":"message","content":[]}],"usage":{"output_tokens":1,"input_tokens":0,"cached_tokens":0}}}
        "#]],
    );
}

#[test]
fn a_completed_answer_may_mean_the_contrary() {
    check(
        &[r#"{"type":"response.completed","response":{"status":"cancelled"}}"#],
        expect![[r#"
            required:
            {"type":"error","message":"response cancelled","code":"cancelled"}
            all:
            {"type":"error","message":"response cancelled","code":"cancelled"}
        "#]],
    );
    check(
        &[r#"{"type":"response.done","response":{"status":"incomplete"}}"#],
        expect![[r#"
            required:
            {"type":"error","message":"response incomplete: unknown","code":"incomplete"}
            all:
            {"type":"error","message":"response incomplete: unknown","code":"incomplete"}
        "#]],
    );
    check(
        &[r#"{"error":"no"}"#],
        expect![[r#"
        required:
        {"type":"error","message":"no"}
        all:
        {"type":"error","message":"no"}
    "#]],
    );
    check(
        &[r#"{"type":"error","error":{"code":5,"param":""}}"#],
        expect![[r#"
        required:
        {"type":"error","message":"stream error"}
        all:
        {"type":"error","message":"stream error"}
    "#]],
    );
}

#[test]
fn arguments_that_contradict_their_deltas_count_as_they_end() {
    check(
        &[
            r#"{"type":"response.output_item.added","item":{"type":"function_call","call_id":"c"}}"#,
            r#"{"type":"response.function_call_arguments.delta","delta":"{\"a\":1"}"#,
            r#"{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","arguments":"{}"}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"item_c","delta":"late"}"#,
            r#"{"type":"response.done"}"#,
        ],
        expect![[r#"
            required:
            {"type":"response.output_item.added","item":{"id":"item_c","type":"function_call","call_id":"c","name":""}}
            {"type":"response.function_call_arguments.delta","item_id":"item_c","delta":"{\"a\":1"}
            {"type":"response.output_item.done","item":{"id":"item_c","type":"function_call","call_id":"c","name":"","arguments":"{}"}}
            {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
            warning: the arguments of `` are not what their deltas said; they count as the server ends them
            warning: dropped arguments of a call that is not known
            all:
            {"type":"response.output_item.added","item":{"type":"function_call","call_id":"c","id":"item_c","name":""}}
            {"type":"response.function_call_arguments.delta","delta":"{\"a\":1","item_id":"item_c"}
            {"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","arguments":"{}","id":"item_c","name":""}}
            {"type":"response.function_call_arguments.delta","item_id":"item_c","delta":"late"}
            {"type":"response.completed","response":{"usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
            warning: the arguments of `` are not what their deltas said; they count as the server ends them
            warning: dropped arguments of a call that is not known
        "#]],
    );
}

#[test]
fn an_event_over_the_limit_ends_the_run_before_its_end() {
    let now = Instant::now();
    let mut run = run(now, settings());
    run.handle_answered(now, FIRST, ResponseHead::new(200));
    let mut input = BytesMut::from("data: ");
    let mut flow = Flow::More;
    for _ in 0..20 {
        if flow == Flow::More {
            input.extend_from_slice(&[b'x'; 1 << 20]);
            flow = run.handle_bytes(now, FIRST, &mut input);
        }
    }
    assert_eq!(flow, Flow::Close);
    assert_eq!(run.ended().map(|ended| ended.exit), Some(3));
    assert!(lines(&mut run).contains("\"code\":\"too_large\""));
}

#[test]
fn a_server_that_never_stops_is_cut_off() {
    let now = Instant::now();
    let mut run = run(now, settings());
    run.handle_answered(now, FIRST, ResponseHead::new(200));
    let delta = format!(
        "data: {{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{}\"}}\n\n",
        "x".repeat(1 << 20)
    );
    let added = r#"{"type":"response.output_item.added","item":{"type":"function_call"}}"#;
    run.handle_bytes(now, FIRST, &mut BytesMut::from(&*format!("data: {added}\n\n")));
    for _ in 0..70 {
        run.handle_bytes(now, FIRST, &mut BytesMut::from(&*delta));
        run.said().lines().clear();
    }
    assert_eq!(run.ended().map(|ended| ended.exit), Some(3));
}

#[test]
fn a_secret_that_a_server_echoes_is_not_shown() {
    let now = Instant::now();
    let mut run = run(now, settings());
    run.handle_answered(now, FIRST, ResponseHead::new(401));
    run.handle_bytes(now, FIRST, &mut BytesMut::from("who is sk-12345678?"));
    run.handle_eof(now, FIRST, &mut BytesMut::new());
    expect![[r#"
        {"type":"error","message":"who is ***?","code":"http_401","status":401}
    "#]]
    .assert_eq(&lines(&mut run));
    assert_eq!(notes(&mut run), [Note::Error("who is ***?".into())]);
}

#[test]
fn where_nothing_is_found_the_address_is_told() {
    let now = Instant::now();
    let mut run = run(now, settings());
    run.handle_answered(now, FIRST, ResponseHead::new(404));
    run.handle_bytes(now, FIRST, &mut BytesMut::from("Not Found"));
    run.handle_eof(now, FIRST, &mut BytesMut::new());
    let hint = "there is nothing at https://example.com/v1/responses; `--base-url` says where the \
                server is";
    assert_eq!(notes(&mut run), [Note::Error("Not Found".into()), Note::Hint(hint.into())]);
}

#[test]
fn a_connection_that_breaks_before_the_first_event_is_tried_again() {
    let now = Instant::now();
    let mut run = run(now, settings());
    let mut times = Vec::new();
    let mut now = now;
    let mut stream = FIRST;
    for _ in 0..3 {
        run.handle_answered(now, stream, ResponseHead::new(200));
        run.handle_bytes(now, stream, &mut BytesMut::from(": hello\n\n"));
        run.handle_cut(now, stream, &mut BytesMut::new(), lost("reset"));
        let until = run.poll_timeout().unwrap();
        times.push((until - now).as_millis());
        now = until;
        run.handle_timeout(now);
        (stream, _) = run.poll_open().unwrap();
    }
    assert_eq!(times, [375, 750, 1500]);
    run.handle_lost(now, stream, lost("no way"));
    expect![[r#"
        {"type":"error","message":"cannot reach https://example.com/v1: no way","code":"unreachable"}
    "#]]
    .assert_eq(&lines(&mut run));
    assert_eq!(run.ended().map(|ended| ended.exit), Some(3));
    assert_eq!(run.poll_timeout(), None);
}

#[test]
fn a_wait_that_is_too_long_is_not_waited_for() {
    let now = Instant::now();
    let mut run = run(now, settings());
    let mut head = ResponseHead::new(429);
    head.headers.push("Retry-After", "121");
    run.handle_answered(now, FIRST, head);
    run.handle_eof(now, FIRST, &mut BytesMut::new());
    expect![[r#"
        {"type":"error","message":"HTTP 429","code":"http_429","status":429}
    "#]]
    .assert_eq(&lines(&mut run));
}

#[test]
fn silence_and_the_time_in_all_are_two_deadlines() {
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let mut run = run(start, settings());
    run.handle_answered(start + 100 * second, FIRST, ResponseHead::new(200));
    let mut now = start + 100 * second;
    while run.ended().is_none() {
        run.handle_bytes(now, FIRST, &mut BytesMut::from(": alive\n\n"));
        now += 110 * second;
        run.handle_timeout(now);
    }
    assert_eq!(now - start, 1090 * second);
    expect![[r#"
        {"type":"error","message":"not done within 1000s","code":"timeout"}
    "#]]
    .assert_eq(&lines(&mut run));
    assert_eq!(run.ended().map(|ended| ended.exit), Some(4));
}

#[test]
fn what_is_pending_at_the_end_counts_if_it_is_json() {
    let mut decoder = Decoder::new(false);
    let text = "event: response.completed\ndata: {\"response\":\ndata: {\"id\":\"r\"}}";
    decoder.handle_eof(&mut BytesMut::from(text));
    expect![[r#"
        {"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":0,"output_tokens":0,"cached_tokens":0}}}
    "#]]
    .assert_eq(str::from_utf8(decoder.lines()).unwrap());
    assert_eq!(decoder.exit(), Some(0));
}
