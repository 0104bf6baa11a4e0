//! Each tool as its callers meet it, on a clock that a test can move.

use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use toolbus_proto::channel::Up;
use toolbus_proto::collect::base64;
use toolbus_proto::tool::{CallOptions, Part, Piece, ToolSpec};
use toolbus_testkit::runtime::run_and_let_time_fly;

use super::*;
use crate::engine::calls::{Inbox, Pressure};

fn json(text: impl Into<Bytes>) -> Json {
    Json::parse(text).unwrap()
}

fn call(tool: &str, args: Option<Json>) -> Call {
    Call::tool(tokio::time::Instant::now().into_std(), tool, args)
}

fn streaming(tool: &str, args: Option<Json>) -> Call {
    let options = CallOptions { sends_parts: true, ..CallOptions::default() };
    Call { options, ..call(tool, args) }
}

/// The whole answer of one call, or what went wrong.
fn answer(tool: &str, args: &'static str) -> String {
    let args = (!args.is_empty()).then(|| json(args));
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(call(tool, args), reply_to);
        told(inbox.whole(running).await)
    })
}

fn told(outcome: Result<Outcome, Failure>) -> String {
    match outcome {
        Ok(Outcome::Value(value)) => value.to_string(),
        Ok(outcome) => format!("{outcome:?}"),
        Err(failure) => format!("{}: {failure}", failure.kind),
    }
}

fn table(calls: &[(&str, &'static str)]) -> String {
    calls.iter().map(|(tool, args)| format!("{tool} {args} -> {}\n", answer(tool, args))).collect()
}

#[test]
fn answers() {
    expect![[r#"
        echo  -> null
        echo {"b":1.50, "a":1E2} -> {"b":1.50, "a":1E2}
        add {"a":1,"b":2} -> 3
        add {"a":9223372036854775807,"b":9223372036854775807} -> 18446744073709551614
        add {"a":-9223372036854775808,"b":-1} -> -9223372036854775809
        add {"a":9223372036854775808,"b":1} -> 9223372036854776000
        add {"a":0.1,"b":0.2} -> 0.30000000000000004
        add {"a":1.0,"b":2,"c":"ignored"} -> 3
        upper {"text":"straße \ud83d\ude00"} -> "STRASSE 😀"
        sleep {"ms":86400000} -> {"slept_ms":86400000}
        count {"n":3} -> {"elements":[0,1,2]}
        count {"n":0,"fail_at":0} -> {"elements":[]}
        count {"n":2,"ms":60000,"fail_at":2} -> {"elements":[0,1]}
        blob {"bytes":0} -> {"elements":[{"$bytes":""}]}
        blob {"bytes":5} -> {"elements":[{"$bytes":"r80dezk="}]}
        sink  -> {"elements":0,"bytes":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
        sink null -> {"elements":0,"bytes":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
        sink {"elements":[1,{"$bytes":"YWI="},{"$bytes":"Yw==","x":1},{"$bytes":"Yw=="}]} -> {"elements":4,"bytes":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
        sink {"elements":[{"$bytes":"YWI="}],"hash":false} -> {"elements":1,"bytes":2}
        early [1] -> {"early":true}
    "#]].assert_eq(&table(&[
        ("echo", ""),
        ("echo", "{\"b\":1.50, \"a\":1E2}"),
        ("add", r#"{"a":1,"b":2}"#),
        ("add", r#"{"a":9223372036854775807,"b":9223372036854775807}"#),
        ("add", r#"{"a":-9223372036854775808,"b":-1}"#),
        ("add", r#"{"a":9223372036854775808,"b":1}"#),
        ("add", r#"{"a":0.1,"b":0.2}"#),
        ("add", r#"{"a":1.0,"b":2,"c":"ignored"}"#),
        ("upper", r#"{"text":"straße \ud83d\ude00"}"#),
        ("sleep", r#"{"ms":86400000}"#),
        ("count", r#"{"n":3}"#),
        ("count", r#"{"n":0,"fail_at":0}"#),
        ("count", r#"{"n":2,"ms":60000,"fail_at":2}"#),
        ("blob", r#"{"bytes":0}"#),
        ("blob", r#"{"bytes":5}"#),
        ("sink", ""),
        ("sink", "null"),
        ("sink", r#"{"elements":[1,{"$bytes":"YWI="},{"$bytes":"Yw==","x":1},{"$bytes":"Yw=="}]}"#),
        ("sink", r#"{"elements":[{"$bytes":"YWI="}],"hash":false}"#),
        ("early", "[1]"),
    ]));
}

#[test]
fn refusals_name_the_member() {
    expect![[r#"
        add  -> invalid_arguments: argument `a` is missing
        add [1,2] -> invalid_arguments: the arguments must be an object
        add {"a":1} -> invalid_arguments: argument `b` is missing
        add {"a":"1","b":2} -> invalid_arguments: argument `a` must be a number
        add {"a":1e999,"b":2} -> invalid_arguments: the sum of `a` and `b` is not finite
        add {"a":1,"b":true} -> invalid_arguments: argument `b` must be a number
        upper {"text":1} -> invalid_arguments: argument `text` must be a string
        upper {"text":"\ud800"} -> invalid_arguments: argument `text` must be a string
        sleep {"ms":86400001} -> invalid_arguments: argument `ms` must be an integer from 0 to 86400000
        sleep {"ms":-1} -> invalid_arguments: argument `ms` must be an integer from 0 to 86400000
        sleep {"ms":1.0} -> invalid_arguments: argument `ms` must be an integer from 0 to 86400000
        count {"n":9007199254740992} -> invalid_arguments: argument `n` must be an integer from 0 to 9007199254740991
        count {"n":1,"ms":"1"} -> invalid_arguments: argument `ms` must be an integer from 0 to 18446744073709551615
        count {"n":1,"fail_at":-1} -> invalid_arguments: argument `fail_at` must be an integer from 0 to 18446744073709551615
        blob {"bytes":1,"seed":18446744073709551616} -> invalid_arguments: argument `seed` must be an integer from 0 to 18446744073709551615
        sink {"hash":1} -> invalid_arguments: argument `hash` must be true or false
        sink {"elements":{}} -> invalid_arguments: argument `elements` must be an array
        sink {"elements":[1,{"$bytes":"?"}]} -> invalid_arguments: argument `elements[1].$bytes` must be a string of base64
        fail {"message":"no"} -> failed: no
        fail {"message":"no","code":"E7"} -> failed: E7: no
        fail {"message":"no","code":-7} -> failed: -7: no
        fail {"message":"no","code":1.5} -> invalid_arguments: argument `code` must be a string or an integer of 64 bits
        fail {} -> invalid_arguments: argument `message` is missing
        count {"n":3,"fail_at":1} -> failed: failed at element 1, as asked
        nope  -> unknown_tool: no such tool: `nope`
    "#]].assert_eq(&table(&[
        ("add", ""),
        ("add", "[1,2]"),
        ("add", r#"{"a":1}"#),
        ("add", r#"{"a":"1","b":2}"#),
        ("add", r#"{"a":1e999,"b":2}"#),
        ("add", r#"{"a":1,"b":true}"#),
        ("upper", r#"{"text":1}"#),
        ("upper", r#"{"text":"\ud800"}"#),
        ("sleep", r#"{"ms":86400001}"#),
        ("sleep", r#"{"ms":-1}"#),
        ("sleep", r#"{"ms":1.0}"#),
        ("count", r#"{"n":9007199254740992}"#),
        ("count", r#"{"n":1,"ms":"1"}"#),
        ("count", r#"{"n":1,"fail_at":-1}"#),
        ("blob", r#"{"bytes":1,"seed":18446744073709551616}"#),
        ("sink", r#"{"hash":1}"#),
        ("sink", r#"{"elements":{}}"#),
        ("sink", r#"{"elements":[1,{"$bytes":"?"}]}"#),
        ("fail", r#"{"message":"no"}"#),
        ("fail", r#"{"message":"no","code":"E7"}"#),
        ("fail", r#"{"message":"no","code":-7}"#),
        ("fail", r#"{"message":"no","code":1.5}"#),
        ("fail", "{}"),
        ("count", r#"{"n":3,"fail_at":1}"#),
        ("nope", ""),
    ]));
}

#[test]
fn a_name_that_was_nearly_right_gets_a_hint() {
    let failure = run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(call("ehco", None), reply_to);
        inbox.whole(running).await.unwrap_err()
    });
    assert_eq!(failure.kind, FailureKind::UnknownTool);
    assert_eq!(failure.last_words.unwrap().hint.unwrap(), "did you mean `echo`?");
}

#[test]
fn the_bytes_of_seed_0_are_pinned() {
    let start = [
        0xaf, 0xcd, 0x1d, 0x7b, 0x39, 0xa8, 0x20, 0xe2, 0xf4, 0x65, 0xb9, 0xa1, 0x6a, 0x9e, 0x78,
        0x6e,
    ];
    let whole = |bytes: &[u8]| format!(r#"{{"elements":[{{"$bytes":"{}"}}]}}"#, base64(bytes));
    assert_eq!(answer("blob", r#"{"bytes":16}"#), whole(&start));
    assert_eq!(answer("blob", r#"{"bytes":13,"seed":0}"#), whole(&start[..13]));
    assert_ne!(answer("blob", r#"{"bytes":16,"seed":1}"#), whole(&start));
}

#[test]
fn a_long_blob_is_the_same_however_it_is_cut() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running =
            Builtin::new().start(call("blob", Some(json(r#"{"bytes":200000}"#))), reply_to);
        assert_eq!(inbox.next(&running).await, Down::Begin { head: None, parts: Some(1) });
        let mut bytes = Vec::new();
        loop {
            match inbox.next(&running).await {
                Down::Part(Part::Bytes(piece)) => {
                    bytes.extend_from_slice(&piece.data);
                    assert_eq!(piece.len, Some(200_000));
                    assert_eq!(piece.last, bytes.len() == 200_000);
                }
                Down::Done(done) => break assert_eq!(done, Ok(Outcome::End(None))),
                down => panic!("{down:?}"),
            }
        }
        // The last output, counted from the state it must have had.
        let mut random = stream::tests::after(200_000 / 8 - 1);
        assert_eq!(bytes[200_000 - 8..], random(8));
    });
}

#[test]
fn a_caller_without_room_is_not_flooded() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let builtin = Builtin::new();
        let running = builtin.start(call("count", Some(json(r#"{"n":1000}"#))), reply_to);
        // Ends only because the tool stops by itself and waits.
        let unread = tokio::time::timeout(Duration::from_secs(3600), std::future::pending::<()>());
        assert!(unread.await.is_err());
        assert_eq!(inbox.waiting(), crate::engine::calls::ITEMS_WAITING_MAX);
        assert_eq!(inbox.next(&running).await, Down::Begin { head: None, parts: Some(1000) });
        let mut numbers = 0;
        while let Down::Part(Part::Json(number)) = inbox.next(&running).await {
            assert_eq!(number.as_str(), numbers.to_string());
            numbers += 1;
        }
        assert_eq!(numbers, 1000);
    });
}

#[test]
fn echo_goes_both_ways_at_once() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(streaming("echo", Some(json("[ 1 ]"))), reply_to);
        assert_eq!(
            inbox.next(&running).await,
            Down::Begin { head: Some(json("[ 1 ]")), parts: None }
        );
        let piece =
            Piece { data: "ab".into(), media_type: Some("text/x".into()), len: None, last: false };
        let parts = [Part::Json(json("2.0")), Part::Text("t".into()), Part::Bytes(piece)];
        for part in parts {
            assert_eq!(running.send(Up::Part(part.clone())), Pressure::Ready);
            assert_eq!(inbox.next(&running).await, Down::Part(part));
        }
        let _ = running.send(Up::End(Some(json("3"))));
        let end = Down::Done(Ok(Outcome::End(Some(json("3")))));
        assert_eq!(inbox.next(&running).await, end);
    });
}

#[test]
fn a_caller_that_sends_too_fast_is_told_to_wait() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(streaming("sink", None), reply_to);
        let element = || Up::Part(Part::Json(json("0")));
        let mut sent = 1;
        while running.send(element()) == Pressure::Ready {
            sent += 1;
        }
        assert_eq!(sent, crate::engine::calls::ITEMS_WAITING_MAX);
        inbox.room().await;
        for (data, last) in [("a", false), ("b", false), ("", true)] {
            let piece = Piece { data: data.into(), media_type: None, len: None, last };
            let _ = running.send(Up::Part(Part::Bytes(piece)));
        }
        let _ = running.send(Up::End(None));
        let ab = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603";
        let expected = format!(r#"{{"elements":{},"bytes":2,"sha256":"{ab}"}}"#, sent + 1);
        assert_eq!(told(inbox.whole(running).await), expected);
    });
}

#[test]
fn early_does_not_wait_for_its_input() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(streaming("early", None), reply_to);
        assert_eq!(running.send(Up::Part(Part::Text("late".into()))), Pressure::Ready);
        assert_eq!(told(inbox.whole(running).await), r#"{"early":true}"#);
    });
}

#[test]
fn a_tool_that_takes_no_parts_gets_them_collected() {
    let answer = |parts: Vec<Up>| {
        run_and_let_time_fly(async {
            let (inbox, reply_to) = Inbox::new();
            let args = Some(json(r#"{"text":"a"}"#));
            let running = Builtin::new().start(streaming("upper", args), reply_to);
            for part in parts {
                let _ = running.send(part);
            }
            told(inbox.whole(running).await)
        })
    };
    assert_eq!(answer(vec![Up::End(None)]), r#""A""#);
    assert_eq!(
        answer(vec![Up::Part(Part::Json(json("1"))), Up::End(None)]),
        "invalid_arguments: argument `text` is missing"
    );
}

#[test]
fn a_deadline_is_kept_and_every_part_counts_as_life() {
    let with_patience = |tool: &'static str, args: &'static str| {
        run_and_let_time_fly(async {
            let (inbox, reply_to) = Inbox::new();
            let mut call = call(tool, Some(json(args)));
            call.deadline.quiet = Some(Duration::from_millis(100));
            let running = Builtin::new().start(call, reply_to);
            told(inbox.whole(running).await)
        })
    };
    assert_eq!(with_patience("sleep", r#"{"ms":99}"#), r#"{"slept_ms":99}"#);
    assert_eq!(with_patience("sleep", r#"{"ms":101}"#), "timed_out: no answer within 100ms");
    assert_eq!(with_patience("count", r#"{"n":3,"ms":60}"#), r#"{"elements":[0,1,2]}"#);
}

#[test]
fn cancelling_ends_the_call_once() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let running = Builtin::new().start(call("sleep", Some(json(r#"{"ms":1000}"#))), reply_to);
        drop(running);
        let ended = inbox.next(&RunningCall::ended()).await;
        let failure = Failure::new(FailureKind::Cancelled, "cancelled");
        assert_eq!(ended, Down::Done(Err(failure)));
    });
}

#[test]
fn shutting_down_ends_what_runs() {
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let builtin = Builtin::new();
        let running = builtin.start(call("sleep", Some(json(r#"{"ms":1000}"#))), reply_to);
        builtin.shutdown().await;
        assert_eq!(told(inbox.whole(running).await), "cancelled: cancelled");
        builtin.shutdown().await;
    });
}

#[test]
fn a_panic_fails_its_own_call() {
    let panicked = "failed: the tool panicked: as a test wants it";
    assert_eq!(told(caught(|| panic!("as a test wants it"))), panicked);
    run_and_let_time_fly(async {
        let (inbox, reply_to) = Inbox::new();
        let conversation = Conversation::new(reply_to);
        let work = async {
            tokio::task::yield_now().await;
            panic!("as a test wants it")
        };
        let deadline = Deadline::never(tokio::time::Instant::now().into_std());
        conversation.finish(conversation.lead(deadline, work).await);
        assert_eq!(told(inbox.whole(RunningCall::ended()).await), panicked);
    });
}

#[test]
fn specs_are_schemas_that_say_what_is_taken() {
    let specs = specs::all();
    let line = |spec: &ToolSpec| {
        let output = spec.output.as_ref().map_or("-", Json::as_str);
        format!("{} {} {output}\n", spec.name, spec.input)
    };
    expect![[r#"
        add {"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]} {"type":"number"}
        blob {"type":"object","properties":{"bytes":{"type":"integer","minimum":0,"maximum":9007199254740991},"seed":{"type":"integer","minimum":0,"maximum":18446744073709551615}},"required":["bytes"]} {"type":"object","properties":{"elements":{"type":"array","items":{"type":"object","properties":{"$bytes":{"type":"string"}},"required":["$bytes"]}}},"required":["elements"]}
        count {"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9007199254740991},"ms":{"type":"integer","minimum":0},"fail_at":{"type":"integer","minimum":0}},"required":["n"]} {"type":"object","properties":{"elements":{"type":"array","items":{"type":"integer","minimum":0}}},"required":["elements"]}
        early {} {"type":"object","properties":{"early":{"type":"boolean"}},"required":["early"]}
        echo {} -
        fail {"type":"object","properties":{"message":{"type":"string"},"code":{"type":["string","integer"]}},"required":["message"]} -
        sink {"type":"object","properties":{"elements":{"type":"array"},"hash":{"type":"boolean"}}} {"type":"object","properties":{"elements":{"type":"integer","minimum":0},"bytes":{"type":"integer","minimum":0},"sha256":{"type":"string"}},"required":["elements","bytes"]}
        sleep {"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":86400000}},"required":["ms"]} {"type":"object","properties":{"slept_ms":{"type":"integer"}},"required":["slept_ms"]}
        upper {"type":"object","properties":{"text":{"type":"string"}},"required":["text"]} {"type":"string"}
    "#]].assert_eq(&specs.iter().map(line).collect::<String>());
}
