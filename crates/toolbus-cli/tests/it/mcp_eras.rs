//! Clients of one era of MCP in front of servers of the other, on pipes and over HTTP.

use expect_test::expect;
use serde_json::{Value, json};
use toolbus_testkit::broker::Broker;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::live::{Live, marked};
use crate::mcp::{DISCOVERED, INITIALIZE, INITIALIZED, META, discover, legacy_call, modern_call};
use crate::page::{Page, mcp_server};

const FINE: &str = r#"{"content":[{"type":"text","text":"fine"}]}"#;

/// What a server asks for in one call: of its user, of its model, and of its machine.
const ASKED: [(&str, &str); 3] = [
    ("elicitation/create", r#"{"message":"who?","requestedSchema":{"type":"object"}}"#),
    ("sampling/createMessage", r#"{"messages":[],"maxTokens":5}"#),
    ("roots/list", "{}"),
];

fn answer(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ann"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "s"}, "model": "m"})
        }
        _ => json!({"roots": [{"uri": "file:///home"}]}),
    }
}

fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

/// A server that knows only the old era, and asks three questions about its one call.
fn old_and_curious() -> String {
    let mut questions = String::new();
    for (method, params) in ASKED {
        questions.push_str(&format!(
            r#"{{"jsonrpc":"2.0","id":"{method}","method":"{method}","params":{params}}}\n"#
        ));
    }
    let opening = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED, "read"];
    let call = ["read", "raw", &questions, "read", "read", "read"];
    let done = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{FINE}}}"#);
    mcp_server(&[&opening[..], &call, &["say", &done, "readall"]].concat())
}

/// A server that knows only the new era, and asks likewise.
fn new_and_curious() -> String {
    let mut requests = serde_json::Map::new();
    for (method, params) in ASKED {
        let params: Value = serde_json::from_str(params).unwrap();
        requests.insert(method.to_owned(), json!({"method": method, "params": params}));
    }
    let asked =
        json!({"resultType": "input_required", "inputRequests": requests, "requestState": "st"});
    let done = r#"{"resultType":"complete","content":[{"type":"text","text":"fine"}],"structuredContent":"fine"}"#;
    let opening = ["read", "refuse", "-32601", "no initialize", "read", "answer", DISCOVERED];
    let call = ["read", "answer", &asked.to_string(), "read"];
    let answered = ["if", r#""requestState":"st""#, "{", "if", r#""name":"Ann""#, "{"];
    let steps = [&opening[..], &call, &answered, &["answer", done, "}", "}", "readall"]];
    mcp_server(&steps.concat())
}

/// Calls `f` as a modern client that answers all it is asked, and gives what it was asked and what
/// came of it.
fn call_modern(live: &mut Live) -> (Vec<String>, Value) {
    let mut asked = Vec::new();
    let mut more = json!({});
    for id in 1.. {
        let mut params = json!({
            "name": "f",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": everything(),
            },
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let heard: Value = serde_json::from_str(&live.ask(&call.to_string())).unwrap();
        let result = &heard["result"];
        if result["resultType"] != "input_required" {
            return (asked, heard);
        }
        let mut responses = serde_json::Map::new();
        for (key, question) in result["inputRequests"].as_object().unwrap() {
            let method = question["method"].as_str().unwrap();
            responses.insert(key.clone(), answer(method));
            asked.push(method.to_owned());
        }
        let state = result["requestState"].as_str().unwrap();
        assert!(state.len() == 32 && state.bytes().all(|byte| byte.is_ascii_hexdigit()), "{state}");
        more = json!({"inputResponses": responses, "requestState": state});
    }
    unreachable!()
}

/// Calls `f` as a legacy client that answers all it is asked.
fn call_legacy(live: &mut Live) -> (Vec<String>, Value) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": everything()});
    let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let heard = live.ask(&opening.to_string());
    assert!(heard.contains("result"), "{heard}");
    live.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut asked = Vec::new();
    live.say(&legacy_call(1, "f", "{}"));
    loop {
        let heard: Value = serde_json::from_str(&live.hear()).unwrap();
        let Some(method) = heard["method"].as_str() else { return (asked, heard) };
        asked.push(method.to_owned());
        let said = json!({"jsonrpc": "2.0", "id": heard["id"], "result": answer(method)});
        live.say(&said.to_string());
    }
}

#[test]
fn a_modern_client_answers_what_a_legacy_server_asks() {
    let (mut pipes, server);
    let mut far;
    pipes = Live::start(&["mcp", &old_and_curious()]);
    server = Server::start(&["mcp", "--http", "0", &old_and_curious()], 1);
    far = Live::start(&["mcp", &format!("mcp+{}", server.url())]);
    for live in [&mut pipes, &mut far] {
        let (asked, heard) = call_modern(live);
        assert_eq!(asked, ASKED.map(|(method, _)| method));
        assert_eq!(heard["result"]["resultType"], "complete", "{heard}");
        assert_eq!(heard["result"]["content"][0]["text"], "fine", "{heard}");
    }
}

#[test]
fn a_legacy_client_answers_what_a_modern_server_asks() {
    let mut pipes = Live::start(&["mcp", &new_and_curious()]);
    let server = Server::start(&["mcp", "--http", "0", &new_and_curious()], 1);
    let mut far = Live::start(&["mcp", &format!("mcp+{}", server.url())]);
    for live in [&mut pipes, &mut far] {
        let (mut asked, heard) = call_legacy(live);
        asked.sort_unstable();
        let mut all = ASKED.map(|(method, _)| method);
        all.sort_unstable();
        assert_eq!(asked, all);
        let fine = json!({"content": [{"type": "text", "text": "fine"}]});
        assert_eq!(heard["result"], fine, "{heard}");
    }
}

#[test]
fn a_legacy_client_is_asked_by_a_server_on_another_machine() {
    let broker = Broker::start();
    let tools =
        r#"{"tools":[{"name": "f", "inputSchema": {"type":"object"}, "_meta": {"k": 1.0}}]}"#;
    // Once when it is opened, and once more by the front.
    let listed = ["read", "answer", tools, "read", "answer", tools];
    let mut questions = String::new();
    for (method, params) in ASKED {
        questions.push_str(&format!(
            r#"{{"jsonrpc":"2.0","id":"{method}","method":"{method}","params":{params}}}\n"#
        ));
    }
    let opening = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED, "read"];
    let call = ["read", "raw", &questions, "read", "read", "read"];
    let result = r#"{"content":[{"type": "text","text":"fine"}], "_meta": {"k": 1.0}}"#;
    let done = format!(r#"{{"jsonrpc":"2.0","id":5,"result":{result}}}"#);
    let old = mcp_server(&[&opening[..], &listed, &call, &["say", &done, "readall"]].concat());
    let mut requests = serde_json::Map::new();
    for (method, params) in ASKED {
        let params: Value = serde_json::from_str(params).unwrap();
        requests.insert(method.to_owned(), json!({"method": method, "params": params}));
    }
    let asked =
        json!({"resultType": "input_required", "inputRequests": requests, "requestState": "st"});
    let opening = ["read", "answer", DISCOVERED];
    let call = ["read", "answer", &asked.to_string(), "read"];
    let answered = ["if", r#""requestState":"st""#, "{", "if", r#""name":"Ann""#, "{"];
    let done = r#"{"resultType":"complete","content":[{"type": "text","text":"fine"}], "_meta": {"k": 1.0}}"#;
    let steps =
        [&opening[..], &listed, &call, &answered, &["answer", done, "}", "}", "readall"]].concat();
    let new = mcp_server(&steps);
    for (name, server, wanted) in [("old", &old, result), ("new", &new, done)] {
        let address = broker.address(name);
        let _node = Server::start(&["nats", "serve", &address, server], 1);
        let mut live = Live::start(&["mcp", &address]);
        let (mut asked, heard) = call_legacy(&mut live);
        asked.sort_unstable();
        let mut all = ASKED.map(|(method, _)| method);
        all.sort_unstable();
        assert_eq!(asked, all, "{name}: {heard}");
        // As the server wrote it, to the byte.
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert_eq!(heard["result"], wanted, "{name}");
        let listed = live.ask(r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#);
        let spec = r#"{"name": "f", "inputSchema": {"type":"object"}, "_meta": {"k": 1.0}}"#;
        assert!(listed.contains(spec), "{listed}");
    }
}

#[test]
fn a_server_of_one_era_has_one_process_for_callers_of_both() {
    let scratch = Scratch::new();
    let file = scratch.file("processes");
    let opening =
        ["mark", &file, "read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED];
    let calls = ["read", "read", "answer", FINE, "read", "answer", FINE, "readall"];
    let mut live = Live::start(&["mcp", &mcp_server(&[&opening[..], &calls].concat())]);
    expect![[r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"faulty","version":"1"}}}}"#]]
        .assert_eq(&live.ask(&discover(1)));
    expect![[r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"faulty","version":"1"}}}}"#]]
        .assert_eq(&live.ask(&modern_call(2, "f", "{}")));
    assert!(live.ask(INITIALIZE).contains("result"));
    let fine = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{FINE}}}"#);
    assert_eq!(live.ask(&legacy_call(3, "f", "{}")), fine);
    assert_eq!(marked(&file, 1).len(), 1);
}

#[test]
fn a_second_process_that_finds_no_other_era_ends_again() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("first"), scratch.file("second"));
    // The one that comes later is asked, and told goodbye.
    let opening = ["read", "answer", INITIALIZED, "read", "read", "answer", FINE];
    let lives = [&["once", &first, "{", "mark", &second], &opening[..], &["read", "answer", FINE]];
    let asked = ["}", "mark", &second, "read", "refuse", "-32601", "no", "read", "answer"];
    let steps = [&lives.concat()[..], &["readall", "exit", "0"], &asked, &[INITIALIZED, "readall"]];
    let mut live = Live::start(&["mcp", &mcp_server(&steps.concat())]);
    assert!(live.ask(INITIALIZE).contains("result"));
    let fine = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{FINE}}}"#);
    assert_eq!(live.ask(&legacy_call(1, "f", "{}")), fine(1));
    assert!(live.ask(&modern_call(2, "f", "{}")).contains(r#""resultType":"complete""#));
    let groups = marked(&second, 2);
    groups[1].assert_gone();
    assert!(!groups[0].living().is_empty(), "the first goes on");
}

#[test]
fn changes_of_a_modern_server_reach_a_legacy_client() {
    let able = DISCOVERED.replace(r#""tools":{}"#, r#""tools":{"listChanged":true}"#);
    let tagged = |method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":3}}}}}}"#
        )
    };
    let (agreed, changed) = (tagged("subscriptions/acknowledged"), tagged("tools/list_changed"));
    let opening = ["read", "refuse", "-32601", "no", "read", "answer", &able];
    let listened = ["read", "say", &agreed, "say", &changed, "readall"];
    let mut live = Live::start(&["mcp", &mcp_server(&[&opening[..], &listened].concat())]);
    assert!(live.ask(INITIALIZE).contains(r#""capabilities":{"tools":{"listChanged":true}}"#));
    expect![[r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]]
        .assert_eq(&live.ask(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
}

#[test]
fn a_caller_that_does_not_speak_mcp_is_told_that_it_would_have_been_asked() {
    let asked = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}}}"#;
    let steps = ["read", "answer", DISCOVERED, "read", "answer", asked, "readall"];
    Page::of(&["call", "--no-check", "--json", &mcp_server(&steps), "f"]).check(expect![[r#"
        stdout
        {"error":{"kind":"failed","message":"the tool needs input, for which this caller cannot be asked","code":"input_required"}}
        stderr
        error: input_required: the tool needs input, for which this caller cannot be asked
        hint: it asks questions, which a user can answer on a terminal
        exit 1
    "#]]);
}

#[test]
fn a_token_that_nobody_gave_is_refused() {
    let opening = ["read", "refuse", "-32601", "what?", "read", "answer", INITIALIZED, "readall"];
    let mut live = Live::start(&["mcp", &mcp_server(&opening)]);
    let params = format!(r#"{{{META},"name":"f","requestState":"guessed"}}"#);
    expect![[
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown requestState"}}"#
    ]]
    .assert_eq(&live.ask(&crate::mcp::request(1, "tools/call", &params)));
}
