//! `toolbus provider`: what a host hears of us.

use expect_test::{Expect, expect};

use super::{DESCRIBE, EMPTY, provider};
use crate::mcp::INITIALIZED;
use crate::page::{Page, check, mcp_server};

/// What becomes of these lines.
fn served(words: &[&str], lines: &str, expect: Expect) {
    Page::of(&[&["provider"], words].concat()).stdin(lines).check(expect);
}

#[test]
fn its_schema() {
    let address = provider(&[&DESCRIBE, &EMPTY]);
    Page::of(&["provider", &address, "schema"]).check(expect![[r#"
        stdout
        {"name":"toolbus","version":"0.1.0","protocol":"1","config":{},"actions":{"echo":{"description":"Gives its text back","attrs":{"text":{"type":"string","required":true},"times":{"type":"number","required":false,"default":1}},"outputs":{"type":"object({text=string})","required":false}},"noop":{}},"extensions":["parallel"]}
        exit 0
    "#]]);
    let page = Page::of(&["provider", "builtin:", "schema"]).run();
    assert_eq!((page.status.code(), page.stdout.lines().count()), (Some(0), 1));
    for action in [
        r#""echo":{"description":"Give back what came","attrs":{"arguments":{"type":"any","required":false}},"outputs":{"type":"any","required":false}}"#,
        r#""add":{"description":"Add two numbers","attrs":{"a":{"type":"number","required":true},"b":{"type":"number","required":true}},"outputs":{"type":"object({result=number})","required":false}}"#,
        r#""sleep":{"description":"Wait this many milliseconds","attrs":{"ms":{"type":"number","required":true}},"outputs":{"type":"object({slept_ms=number})","required":false}}"#,
    ] {
        assert!(page.stdout.contains(action), "{page}");
    }
    assert!(page.stdout.ends_with("},\"extensions\":[\"parallel\"]}\n"), "{page}");
}

#[test]
fn tools_of_several_peers_carry_their_names() {
    let address = provider(&[&DESCRIBE, &EMPTY]);
    let page = Page::of(&["provider", "builtin:", &address, "schema"]).run();
    for name in [r#""builtin_upper":{"#, r#""faulty-tool_echo":{"#] {
        assert!(page.stdout.contains(name), "{page}");
    }
    let lines = "{\"id\":1,\"method\":\"configure\"}\n{\"id\":2,\"method\":\"execute\",\"params\":{\"action\":\"builtin_upper\",\"attrs\":{\"text\":\"a\"}}}\n";
    served(
        &["builtin:", "builtin:"],
        lines,
        expect![[r#"
        stdout
        {"id":1,"result":{}}
        {"id":2,"result":{"outputs":{"result":"A"}}}
        exit 0
    "#]],
    );
}

#[test]
fn a_conversation() {
    served(
        &["builtin:"],
        r#"{"id":1,"method":"configure","params":{"config":{}}}
{"id":2.0,"method":"execute","params":{"action":"echo","attrs":{"arguments":{"n":1.50}}}}
{"id":3,"method":"execute","params":{"action":"add","attrs":{"a":1,"b":2}}}
{"id":4,"method":"execute","params":{"action":"count","attrs":{"n":2}}}
{"id":5,"method":"execute","params":{"action":"fail","attrs":{"message":"no luck","code":"x"}}}
{"id":6,"method":"shutdown"}
"#,
        expect![[r#"
            stdout
            {"id":1,"result":{}}
            {"id":2,"result":{"outputs":{"n":1.50}}}
            {"id":3,"result":{"outputs":{"result":3}}}
            {"id":5,"error":{"code":"execute_failed","message":"no luck","detail":"code: x"}}
            {"id":4,"result":{"outputs":{"elements":[0,1]}}}
            {"id":6,"result":{}}
            exit 0
        "#]],
    );
}

#[test]
fn mistakes_are_answered() {
    served(
        &["builtin:"],
        r#"[]
{"method":"describe"}
{"id":"1","method":"describe"}
{"id":1}
{"id":2,"method":1}
{"id":3,"method":"describe","params":[]}
{"id":4,"method":"dance"}
{"id":5,"method":"execute","params":{"action":"upper"}}
{"id":6,"method":"configure","params":{"config":{"key":1}}}
{"id":7,"method":"configure"}
{"id":8,"method":"execute"}
{"id":9,"method":"execute","params":{"action":"uper"}}
{"id":10,"method":"execute","params":{"action":"upper","attrs":{"text":1}}}
{"id":11,"method":"execute","params":{"action":"upper"}}
{"id":12,"method":"execute","params":{"action":"upper","attrs":{"text":"a","txt":"b"}}}
"#,
        expect![[r#"
            stdout
            {"id":0,"error":{"code":"invalid_request","message":"line is not a JSON object"}}
            {"id":0,"error":{"code":"invalid_request","message":"id is missing"}}
            {"id":0,"error":{"code":"invalid_request","message":"id must be an integer"}}
            {"id":1,"error":{"code":"invalid_request","message":"method is missing"}}
            {"id":2,"error":{"code":"invalid_request","message":"method must be a string"}}
            {"id":3,"error":{"code":"invalid_request","message":"params must be an object"}}
            {"id":4,"error":{"code":"unknown_method","message":"unknown method: dance"}}
            {"id":5,"error":{"code":"invalid_request","message":"execute before configure"}}
            {"id":6,"error":{"code":"configure_failed","message":"unknown config attribute: key"}}
            {"id":7,"result":{}}
            {"id":8,"error":{"code":"invalid_request","message":"action is missing"}}
            {"id":9,"error":{"code":"unknown_action","message":"unknown action: uper"}}
            {"id":10,"error":{"code":"validation_failed","message":"attrs.text: want string, got number"}}
            {"id":11,"error":{"code":"validation_failed","message":"attrs.text: required"}}
            {"id":12,"error":{"code":"validation_failed","message":"attrs.txt: unknown attribute, did you mean `text`?"}}
            exit 0
        "#]],
    );
    let long = format!("{{\"id\":7,\"x\":\"{}\"}}\n", "x".repeat(2000));
    served(
        &["--line-max", "1KiB", "builtin:"],
        &long,
        expect![[r#"
        stdout
        {"id":7,"error":{"code":"invalid_request","message":"line is longer than 1024 bytes"}}
        exit 0
    "#]],
    );
}

#[test]
fn a_call_that_takes_too_long() {
    let lines = "{\"id\":1,\"method\":\"configure\"}\n{\"id\":2,\"method\":\"execute\",\"params\":{\"action\":\"sleep\",\"attrs\":{\"ms\":600000}}}\n";
    served(
        &["--timeout", "100ms", "builtin:"],
        lines,
        expect![[r#"
        stdout
        {"id":1,"result":{}}
        {"id":2,"error":{"code":"timed_out","message":"no answer within 100ms"}}
        exit 0
    "#]],
    );
}

#[test]
fn it_cannot_begin() {
    check(
        "provider",
        expect![[r#"
            stderr
            error: no ADDRESS is given, and there is no `toolbus.toml` here or above
            hint: name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one
            exit 2
        "#]],
    );
    check(
        "provider schema",
        expect![[r#"
            stderr
            error: no ADDRESS is given, and there is no `toolbus.toml` here or above
            hint: name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one
            exit 2
        "#]],
    );
    check(
        "provider nobody:",
        expect![[r#"
            stderr
            error: unsupported connection scheme: "nobody:"
            hint: `toolbus --help` lists what an address can be
            exit 2
        "#]],
    );
    check(
        "provider orchard+stdio:there-is-no-such-program",
        expect![[r#"
        stderr
        error: cannot open `orchard+stdio:there-is-no-such-program`: there is no program `there-is-no-such-program` in PATH
        hint: install `there-is-no-such-program`, or give its path
        exit 3
    "#]],
    );
    check(
        "provider orchard+stdio:there-is-no-such-program schema",
        expect![[r#"
        stderr
        error: cannot open `orchard+stdio:there-is-no-such-program`: there is no program `there-is-no-such-program` in PATH
        hint: install `there-is-no-such-program`, or give its path
        exit 3
    "#]],
    );
}

#[test]
fn tools_of_the_config_are_served_without_addresses() {
    let text = "[back.a]\nconnect = \"builtin:\"\n";
    let page = Page::of(&["provider", "schema"]).config("orchard_provider_config", text).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    assert!(page.stdout.contains(r#""upper":{"#), "{page}");
}

#[test]
fn two_tools_with_one_spelling() {
    let tools = r#"{"tools":[{"name":"a.b","inputSchema":{"type":"object"}},{"name":"a_b","inputSchema":{"type":"object"}}]}"#;
    let opening = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED, "read"];
    let steps = [&opening[..], &["read", "answer", tools, "readall"]].concat();
    Page::of(&["provider", &mcp_server(&steps), "schema"]).check(expect![[r#"
        stderr
        error: the tools `a.b` and `a_b` would both be the action `a_b`
        exit 2
    "#]]);
}
