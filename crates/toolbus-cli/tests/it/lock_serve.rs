//! The lock while toolbus runs: what is refused is told with its reason on each wire, counted and
//! written down; a reload takes what was approved; a program of which nothing is asked is stopped.

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::patience::eventually;

use crate::http::Request;
use crate::listening::Server;
use crate::lock::Folder;
use crate::page::Page;

const FRONTS: &str = "
[front.s]
serve = \"mediocre+tcp://127.0.0.1:0\"

[admin]
listen = \"127.0.0.1:0\"

[journal]
path = \"journal.jsonl\"
";

fn serve(folder: &Folder, words: &[&str]) -> Server {
    folder.serve(words, 2)
}

/// Calls a tool of the first front.
fn call(server: &Server, words: &[&str]) -> String {
    Page::of(&[&["call", &server.urls[0]], words].concat()).run().to_string()
}

/// The numbers that tell of the lock, of searches and of rests.
fn metrics(server: &Server) -> String {
    let head = "GET /metrics HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n";
    let page = Request::connect(&server.urls[1]).say(head).answer();
    let is_meant = |line: &&str| {
        ["toolbus_lock_", "toolbus_searches_total", "toolbus_back_idle", "toolbus_back_up"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    page.lines().filter(is_meant).map(|line| format!("{line}\n")).collect()
}

/// The lines of the journal, without what differs from run to run.
fn journal(folder: &Folder) -> String {
    let told = |line: &str| {
        let line = line.split_once("\"front\"").map_or(line, |(_, rest)| rest);
        let line = line.split_once(",\"duration\"").map_or(line, |(line, _)| line);
        format!("\"front\"{line}\n")
    };
    folder.read("journal.jsonl").lines().map(told).collect()
}

#[test]
fn what_is_refused_is_counted_and_written_down() {
    let folder = Folder::of(&["a"], &FRONTS.replace("\n[admin]", "search = true\n\n[admin]"));
    folder.page("lock").run();
    let config = folder.read("toolbus.toml");
    folder.write("toolbus.toml", &format!("{config}\n[back.b]\nconnect = \"builtin:\"\n"));
    folder.show("a", "next days.", "next days!");
    folder.show("a", "Plan a day", "Plan a week");
    let server = serve(&folder, &[]);
    expect![[r#"
        toolbus_lock_held_back{back="a"} 0
        toolbus_lock_held_back{back="b"} 0
    "#]]
    .assert_eq(&metrics(&server));
    expect![[r#"
        stderr
        error: tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`
        exit 3
    "#]].assert_eq(&call(&server, &["a.forecast", "city=Rome"]));
    expect![[r#"
        stderr
        error: back `b` is not in `toolbus.lock`; `toolbus lock approve b` takes it in
        exit 3
    "#]]
    .assert_eq(&call(&server, &["b.add", "a=1", "b=2"]));
    expect![[r#"
        stdout
        {"error":{"kind":"unavailable","message":"tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`","detail":{"reason":"changed"}}}
        stderr
        error: tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`
        exit 3
    "#]].assert_eq(&call(&server, &["--json", "a.forecast", "city=Rome"]));
    expect![[r#"
        stdout
        "did alerts"
        exit 0
    "#]]
    .assert_eq(&call(&server, &["a.alerts"]));
    assert!(call(&server, &["toolbus_search", "query=storm warnings"]).contains("exit 0"));
    assert!(call(&server, &["toolbus_search", "query=order a pizza"]).contains("exit 0"));
    expect![[r#"
        toolbus_searches_total{front="s",found="no"} 1
        toolbus_searches_total{front="s",found="yes"} 1
        toolbus_back_up{back="a"} 1
        toolbus_lock_held_back{back="a"} 2
        toolbus_lock_held_back{back="b"} 0
        toolbus_lock_refused_total{back="a",tool="forecast",reason="changed"} 2
        toolbus_lock_refused_total{back="b",tool="add",reason="not_locked"} 1
    "#]]
    .assert_eq(&metrics(&server));
    expect![[r#"
        "front":"s","back":"a","tool":"forecast","outcome":"unavailable","reason":"changed"
        "front":"s","back":"b","tool":"add","outcome":"unavailable","reason":"not_locked"
        "front":"s","back":"a","tool":"forecast","outcome":"unavailable","reason":"changed"
        "front":"s","back":"a","tool":"alerts","outcome":"ok"
        "front":"s","tool":"toolbus_search","outcome":"ok"
        "front":"s","tool":"toolbus_search","outcome":"ok"
    "#]]
    .assert_eq(&journal(&folder));
    // What is approved holds from the reload on, without a new process.
    let starts = folder.starts("a");
    folder.page("lock approve a").run();
    assert_eq!(folder.starts("a"), starts + 1, "only the command has started one");
    server.signal(Signal::HUP);
    eventually("it is approved", || call(&server, &["a.forecast", "city=Rome"]).contains("exit 0"));
    assert_eq!(folder.starts("a"), starts + 1);
    eventually("nothing is held back", || {
        metrics(&server).contains("toolbus_lock_held_back{back=\"a\"} 0\n")
    });
    // A lock that is damaged is told, and all stays.
    let lock = folder.read("toolbus.lock");
    folder.write("toolbus.lock", &lock.replace("next days!", "next days?"));
    let heard = |server: &Server, wanted: &str| loop {
        let line = server.hear();
        if line.contains(wanted) {
            return line;
        }
    };
    server.signal(Signal::HUP);
    let told = heard(&server, "does not fit its digest");
    assert!(told.contains("`back.a.tool.forecast` does not fit its digest"), "{told}");
    assert!(call(&server, &["a.forecast", "city=Rome"]).contains("exit 0"));
    std::fs::remove_file(folder.0.file("toolbus.lock")).unwrap();
    server.signal(Signal::HUP);
    let told = heard(&server, "is gone");
    assert_eq!(told, "warning: `toolbus.lock` is gone: tools are no longer pinned");
    eventually("it is served", || call(&server, &["b.add", "a=1", "b=2"]).contains("exit 0"));
}

#[test]
fn a_change_that_a_server_tells_is_compared_at_once() {
    let folder = Folder::of(&["a"], FRONTS);
    folder.page("lock").run();
    let server = serve(&folder, &[]);
    assert!(call(&server, &["a.alerts"]).contains("exit 0"));
    let lock = folder.read("a.json");
    folder.show("a", "next days.", "next days!");
    assert!(call(&server, &["a.alerts", "tell=true", "--no-check"]).contains("exit 0"));
    eventually("it is held back", || {
        call(&server, &["a.forecast", "city=Rome"]).contains("has changed since it was locked")
    });
    // As it was locked again.
    folder.write("a.json", &lock);
    assert!(call(&server, &["a.alerts", "tell=true", "--no-check"]).contains("exit 0"));
    eventually("it is back", || call(&server, &["a.forecast", "city=Rome"]).contains("exit 0"));
    // What is found again is told again.
    folder.show("a", "next days.", "next days!");
    assert!(call(&server, &["a.alerts", "tell=true", "--no-check"]).contains("exit 0"));
    let is_told = |line: String| line.contains("held back: forecast (description)");
    let mut told = 0;
    while told < 2 {
        told += usize::from(is_told(server.hear()));
    }
    assert_eq!(folder.starts("a"), 2);
}

#[test]
fn each_wire_tells_the_reason() {
    let folder = Folder::of(&["a", "b"], "");
    folder.page("lock").run();
    folder.show("a", "next days.", "next days!");
    folder.show("a", "Plan a day", "Plan a week");
    let legacy = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a_forecast","arguments":{}}}
{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"a_plan"}}
"#;
    let only = |page: String, starts: &str| {
        let mut lines: Vec<_> = page.lines().filter(|line| line.starts_with(starts)).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let page = folder.page("mcp").stdin(legacy).run().to_string();
    expect![[r#"
        {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"logging":{}},"serverInfo":{"name":"toolbus","version":"0.1.0"},"instructions":"a: Ask for a city first.\n\nb: Ask for a city first."}}
        {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`","data":{"kind":"unavailable","reason":"changed"}}}
        {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"prompt `a.plan` has changed since it was locked: description; see `toolbus lock diff a.plan`","data":{"kind":"unavailable","reason":"changed"}}}"#]].assert_eq(&only(page, "{\"jsonrpc\":\"2.0\",\"id\":"));
    let asked = r#"{"id":1,"method":"configure","params":{"config":{}}}
{"id":2,"method":"execute","params":{"action":"a_forecast","attrs":{"city":"Rome"}}}
"#;
    let page = folder.page("provider").stdin(asked).run().to_string();
    expect![[r#"{"id":2,"error":{"code":"execute_failed","message":"tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`","detail":"{\"reason\":\"changed\"}"}}"#]].assert_eq(&only(page, "{\"id\":2"));
    let asked = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"invoke\",\"params\":{\"selector\":\"a.forecast\",\"calldata\":[\"0x0\",\"0x0\",\"0x0\"]}}\n";
    let page = folder.page("oracle serve").stdin(asked).run().to_string();
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"tool `a.forecast` has changed since it was locked: description; see `toolbus lock diff a.forecast`","data":{"kind":"unavailable","reason":"changed"}}}"#]].assert_eq(&only(page, "{\"jsonrpc\":\"2.0\",\"id\":1"));
}

#[test]
fn a_program_of_which_nothing_is_asked_is_stopped() {
    let folder = Folder::of(&["a"], "idle_stop = \"100ms\"\nrestart = \"never\"\n");
    let config = folder.read("toolbus.toml");
    folder.write("toolbus.toml", &format!("{config}{FRONTS}"));
    let server = serve(&folder, &["-v"]);
    assert!(call(&server, &["a.alerts"]).contains("exit 0"));
    // As often as it was started, when it rests.
    let rests = || {
        let line = format!("toolbus_back_idle_stops_total{{back=\"a\"}} {}\n", folder.starts("a"));
        eventually("it rests", || metrics(&server).contains(&line));
    };
    rests();
    let before = folder.starts("a");
    // A list does not start it: it is listed as it was last.
    let listed = Page::of(&["tools", &server.urls[0]]).run().to_string();
    assert!(listed.contains("a.alerts"), "{listed}");
    assert_eq!(folder.starts("a"), before);
    assert!(call(&server, &["a.alerts"]).contains("exit 0"));
    assert_eq!(folder.starts("a"), before + 1);
    rests();
    let calls = journal(&folder);
    assert_eq!(calls.matches("\"outcome\":\"ok\"").count(), 2, "{calls}");
    let stopped = loop {
        let line = server.hear();
        if line.contains("idle for") {
            break line;
        }
    };
    assert_eq!(stopped, "info: back.a: idle for 100ms, stopped");
    folder.write("toolbus.toml", "[back.x]\nconnect = \"mcp+http://127.0.0.1:1/mcp\"\nidle_stop = \"1m\"\n[back.y]\nconnect = \"builtin:\"\nidle_stop = \"1m\"\n");
    folder.check(
        "tools",
        expect![[r#"
            stderr
            error: `toolbus.toml` line 3: back.x: `idle_stop` is for programs that keep running
            error: `toolbus.toml` line 6: back.y: `idle_stop` is for programs that keep running
            exit 2
        "#]],
    );
}
