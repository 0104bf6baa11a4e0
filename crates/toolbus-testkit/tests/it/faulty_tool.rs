//! Each step of `faulty-tool`, as pages.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;

use expect_test::{Expect, expect};
use toolbus_testkit::patience::awaited;
use toolbus_testkit::peer::{self, Peer};
use toolbus_testkit::process::Group;
use toolbus_testkit::scratch::Scratch;

#[expect(clippy::needless_pass_by_value, reason = "taken as `expect!` gives it")]
fn check(steps: &[&str], stdin: &str, page: Expect) {
    page.assert_eq(&peer::program(steps).stdin(stdin).run().to_string());
}

#[test]
fn it_says_what_it_is_told() {
    check(
        &["say", r"a\tb\x41", "err", "to people", "raw", r"\{7a*3}"],
        "",
        expect![[r#"
            stdout
            a	bA
            zzz
            (no newline)
            stderr
            to people
            exit 0
        "#]],
    );
}

#[test]
fn it_reads_and_says_what_it_read() {
    let steps = ["read", "say", "$ID of $LINE", "read", "say", "$LINE", "read", "say", "never"];
    check(
        &steps,
        "{\"id\":\"7\"}\na\\n\n",
        expect![[r#"
            stdout
            "7" of {"id":"7"}
            a\n
            exit 0
        "#]],
    );
    check(
        &["readall", "say", "all"],
        "a\nb",
        expect![[r#"
            stdout
            all
            exit 0
        "#]],
    );
}

#[test]
fn steps_repeat_and_exit() {
    let steps =
        ["repeat", "2", "{", "say", "a", "repeat", "2", "{", "say", "b", "}", "}", "exit", "3"];
    check(
        &steps,
        "",
        expect![[r#"
            stdout
            a
            b
            b
            a
            b
            b
            exit 3
        "#]],
    );
    check(
        &["forever", "{", "read", "say", "$LINE", "}"],
        "1\n2\n",
        expect![[r#"
            stdout
            1
            2
            exit 0
        "#]],
    );
    let page = peer::program(&["flood", "100000", "x"]).run();
    assert_eq!(page.stdout, "x\n".repeat(100_000));
}

#[test]
fn it_dies_of_signals() {
    check(
        &["say", "a", "die", "KILL", "say", "b"],
        "",
        expect![[r#"
            stdout
            a
            signal 9
        "#]],
    );
    check(
        &["die", "SEGV"],
        "",
        expect![[r#"
            signal 11
        "#]],
    );
}

#[test]
fn it_may_close_its_ends_and_stay() {
    let mut peer = Peer::start(&["read", "say", "$LINE", "close-out", "read", "stay"]);
    let mut stdin = peer.stdin.take().unwrap();
    stdin.write_all(b"hi\nrest\n").unwrap();
    let mut said = String::new();
    peer.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hi\n");
    assert_eq!(peer.group.living().len(), 1);

    let mut peer = Peer::start(&["read", "close-in", "say", "deaf to $LINE", "stay"]);
    let mut stdin = peer.stdin.take().unwrap();
    stdin.write_all(b"x\n").unwrap();
    let mut said = String::new();
    BufReader::new(&mut peer.stdout).read_line(&mut said).unwrap();
    assert_eq!(said, "deaf to x\n");
    // Not at once: a test beside this one may just be forking, and then holds every pipe of
    // ours until it runs its program.
    let error = awaited("the reader has gone", || stdin.write_all(b"y\n").err());
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    let group = peer.group;
    drop(peer);
    group.assert_gone();
}

#[test]
fn sigterm_can_be_ignored() {
    let scratch = Scratch::new();
    let marks = scratch.file("marks");
    let mut peer = Peer::start(&["ignore-term", "mark", &marks, "read", "say", "alive"]);
    let pid = awaited("it has gone on with SIGTERM ignored", || {
        fs::read_to_string(&marks).ok().filter(|mark| mark.ends_with('\n'))
    });
    assert_eq!(Group::led_by(pid.trim().parse().unwrap()), peer.group);
    let kill = ["-c", "kill -s TERM $0", pid.trim()];
    assert!(Command::new("sh").args(kill).status().unwrap().success());
    peer.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let mut said = String::new();
    peer.stdout.read_to_string(&mut said).unwrap();
    assert_eq!(said, "alive\n");
}

#[test]
fn a_child_keeps_the_pipes() {
    let mut peer = Peer::start(&["fork", "{", "read", "say", "still here", "}", "say", "bye"]);
    let mut lines = BufReader::new(&mut peer.stdout).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "bye");
    peer.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "still here");
    assert!(lines.next().is_none());
}

#[test]
fn what_is_done_once_is_done_once() {
    let scratch = Scratch::new();
    let (flag, marks) = (scratch.file("flag"), scratch.file("marks"));
    let steps = ["mark", &marks, "once", &flag, "{", "exit", "9", "}", "say", "again"];
    check(
        &steps,
        "",
        expect![[r#"
            exit 9
        "#]],
    );
    check(
        &steps,
        "",
        expect![[r#"
            stdout
            again
            exit 0
        "#]],
    );
    assert_eq!(fs::read_to_string(&marks).unwrap().lines().count(), 2);
}

#[test]
fn it_is_an_oracle() {
    let invoke = r#"{"jsonrpc":"2.0","id":0,"method":"invoke","params":{"selector":"f","calldata":["0x1"]}}"#;
    let ack = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#;
    let bye = r#"{"jsonrpc":"2.0","method":"shutdown"}"#;
    check(
        &["echo-oracle"],
        &format!("{ack}\n{invoke}\n{bye}\n{invoke}\n"),
        expect![[r#"
            stdout
            {"jsonrpc":"2.0","id":0,"method":"ready"}
            {"jsonrpc":"2.0","id":0,"result":["0x1"]}
            exit 0
        "#]],
    );
    let steps = ["ready", "read", "refuse", "-32000", "no \"luck\"", "answer", "[]"];
    check(
        &steps,
        &format!("{ack}\n{invoke}\n"),
        expect![[r#"
            stdout
            {"jsonrpc":"2.0","id":0,"method":"ready"}
            {"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no \"luck\""}}
            {"jsonrpc":"2.0","id":0,"result":[]}
            exit 0
        "#]],
    );
}

#[test]
fn it_shows_its_environment() {
    let page = peer::program(&["env", "SOME_KEY", "env", "NO_SUCH_KEY"]).env("SOME_KEY", "v");
    expect![[r#"
        stdout
        SOME_KEY=v
        NO_SUCH_KEY unset
        exit 0
    "#]]
    .assert_eq(&page.run().to_string());
}

#[test]
fn mistakes_are_told() {
    check(
        &["sing"],
        "",
        expect![[r#"
            stderr
            faulty-tool: `sing` is no step
            exit 64
        "#]],
    );
    check(
        &["repeat", "two"],
        "",
        expect![[r#"
            stderr
            faulty-tool: `two` is no number
            exit 64
        "#]],
    );
    check(
        &["fork", "say"],
        "",
        expect![[r#"
            stderr
            faulty-tool: `{` must stand in place of `say`
            exit 64
        "#]],
    );
    check(
        &["say"],
        "",
        expect![[r#"
            stderr
            faulty-tool: a word is missing at the end
            exit 64
        "#]],
    );
}

#[test]
fn a_command_line_is_shell_words() {
    let line = peer::command_line(&["say", "it's \\x41"]);
    let page = toolbus_testkit::page::Program::new("sh").args(["-c", &line]).run();
    assert_eq!(page.stdout, "it's A\n");
}

#[test]
fn it_does_what_the_line_asks_for() {
    let steps = ["forever", "{", "read", "if", "b", "{", "say", "found", "}", "pause", "1", "}"];
    check(
        &steps,
        "a\nab\nc\n",
        expect![[r#"
            stdout
            found
            exit 0
        "#]],
    );
    check(
        &["flood-err", "2", "noise"],
        "",
        expect![[r#"
            stderr
            noise
            noise
            exit 0
        "#]],
    );
}

#[test]
fn it_listens_and_connects() {
    let scratch = Scratch::new();
    let file = scratch.file("address");
    let _server = Peer::start(&["listen", &file, "{", "read-http", "say", "heard $LINE", "}"]);
    let address = awaited("it listens", || fs::read_to_string(&file).ok());
    let heard = scratch.file("heard");
    let request = r"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi";
    let client = ["connect", &address, "{", "raw", request, "read"];
    let _client =
        Peer::start(&[&client[..], &["if", "heard hi", "{", "mark", &heard, "}", "}"]].concat());
    awaited("it is answered", || fs::read_to_string(&heard).ok());
}

#[cfg(target_os = "linux")]
#[test]
fn it_stops_with_all_of_its_group() {
    let peer = Peer::start(&["fork", "{", "stay", "}", "stop"]);
    let is_stopped = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    awaited("both stand still", || {
        let living = peer.group.living();
        (1 < living.len() && living.iter().all(is_stopped)).then_some(())
    });
}

#[test]
fn what_was_read_behind_a_line_is_there_for_the_next_who_reads() {
    // Written at once, so that all of it is read at once; the second is another process.
    let steps = ["read", "ignore-term", "read", "say", "$LINE", "read-http", "say", "$LINE"];
    let http = "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    check(
        &[&steps[..], &["read", "say", "$LINE"]].concat(),
        &format!("first\nsec\tond\\n\n{http}last\nmore"),
        expect![[r#"
            stdout
            sec	ond\n
            body
            last
            exit 0
        "#]],
    );
}
