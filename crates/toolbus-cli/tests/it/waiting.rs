//! What people see while they wait, and what `-v` tells.

use expect_test::expect;
use serde_json::Value;

use crate::mcp::INITIALIZED;
use crate::page::{Page, check, mcp_ourselves, mcp_server};
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

#[test]
fn each_call_is_a_line() {
    check("-v call builtin: add a=1 b=2", expect![[r#""#]]);
    check("-vv call builtin: fail message=no", expect![[r#""#]]);
    Page::of(&["-v", "call", &mcp_ourselves(&["builtin:"]), "upper", "text=hi"])
        .check(expect![[r#""#]]);
}

#[test]
fn a_message_of_the_server_has_its_level() {
    let opening = ["read", "refuse", "-32601", "no such method", "read", "answer", INITIALIZED];
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"disk is low"}}"#;
    let fine = r#"{"content":[{"type":"text","text":"fine"}]}"#;
    let server = mcp_server(
        &[&opening[..], &["read", "read", "say", message, "answer", fine, "readall"]].concat(),
    );
    let page = Page::of(&["-v", "call", &server, "f", "{}"]).run();
    assert!(page.stderr.contains("info: faulty-tool: [warning] disk is low\n"), "{page}");
}

#[test]
fn complaints_of_a_probe_are_no_last_words() {
    let opening = ["read", "err", "what is server/discover?", "refuse", "-32601", "no"];
    let then = ["read", "answer", INITIALIZED, "read", "read", "err", "alas", "exit", "3"];
    let server = mcp_server(&[&opening[..], &then].concat());
    Page::of(&["call", &server, "f", "{}"]).check(expect![[r#""#]]);
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
    let shown = Terminal::of(80).types("waits for a client", "\x04").shown(&["mcp", "builtin:"]);
    assert!(shown.contains("info: this is an MCP server now: it waits for a client"), "{shown:?}");
}
