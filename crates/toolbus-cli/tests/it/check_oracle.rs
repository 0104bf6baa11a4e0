//! `toolbus check oracle`: a line a rule.

use expect_test::{Expect, expect};

use crate::page::{Page, check, oracle, ourselves};
use crate::terminal::Terminal;

fn judged(flags: &[&str], steps: &[&str], expect: Expect) {
    let address = oracle(steps);
    let words = [&["check", "oracle", "--stop-timeout", "2s"], flags, &[&address]].concat();
    Page::of(&words).check(expect);
}

#[test]
fn our_own_oracle_keeps_all_rules() {
    Page::of(&["check", "oracle", &ourselves(&["builtin:"])]).check(expect![[r#"
        stdout
        ok first-byte
        ok ready
        ok quiet-before-ack
        ok answers-invoke
        ok id-echo
        ok felts
        ok error-ack
        ok shutdown
        ok eof
        ok survives-garbage
        ok number-ids
        exit 0
    "#]]);
}

#[test]
fn on_a_terminal_a_last_line_sums_up() {
    let address = ourselves(&["builtin:"]);
    let shown = Terminal::of(80).shown(&["check", "oracle", &address]);
    assert!(shown.ends_with("ok number-ids\n11 rules, all ok\n"), "{shown}");
}

#[test]
fn an_oracle_that_serves_on_after_an_error_ack() {
    judged(
        &["--json"],
        &["echo-oracle"],
        expect![[r#"
        stdout
        {"rule":"first-byte","outcome":"ok"}
        {"rule":"ready","outcome":"ok"}
        {"rule":"quiet-before-ack","outcome":"ok"}
        {"rule":"answers-invoke","outcome":"ok"}
        {"rule":"id-echo","outcome":"ok"}
        {"rule":"felts","outcome":"ok"}
        {"rule":"error-ack","outcome":"fail","why":"it still runs after 2s"}
        {"rule":"shutdown","outcome":"ok"}
        {"rule":"eof","outcome":"ok"}
        {"rule":"survives-garbage","outcome":"ok"}
        {"rule":"number-ids","outcome":"ok"}
        exit 1
    "#]],
    );
}

#[test]
fn a_program_that_is_no_oracle() {
    judged(
        &[],
        &["say", "hello\\x1b", "stay"],
        expect![[r#"
        stdout
        FAIL first-byte: it is 0x68, and must be 0x7b, which is `{`
        FAIL ready: not JSON: unexpected `h` at byte 0: hello\x1b
        note quiet-before-ack: not tried: it was never ready
        note answers-invoke: not tried: it was never ready
        note id-echo: not tried: it was never ready
        note felts: not tried: it was never ready
        note error-ack: not tried: it was never ready
        note shutdown: not tried: it was never ready
        note eof: not tried: it was never ready
        note survives-garbage: not tried: it was never ready
        note number-ids: not tried: it was never ready
        exit 1
    "#]],
    );
    judged(
        &["--json"],
        &["exit", "3"],
        expect![[r#"
        stdout
        {"rule":"first-byte","outcome":"fail","why":"it ended with exit status 3"}
        {"rule":"ready","outcome":"fail","why":"it ended with exit status 3"}
        {"rule":"quiet-before-ack","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"answers-invoke","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"id-echo","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"felts","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"error-ack","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"shutdown","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"eof","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"survives-garbage","outcome":"note","why":"not tried: it was never ready"}
        {"rule":"number-ids","outcome":"note","why":"not tried: it was never ready"}
        exit 1
    "#]],
    );
    judged(
        &["--start-timeout", "300ms"],
        &["stay"],
        expect![[r#"
        stdout
        FAIL first-byte: it said nothing within 300ms
        FAIL ready: it said nothing within 300ms
        note quiet-before-ack: not tried: it was never ready
        note answers-invoke: not tried: it was never ready
        note id-echo: not tried: it was never ready
        note felts: not tried: it was never ready
        note error-ack: not tried: it was never ready
        note shutdown: not tried: it was never ready
        note eof: not tried: it was never ready
        note survives-garbage: not tried: it was never ready
        note number-ids: not tried: it was never ready
        exit 1
    "#]],
    );
}

#[test]
fn an_oracle_that_breaks_most_rules() {
    let ready = r#"{"jsonrpc":"2.0","id":0,"method":"ready"}\nlog"#;
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":[5]}"#;
    judged(
        &[],
        &["say", ready, "forever", "{", "read", "say", answer, "}"],
        expect![[r#"
            stdout
            ok first-byte
            ok ready
            FAIL quiet-before-ack: it said: log
            ok answers-invoke
            FAIL id-echo: 7 came back as 0
            FAIL felts: felt 0 is not a string: 5
            FAIL error-ack: it still runs after 2s
            FAIL shutdown: it still runs after 2s
            ok eof
            note survives-garbage: a call behind it was not answered
            note number-ids: did not come back as sent: -1, 1.5, 18446744073709551616
            exit 1
        "#]],
    );
}

#[test]
fn targets_that_cannot_be_tested() {
    check(
        "check oracle stdio:no-such-oracle",
        expect![[r#"
        stderr
        error: there is no program `no-such-oracle` in PATH
        hint: install `no-such-oracle`, or give its path
        exit 3
    "#]],
    );
    check(
        "check oracle shell:",
        expect![[r#"
        stderr
        error: `shell:` is no program that can be tested
        hint: name one by `stdio:COMMAND`
        exit 2
    "#]],
    );
    check(
        "check oracle tcp:x",
        expect![[r#"
        stderr
        error: unsupported connection scheme: "tcp:x"; supported are stdio:, oracle+stdio:, shell:
        exit 2
    "#]],
    );
    check(
        "check orcale stdio:x",
        expect![[r#"
        stderr
        error: `PROTOCOL` cannot be `orcale`
        hint: did you mean `oracle`?
        exit 2
    "#]],
    );
}
