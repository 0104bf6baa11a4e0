//! The first list of a front waits for the backs that were never heard, and for no longer than it
//! may; the greeting and calls of others wait for none.

use std::fs;
use std::process::Command;

use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::mcp::{INITIALIZED, legacy_call};
use crate::page::mcp_server;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

/// A legacy server with one tool, `f`, that says nothing before it is let go.
pub(crate) struct Late {
    scratch: Scratch,
}

impl Late {
    pub(crate) fn new() -> Late {
        let late = Late { scratch: Scratch::new() };
        let made = Command::new("mkfifo").arg(late.gate()).status().expect("can be run");
        assert!(made.success());
        let tools = r#""tools":[{"name":"f","inputSchema":{"type":"object"}}]"#;
        let greeting = INITIALIZED.strip_suffix('}').expect("an object");
        let all = format!(r#"{greeting},{tools},"content":[]}}"#);
        let server = mcp_server(&["forever", "{", "read", "answer", &all, "}"]);
        let server = server.strip_prefix("mcp+stdio:").expect("an address");
        let script = format!("read -r line < '{}'\nexec {server}\n", late.gate());
        fs::write(late.scratch.file("late.sh"), script).expect("the folder is ours");
        late
    }

    fn gate(&self) -> String {
        self.scratch.file("gate")
    }

    pub(crate) fn address(&self) -> String {
        format!("mcp+stdio:sh {}", self.scratch.file("late.sh"))
    }

    pub(crate) fn let_go(&self) {
        fs::write(self.gate(), "go\n").expect("it waits");
    }
}

fn ask(server: &Server, session: &str, message: &str) -> Request {
    Request::send(server.url(), "POST", session, message)
}

#[track_caller]
fn hear(server: &Server, said: &str) {
    while !server.hear().contains(said) {}
}

#[test]
fn it_waits_for_every_back_and_says_so() {
    let late = Late::new();
    let server = Server::start(&["mcp", "-v", "--http", "0", "builtin:", &late.address()], 1);
    // Neither the greeting nor a call of another back waits.
    let name = session(server.url());
    let add = legacy_call(2, "builtin_add", r#"{"a":1,"b":2}"#);
    assert!(ask(&server, &name, &add).answer().contains(r#""text":"3""#));
    let list = ask(&server, &name, LIST);
    hear(&server, "the first list waits for `late`, 15s at most");
    late.let_go();
    let list = list.answer();
    assert!(list.contains("builtin_add") && list.contains("late_f"), "{list}");
}

#[test]
fn who_is_late_is_left_out_and_told_when_it_is_there() {
    let late = Late::new();
    let words = ["mcp", "--http", "0", "--list-timeout", "200ms", "builtin:", &late.address()];
    let server = Server::start(&words, 1);
    let name = session(server.url());
    for _ in 0..2 {
        let list = ask(&server, &name, LIST).answer();
        assert!(list.contains("builtin_add") && !list.contains("late_f"), "{list}");
    }
    hear(&server, "late: left out: it has not listed its tools within 200ms");
    let mut changes = Request::connect(server.url()).say(&format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {name}\r\n\r\n"
    ));
    changes.hear("text/event-stream");
    late.let_go();
    changes.hear("notifications/tools/list_changed");
    let list = ask(&server, &name, LIST).answer();
    assert!(list.contains("builtin_add") && list.contains("late_f"), "{list}");
}

#[test]
fn it_need_not_wait_at_all() {
    let late = Late::new();
    let config = Scratch::new();
    let text = format!(
        "[back.own]\nconnect = \"builtin:\"\n[back.late]\nconnect = \"{}\"\n\
         [front.f]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\nlist_timeout = \"0s\"\n",
        late.address()
    );
    fs::write(config.file("toolbus.toml"), text).expect("the folder is ours");
    let server = Server::start(&["serve", "--config", &config.file("toolbus.toml")], 1);
    let list = ask(&server, &session(server.url()), LIST).answer();
    assert!(list.contains("own_add") && !list.contains("late_f"), "{list}");
    late.let_go();
    assert_eq!(server.ready(), "ready: 2 of 2 backs, 10 tools");
}

#[test]
fn who_looks_after_a_server_is_told_what_is_wrong_with_it_too() {
    let server = Server::start(&["mcp", "--http", "0", "mcp+stdio:no-such-program --x"], 1);
    let greeting = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    let answer = ask(&server, "", greeting).answer();
    assert!(answer.contains("there is no program `no-such-program`"), "{answer}");
    hear(&server, "no-such-program: left out: there is no program `no-such-program`");
}
