//! What viewers are told of backs, of tools and of the page itself; and one that does not read.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use toolbus_testkit::patience::eventually;
use toolbus_testkit::scratch::Scratch;

use super::{CALL, LOOK, Shown, TCP};
use crate::browser::patient;
use crate::first_list::Late;
use crate::http::Request;
use crate::page::Page;
use crate::serve::{BUILTIN, Config, back};

/// A server of MCP that shows the tools that stand in a file. `tell` says that they are others,
/// `hold` is never answered, and `round` tells everybody who holds how far it is, at length.
const SERVER: &str = r#"
import json, sys

def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

held = []
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"id": asked["id"]}
    method, params = asked["method"], asked.get("params", {})
    if method == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        answer["result"] = {"tools": json.load(open(sys.argv[1]))}
    elif method == "tools/call":
        if params["name"] == "hold":
            held.append(params["_meta"]["progressToken"])
            continue
        if params["name"] == "tell":
            say({"method": "notifications/tools/list_changed"})
        for at, token in enumerate(held) if params["name"] == "round" else []:
            say({"method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1, "message": "m" * 60000}})
        answer["result"] = {"content": []}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    say(answer)
"#;

fn tools(names: &[&str]) -> String {
    let tool = |name: &&str| json!({"name":name,"inputSchema":{"type":"object"}});
    Value::from_iter(names.iter().map(tool)).to_string()
}

/// A folder with that server, and its back.
fn server(scratch: &Scratch, names: &[&str]) -> String {
    fs::write(scratch.file("server.py"), SERVER).expect("the folder is ours");
    fs::write(scratch.file("tools.json"), tools(names)).expect("the folder is ours");
    let address =
        format!("mcp+stdio:python3 {} {}", scratch.file("server.py"), scratch.file("tools.json"));
    patient(&back("some", &address))
}

/// The state of a back in what viewers are told.
fn state_of<'a>(told: &'a Value, name: &str) -> &'a Value {
    let backs = told["backs"].as_array().expect("a list of backs");
    &backs.iter().find(|back| back["name"] == name).expect("it is one of them")["state"]
}

#[test]
fn a_back_that_is_late_starts_and_is_ready() {
    let late = Late::new();
    let shown = Shown::of(&format!("{}{TCP}{LOOK}", patient(&back("late", &late.address()))));
    let mut viewing = shown.look("", "");
    let snapshot = viewing.next("snapshot", |_| true);
    assert_eq!(state_of(&snapshot["state"], "late"), "starting");
    assert_eq!(snapshot["state"]["tools"]["count"], 0);
    late.let_go();
    viewing.next("peers", |peers| state_of(peers, "late") == "ready" && peers["ready"] == true);
    let told = shown.json("/api/state");
    assert_eq!((&told["ready"], &told["backs"][0]["tools"]), (&json!(true), &json!(1)));
}

/// A tool that is not as the lock has it makes its back `changed`, and the list another.
#[test]
fn a_back_that_is_not_as_locked_is_changed() {
    let scratch = Scratch::new();
    let config = Config::of(&format!("{}{TCP}{CALL}", server(&scratch, &["tell", "work"])));
    let locked = Page::of(&["lock", "--config", &config.path()]).process().run();
    assert!(locked.status.success(), "{locked}");
    let shown = Shown::served(config);
    // All that is known of it is from the lock, until the first call starts it.
    eventually("its tools are known", || shown.json("/api/state")["tools"]["count"] == 2);
    assert_eq!(state_of(&shown.json("/api/state"), "some"), "idle");
    let mut viewing = shown.look("", "");
    let before = viewing.next("snapshot", |_| true)["state"]["tools"]["digest"].clone();
    assert_eq!(shown.call(&json!({"tool":"some.tell"}))["outcome"], "ok");
    viewing.next("peers", |peers| state_of(peers, "some") == "ready");
    let others = json!([
        {"name":"tell","inputSchema":{"type":"object"}},
        {"name":"work","description":"Anything else","inputSchema":{"type":"object"}},
        {"name":"more","inputSchema":{"type":"object"}},
    ]);
    fs::write(scratch.file("tools.json"), others.to_string()).expect("the folder is ours");
    assert_eq!(shown.call(&json!({"tool":"some.tell"}))["outcome"], "ok");
    viewing.next("peers", |peers| state_of(peers, "some") == "changed");
    let told = viewing.next("tools", |told| told["count"] == 3);
    assert_ne!(told["digest"], before);
    let listed = shown.json("/api/tools");
    assert_eq!(listed["digest"], told["digest"]);
    let state = |name: &str| {
        let tools = listed["tools"].as_array().expect("a list");
        tools.iter().find(|it| it["tool"] == name).expect("it is listed").get("state").cloned()
    };
    let states = ["tell", "work", "more"].map(state);
    assert_eq!(states, [None, Some(json!("changed")), Some(json!("new"))]);
    // What the lock refuses is refused to the page, too.
    let refused = shown.call(&json!({"tool":"some.work"}));
    assert_eq!(refused["outcome"], "unavailable", "{refused}");
    assert_eq!(shown.json("/api/calls?limit=1")["calls"][0]["reason"], "changed");
}

#[test]
fn viewers_are_told_that_the_page_has_moved() {
    let text = |host: &str| format!("{BUILTIN}{TCP}{}", LOOK.replace("127.0.0.1", host));
    let mut shown = Shown::of(&text("127.0.0.1"));
    let before = shown.state_file();
    shown.rpc("try.add", "{\"a\":1,\"b\":2}").run();
    let mut viewing = shown.look("", "");
    let history = viewing.next("snapshot", |_| true)["history"].clone();
    assert_eq!(history["calls"].as_array().map(Vec::len), Some(900));
    let heard = shown.config.reload_listening(&shown.server, &text("localhost"), 1);
    assert_eq!(viewing.next("bye", |_| true), json!({"why":"moved"}));
    let moved = heard.iter().find_map(|line| line.strip_prefix("listening on http://"));
    let after = shown.state_file();
    let url = format!("http://{}/", moved.unwrap_or_else(|| panic!("it is told: {heard:?}")));
    assert_eq!(after["url"], url);
    assert_eq!((&after["token"], &after["boot"]), (&before["token"], &before["boot"]));
    shown.url = url.trim_end_matches('/').to_owned();
    // Counts, numbers and history go along.
    let state = shown.json("/api/state");
    assert_eq!((&state["boot"], &state["counts"]["calls"]), (&before["boot"], &json!(1)));
    assert_eq!(shown.json("/api/calls/1")["tool"], "add");
    let calls = shown.json("/api/history")["calls"].clone();
    let calls = calls.as_array().expect("numbers").iter().filter_map(Value::as_u64);
    assert!(calls.sum::<u64>() <= 1);
    shown.server.signal(Signal::TERM);
    assert_eq!(shown.server.end(), "exit 0\n");
}

/// What does not fit is dropped and counted; who reads again is told all there is, and how many
/// frames that stands for.
#[test]
fn a_viewer_that_does_not_read_misses_frames_and_is_told() {
    let scratch = Scratch::new();
    let names = ["hold", "round"];
    let shown = Shown::of(&format!("{}{TCP}{CALL}", server(&scratch, &names)));
    let mut viewing = shown.look("", "");
    eventually("it looks", || shown.json("/api/state")["viewers"] == 1);
    let holding: Vec<_> = (0..3)
        .map(|_| {
            let (own, body) = (shown.own_fields(), "{\"tool\":\"some.hold\"}");
            let length = body.len();
            Request::connect(&shown.url).say(&format!(
                "POST /api/call HTTP/1.1\r\n{own}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
        })
        .collect();
    eventually("they run", || shown.json("/api/state")["counts"]["in_flight"] == 3);
    // As much as the kernel takes for who does not read, and then 256 KiB. A frame each, for which
    // one waits who reads: of more calls than a snapshot has, those that run would not be told.
    let mut reading = shown.look("", "");
    let dropped = || shown.metric("toolbus_page_frames_dropped_total");
    eventually("a frame is dropped", || {
        shown.call(&json!({"tool":"some.round"}));
        reading.next("tick", |tick| tells_of(tick, "round"));
        dropped() != Some(0)
    });
    // Nobody else is kept waiting, and nothing of it is lost to who asks.
    assert_eq!(
        shown.json("/api/calls?filter=outcome:running")["calls"].as_array().map(Vec::len),
        Some(3)
    );
    let counted = shown.json("/api/state")["counts"]["calls"].as_u64().expect("a number");
    let snapshot = viewing.next("snapshot", |told| told["dropped"] != 0);
    assert_eq!(snapshot["resumed"], false);
    assert!(snapshot["dropped"].as_u64() <= dropped(), "{}", snapshot["dropped"]);
    assert!(Some(counted) <= snapshot["state"]["counts"]["calls"].as_u64());
    let calls = snapshot["calls"].as_array().expect("calls");
    let running: Vec<_> = calls.iter().filter(|call| call["outcome"] == "running").collect();
    assert_eq!(running.len(), 3);
    assert!(
        running
            .iter()
            .all(|call| call["progress"]["message"].as_str().map(str::len) == Some(60_000))
    );
    // From there on it is told what happens, as anybody.
    shown.call(&json!({"tool":"some.none"}));
    viewing.next("tick", |tick| tells_of(tick, "none"));
    drop(holding);
}

fn tells_of(tick: &Value, tool: &str) -> bool {
    tick["calls"].as_array().is_some_and(|calls| calls.iter().any(|call| call["tool"] == tool))
}
