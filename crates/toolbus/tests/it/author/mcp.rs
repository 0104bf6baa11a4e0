//! What an MCP client sees of an author's tool, in both eras.

use expect_test::{Expect, expect};
use toolbus_testkit::page::Program;

use super::{INITIALIZE, call, example, request};

/// All that `name` answers to these lines, and to the end behind them.
#[track_caller]
fn check(name: &str, lines: &[String], expected: Expect) {
    let page = Program::new(example(name)).args(["--mcp"]).stdin(lines.join("\n")).run();
    expected.assert_eq(&page.stdout);
    assert_eq!(page.status.code(), Some(0), "{}", page.stderr);
}

#[test]
fn a_session_of_the_legacy_era() {
    check(
        "echo_text",
        &[
            INITIALIZE.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            request(1, "tools/list", "{}"),
            call(2, "echo", r#"{"text":"h\u00e9 \"quoted\"\n"}"#),
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"echo_text","version":"1.0.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","description":"Say the text back.","inputSchema":{"type":"object","properties":{"text":{"description":"What to say.","type":"string"}},"required":["text"]}}]}}
            {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hé \"quoted\"\n"}]}}
        "#]],
    );
}

/// What every modern request carries.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

#[test]
fn requests_of_the_modern_era() {
    check(
        "echo_text",
        &[
            request(1, "server/discover", &format!("{{{META}}}")),
            request(
                2,
                "tools/call",
                &format!(r#"{{{META},"name":"echo","arguments":{{"text":"hi"}}}}"#),
            ),
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo_text","version":"1.0.0"}}}}
            {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"hi"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo_text","version":"1.0.0"}}}}
        "#]],
    );
}

#[test]
fn arguments_that_do_not_fit_are_told_by_name() {
    check(
        "numbers",
        &[
            INITIALIZE.to_owned(),
            call(1, "divide", r#"{"dividend":7}"#),
            call(2, "divide", r#"{"dividend":7,"divisor":"two"}"#),
            call(3, "divide", r#"{"dividend":7,"divisor":2,"divisor":3}"#),
            request(4, "tools/call", r#"{"name":"divide"}"#),
            call(5, "multiply", "{}"),
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"numbers","version":"1.0.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"missing field `divisor`"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
            {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"argument `divisor`: invalid type: string \"two\", expected i64"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
            {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"duplicate field `divisor`"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
            {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"missing field `dividend`"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
            {"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"unknown tool: multiply"}}
        "#]],
    );
}

#[test]
fn what_a_tool_answers_is_shown_as_it_is() {
    check(
        "numbers",
        &[
            INITIALIZE.to_owned(),
            request(1, "tools/list", "{}"),
            call(2, "divide", r#"{"dividend":7,"divisor":2}"#),
            call(3, "divide", r#"{"dividend":7,"divisor":0}"#),
            call(4, "primes", r#"{"below":8}"#),
            call(5, "primes", r#"{"below":2}"#),
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"numbers","version":"1.0.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"divide","title":"Division","description":"Divide one whole number by another.","inputSchema":{"type":"object","properties":{"dividend":{"description":"What is divided.","type":"integer","format":"int64"},"divisor":{"description":"What it is divided by; not zero.","type":"integer","format":"int64"}},"required":["dividend","divisor"]},"outputSchema":{"type":"object","properties":{"quotient":{"type":"integer","format":"int64"},"remainder":{"type":"integer","format":"int64"}},"required":["quotient","remainder"]},"annotations":{"readOnlyHint":true,"idempotentHint":true}},{"name":"primes","description":"Find all primes below a limit.","inputSchema":{"type":"object","properties":{"below":{"description":"The limit.","type":"integer","format":"uint64","minimum":0}},"required":["below"]}},{"name":"repeat","description":"Say a text many times.","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer","format":"uint","minimum":0}},"required":["text","times"]}}]}}
            {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"quotient\":3,\"remainder\":1}"}],"structuredContent":{"quotient":3,"remainder":1}}}
            {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"cannot divide by zero"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed"}}}}
            {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"2"},{"type":"text","text":"3"},{"type":"text","text":"5"},{"type":"text","text":"7"}]}}
            {"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"null"}]}}
        "#]],
    );
}

#[test]
fn a_tool_that_panics_fails_its_own_call() {
    let lines = [
        INITIALIZE.to_owned(),
        call(1, "divide", r#"{"dividend":-9223372036854775808,"divisor":-1}"#),
        call(2, "repeat", r#"{"text":"on","times":1}"#),
    ];
    check(
        "numbers",
        &lines,
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"numbers","version":"1.0.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"the tool panicked: attempt to divide with overflow"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"failed"}}}}
            {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"on"}]}}
        "#]],
    );
}

#[test]
fn a_reply_of_20_megabytes_arrives_whole() {
    let lines = [INITIALIZE, &call(1, "repeat", r#"{"text":"0123456789\"\n","times":1666667}"#)];
    let page = Program::new(example("numbers")).args(["--mcp"]).stdin(lines.join("\n")).run();
    let answer: serde_json::Value =
        serde_json::from_str(page.stdout.lines().nth(1).unwrap()).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), 12 * 1_666_667);
    assert!(text == "0123456789\"\n".repeat(1_666_667));
}

#[test]
fn raw_text_passes_as_it_is() {
    check(
        "echo_raw",
        &[
            INITIALIZE.to_owned(),
            call(1, "echo", r#"{"text":"no","t\u0065xt":"\u0068\/\ud800"}"#),
            call(2, "echo", r#"{"text":7}"#),
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"echo_raw","version":"1.0.0"}}}
            {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\u0068\/\ud800"}]}}
            {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"argument `text`: expected a string"}],"isError":true,"_meta":{"dev.toolbus/failure":{"kind":"invalid_arguments"}}}}
        "#]],
    );
}
