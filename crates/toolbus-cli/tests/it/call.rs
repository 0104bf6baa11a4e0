//! `toolbus call`: what is printed, where, and how it ends.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};

use crate::page::{Page, check};

#[test]
fn an_answer_is_one_line_of_json() {
    check(
        "call builtin: add a=1 b=2",
        expect![[r#"
            stdout
            3
            exit 0
        "#]],
    );
    check(
        "call builtin: upper text=straße",
        expect![[r#"
            stdout
            "STRASSE"
            exit 0
        "#]],
    );
    check(
        "call builtin: count n=3",
        expect![[r#"
            stdout
            {"elements":[0,1,2]}
            exit 0
        "#]],
    );
    check(
        "call builtin: blob bytes=2",
        expect![[r#"
            stdout
            {"elements":[{"$bytes":"r80="}]}
            exit 0
        "#]],
    );
    check(
        "call builtin: echo",
        expect![[r#"
            stdout
            null
            exit 0
        "#]],
    );
    let spaced = "{ \"b\" : 1.50,\n \"a\" : [ 1E2 ] }";
    Page::of(&["call", "builtin:", "echo", spaced]).check(expect![[r#"
        stdout
        {"b":1.50,"a":[1E2]}
        exit 0
    "#]]);
}

#[test]
fn text_is_printed_as_it_is() {
    check(
        "call --text builtin: upper text=hi",
        expect![[r#"
            stdout
            HI
            exit 0
        "#]],
    );
    check(
        "call --text builtin: add a=1 b=2",
        expect![[r#"
            stdout
            3
            exit 0
        "#]],
    );
}

#[test]
fn parts_are_printed_as_they_come() {
    check(
        "call --stream builtin: count n=2",
        expect![[r#"
            stdout
            {"part":0}
            {"part":1}
            {"end":null}
            exit 0
        "#]],
    );
    check(
        "call --stream builtin: blob bytes=2",
        expect![[r#"
            stdout
            {"part":{"$bytes":"r80="}}
            {"end":null}
            exit 0
        "#]],
    );
    check(
        "call --stream builtin: add a=1 b=2",
        expect![[r#"
            stdout
            {"end":3}
            exit 0
        "#]],
    );
    check(
        "call --stream --json builtin: count n=2 fail_at=1",
        expect![[r#"
            stdout
            {"part":0}
            {"error":{"kind":"failed","message":"failed at element 1, as asked"}}
            stderr
            error: failed at element 1, as asked
            exit 1
        "#]],
    );
}

#[test]
fn a_tool_that_says_no() {
    check(
        "call builtin: fail message=no",
        expect![[r#"
            stderr
            error: no
            exit 1
        "#]],
    );
    check(
        "call builtin: fail message=no code=E7",
        expect![[r#"
            stderr
            error: E7: no
            exit 1
        "#]],
    );
    check(
        "call --json builtin: fail message=no code=-7",
        expect![[r#"
            stdout
            {"error":{"kind":"failed","message":"no","code":-7}}
            stderr
            error: -7: no
            exit 1
        "#]],
    );
    check(
        "call builtin: count n=3 fail_at=2",
        expect![[r#"
            stderr
            error: failed at element 2, as asked
            exit 1
        "#]],
    );
}

#[test]
fn what_is_found_before_the_call() {
    check(
        "call builtin: ad a=1 b=2",
        expect![[r#"
            stderr
            error: no such tool: `ad`
            hint: did you mean `add`?
            exit 2
        "#]],
    );
    check(
        "call builtin: weather",
        expect![[r#"
            stderr
            error: no such tool: `weather`
            hint: `toolbus tools` lists what can be called
            exit 2
        "#]],
    );
    check(
        "call --json builtin: add a=1",
        expect![[r#"
            stdout
            {"error":{"kind":"invalid_arguments","message":"argument `b` is missing"}}
            stderr
            error: argument `b` is missing
            exit 2
        "#]],
    );
    check(
        "call --json builtin:x add",
        expect![[r#"
            stdout
            {"error":{"kind":"invalid_arguments","message":"`builtin:x` is no address: nothing may stand behind `builtin:`"}}
            stderr
            error: `builtin:x` is no address: nothing may stand behind `builtin:`
            exit 2
        "#]],
    );
    check(
        "call shell: add",
        expect![[r#"
            stderr
            error: `shell:` is off: whoever calls it can run any command
            hint: allow it by `--allow-shell`, or `allow_shell = true` in the config
            exit 2
        "#]],
    );
    check(
        "call shell: exec",
        expect![[r#"
            stderr
            error: `shell:` is off: whoever calls it can run any command
            hint: allow it by `--allow-shell`, or `allow_shell = true` in the config
            exit 2
        "#]],
    );
    check(
        "call add a=1 b=2",
        expect![[r#"
            stderr
            error: no ADDRESS is given, and there is no `toolbus.toml` here or above
            hint: name a peer, e.g. `builtin:`, or a config by `--config FILE`; `toolbus init` writes one
            exit 2
        "#]],
    );
}

#[test]
fn a_call_that_takes_too_long() {
    check(
        "call --timeout 20ms builtin: sleep ms=86400000",
        expect![[r#"
            stderr
            error: no answer within 20ms
            exit 4
        "#]],
    );
    Page::of(&["call", "--json", "builtin:", "sleep", "ms=86400000"])
        .env("TOOLBUS_TIMEOUT", "20ms")
        .check(expect![[r#"
            stdout
            {"error":{"kind":"timed_out","message":"no answer within 20ms"}}
            stderr
            error: no answer within 20ms
            exit 4
        "#]]);
}

#[test]
fn an_answer_over_the_limit() {
    check(
        "call builtin: blob bytes=20000000",
        expect![[r#"
            stderr
            error: the reply is over the limit of 16 MiB (16777216 bytes)
            hint: `--reply-max SIZE` takes up to 64MiB, `--out FILE` writes bytes to a file as they come
            exit 3
        "#]],
    );
}

#[test]
fn tools_of_the_config() {
    let config = "[back.try]\nconnect = \"builtin:\"\ntimeout = \"500ms\"\nallow = [\"add\", \"sleep\"]\n\
                  [back.later]\nconnect = \"shell:\"\n";
    let page =
        |words: &str| Page::of(&words.split(' ').collect::<Vec<_>>()).config("call_config", config);
    page("call try.add a=1 b=2").check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    page("call try.sleep ms=86400000").check(expect![[r#"
        stderr
        error: no answer within 500ms
        exit 4
    "#]]);
    page("call --timeout 1m try.sleep ms=20").check(expect![[r#"
        stdout
        {"slept_ms":20}
        exit 0
    "#]]);
    page("call try.echo").check(expect![[r#"
        stderr
        error: no such tool: `try.echo`
        hint: `toolbus tools` lists what can be called
        exit 2
    "#]]);
    page("call later.x").check(expect![[r#"
        stderr
        error: `shell:` is off: whoever calls it can run any command
        hint: allow it by `--allow-shell`, or `allow_shell = true` in the config
        exit 2
    "#]]);
    page("call builtin: echo 1").check(expect![[r#"
        stdout
        1
        exit 0
    "#]]);
}

#[test]
fn a_config_with_a_mistake() {
    Page::of(&["call", "try.add"])
        .config("call_mistake", "[back.try]\nconnect = \"builtin:\"\ntimout = \"1s\"\n")
        .check(expect![[r#"
            stderr
            error: `toolbus.toml` line 3: there is no key `back.try.timout`
            hint: did you mean `timeout`?
            exit 2
        "#]]);
    check(
        "call --config nowhere.toml try.add",
        expect![[r#"
            stderr
            error: cannot read the config `nowhere.toml`
              caused by: No such file or directory (os error 2)
            exit 2
        "#]],
    );
}

#[test]
fn a_signal_ends_the_call() {
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_toolbus"))
            .args(["call", "--stream", "builtin:", "count", "n=1000000000", "ms=1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut first = String::new();
        // Once it has said something it listens.
        stdout.read_line(&mut first).expect("it writes text");
        assert_eq!(first, "{\"part\":0}\n");
        kill_process(Pid::from_child(&child), signal).expect("it lives");
        // Its output ends with it, whole lines only.
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("it writes text");
        assert!(rest.is_empty() || rest.ends_with("}\n"), "{rest}");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(exit));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
