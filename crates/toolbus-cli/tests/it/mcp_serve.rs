//! `toolbus mcp` as its clients meet it, in both eras, in front of one peer or several.

use expect_test::{Expect, expect};
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::live::{Live, marked};
use crate::mcp::{
    CHANGED, INITIALIZE, META, changing, discover, legacy_call, modern_call, request,
};
use crate::page::{Page, mcp_ourselves, mcp_server, oracle, ourselves};

/// A server of ours with which a legacy session is open.
fn session(words: &[&str]) -> Live {
    let mut live = Live::start(&[&["mcp"], words].concat());
    let greeting = live.ask(INITIALIZE);
    assert!(greeting.contains(r#""result":{"protocolVersion":"2025-11-25""#), "{greeting}");
    live.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    live
}

/// Says lines and compares what is answered to each, and the end.
#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn conversation(words: &[&str], lines: &[String], expect: Expect) {
    let mut live = Live::start(&[&["mcp"], words].concat());
    let heard: String = lines.iter().map(|line| live.ask(line) + "\n").collect();
    live.hang_up();
    expect.assert_eq(&(heard + &live.end()));
}

fn by_a_legacy_client() -> Vec<String> {
    vec![
        INITIALIZE.to_owned(),
        r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.to_owned(),
        legacy_call(1, "add", r#"{"a":1.5,"b":2}"#),
        legacy_call(2, "upper", r#"{"text":"hello"}"#),
        legacy_call(3, "fail", r#"{"message":"oops","code":7}"#),
        legacy_call(4, "uper", "{}"),
        request(5, "prompts/list", "{}"),
        "nonsense".to_owned(),
    ]
}

fn by_a_modern_client() -> Vec<String> {
    vec![
        discover(1),
        modern_call(2, "add", r#"{"a":1,"b":2}"#),
        modern_call(3, "echo", r#"{"x":1.0,"y":[12345678901234567890123]}"#),
        modern_call(4, "fail", r#"{"message":"oops"}"#),
        request(5, "resources/list", &format!("{{{META}}}")),
    ]
}

#[test]
fn a_legacy_client() {
    conversation(
        &["builtin:"],
        &by_a_legacy_client(),
        expect![[r#"
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"toolbus","version":"0.1.0"}}}
        {"jsonrpc":"2.0","id":"p","result":{}}
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3.5"}]}}
        {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"HELLO"}]}}
        {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"oops"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed","code":7}}}}
        {"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"unknown tool: uper"}}
        {"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"method not found: prompts/list"}}
        {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error: not JSON: unexpected `o` at byte 1"}}
        exit 0
    "#]],
    );
}

#[test]
fn a_modern_client() {
    conversation(
        &["builtin:"],
        &by_a_modern_client(),
        expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"3"}],"structuredContent":3,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","content":[{"type":"text","text":"{\"x\":1.0,\"y\":[12345678901234567890123]}"}],"structuredContent":{"x":1.0,"y":[12345678901234567890123]},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"}}}}
        {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","content":[{"type":"text","text":"oops"}],"isError":true,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolbus","version":"0.1.0"},"dev.toolbus/failure":{"kind":"failed"}}}}
        {"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"method not found: resources/list"}}
        exit 0
    "#]],
    );
}

#[test]
fn tools_are_listed_with_their_schemas() {
    let mut live = session(&["builtin:"]);
    let tools = live.ask(&request(1, "tools/list", "{}"));
    let (first, others) = tools.split_once(r#",{"name":"#).expect("there are several");
    expect![[r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","description":"Add two numbers","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}}"#]].assert_eq(first);
    assert!(others.ends_with("}]}}"), "{others}");
}

#[test]
fn through_ourselves_a_client_hears_the_same_bytes() {
    let through = mcp_ourselves(&["builtin:"]);
    for lines in [by_a_legacy_client(), by_a_modern_client()] {
        let mut direct = Live::start(&["mcp", "builtin:"]);
        let mut passed = Live::start(&["mcp", &through]);
        for line in lines {
            assert_eq!(passed.ask(&line), direct.ask(&line), "{line}");
        }
        for mut live in [direct, passed] {
            live.hang_up();
            assert_eq!(live.end(), "exit 0\n");
        }
    }
}

#[test]
fn before_and_behind_an_oracle() {
    let before = mcp_ourselves(&[&ourselves(&["builtin:"])]);
    let behind = ourselves(&[&mcp_ourselves(&["builtin:"])]);
    for address in [before, behind] {
        let page = Page::of(&["call", &address, "upper", "text=hello"]).run();
        assert_eq!(page.to_string(), "stdout\n\"HELLO\"\nexit 0\n");
    }
}

#[test]
fn of_several_peers_each_tool_has_the_name_of_its_peer() {
    let scratch = Scratch::new();
    // Dies when it is first asked for its tools.
    let shy = oracle(&["once", &scratch.file("shy"), "{", "exit", "3", "}", "echo-oracle"]);
    let mut live = session(&["-q", "builtin:", &shy]);
    let invoke = legacy_call(1, "faulty-tool_invoke", r#"{"selector":"f","calldata":["0x7"]}"#);
    let mut answer = live.ask(&invoke);
    if answer.contains("ended with exit status 3 before it was ready") {
        // The call came while the process that dies was still starting, and shared its fate.
        answer = live.ask(&invoke);
    }
    // It is there now; a client that has seen no list need not be told that it has changed.
    expect![[
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"[\"0x7\"]"}]}}"#
    ]]
    .assert_eq(&answer);
    expect![[r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}]}}"#]]
        .assert_eq(&live.ask(&legacy_call(2, "builtin_add", r#"{"a":1,"b":2}"#)));
    expect![[r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown tool: add"}}"#]]
        .assert_eq(&live.ask(&legacy_call(3, "add", r#"{"a":1,"b":2}"#)));
    let tools = live.ask(&request(4, "tools/list", "{}"));
    let names = tools.split(r#"{"name":""#).skip(1).filter_map(|tool| tool.split('"').next());
    expect!["builtin_add builtin_blob builtin_count builtin_early builtin_echo builtin_fail builtin_sink builtin_sleep builtin_upper faulty-tool_invoke"].assert_eq(&names.collect::<Vec<_>>().join(" "));
}

#[test]
fn a_change_behind_several_peers_is_told() {
    let mut live = session(&["builtin:", &changing(&[])]);
    let mut heard = [live.ask(&legacy_call(1, "faulty-tool_f", "{}")), live.hear()];
    heard.sort_unstable_by_key(|line| line.contains("result"));
    assert_eq!(heard[0], CHANGED);
    assert!(heard[1].starts_with(r#"{"jsonrpc":"2.0","id":1,"result""#), "{}", heard[1]);
}

#[test]
fn who_cannot_be_opened_is_left_out() {
    let lines = [INITIALIZE.to_owned(), legacy_call(1, "builtin_add", r#"{"a":1,"b":2}"#)];
    conversation(
        &["builtin:", "mcp+stdio:no-such-program"],
        &lines,
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"toolbus","version":"0.1.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}
            warning: no-such-program: left out: there is no program `no-such-program` in PATH
            exit 0
        "#]],
    );
}

#[test]
fn where_no_peer_can_be_opened_the_client_is_told() {
    let dies = mcp_server(&["err", "no licence", "exit", "3"]);
    let mut live = Live::start(&["mcp", "-q", &dies]);
    expect![[r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"`faulty-tool` ended with exit status 3 before it was ready","data":{"kind":"unavailable","status":3,"stderr":["no licence"]}}}"#]].assert_eq(&live.ask(INITIALIZE));
    let mut live = Live::start(&["mcp", "-q", &dies, "stdio:no-such-program"]);
    // Of several none is waited for before the list.
    assert!(live.ask(INITIALIZE).contains(r#""id":0,"result""#));
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`faulty-tool` ended with exit status 3 before it was ready","data":{"kind":"unavailable","status":3,"stderr":["no licence"]}}}"#]].assert_eq(&live.ask(&request(1, "tools/list", "{}")));
}

#[test]
fn of_two_names_that_fall_together_the_second_is_left_out() {
    let offering = |function: &str| {
        let ready = r#"{"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["NAME()"]}}"#;
        oracle(&["say", &ready.replace("NAME", function), "read", "readall"])
    };
    let (one, other) = (offering("b_c"), offering("c"));
    let config = format!(
        "[back.a]\nconnect = \"\"\"{one}\"\"\"\n[back.a_b]\nconnect = \"\"\"{other}\"\"\"\n"
    );
    let lines = format!("{INITIALIZE}\n{}\n", request(1, "tools/list", "{}"));
    Page::of(&["mcp"]).config("mcp_names", &config).stdin(lines).check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"toolbus","version":"0.1.0"}}}
        {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a_b_c","inputSchema":{"type":"object","properties":{},"required":[],"additionalProperties":false}},{"name":"a_invoke","inputSchema":{"type":"object","properties":{"selector":{"type":["string","object"]},"calldata":{"type":"array","items":{"type":["string","integer"]}}},"required":["selector","calldata"],"additionalProperties":false}},{"name":"a_b_invoke","inputSchema":{"type":"object","properties":{"selector":{"type":["string","object"]},"calldata":{"type":"array","items":{"type":["string","integer"]}}},"required":["selector","calldata"],"additionalProperties":false}}]}}
        stderr
        warning: the second is left out: tool name a_b_c stands for both a.b_c and a_b.c
        exit 0
    "#]]);
}

#[test]
fn what_is_not_allowed_does_not_pass() {
    let config =
        format!("[back.a]\nconnect = \"{}\"\nallow = [\"add\"]\n", mcp_ourselves(&["builtin:"]));
    let lines = [
        INITIALIZE.to_owned(),
        legacy_call(1, "add", r#"{"a":1,"b":2}"#),
        legacy_call(2, "upper", "{}"),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Page::of(&["mcp"]).config("mcp_allow", &config).stdin(lines).check(expect![[r#"
        stdout
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"toolbus","version":"0.1.0"}}}
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}]}}
        {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"unknown tool: upper"}}
        exit 0
    "#]]);
}

#[test]
fn a_fast_call_does_not_wait_for_a_slow_one() {
    for address in ["builtin:", &mcp_ourselves(&["builtin:"])] {
        let mut live = session(&[address]);
        live.say(&legacy_call(1, "sleep", r#"{"ms":600000}"#));
        let fast = live.ask(&legacy_call(2, "add", r#"{"a":1,"b":2}"#));
        let three = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}]}}"#;
        assert_eq!(fast, three);
        live.say(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        );
        // Nothing is under way any more, so nothing is waited for.
        live.hang_up();
        assert_eq!(live.end(), "exit 0\n");
    }
}

#[test]
fn what_is_under_way_may_end_after_the_client_has_hung_up() {
    let mut live = session(&["builtin:"]);
    live.say(&legacy_call(1, "sleep", r#"{"ms":100}"#));
    live.say(&legacy_call(2, "sleep", r#"{"ms":600000}"#));
    live.hang_up();
    expect![[r#"
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"slept_ms\":100}"}],"structuredContent":{"slept_ms":100}}}
        exit 0
    "#]].assert_eq(&live.end());
}

#[test]
fn a_signal_ends_it() {
    for (signal, exit) in [(Signal::INT, "exit 130\n"), (Signal::TERM, "exit 143\n")] {
        let scratch = Scratch::new();
        let mark = scratch.file("there");
        let mut live = Live::start(&["mcp", &mcp_server(&["mark", &mark, "readall"])]);
        live.say(INITIALIZE);
        let there = marked(&mark, 1);
        live.signal(signal);
        assert_eq!(live.end(), exit);
        there[0].assert_gone();
    }
}
