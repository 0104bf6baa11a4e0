//! How an oracle may begin, and what becomes of one that begins otherwise (`docs/protocols/oracle.md`
//! C3 to C10).

use expect_test::{Expect, expect};

use crate::page::{Page, life_apart, oracle};

fn invoke(flags: &[&str], steps: &[&str], expect: Expect) {
    let address = oracle(steps);
    Page::of(&[&["oracle", "invoke"], flags, &[&address, "f"]].concat()).check(expect);
}

/// Begins with this line, and shows on stderr what it is told.
fn begins_with(line: &str, expect: Expect) {
    invoke(&[], &["say", line, "read", "err", "$LINE", "read"], expect);
}

#[test]
fn the_first_byte_is_judged_at_once() {
    invoke(
        &[],
        &["raw", " {", "stay"],
        expect![[r#"
            stderr
            error: expected a ready request as first line (its first byte must be `{`), got:  {
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["err", "compiling", "raw", "Compiling\\x01 foo \\xff", "stay"],
        expect![[r#"
            stderr
            error: expected a ready request as first line (its first byte must be `{`), got: Compiling\x01 foo \xff
              | compiling
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["say", "\\xef\\xbb\\xbf{}", "stay"],
        expect![[r#"
            stderr
            error: expected a ready request as first line (its first byte must be `{`), got: \xef\xbb\xbf{}
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["say", "", "stay"],
        expect![[r#"
            stderr
            error: expected a ready request as first line (its first byte must be `{`), got:
            exit 3
        "#]],
    );
    let page =
        Page::of(&["oracle", "invoke", &oracle(&["raw", "x\\{41*100000}", "stay"]), "f"]).run();
    assert_eq!(page.status.code(), Some(3));
    assert!(page.stderr.len() < 5000, "{}", page.stderr.len());
}

#[test]
fn a_wrong_line_is_shown_though_its_process_is_dead() {
    for steps in [&["say", "Compiling"][..], &["raw", "Compiling"], &["say", "{\"Compiling\":1}"]] {
        // Whether its death or its line is heard of first is not ours to say.
        for _ in 0..10 {
            let page = Page::of(&["oracle", "invoke", &oracle(steps), "f"]).run();
            let is_shown = page.stderr.starts_with("error: expected a ready request");
            assert!(is_shown && page.stderr.contains("Compiling"), "{page}");
        }
    }
}

#[test]
fn another_request_is_answered_and_then_refused() {
    begins_with(
        r#"{"jsonrpc":"2.0","id":"a\\u0041","method":"hello"}"#,
        expect![[r#"
            stderr
            error: expected ready request from oracle, but its first line is: {"jsonrpc":"2.0","id":"a\u0041","method":"hello"}
            exit status 0
              | {"jsonrpc":"2.0","id":"a\u0041","error":{"code":-32601,"message":"expected ready request from oracle"}}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"2.0","id":1.50,"method":"ready","params":[]}"#,
        expect![[r#"
            stderr
            error: invalid ready request params, expected null or object, but its first line is: {"jsonrpc":"2.0","id":1.50,"method":"ready","params":[]}
            exit status 0
              | {"jsonrpc":"2.0","id":1.50,"error":{"code":-32602,"message":"invalid ready request params, expected null or object"}}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"2.0","id":1E+2,"method":"ready","params":"x"}"#,
        expect![[r#"
            stderr
            error: invalid ready request params, expected null or object, but its first line is: {"jsonrpc":"2.0","id":1E+2,"method":"ready","params":"x"}
            exit status 0
              | {"jsonrpc":"2.0","id":1E+2,"error":{"code":-32602,"message":"invalid ready request params, expected null or object"}}
            exit 3
        "#]],
    );
}

#[test]
fn what_is_no_request_is_refused_without_an_answer() {
    begins_with(
        r#"{"jsonrpc":"2.0","method":"ready"}"#,
        expect![[r#"
            stderr
            error: expected a ready request as first line (that is a notification), got: {"jsonrpc":"2.0","method":"ready"}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"2.0","id":0,"result":{}}"#,
        expect![[r#"
            stderr
            error: expected a ready request as first line (that is a response), got: {"jsonrpc":"2.0","id":0,"result":{}}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"1.0","id":0,"method":"ready"}"#,
        expect![[r#"
            stderr
            error: expected a ready request as first line (`jsonrpc` must be "2.0"), got: {"jsonrpc":"1.0","id":0,"method":"ready"}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"2.0","id":[],"method":"ready"}"#,
        expect![[r#"
            stderr
            error: expected a ready request as first line (`id` must be a string or a number), got: {"jsonrpc":"2.0","id":[],"method":"ready"}
            exit 3
        "#]],
    );
    begins_with(
        r#"{"jsonrpc":"2.0","id":0,"id":0,"method":"ready"}"#,
        expect![[r#"
            stderr
            error: expected a ready request as first line (`id` stands twice), got: {"jsonrpc":"2.0","id":0,"id":0,"method":"ready"}
            exit 3
        "#]],
    );
    begins_with(
        "{nope",
        expect![[r#"
            stderr
            error: expected a ready request as first line (not JSON: unexpected `n` at byte 1), got: {nope
            exit 3
        "#]],
    );
}

#[test]
fn ids_are_echoed_as_they_were_written() {
    for id in ["null", "-1", "1.50", "1E+2", r#""\\u0041""#, "99999999999999999999999"] {
        let ready =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ready","params":null,"x":1}}"#);
        let steps = ["say", &ready, "read", "err", "$LINE", "read", "answer", "[]", "read"];
        let page = Page::of(&["oracle", "invoke", "-v", &oracle(&steps), "f"]).run();
        let id = id.replace("\\\\", "\\");
        let ack =
            format!("info: faulty-tool: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n");
        let (said, life) = life_apart(&page.stderr);
        assert_eq!((page.stdout.as_str(), said), ("[]\n", ack));
        let states = ["started, process ID", "ready", "ended with exit status 0"];
        assert_eq!(life, states.map(|state| format!("info: faulty-tool: {state}\n")).concat());
    }
}

#[test]
fn an_oracle_that_is_never_ready() {
    invoke(
        &["--start-timeout", "2s"],
        &["err", "compiling", "stay"],
        expect![[r#"
            stderr
            error: `faulty-tool` was not ready within 2s
              | compiling
            exit 4
        "#]],
    );
    invoke(
        &["--start-timeout", "300ms", "--json"],
        &["stay"],
        expect![[r#"
            stdout
            {"error":{"message":"`faulty-tool` was not ready within 300ms","kind":"timed_out"}}
            stderr
            error: `faulty-tool` was not ready within 300ms
            exit 4
        "#]],
    );
}

#[test]
fn an_oracle_that_ends_before_it_is_ready() {
    invoke(
        &[],
        &["err", "no licence", "exit", "3"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended with exit status 3 before it was ready
              | no licence
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["die", "KILL"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended with signal 9 before it was ready
            hint: somebody killed it; if nobody did, the system ran out of memory
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["exit", "0"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended with exit status 0 before it was ready
            exit 3
        "#]],
    );
    invoke(
        &["--as-cairo"],
        &["err", "no licence", "exit", "3"],
        expect![[r#"
            stdout
            ["0x1","0x1","0x606661756c74792d746f6f6c6020656e646564207769746820657869742073","0x74617475732033206265666f726520697420776173207265616479","0x1b"]
            stderr
            error: `faulty-tool` ended with exit status 3 before it was ready
              | no licence
            exit 3
        "#]],
    );
    invoke(
        &[],
        &["close-out", "stay"],
        expect![[r#"
            stderr
            error: `faulty-tool` ended before it was ready
            exit 3
        "#]],
    );
}

#[test]
fn the_last_forty_lines_of_stderr_are_in_the_report() {
    let numbers: Vec<_> = (0..50).map(|number| format!("line {number}")).collect();
    let mut steps: Vec<&str> = numbers.iter().flat_map(|line| ["err", line]).collect();
    steps.extend(["exit", "3"]);
    let page = Page::of(&["oracle", "invoke", &oracle(&steps), "f"]).run();
    assert!(!page.stderr.contains("line 9\n"), "{page}");
    assert!(page.stderr.contains("line 10\n") && page.stderr.contains("line 49\n"), "{page}");
}
