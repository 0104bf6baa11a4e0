//! How MCP servers are left: closed, made to go, and that no process stays behind
//! (`docs/protocols/mcp.md` 2.10).

use std::io::{Read, Write};
use std::process::Stdio;

use rustix::process::Signal;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::process::stop_reading;
use toolbus_testkit::scratch::Scratch;

use crate::live::{Live, marked};
use crate::mcp::{DISCOVERED, INITIALIZE, modern_call};
use crate::page::{Page, command, mcp_server};

/// A server that hears no SIGTERM, nor does its child; it leaves a mark when it is called.
fn stubborn(mark: &str) -> String {
    let family = ["ignore-term", "fork", "{", "ignore-term", "stay", "}"];
    let called = ["read", "answer", DISCOVERED, "read", "mark", mark, "stay"];
    mcp_server(&[&family[..], &called].concat())
}

#[test]
fn the_end_of_input_is_the_goodbye() {
    let scratch = Scratch::new();
    let mark = scratch.file("heard-the-end");
    let greet = ["read", "answer", DISCOVERED];
    let steps = ["read", "answer", r#"{"content":[]}"#, "readall", "mark", &mark];
    let page =
        Page::of(&["call", "--no-check", &mcp_server(&[&greet[..], &steps].concat()), "f"]).run();
    assert_eq!(page.status.code(), Some(0), "{page}");
    marked(&mark, 1)[0].assert_gone();
}

#[test]
fn a_server_that_does_not_go_is_made_to() {
    let scratch = Scratch::new();
    let mark = scratch.file("called");
    let mut live = Live::start(&["mcp", "--stop-timeout", "100ms", &stubborn(&mark)]);
    live.say(&modern_call(1, "f", "{}"));
    let called = marked(&mark, 1);
    live.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    live.hang_up();
    assert_eq!(live.end(), "exit 0\n");
    called[0].assert_gone();
}

#[test]
fn a_signal_makes_the_goodbye_a_short_one() {
    let scratch = Scratch::new();
    let mark = scratch.file("called");
    // The goodbye alone would take longer than any test waits.
    let mut live = Live::start(&["mcp", "--stop-timeout", "10m", &stubborn(&mark)]);
    live.say(&modern_call(1, "f", "{}"));
    let called = marked(&mark, 1);
    live.signal(Signal::TERM);
    assert_eq!(live.end(), "exit 143\n");
    called[0].assert_gone();
}

#[test]
fn no_server_outlives_us() {
    let scratch = Scratch::new();
    let mark = scratch.file("called");
    let mut live = Live::start(&["mcp", &stubborn(&mark)]);
    live.say(&modern_call(1, "f", "{}"));
    let called = marked(&mark, 1);
    live.signal(Signal::KILL);
    called[0].assert_gone();
}

#[test]
fn a_client_that_closes_our_output_ends_us_quietly() {
    let mut command = command(&["mcp", "builtin:"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built for this test");
    let stdout = child.stdout.take();
    stop_reading(&child, stdout);
    let mut stdin = child.stdin.take().expect("is piped");
    writeln!(stdin, "{INITIALIZE}").expect("it reads");
    // Our input stays open: that it ends must have another reason.
    let status = awaited("it ends", || child.try_wait().expect("can be waited for"));
    let mut said = String::new();
    child.stderr.take().expect("is piped").read_to_string(&mut said).expect("it has ended");
    assert_eq!((status.code(), &*said), (Some(1), ""));
    drop(stdin);
}
