//! `toolbus check orchard`: a line a rule.

use expect_test::{Expect, expect};

use super::{DESCRIBE, EMPTY, command};
use crate::page::{Page, check, our_command};

fn judged(parts: &[&[&str]], expect: Expect) {
    Page::of(&["check", "orchard", "--stop-timeout", "2s", &command(parts)]).check(expect);
}

/// Whether a rule is kept by a provider that does these steps.
fn verdict(rule: &str, parts: &[&[&str]]) -> String {
    verdict_within("20s", rule, parts)
}

/// The same if it has so long to end.
fn verdict_within(time: &str, rule: &str, parts: &[&[&str]]) -> String {
    let page = Page::of(&["check", "orchard", "--stop-timeout", time, &command(parts)]).run();
    let is_it = |line: &&str| line.split([' ', ':']).nth(1) == Some(rule);
    page.stdout.lines().find(is_it).unwrap_or_else(|| panic!("{page}")).to_owned()
}

const UNKNOWN: [&str; 3] = ["read", "say", r#"{"id":$ID,"error":{"code":"unknown_method"}}"#];

#[test]
fn our_own_provider_keeps_all_rules() {
    let command = our_command(&["provider", "builtin:"]);
    let expected = expect![[r#"
        stdout
        ok schema-probe
        ok describe
        ok protocol
        ok schema
        ok schema-agrees
        ok unknown-method
        ok configure
        ok unknown-action
        ok shutdown
        ok frames
        ok id-echo
        ok one-outcome
        ok answers-once
        ok eof
        ok raw-defaults
        ok known-members
        exit 0
    "#]];
    Page::of(&["check", "orchard", &format!("orchard+stdio:{command}")]).check(expected);
    Page::of(&["--json", "check", "orchard", &command]).check(expect![[r#"
        stdout
        {"rule":"schema-probe","outcome":"ok"}
        {"rule":"describe","outcome":"ok"}
        {"rule":"protocol","outcome":"ok"}
        {"rule":"schema","outcome":"ok"}
        {"rule":"schema-agrees","outcome":"ok"}
        {"rule":"unknown-method","outcome":"ok"}
        {"rule":"configure","outcome":"ok"}
        {"rule":"unknown-action","outcome":"ok"}
        {"rule":"shutdown","outcome":"ok"}
        {"rule":"frames","outcome":"ok"}
        {"rule":"id-echo","outcome":"ok"}
        {"rule":"one-outcome","outcome":"ok"}
        {"rule":"answers-once","outcome":"ok"}
        {"rule":"eof","outcome":"ok"}
        {"rule":"raw-defaults","outcome":"ok"}
        {"rule":"known-members","outcome":"ok"}
        exit 0
    "#]]);
}

#[test]
fn a_provider_without_the_schema_command_that_knows_everything() {
    judged(
        &[&DESCRIBE, &EMPTY, &EMPTY, &EMPTY, &EMPTY],
        expect![[r#"
        stdout
        FAIL schema-probe: provider `faulty-tool` printed no schema: stdout must hold only JSON
        ok describe
        ok protocol
        ok schema
        note schema-agrees: not tried: there are not two that can be used
        FAIL unknown-method: it gave a result, and not `unknown_method`
        ok configure
        FAIL unknown-action: it gave a result, and not `unknown_action`
        ok shutdown
        ok frames
        ok id-echo
        ok one-outcome
        ok answers-once
        ok eof
        ok raw-defaults
        ok known-members
        exit 1
    "#]],
    );
}

#[test]
fn a_program_that_is_no_provider() {
    judged(
        &[&["say", "hello", "exit", "3"]],
        expect![[r#"
        stdout
        FAIL schema-probe: provider `faulty-tool` exited with status 3 when asked for its schema
        FAIL describe: it ended with exit status 3
        note protocol: not tried: it did not describe itself
        note schema: not tried: it did not describe itself
        note schema-agrees: not tried: it did not describe itself
        note unknown-method: not tried: it did not describe itself
        note configure: not tried: it did not describe itself
        note unknown-action: not tried: it did not describe itself
        note shutdown: not tried: it did not describe itself
        note eof: not tried: it did not describe itself
        FAIL frames: it wrote a line that is no frame: hello
        ok id-echo
        ok one-outcome
        ok answers-once
        exit 1
    "#]],
    );
}

#[test]
fn what_stands_on_the_lines() {
    let both = ["read", "say", r#"{"id":$ID,"result":{},"error":{"code":"unknown_method"}}"#];
    let neither = ["read", "say", r#"{"id":$ID}"#];
    let word = ["read", "say", r#"{"id":"$ID","error":{"code":"unknown_method"}}"#];
    let twice = [&UNKNOWN[..], &UNKNOWN[1..]].concat();
    let more = ["read", "say", r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":"unknown_method"}}"#];
    let fraction = ["read", "say", r#"{"id":$ID.0,"error":{"code":"unknown_method"}}"#];
    let told = [
        verdict("one-outcome", &[&DESCRIBE, &both, &EMPTY]),
        verdict("one-outcome", &[&DESCRIBE, &neither, &EMPTY]),
        verdict("id-echo", &[&DESCRIBE, &word, &EMPTY]),
        verdict("unknown-method", &[&DESCRIBE, &word, &EMPTY]),
        verdict("id-echo", &[&DESCRIBE, &fraction, &EMPTY]),
        verdict("answers-once", &[&DESCRIBE, &twice, &EMPTY]),
        verdict("known-members", &[&DESCRIBE, &more, &EMPTY]),
        verdict("frames", &[&DESCRIBE, &["say", "log"], &UNKNOWN, &EMPTY]),
        verdict("frames", &[&DESCRIBE, &UNKNOWN, &EMPTY, &EMPTY, &EMPTY, &["raw", "tail"]]),
        verdict("frames", &[&["read", "say", "{", "exit", "0"]]),
    ];
    expect![[r#"
        FAIL one-outcome: it answered request 2 with both: {"id":2,"result":{},"error":{"code":"unknown_method"}}
        FAIL one-outcome: it answered request 2 with neither: {"id":2}
        FAIL id-echo: request 2 was asked, and it wrote: {"id":"2","error":{"code":"unknown_method"}}
        ok unknown-method
        ok id-echo
        FAIL answers-once: it answered request 2 twice
        note known-members: not in the protocol: `jsonrpc` in the answer to request 2
        FAIL frames: it wrote a line that is no frame: log
        FAIL frames: it wrote a line that is no frame: tail
        FAIL frames: it wrote a line that is no frame: {"#]].assert_eq(&told.join("\n"));
}

#[test]
fn what_it_says_of_itself() {
    let described = |schema: &str| format!(r#"{{"id":$ID,"result":{{"schema":{schema}}}}}"#);
    let told = |rule: &str, schema: &str| {
        verdict(rule, &[&["read", "say", &described(schema)], &UNKNOWN, &EMPTY, &EMPTY, &EMPTY])
    };
    let told = [
        told("protocol", r#"{"name":"e","protocol":1}"#),
        told("schema", r#"{"name":"e","protocol":1}"#),
        told(
            "schema",
            r#"{"name":"e","protocol":"1","actions":{"a":{"attrs":{"n":{"type":"nmber"}}}}}"#,
        ),
        told(
            "configure",
            r#"{"name":"e","protocol":"1","config":{"key":{"type":"string","required":true}}}"#,
        ),
        told(
            "raw-defaults",
            r#"{"name":"e","protocol":"1","config":{"key":{"type":"string","default":"\\"a\\""}}}"#,
        ),
        told("known-members", r#"{"name":"e","protocol":"1","colour":"red"}"#),
    ];
    expect![[r#"
        FAIL protocol: it speaks protocol 1, this host speaks "1"; `protocol` must be the string "1"
        note schema: not tried: it is of another protocol
        FAIL schema: actions.a.attrs.n.type: there is no type `nmber`, did you mean `number`?
        note configure: not tried: `key` must be configured
        note raw-defaults: encoded twice: the default of config.key
        note known-members: not in the protocol: colour"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn how_it_ends() {
    let begun = [DESCRIBE, UNKNOWN, EMPTY, EMPTY].concat();
    let told = [
        verdict("shutdown", &[&begun, &EMPTY, &["exit", "4"]]),
        verdict_within("300ms", "shutdown", &[&begun, &EMPTY, &["stay"]]),
        verdict("shutdown", &[&begun, &["read", "exit", "0"]]),
        verdict_within("300ms", "eof", &[&DESCRIBE, &["readall", "stay"]]),
    ];
    expect![[r#"
        FAIL shutdown: it ended with exit status 4
        FAIL shutdown: it still runs after 300ms
        FAIL shutdown: it did not answer: it ended with exit status 0
        FAIL eof: it still runs after 300ms"#]]
    .assert_eq(&told.join("\n"));
}

#[test]
fn nothing_to_test() {
    check(
        "check orchard there-is-no-such-program",
        expect![[r#"
        stderr
        error: there is no program `there-is-no-such-program` in PATH
        hint: install `there-is-no-such-program`, or give its path
        exit 3
    "#]],
    );
    check(
        "check orchard orchard+stdio:",
        expect![[r#"
        stderr
        error: empty orchard command
        exit 2
    "#]],
    );
    check(
        "check orchard",
        expect![[r#"
            stderr
            error: TARGET is missing
            usage: toolbus check [PROTOCOL] <TARGET>
            hint: `--help` tells more
            exit 2
        "#]],
    );
}
