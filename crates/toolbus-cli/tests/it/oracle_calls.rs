//! What an oracle may answer, and what becomes of one that answers otherwise (`docs/protocols/oracle.md` I1
//! to I9).

use expect_test::{Expect, expect};

use crate::page::{Page, oracle};

fn invoke(flags: &[&str], steps: &[&str], expect: Expect) {
    let steps = [&["ready"], steps].concat();
    let address = oracle(&steps);
    Page::of(&[&["oracle", "invoke"], flags, &[&address, "f"]].concat()).check(expect);
}

#[test]
fn stray_lines_are_told_and_skipped() {
    invoke(
        &[],
        &[
            "read",
            "say",
            "",
            "say",
            "log \\x1b\\xff",
            "say",
            "{\"jsonrpc\":\"2.0\",\"id\":\"0\",\"result\":[]}",
            "say",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":[]}",
            "say",
            "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"x\"}",
            "say",
            "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
            "say",
            "\\{78*300}",
            "answer",
            "[\"0x1\"]",
            "read",
        ],
        expect![[r#"
            stdout
            ["0x1"]
            stderr
            warning: faulty-tool: line that answers nothing: 
            warning: faulty-tool: line that answers nothing: log \x1b\xff
            warning: faulty-tool: line that answers nothing: {"jsonrpc":"2.0","id":"0","result":[]}
            warning: faulty-tool: line that answers nothing: {"jsonrpc":"2.0","id":null,"result":[]}
            warning: faulty-tool: line that answers nothing: {"jsonrpc":"2.0","id":9,"method":"x"}
            warning: faulty-tool: line that answers nothing: {"jsonrpc":"2.0","method":"x"}
            warning: faulty-tool: line that answers nothing: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
            exit 0
        "#]],
    );
    invoke(
        &["-q"],
        &["read", "say", "log", "answer", "[]", "read"],
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
    );
}

#[test]
fn a_thousand_stray_lines_are_borne() {
    invoke(
        &["-q"],
        &["read", "flood", "1000", "x", "answer", "[]", "read"],
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
    );
    invoke(
        &["-q"],
        &["read", "flood", "1001", "x", "stay"],
        expect![[r#"
            stderr
            error: more than 1000 lines that answer nothing
            exit 3
        "#]],
    );
}

#[test]
fn behind_its_noise_an_oracle_is_heard_again() {
    invoke(
        &["-q"],
        &[
            "read", "flood", "100", "x", "pause", "30", "flood", "100", "x", "pause", "30",
            "answer", "[]",
        ],
        expect![[r#"
        stdout
        []
        exit 0
    "#]],
    );
}

#[test]
fn an_error_without_an_id_is_the_answer() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"eh?"}}"#;
    invoke(
        &["--json"],
        &["read", "say", error, "read"],
        expect![[r#"
        stdout
        {"error":{"message":"eh?","code":-32700,"kind":"failed"}}
        stderr
        error: -32700: eh?
        exit 1
    "#]],
    );
}

#[test]
fn a_result_that_is_none_names_what_is_wrong() {
    invoke(
        &[],
        &["read", "answer", "{\"a\":1}", "read"],
        expect![[r#"
        stderr
        error: the result must be an array of felts, not {"a":1}
        exit 3
    "#]],
    );
    invoke(
        &["--json"],
        &["read", "answer", "[\"0x1\",10]", "read"],
        expect![[r#"
        stdout
        {"error":{"message":"felt 1 is not a string: 10","kind":"broke_protocol"}}
        stderr
        error: felt 1 is not a string: 10
        exit 3
    "#]],
    );
    invoke(
        &["--fn", "f() -> u8"],
        &["read", "answer", "[\"0x1\",\"0x2\"]", "read"],
        expect![[r#"
        stderr
        error: the result ends before felt 1, which is left over
        exit 3
    "#]],
    );
    invoke(
        &["--fn", "f() -> (u8, u8)"],
        &["read", "answer", "[\"0x1\"]", "read"],
        expect![[r#"
        stderr
        error: `[1]` of the result needs felt 1, which is missing
        exit 3
    "#]],
    );
    invoke(
        &["--fn", "f() -> ByteArray"],
        &["read", "answer", "[\"0x1000000000000000\"]", "read"],
        expect![[r#"
            stderr
            error: the result has the length 0x1000000000000000 in felt 0, but only 0 felts follow
            exit 3
        "#]],
    );
}

#[test]
fn a_line_that_is_too_long_fails_its_call_only() {
    let steps = ["ready", "read", "say", "\\{78*2000}", "read", "answer", "[\"0x2\"]", "read"];
    let words = ["oracle", "invoke", "--line-max", "1000", &oracle(&steps), "-"];
    let lines = "{\"selector\":\"f\"}\n{\"selector\":\"f\"}\n";
    Page::of(&words).stdin(lines).check(expect![[r#"
        stdout
        {"error":{"message":"the oracle wrote a line longer than the limit of 1000 bytes","kind":"too_large"}}
        {"ok":["0x2"]}
        exit 3
    "#]]);
}

#[test]
fn a_process_that_ends_in_a_call() {
    invoke(
        &[],
        &["read", "err", "out of luck", "exit", "101"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended with exit status 101 before it answered
              | out of luck
            exit 3
        "#]],
    );
    invoke(
        &["--json"],
        &["read", "die", "SEGV"],
        expect![[r#"
            stdout
            {"error":{"message":"`faulty-tool` ended with signal 11 before it answered","kind":"gone"}}
            stderr
            error: `faulty-tool` ended with signal 11 before it answered
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["read", "close-out", "stay"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended before it answered
            exit 3
        "#]],
    );
}

#[test]
fn an_answer_in_the_pipe_counts_though_its_process_is_dead() {
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":["0x1"]}"#;
    invoke(
        &[],
        &["read", "raw", answer, "exit", "7"],
        expect![[r#"
        stdout
        ["0x1"]
        exit 0
    "#]],
    );
    invoke(
        &[],
        &["read", "say", answer, "die", "KILL"],
        expect![[r#"
        stdout
        ["0x1"]
        exit 0
    "#]],
    );
}

#[test]
fn a_call_that_takes_too_long() {
    invoke(
        &["--timeout", "300ms"],
        &["read", "stay"],
        expect![[r#"
        stderr
        error: no answer within 300ms
        exit 4
    "#]],
    );
    invoke(
        &["--timeout", "300ms", "--as-cairo"],
        &["read", "stay"],
        expect![[r#"
        stdout
        ["0x1","0x0","0x6e6f20616e737765722077697468696e203330306d73","0x16"]
        stderr
        error: no answer within 300ms
        exit 4
    "#]],
    );
}
