//! `toolbus oracle serve`: what an executor may say, and what it is answered (`docs/protocols/oracle.md`
//! O1 to O5).

use expect_test::{Expect, expect};
use rustix::process::Signal;

use crate::live::Live;
use crate::page::{Page, check};

const ACK: &str = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;

fn serve(flags: &[&str], said: &str) -> Page {
    Page::of(&[&["oracle", "serve"], flags, &["builtin:"]].concat()).stdin(said)
}

/// What an oracle of ours answers to these lines, once it is acknowledged.
fn answers(lines: &str, expect: Expect) {
    let page = serve(&[], &format!("{ACK}\n{lines}\n")).run();
    let (_ready, answers) = page.stdout.split_once('\n').expect("says ready");
    assert_eq!((page.status.code(), page.stderr.as_str()), (Some(0), ""), "{page}");
    expect.assert_eq(answers);
}

fn invoke(selector: &str, calldata: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"invoke","params":{{"selector":"{selector}","calldata":{calldata}}}}}"#
    )
}

#[test]
fn ready_offers_each_function_by_its_signature() {
    serve(&[], "").check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["add(a: i128, b: i128) -> i128","blob(bytes: u128, seed: Option<u128>) -> json","count(n: u128, ms: Option<u128>, fail_at: Option<u128>) -> json","early(arguments: json) -> json","echo(arguments: json) -> json","fail(message: ByteArray, code: Option<i64>)","sink(elements: Option<json>, hash: Option<bool>) -> json","sleep(ms: u32) -> json","upper(text: ByteArray) -> ByteArray"]}}
        exit 0
    "#]]);
}

#[test]
fn the_ack_may_look_like_this() {
    for ack in [
        r#"{"jsonrpc":"2.0","id":0,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":0,"result":null,"error":null,"x":1}"#,
        r#"{"jsonrpc":"2.0","id":0}"#,
        "\n \r\n { \"result\" : [] , \"jsonrpc\" : \"2.0\", \"id\" : 0 } \r",
    ] {
        let said = format!("{ack}\n{}", invoke("add", r#"["0x1","0x2"]"#));
        let page = serve(&[], &said).run();
        assert!(
            page.stdout.ends_with("\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"0x3\"]}\n"),
            "{page}"
        );
        assert_eq!(page.status.code(), Some(0));
    }
}

#[test]
fn what_else_may_come_in_place_of_the_ack() {
    for (said, exit, stderr) in [
        (
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":0,"message":"go away"}}"#,
            1,
            "error: the executor refused us: go away\n",
        ),
        (r#"{ "jsonrpc": "2.0", "method": "shutdown" }"#, 0, ""),
        ("", 0, ""),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            3,
            "error: expected the answer to ready, got: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"0","result":{}}"#,
            3,
            "error: expected the answer to ready, got: {\"jsonrpc\":\"2.0\",\"id\":\"0\",\"result\":{}}\n",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"hello"}"#,
            3,
            "error: expected the answer to ready, got: {\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\n",
        ),
        (
            r#"{"jsonrpc":"2.0","id":0,"method":"invoke"}"#,
            3,
            "error: expected the answer to ready, got: {\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"invoke\"}\n",
        ),
        ("nonsense", 3, "error: expected the answer to ready, got: nonsense\n"),
    ] {
        let page = serve(&[], said).run();
        assert_eq!((page.status.code(), page.stderr.as_str()), (Some(exit), stderr), "{said}");
        assert_eq!(page.stdout.lines().count(), 1, "{page}");
    }
}

#[test]
fn lines_that_are_no_requests() {
    answers("", expect![[""]]);
    answers("\n \r\n\t", expect![[""]]);
    answers(
        "{nope",
        expect![[r#"
        {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON: unexpected `n` at byte 1"}}
    "#]],
    );
    answers(
        &format!("{}{}", "[".repeat(129), "]".repeat(129)),
        expect![[r#"
        {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"nested deeper than 128"}}
    "#]],
    );
    answers(
        "[]\n[1]\n5\nnull",
        expect![[r#"
        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}
        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}
        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message must be an object"}}
        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message must be an object"}}
    "#]],
    );
    answers(
        r#"{}
{"jsonrpc":"1.0","id":7,"method":"invoke"}
{"id":"7","method":"invoke"}
{"jsonrpc":"2.0","id":7,"method":5}
{"jsonrpc":"2.0","id":7}
{"jsonrpc":"2.0"}
{"jsonrpc":"2.0","id":true,"method":"invoke"}
{"jsonrpc":"2.0","id":7,"id":7,"method":"invoke"}
{"jsonrpc":"2.0","id":7,"method":"invoke","params":{},"params":{}}"#,
        expect![[r#"
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}
            {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}
            {"jsonrpc":"2.0","id":"7","error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}
            {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"`method` must be a string"}}
            {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"a message needs `method`, or `id` with `result` or `error`"}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message needs `method`, or `id` with `result` or `error`"}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`id` must be a string or a number"}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`id` stands twice"}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`params` stands twice"}}
        "#]],
    );
}

#[test]
fn bytes_that_are_no_text() {
    let said = [ACK.as_bytes(), b"\n\xff\xfe\n"].concat();
    let page = Page::of(&["oracle", "serve", "builtin:"]).stdin(said).run();
    let answer = page.stdout.lines().nth(1).unwrap_or_default();
    assert_eq!(
        answer,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not UTF-8"}}"#
    );
}

#[test]
fn nothing_is_said_to_notifications_and_answers() {
    answers(
        r#"{"jsonrpc":"2.0","method":"hello"}
{"jsonrpc":"2.0","method":"invoke","params":{"selector":"add","calldata":["0x1","0x2"]}}
{"jsonrpc":"2.0","id":1,"result":5}
{"jsonrpc":"2.0","id":1,"error":5}
{"jsonrpc":"2.0","result":5}"#,
        expect![[""]],
    );
}

#[test]
fn only_invoke_is_a_request() {
    answers(
        r#"{"jsonrpc":"2.0","id":1.50,"method":"shutdown"}
{"jsonrpc":"2.0","id":"\u0041","method":"ready"}
{"jsonrpc":"2.0","id":null,"method":"a\"b"}"#,
        expect![[r#"
            {"jsonrpc":"2.0","id":1.50,"error":{"code":-32601,"message":"unknown request method: \"shutdown\""}}
            {"jsonrpc":"2.0","id":"\u0041","error":{"code":-32601,"message":"unknown request method: \"ready\""}}
            {"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown request method: \"a\\\"b\""}}
        "#]],
    );
}

#[test]
fn params_that_are_unusable() {
    answers(
        r#"{"jsonrpc":"2.0","id":1,"method":"invoke"}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":null}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":"add"}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":{}}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"selector":"add"}}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"selector":5,"calldata":[]}}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"selector":"add","calldata":"0x1"}}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"selector":"add","calldata":[],"calldata":[]}}
{"jsonrpc":"2.0","id":1,"method":"invoke","params":["add"]}"#,
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invoke needs params with `selector` and `calldata`"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params of invoke must be an object or an array"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params of invoke must be an object or an array"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params of invoke have no `selector`"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params of invoke have no `calldata`"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`selector` must be a string"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`calldata` must be an array of felts"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`calldata` stands twice in the params of invoke"}}
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"params of invoke have no `calldata`"}}
        "#]],
    );
    for felts in [
        r#"["0x1",5]"#,
        r#"["2710"]"#,
        r#"["0x1","0x1","0x800000000000011000000000000000000000000000000000000000000000001"]"#,
    ] {
        let page = serve(&[], &format!("{ACK}\n{}", invoke("add", felts))).run();
        let answer = page.stdout.lines().nth(1).unwrap_or_default();
        assert!(answer.contains(r#""code":-32602,"message":"felt "#), "{answer}");
    }
}

#[test]
fn params_may_be_in_any_order_or_by_position() {
    answers(
        r#"{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"calldata":["0x1","0x2"],"x":[],"selector":"add"}}
{"jsonrpc":"2.0","id":2,"method":"invoke","params":["add",["0x1","0x2"]]}"#,
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"result":["0x3"]}
            {"jsonrpc":"2.0","id":2,"result":["0x3"]}
        "#]],
    );
}

#[test]
fn selectors_and_calldata_that_do_not_fit() {
    answers(
        &invoke("nope", "[]"),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown selector: \"nope\", this oracle provides: \"add\", \"blob\", \"count\", \"early\", \"echo\", \"fail\", \"sink\", \"sleep\", \"upper\""}}
    "#]],
    );
    answers(
        &invoke("add", r#"["0x1"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter `b` needs felt 1, which is missing"}}
    "#]],
    );
    answers(
        &invoke("add", r#"["0x1","0x2","0x3"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter `b` ends before felt 2, which is left over"}}
    "#]],
    );
    answers(
        &invoke("upper", r#"["0x1000000000000000"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter `text` has the length 0x1000000000000000 in felt 0, but only 0 felts follow"}}
    "#]],
    );
    answers(
        &invoke("upper", r#"["0x0","0x616263","0x2"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter `text` must be a ByteArray with 2 bytes in this word, but felt 1 is 0x616263"}}
    "#]],
    );
    answers(
        &invoke("sleep", r#"["0x100000000"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"parameter `ms` must be of type u32, but felt 0 is 0x100000000"}}
    "#]],
    );
}

#[test]
fn tools_answer_and_fail() {
    answers(
        &invoke("upper", r#"["0x0","0x616263","0x3"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":["0x0","0x414243","0x3"]}
    "#]],
    );
    answers(
        &invoke("echo", r#"["0x0","0x7b7d","0x2"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":["0x0","0x7b7d","0x2"]}
    "#]],
    );
    answers(
        &invoke("fail", r#"["0x0","0x6f6f7073","0x4","0x1"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"oops","data":{"kind":"failed"}}}
    "#]],
    );
    answers(
        &invoke("fail", r#"["0x0","0x6f6f7073","0x4","0x0","0x7"]"#),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"oops","data":{"kind":"failed","code":7}}}
    "#]],
    );
}

#[test]
fn reserved_selectors_list_and_call_any_tool() {
    let page = serve(&[], &format!("{ACK}\n{}", invoke("toolbus.tools", "[]"))).run();
    assert!(page.stdout.contains(r#""result":["#), "{page}");
    // `add`, `{"a":1,"b":2}`
    answers(
        &invoke(
            "toolbus.call",
            r#"["0x0","0x616464","0x3","0x0","0x7b2261223a312c2262223a327d","0xd"]"#,
        ),
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"result":["0x0","0x33","0x1"]}
        "#]],
    );
    // `ade`, `{}`
    answers(
        &invoke("toolbus.call", r#"["0x0","0x616465","0x3","0x0","0x7b7d","0x2"]"#),
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool: `ade`","data":{"kind":"unknown_tool"}}}
        "#]],
    );
}

#[test]
fn a_line_over_the_limit_is_skipped() {
    let said = format!("{ACK}\n{}\n{}\n", "x".repeat(2000), invoke("add", r#"["0x1","0x2"]"#));
    let page = serve(&["--line-max", "1000"], &said).run();
    let answers: Vec<_> = page.stdout.lines().skip(1).collect();
    expect![[r#"
        {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"line longer than the limit of 1000 bytes"}}
        {"jsonrpc":"2.0","id":1,"result":["0x3"]}"#]].assert_eq(&answers.join("\n"));
}

#[test]
fn a_signature_of_the_users_wins() {
    let said = format!("{ACK}\n{}\n", invoke("add", r#"["0x1","0x2"]"#));
    serve(&["--fn", "add(b: u8, a: u8) -> (u8,)"], &said).check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["add(b: u8, a: u8) -> (u8,)","blob(bytes: u128, seed: Option<u128>) -> json","count(n: u128, ms: Option<u128>, fail_at: Option<u128>) -> json","early(arguments: json) -> json","echo(arguments: json) -> json","fail(message: ByteArray, code: Option<i64>)","sink(elements: Option<json>, hash: Option<bool>) -> json","sleep(ms: u32) -> json","upper(text: ByteArray) -> ByteArray"]}}
        {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the result must be an array of exactly 1, not 3","data":{"kind":"broke_protocol"}}}
        exit 0
    "#]]);
}

#[test]
fn a_body_and_its_line_end_may_be_two_writes() {
    let mut oracle = Live::serving(&["builtin:"]);
    oracle.write(invoke("add", r#"["0x1","0x2"]"#).as_bytes());
    oracle.write(b"\n");
    assert_eq!(oracle.hear(), r#"{"jsonrpc":"2.0","id":1,"result":["0x3"]}"#);
    oracle.say(r#"{"jsonrpc":"2.0","method":"shutdown"}"#);
    expect!["exit 0\n"].assert_eq(&oracle.end());
}

#[test]
fn shutdown_and_the_end_wait_for_what_was_asked_before() {
    let sleep = invoke("sleep", r#"["0x64"]"#);
    answers(
        &format!("{sleep}\n{{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}}\n{sleep}"),
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"result":["0x0","0x7b22736c6570745f6d73223a3130307d","0x10"]}
        "#]],
    );
    answers(
        &sleep,
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":["0x0","0x7b22736c6570745f6d73223a3130307d","0x10"]}
    "#]],
    );
}

#[test]
fn calls_take_no_longer_than_they_may() {
    let said = format!("{ACK}\n{}\n", invoke("sleep", r#"["0x5265c00"]"#));
    let page = serve(&["--timeout", "200ms"], &said).run();
    let answer = page.stdout.lines().nth(1).unwrap_or_default();
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no answer within 200ms","data":{"kind":"timed_out"}}}"#]].assert_eq(answer);
}

#[test]
fn signals_end_it() {
    for (signal, exit) in [(Signal::INT, "exit 130\n"), (Signal::TERM, "exit 143\n")] {
        let mut oracle = Live::serving(&["builtin:"]);
        oracle.say(&invoke("sleep", r#"["0x5265c00"]"#));
        oracle.signal(signal);
        assert_eq!(oracle.end(), exit);
    }
}

#[test]
fn addresses_that_cannot_be_served() {
    check(
        "oracle serve builtin: builtin:",
        expect![[r#"
        stderr
        error: tool `add` is offered by both `builtin:` and `builtin:`
        hint: name the backs in a config: there their tools are `<back>.<tool>`
        exit 2
    "#]],
    );
    check(
        "oracle serve builtin: stdio:no-such-oracle",
        expect![[r#"
            stderr
            error: cannot open `stdio:no-such-oracle`: there is no program `no-such-oracle` in PATH
            hint: install `no-such-oracle`, or give its path
            exit 3
        "#]],
    );
    check(
        "oracle serve nope:",
        expect![[r#"
            stderr
            error: unsupported connection scheme: "nope:"
            hint: `toolbus --help` lists what an address can be
            exit 2
        "#]],
    );
    check(
        "oracle serve builtin: --fn add(",
        expect![[r#"
        stderr
        error: `add(` is no signature
          caused by: expected a name, found the end, at byte 4 of the signature
        exit 2
    "#]],
    );
}

#[test]
fn a_signature_for_no_tool_is_refused_by_its_name() {
    serve(&["--fn", "adn(a: u8) -> u8"], "").check(expect![[r#"
        stderr
        error: `--fn` gives a signature for `adn`, and there is no such tool
        hint: there are `add`, `blob`, `count`, `early`, `echo`, `fail`, `sink`, `sleep`, `upper`
        exit 2
    "#]]);
}
