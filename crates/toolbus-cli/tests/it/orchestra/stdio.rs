//! `toolbus transport-stdio`: the document's surface, and what becomes of calls when the hub goes.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use super::{Hub, Talking, builtin, call, text};
use crate::page::{Page, check};

const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":"p","result":{}}"#;

#[test]
fn the_conversation_of_the_document() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let mut stdio = hub.stdio(&[]);
    assert_eq!(
        stdio.ask(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#),
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"orchestra","version":"1.0.0"}}}"#
    );
    let tools = stdio.ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    assert!(tools.starts_with(r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"add","#));
    assert_eq!(stdio.ask(&call(3, "upper", r#"{"text":"hi"}"#)), text(3, "HI"));
    assert_eq!(
        stdio.ask(&call(4, "fail", r#"{"message":"no","code":"bad"}"#)),
        r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"no"}],"isError":true}}"#
    );
    assert_eq!(
        stdio.ask(r#"{"jsonrpc":"2.0","id":5,"method":"some/unknown"}"#),
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"method not found: some/unknown"}}"#
    );
    // An id that is null counts as none: neither is answered, and neither is carried out.
    stdio.say(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#);
    stdio.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(stdio.ask(PING), PONG);
    stdio.hang_up();
    assert_eq!(stdio.end(), Some(0));
    let connected = format!("transport.stdio: connected to orchestrator at {}", hub.address);
    assert_eq!(stdio.heard, [connected]);
}

#[test]
fn answers_go_out_as_they_finish_unless_in_order() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let slow_then_fast = [call(1, "sleep", r#"{"ms":300}"#), call(2, "upper", r#"{"text":"a"}"#)];
    for (words, first) in [(&[][..], r#""id":2"#), (&["--in-order"][..], r#""id":1"#)] {
        let mut stdio = hub.stdio(words);
        slow_then_fast.iter().for_each(|line| stdio.say(line));
        stdio.hang_up();
        let answers = [stdio.answer(), stdio.answer()];
        assert!(answers[0].contains(first), "{words:?}: {answers:?}");
        assert_eq!(stdio.end(), Some(0), "what is under way is finished first");
    }
}

#[test]
fn a_call_may_be_late_or_taken_back() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let mut stdio = hub.stdio(&["--timeout", "0.2"]);
    assert_eq!(
        stdio.ask(&call(1, "sleep", r#"{"ms":600000}"#)),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"orchestrator tool_call failed: timed out after 200ms"}}"#
    );
    let mut stdio = hub.stdio(&[]);
    stdio.say(&call(1, "sleep", r#"{"ms":600000}"#));
    stdio.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(stdio.ask(PING), PONG);
    // Nothing is owed any more, or the end would wait for the tool.
    stdio.hang_up();
    assert_eq!(stdio.end(), Some(0));
}

#[test]
fn progress_comes_from_a_tool_that_streams() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let mut stdio = hub.stdio(&[]);
    stdio.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"n":2},"_meta":{"progressToken":"t"}}}"#);
    let progress = |number: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t","progress":{number}}}}}"#
        )
    };
    assert_eq!(stdio.answer(), progress(1));
    assert_eq!(stdio.answer(), progress(2));
    // With or without: the answer is the same.
    let streamed = stdio.answer();
    assert!(streamed.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#), "{streamed}");
    assert_eq!(stdio.ask(&call(1, "count", r#"{"n":2}"#)), streamed);
}

#[test]
fn a_lost_hub_fails_calls_at_once_and_is_found_again() {
    let mut hub = Hub::ready(&[builtin("tools.one")]);
    let mut stdio = hub.stdio(&[]);
    let mut strict = hub.stdio(&["--no-reconnect"]);
    for program in [&mut stdio, &mut strict] {
        program.say(&call(1, "sleep", r#"{"ms":600000}"#));
        assert_eq!(program.ask(PING), PONG);
    }
    // Both calls are with the plugin before the hub is told to go.
    assert_eq!(stdio.ask(&call(2, "upper", r#"{"text":"a"}"#)), text(2, "A"));
    assert_eq!(strict.ask(&call(2, "upper", r#"{"text":"a"}"#)), text(2, "A"));
    let (address, plugins) = (hub.address.clone(), [builtin("tools.one")]);
    hub.program.signal(Signal::INT);
    hub.program.signal(Signal::TERM);
    hub.program.end();
    let Hub { scratch, program, .. } = hub;
    drop(program);
    for program in [&mut stdio, &mut strict] {
        let lost = program.answer();
        assert!(lost.contains(r#""id":1,"#), "{lost}");
    }
    assert_eq!(strict.end(), Some(3));
    stdio.hear(&format!("transport.stdio: lost connection to orchestrator at {address}: "));
    let meanwhile = stdio.ask(&call(3, "upper", r#"{"text":"a"}"#));
    let why = format!("orchestrator tool_call failed: not connected to orchestrator at {address}");
    assert!(meanwhile.contains(&why), "{meanwhile}");
    assert_eq!(stdio.ask(PING), PONG);
    let mut hub = Hub::start_at(scratch, &address, &plugins);
    hub.program.hear("orchestrator ready: ");
    stdio.hear("transport.stdio: connected to orchestrator at ");
    assert_eq!(stdio.ask(&call(4, "upper", r#"{"text":"a"}"#)), text(4, "A"));
}

#[test]
fn a_hub_that_is_not_there_ends_us_unless_we_wait_for_it() {
    let scratch = Scratch::new();
    let certs = scratch.file("certs");
    // A port that was free a moment ago.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let words = ["transport-stdio", "--orchestrator-addr", &address, "--certs-dir", &certs];
    let mut program = Talking::start(&words);
    program.hear(&format!("connect to orchestrator at {address}: "));
    assert_eq!(program.end(), Some(3));
    drop(socket);
    let mut program = Talking::start(&[&words[..], &["--wait"]].concat());
    assert_eq!(program.ask(PING), PONG);
    let refused = program.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert!(refused.contains("orchestrator list_tools failed: not connected to"), "{refused}");
    let mut hub = Hub::start_at(scratch, &address, &[builtin("tools.one")]);
    hub.program.hear("orchestrator ready: ");
    program.hear("transport.stdio: connected to orchestrator at ");
    assert_eq!(program.ask(&call(2, "upper", r#"{"text":"a"}"#)), text(2, "A"));
    check(
        "transport-stdio --orchestrator-addr=",
        expect![[r#"
            stderr
            error: --orchestrator-addr is required
            hint: name the hub, e.g. `--orchestrator-addr localhost:50100`
            exit 2
        "#]],
    );
}

#[test]
fn a_foreign_ca_is_told_at_once() {
    let hub = Hub::ready(&[]);
    let scratch = Scratch::new();
    let certs = scratch.file("certs");
    let words = ["transport-stdio", "--orchestrator-addr", &hub.address, "--certs-dir", &certs];
    let page = Page::of(&words).run();
    assert_eq!(page.status.code(), Some(3), "{page}");
    let begin = format!("stderr\nconnect to orchestrator at {}: ", hub.address);
    assert!(page.to_string().starts_with(&begin), "{page}");
}

#[test]
fn a_signal_ends_us_well_and_a_second_one_at_once() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let mut idle = hub.stdio(&[]);
    idle.hear("transport.stdio: connected");
    idle.signal(Signal::TERM);
    assert_eq!(idle.end(), Some(0));
    assert!(idle.has_said("transport.stdio: shutting down"));
    let mut busy = hub.stdio(&[]);
    busy.say(&call(1, "sleep", r#"{"ms":600000}"#));
    assert_eq!(busy.ask(PING), PONG);
    busy.signal(Signal::TERM);
    busy.hear("transport.stdio: shutting down");
    busy.signal(Signal::INT);
    assert_eq!(busy.end(), Some(130));
}

#[test]
fn a_client_that_reads_no_more_ends_us_quietly() {
    let hub = Hub::ready(&[]);
    let mut stdio = hub.stdio(&[]);
    stdio.hear("transport.stdio: connected");
    stdio.stdout = None;
    stdio.say(PING);
    assert_eq!(stdio.end(), Some(1));
    assert_eq!(stdio.heard.len(), 1, "{:?}", stdio.heard);
}

#[test]
fn words_that_are_empty_or_not_ascii_are_words_like_others() {
    let page = Page::of(&["transport-stdio", "--orchestrator-addr", ""]).run();
    assert_eq!(page.status.code(), Some(2), "{page}");
    assert!(page.to_string().contains("error: --orchestrator-addr is required"), "{page}");
    let page = Page::of(&["transport-stdio", "-orchestrator-addr", "\u{e9}:x", "-\u{e9}"]).run();
    assert_eq!(page.status.code(), Some(2), "{page}");
}

#[test]
fn a_client_that_goes_while_nothing_is_said_is_noticed_at_once() {
    let hub = Hub::ready(&[]);
    let mut stdio = hub.stdio(&[]);
    stdio.hear("transport.stdio: connected");
    // Its input stays open, and there is nothing to write that could fail.
    stdio.stdout = None;
    assert_eq!(stdio.end(), Some(1));
}

#[test]
fn a_link_of_its_name_is_the_program_and_flags_may_have_one_dash() {
    let hub = Hub::ready(&[builtin("tools.one")]);
    let link = hub.scratch.path().join("transport-stdio");
    symlink(env!("CARGO_BIN_EXE_toolbus"), &link).unwrap();
    let mut child = Command::new(link)
        .args(["-orchestrator-addr", &hub.address, "-certs-dir", &hub.certs(), "and", "more"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), PING.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("{PONG}\n"));
    assert_eq!(out.status.code(), Some(0));
}
