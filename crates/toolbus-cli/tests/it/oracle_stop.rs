//! How an oracle is left: the goodbye, the ladder, signals, and that no process stays behind
//! (`docs/protocols/oracle.md` 6).

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::live::{Live, marked};
use crate::page::{Page, oracle};

#[test]
fn shutdown_and_the_end_of_input_are_the_goodbye() {
    let scratch = Scratch::new();
    let mark = scratch.file("heard-the-end");
    let steps = ["ready", "read", "answer", "[]", "read", "err", "$LINE", "readall", "mark", &mark];
    Page::of(&["oracle", "invoke", "-v", &oracle(&steps), "f"]).check(expect![[r#"
        stdout
        []
        stderr
        info: faulty-tool: {"jsonrpc":"2.0","method":"shutdown"}
        log
        info: faulty-tool: started, process ID
        info: faulty-tool: ready
        info: faulty-tool: ended with exit status 0
        exit 0
    "#]]);
    marked(&mark, 1)[0].assert_gone();
}

#[test]
fn an_oracle_that_does_not_go_is_made_to() {
    let scratch = Scratch::new();
    let mark = scratch.file("deaf");
    let steps = ["mark", &mark, "ignore-term", "ready", "read", "answer", "[]", "stay"];
    let mut call =
        Live::start(&["oracle", "invoke", "--stop-timeout", "100ms", &oracle(&steps), "f"]);
    assert_eq!(call.hear(), "[]");
    expect!["exit 0\n"].assert_eq(&call.end());
    marked(&mark, 1)[0].assert_gone();
}

#[test]
fn how_it_ends_changes_no_exit_code() {
    let steps = [
        "ready", "read", "answer", "[]", "read", "flood", "100000", "bye", "err", "bye", "exit",
        "9",
    ];
    Page::of(&["oracle", "invoke", "-q", &oracle(&steps), "f"]).check(expect![[r#"
        stdout
        []
        exit 0
    "#]]);
}

#[test]
fn children_of_the_oracle_go_with_it() {
    let scratch = Scratch::new();
    let mark = scratch.file("family");
    for child in [&["stay"][..], &["ignore-term", "stay"]] {
        let steps = [&["mark", &mark, "fork", "{"], child, &["}", "echo-oracle"]].concat();
        let page = Page::of(&["oracle", "invoke", &oracle(&steps), "f"]).run();
        assert_eq!(page.to_string(), "stdout\n[]\nexit 0\n");
        marked(&mark, 1).last().expect("at least one").assert_gone();
    }
}

#[test]
fn a_signal_cancels_the_call() {
    for (signal, exit) in [(Signal::INT, "exit 130\n"), (Signal::TERM, "exit 143\n")] {
        let scratch = Scratch::new();
        let mark = scratch.file("called");
        let address = oracle(&["ready", "read", "mark", &mark, "readall"]);
        let call = Live::start(&["oracle", "invoke", &address, "f"]);
        let called = marked(&mark, 1);
        call.signal(signal);
        assert_eq!(call.end(), format!("error: cancelled\n{exit}"));
        called[0].assert_gone();
    }
}

#[test]
fn a_cancelled_call_is_a_failed_one_for_scripts() {
    for (flag, line) in [
        ("--json", r#"{"error":{"message":"cancelled","kind":"cancelled"}}"#),
        ("--as-cairo", r#"["0x1","0x0","0x63616e63656c6c6564","0x9"]"#),
    ] {
        let scratch = Scratch::new();
        let mark = scratch.file("called");
        let address = oracle(&["ready", "read", "mark", &mark, "readall"]);
        let call = Live::start(&["oracle", "invoke", flag, &address, "f"]);
        marked(&mark, 1);
        call.signal(Signal::INT);
        assert_eq!(call.end(), format!("{line}\nerror: cancelled\nexit 130\n"));
    }
}

#[test]
fn a_signal_between_two_calls_just_ends_a_batch() {
    let mut batch = Live::start(&["oracle", "invoke", &oracle(&["echo-oracle"]), "-"]);
    assert_eq!(batch.ask(r#"{"selector":"f"}"#), r#"{"ok":[]}"#);
    batch.signal(Signal::TERM);
    expect!["exit 143\n"].assert_eq(&batch.end());
}

#[test]
fn a_second_signal_ends_the_patience() {
    let scratch = Scratch::new();
    let mark = scratch.file("deaf");
    let goodbye = scratch.file("goodbye");
    let steps = ["ignore-term", "ready", "read", "mark", &mark, "read", "mark", &goodbye, "stay"];
    // The goodbye alone would take longer than any test waits.
    let call = Live::start(&["oracle", "invoke", "--stop-timeout", "10m", &oracle(&steps), "f"]);
    let deaf = marked(&mark, 1);
    call.signal(Signal::INT);
    marked(&goodbye, 1);
    call.signal(Signal::INT);
    expect!["error: cancelled\nexit 130\n"].assert_eq(&call.end());
    deaf[0].assert_gone();
}

#[test]
fn no_oracle_outlives_us() {
    let scratch = Scratch::new();
    let mark = scratch.file("called");
    let steps = [
        "ignore-term",
        "fork",
        "{",
        "ignore-term",
        "stay",
        "}",
        "ready",
        "read",
        "mark",
        &mark,
        "stay",
    ];
    let call = Live::start(&["oracle", "invoke", &oracle(&steps), "f"]);
    let called = marked(&mark, 1);
    call.signal(Signal::KILL);
    called[0].assert_gone();
}
