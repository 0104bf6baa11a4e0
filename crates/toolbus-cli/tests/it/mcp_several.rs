//! Several MCP servers behind one front: what they have besides tools, and what passes of it.

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;

use crate::live::Live;
use crate::mcp::{INITIALIZE, legacy_call, request};
use crate::page::mcp_server;

/// A legacy server with prompts that says this of itself.
const GREETING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{"listChanged":true},"logging":{}},"serverInfo":{"name":"faulty","version":"1"},"instructions":"Be kind."}"#;
const TOOLS: &str = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"},"x":1.0}]}"#;
const PROMPTS: &str = r#"{"prompts":[{"name":"p","x":1.0}]}"#;

/// A legacy server that was greeted and then does these steps.
fn greeted(steps: &[&str]) -> String {
    mcp_server(&[&["read", "answer", GREETING, "read"], steps].concat())
}

#[test]
fn prompts_have_the_name_of_their_server_and_errors_pass_as_they_are() {
    let steps = ["read", "answer", PROMPTS, "read", "err", "$LINE", "refuse", "-32001", "no p"];
    let mut live = Live::start(&["mcp", "-v", &greeted(&steps), "builtin:"]);
    let lines = [
        INITIALIZE.to_owned(),
        request(1, "prompts/list", "{}"),
        request(2, "prompts/get", r#"{"name":"faulty-tool_p","arguments":{"a":"\u00e9"}}"#),
        request(3, "prompts/get", r#"{"name":"p"}"#),
        request(4, "resources/list", "{}"),
    ];
    let heard: String = lines.iter().map(|line| live.ask(line) + "\n").collect();
    expect![[r#"
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"toolbus","version":"0.1.0"}}}
        {"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"faulty-tool_p","x":1.0}]}}
        {"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"no p"}}
        {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown prompt: p"}}
        {"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"method not found: resources/list"}}
    "#]].assert_eq(&heard);
}

#[test]
fn a_question_of_one_server_reaches_the_client_whose_call_it_belongs_to() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1.0}}"#;
    let result = r#"{"content":[{"type":"text","text":"asked"}]}"#;
    let asks = ["read", "err", "$LINE", "say", question, "read", "err", "$LINE"];
    // The answer goes to the call, whose id the script has seen last.
    let said = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#);
    let greets = ["read", "err", "$LINE", "answer", GREETING, "read", "read", "answer", TOOLS];
    let server = mcp_server(&[&greets[..], &asks, &["say", &said, "readall"]].concat());
    let mut live = Live::start(&["mcp", "-v", "builtin:", &server]);
    let client = r#"{"protocolVersion":"2025-11-25","capabilities":{"sampling":{"x":1.0}},"clientInfo":{"name":"test","version":"1"}}"#;
    live.ask(&request(0, "initialize", client));
    let asked = live.ask(&legacy_call(1, "faulty-tool_f", r#"{"n":1.0}"#));
    // The bus has listed the tools for that, and the client did not know them.
    let asked = if asked.contains("list_changed") { live.hear() } else { asked };
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"model":"m","x":1e2}}"#;
    let heard = format!("{asked}\n{}\n", live.ask(answer));
    live.hang_up();
    let told = live.end();
    let told: String = told
        .lines()
        .filter(|line| line.contains("jsonrpc"))
        .map(|line| format!("{line}\n"))
        .collect();
    expect![[r#"
        {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"maxTokens":1.0}}
        {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"asked"}]}}
        info: faulty-tool: {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{"x":1.0}},"clientInfo":{"name":"test","version":"1"}}}
        info: faulty-tool: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"f","arguments":{"n":1.0}}}
        info: faulty-tool: {"jsonrpc":"2.0","id":"q","result":{"model":"m","x":1e2}}
    "#]].assert_eq(&(heard + &told));
}

#[test]
fn a_back_that_stays_away_is_warned_of_once() {
    let mut live = Live::start(&["mcp", "builtin:", "mcp+stdio:no-such-program"]);
    live.ask(INITIALIZE);
    for id in 1..=3 {
        assert!(live.ask(&request(id, "tools/list", "{}")).contains("builtin_add"));
    }
    live.hang_up();
    let said = live.end();
    assert_eq!(said.matches("left out").count(), 1, "{said}");
}

#[test]
fn only_tools_are_allowed_or_not() {
    let scratch = Scratch::new();
    let asked = ["read", "answer", PROMPTS, "read", "answer", TOOLS, "readall"];
    let config = format!("[back.a]\nconnect = \"\"\"{}\"\"\"\nallow = [\"g\"]\n", greeted(&asked));
    let lines = [
        INITIALIZE.to_owned(),
        request(1, "prompts/list", "{}"),
        request(2, "tools/list", "{}"),
        legacy_call(3, "f", "{}"),
    ];
    let path = scratch.file("toolbus.toml");
    std::fs::write(&path, config).expect("the folder is ours");
    let mut live = Live::start(&["--config", &path, "mcp"]);
    let heard: String = lines.iter().map(|line| live.ask(line) + "\n").collect();
    expect![[r#"
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{"listChanged":true},"logging":{}},"serverInfo":{"name":"faulty","version":"1"},"instructions":"Be kind."}}
        {"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"p","x":1.0}]}}
        {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
        {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown tool: f"}}
    "#]].assert_eq(&heard);
}

#[test]
fn a_list_of_many_tools_comes_in_pages_of_one_moment() {
    let tools: Vec<_> = (0..1500).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let server = greeted(&["read", "answer", &tools, "readall"]);
    let mut live = Live::start(&["mcp", &server, "builtin:"]);
    live.ask(INITIALIZE);
    let first = live.ask(&request(1, "tools/list", "{}"));
    assert!(first.ends_with(r#"],"nextCursor":"tb1000"}}"#), "{}", &first[first.len() - 80..]);
    let second = live.ask(&request(2, "tools/list", r#"{"cursor":"tb1000"}"#));
    assert!(second.contains("faulty-tool_t1499") && second.contains("builtin_upper"));
    let page = live.ask(&request(3, "tools/list", r#"{"cursor":"tb2000"}"#));
    expect![[
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown cursor: \"tb2000\""}}"#
    ]]
    .assert_eq(&page);
}
