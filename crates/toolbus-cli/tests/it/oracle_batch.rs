//! `toolbus oracle invoke CONNECTION -`: one call a line, one process for all.

use expect_test::{Expect, expect};
use toolbus_testkit::process::unread_pipe;
use toolbus_testkit::scratch::Scratch;

use crate::live::{Live, marked};
use crate::page::{Page, oracle};

fn batch(steps: &[&str], flags: &[&str], lines: &str, expect: Expect) {
    let address = oracle(steps);
    let words = [&["oracle", "invoke"], flags, &[&address, "-"]].concat();
    Page::of(&words).stdin(lines).check(expect);
}

#[test]
fn a_line_in_a_line_out() {
    batch(
        &["echo-oracle"],
        &[],
        "{\"selector\":\"f\",\"calldata\":[\"0x01\"]}\n\n \t\r\n{\"selector\":\"\"}\n{\"calldata\":[\"0x2\"],\"selector\":\"g\"}",
        expect![[r#"
            stdout
            {"ok":["0x1"]}
            {"ok":[]}
            {"ok":["0x2"]}
            exit 0
        "#]],
    );
}

#[test]
fn a_bad_line_does_not_end_it() {
    batch(
        &["echo-oracle"],
        &[],
        r#"nonsense
["f",[],[]]
{"selector":"f","x":1}
{"calldata":[]}
{"selector":7}
{"selector":"f","calldata":null}
{"selector":"f","calldata":["0x1",2]}
{"selector":"f","args":[1]}
{"selector":"f","calldata":["0x5"]}
"#,
        expect![[r#"
            stdout
            {"error":{"message":"not JSON: unexpected `o` at byte 1","kind":"invalid_arguments"}}
            {"error":{"message":"a call is an object, `{\"selector\":…,\"calldata\":[…]}`","kind":"invalid_arguments"}}
            {"error":{"message":"not a call: unknown field `x`, expected one of `selector`, `calldata`, `args` at line 1 column 19","kind":"invalid_arguments"}}
            {"error":{"message":"not a call: missing field `selector` at line 1 column 15","kind":"invalid_arguments"}}
            {"error":{"message":"not a call: invalid type: integer `7`, expected a string at line 1 column 13","kind":"invalid_arguments"}}
            {"error":{"message":"expected an array of felts, not null","kind":"invalid_arguments"}}
            {"error":{"message":"felt 1 is not a string: 2","kind":"invalid_arguments"}}
            {"error":{"message":"`args` need a signature, and `--fn` gives none for `f`","kind":"invalid_arguments"}}
            {"ok":["0x5"]}
            exit 2
        "#]],
    );
}

#[test]
fn arguments_by_position_or_by_name() {
    batch(
        &["echo-oracle"],
        &["--fn", "f(x: u8, y: Option<u8>) -> (u8, Option<u8>)"],
        r#"{"selector":"f","args":[3,null]}
{"selector":"f","args":{"y":4,"x":3}}
{"selector":"f","args":{"x":3}}
{"selector":"f","args":{"z":3}}
{"selector":"f","args":null}
{"selector":"f","args":[3,4],"calldata":[]}
{"selector":"f","calldata":["0x3","0x1"]}
{"selector":"f","calldata":["0x3"]}
"#,
        expect![[r#"
            stdout
            {"ok":[3,null]}
            {"ok":[3,4]}
            {"ok":[3,null]}
            {"error":{"message":"argument `z` is unknown","kind":"invalid_arguments"}}
            {"error":{"message":"the argument list must be an array or an object, not null","kind":"invalid_arguments"}}
            {"error":{"message":"a call has `calldata` or `args`, not both","kind":"invalid_arguments"}}
            {"ok":["0x3","0x1"]}
            {"ok":["0x3"]}
            exit 2
        "#]],
    );
}

#[test]
fn as_cairo_sees_it() {
    batch(
        &["echo-oracle"],
        &["--as-cairo"],
        "{\"selector\":\"f\",\"calldata\":[\"0x1\"]}\nnonsense\n",
        expect![[r#"
            stdout
            ["0x0","0x1"]
            ["0x1","0x1","0x6e6f74204a534f4e3a20756e657870656374656420606f6020617420627974","0x652031","0x3"]
            exit 2
        "#]],
    );
}

#[test]
fn without_a_call_nothing_is_started() {
    let scratch = Scratch::new();
    let mark = scratch.file("started");
    batch(
        &["mark", &mark, "echo-oracle"],
        &[],
        "\n\nnonsense\n",
        expect![[r#"
        stdout
        {"error":{"message":"not JSON: unexpected `o` at byte 1","kind":"invalid_arguments"}}
        exit 2
    "#]],
    );
    assert!(!std::path::Path::new(&mark).exists(), "something was started");
}

#[test]
fn each_answer_is_there_before_the_next_line_is_read() {
    let mut batch = Live::start(&["oracle", "invoke", &oracle(&["echo-oracle"]), "-"]);
    for felt in ["0x1", "0x2"] {
        let answer = batch.ask(&format!(r#"{{"selector":"f","calldata":["{felt}"]}}"#));
        assert_eq!(answer, format!(r#"{{"ok":["{felt}"]}}"#));
    }
    batch.hang_up();
    expect!["exit 0\n"].assert_eq(&batch.end());
}

#[test]
fn a_process_that_dies_is_replaced_by_the_next_call() {
    let scratch = Scratch::new();
    let mark = scratch.file("started");
    let dies = scratch.file("dies");
    batch(
        &[
            "mark",
            &mark,
            "once",
            &dies,
            "{",
            "ready",
            "read",
            "err",
            "last words",
            "exit",
            "5",
            "}",
            "echo-oracle",
        ],
        &[],
        "{\"selector\":\"f\"}\n{\"selector\":\"f\",\"calldata\":[\"0x2\"]}\n",
        expect![[r#"
            stdout
            {"error":{"message":"`faulty-tool` ended with exit status 5 before it answered","kind":"gone"}}
            {"ok":["0x2"]}
            exit 3
        "#]],
    );
    assert_eq!(marked(&mark, 2).len(), 2);
}

#[test]
fn a_process_that_ends_between_calls_is_not_noticed() {
    let scratch = Scratch::new();
    let mark = scratch.file("started");
    let address = oracle(&["mark", &mark, "ready", "read", "answer", "[\"0x7\"]"]);
    let mut batch = Live::start(&["oracle", "invoke", &address, "-"]);
    for count in 1..=3 {
        assert_eq!(batch.ask(r#"{"selector":"f"}"#), r#"{"ok":["0x7"]}"#);
        marked(&mark, count)[count - 1].assert_gone();
    }
    batch.hang_up();
    expect!["exit 0\n"].assert_eq(&batch.end());
}

#[test]
fn the_call_behind_one_that_timed_out_gets_a_fresh_process() {
    let scratch = Scratch::new();
    let stalls = scratch.file("stalls");
    batch(
        &["once", &stalls, "{", "ready", "read", "stay", "}", "echo-oracle"],
        &["--timeout", "2s"],
        "{\"selector\":\"f\"}\n{\"selector\":\"f\",\"calldata\":[\"0x2\"]}\n",
        expect![[r#"
            stdout
            {"error":{"message":"no answer within 2s","kind":"timed_out"}}
            {"ok":["0x2"]}
            exit 4
        "#]],
    );
}

#[test]
fn a_start_that_fails_is_tried_again() {
    let scratch = Scratch::new();
    let fails = scratch.file("fails");
    batch(
        &["once", &fails, "{", "exit", "3", "}", "echo-oracle"],
        &[],
        "{\"selector\":\"f\"}\n{\"selector\":\"f\"}\n",
        expect![[r#"
            stdout
            {"error":{"message":"`faulty-tool` ended with exit status 3 before it was ready","kind":"unavailable"}}
            {"ok":[]}
            exit 3
        "#]],
    );
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let address = oracle(&["echo-oracle"]);
    let mut command = crate::page::command(&["oracle", "invoke", &address, "f"]);
    let output =
        command.stdout(unread_pipe()).output().expect("the program was built for this test");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), &b""[..]));
}
