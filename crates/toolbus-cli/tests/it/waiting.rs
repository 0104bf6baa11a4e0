//! What people see while they wait, and what `-v` tells.

use expect_test::expect;
use serde_json::Value;

use crate::mcp::INITIALIZED;
use crate::page::{Page, mcp_ourselves, mcp_server, timeless};
use crate::terminal::Terminal;

#[test]
fn a_spinner_turns_and_is_gone() {
    let shown = Terminal::of(80).shown(&["call", "builtin:", "sleep", "ms=700"]);
    let (before, after) = shown.rsplit_once("\r\x1b[K").expect("it turned");
    assert!(before.contains("⠋ 0."), "{shown:?}");
    assert!(!after.contains('⠋') && after.contains("slept_ms"), "{shown:?}");
    // Where lines cannot be wiped there is none.
    let dumb = Terminal::of(80).env("TERM", "dumb");
    let shown = dumb.shown(&["call", "builtin:", "sleep", "ms=700"]);
    assert_eq!(shown, "{\n  \"slept_ms\": 700\n}\n");
    // What is fast needs none.
    let shown =
        Terminal::of(80).env("NO_COLOR", "1").shown(&["call", "builtin:", "add", "a=1", "b=2"]);
    assert_eq!(shown, "3\n");
}

/// What is said, calls and processes included.
fn told(words: &[&str]) -> String {
    timeless(&Page::of(words).run().to_string())
}

#[test]
fn each_call_is_a_line() {
    expect![[r#"
        stdout
        3
        stderr
        info: builtin: call of `add` over inside: ok in TIME
        exit 0
    "#]]
    .assert_eq(&told(&["-v", "call", "builtin:", "add", "a=1", "b=2"]));
    expect![[r#"
        stderr
        debug: builtin: <- call of `fail` {"message":"no"}
        info: builtin: call of `fail` over inside: failed in TIME
        debug: builtin: -> failure no
        error: no
        exit 1
    "#]]
    .assert_eq(&told(&["-vv", "call", "builtin:", "fail", "message=no"]));
    let server = mcp_ourselves(&["builtin:"]);
    expect![[r#"
        stdout
        "HI"
        stderr
        info: toolbus: started, process ID
        info: toolbus: ready
        info: toolbus: call of `upper` over mcp: ok in TIME
        info: toolbus: ended with exit status 0
        exit 0
    "#]]
    .assert_eq(&told(&["-v", "call", &server, "upper", "text=hi"]));
}

#[test]
fn a_message_of_the_server_has_its_level() {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"disk is low"}}"#;
    let fine = r#"{"content":[{"type":"text","text":"fine"}]}"#;
    let server = mcp_server(
        &[&opening[..], &["read", "read", "say", message, "answer", fine, "readall"]].concat(),
    );
    let page = Page::of(&["-v", "call", "--no-check", &server, "f", "{}"]).run();
    assert!(page.stderr.contains("info: faulty-tool: [warning] disk is low\n"), "{page}");
}

#[test]
fn complaints_of_a_probe_are_no_last_words() {
    let opening = ["read", "err", "what is server/discover?", "refuse", "-32601", "no"];
    let then = ["read", "answer", INITIALIZED, "read", "read", "err", "alas", "exit", "3"];
    let server = mcp_server(&[&opening[..], &then].concat());
    Page::of(&["call", "--no-check", &server, "f", "{}"]).check(expect![[r#"
        stderr
        error: `faulty-tool` ended with exit status 3 before it answered
          | alas
        exit 3
    "#]]);
}

#[test]
fn every_line_can_be_json() {
    for words in [
        &["call", "builtin:", "fail", "message=no"][..],
        &["cal"],
        &["-v", "call", "builtin:", "add", "a=1", "b=2"],
    ] {
        let page = Page::of(&[&["--log-format", "json"], words].concat()).run();
        assert!(!page.stderr.is_empty(), "{page}");
        for line in page.stderr.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
        }
    }
}

#[test]
fn a_server_on_a_terminal_says_whom_it_waits_for() {
    let shown = Terminal::of(80)
        .env("NO_COLOR", "1")
        .types("waits for a client", "\x04")
        .shown(&["mcp", "builtin:"]);
    assert!(shown.contains("info: this is an MCP server now: it waits for a client"), "{shown:?}");
}
