//! Providers as backs: what callers are told of them, and how the program ends.

use expect_test::{Expect, expect};

use super::{DESCRIBE, EMPTY, answering, provider};
use crate::page::Page;

/// Calls an action of a provider that answers so.
fn called(steps: &[&str], expect: Expect) {
    Page::of(&["call", &answering(steps), "noop"]).check(expect);
}

#[test]
fn actions_are_tools() {
    let address = provider(&[&DESCRIBE, &EMPTY]);
    Page::of(&["tools", &address]).check(expect![[r#"
        stdout
        echo  text, times?  Gives its text back
        noop
        exit 0
    "#]]);
}

#[test]
fn defaults_are_filled_in_and_what_is_given_is_converted() {
    let steps = ["err", "$LINE", "say", r#"{"id":$ID,"result":{"outputs":{"text":"5"}}}"#];
    let address = answering(&steps);
    Page::of(&["call", &address, "echo", r#"{"text":5}"#]).check(expect![[r#"
        stdout
        {"text":"5"}
        stderr
        [faulty-tool] {"id":3,"method":"execute","params":{"action":"echo","attrs":{"text":"5","times":1}}}
        exit 0
    "#]]);
}

#[test]
fn what_does_not_fit_is_not_sent() {
    let address = provider(&[&DESCRIBE, &EMPTY]);
    let told = |words: &[&str], expect: Expect| {
        Page::of(&[&["call", &address], words].concat()).check(expect);
    };
    told(
        &["echo"],
        expect![[r#"
        stderr
        error: attrs.text: required
        exit 2
    "#]],
    );
    told(
        &["echo", r#"{"text":[]}"#],
        expect![[r#"
        stderr
        error: attrs.text: want string, got list
        exit 2
    "#]],
    );
    told(
        &["echo", "text=a", "tims=2"],
        expect![[r#"
            stderr
            error: `echo` takes no argument `tims`
            hint: did you mean `times`?
            exit 2
        "#]],
    );
    told(
        &["nop"],
        expect![[r#"
            stderr
            error: no such tool: `nop`
            hint: did you mean `noop`?
            exit 2
        "#]],
    );
}

#[test]
fn what_the_config_says_is_what_configure_gets() {
    let configured = ["read", "err", "$LINE", "say", r#"{"id":$ID,"result":{}}"#];
    let text = format!(
        "[back.e]\nconnect = '''{}'''\nconfig = {{ key = \"${{ORCHARD_KEY}}\" }}\n",
        provider(&[&DESCRIBE, &configured, &EMPTY, &EMPTY])
    );
    let page = Page::of(&["call", "e.noop"]).config("orchard_config", &text);
    // Too short to be told from other text, and so to be masked.
    page.env("ORCHARD_KEY", "abc").check(expect![[r#"
        stdout
        {}
        stderr
        [e] {"id":2,"method":"configure","params":{"config":{"key":"abc"}}}
        exit 0
    "#]]);
    let page = Page::of(&["call", "e.noop"]).config("orchard_config_masked", &text);
    page.env("ORCHARD_KEY", "s3cret").check(expect![[r#"
        stdout
        {}
        stderr
        [e] {"id":2,"method":"configure","params":{"config":{"key":"***"}}}
        exit 0
    "#]]);
    Page::of(&["call", "e.noop"]).config("orchard_config_unset", &text).check(expect![[r#"
        stderr
        error: `back.e.config.key` asks for the environment variable `ORCHARD_KEY`, which is not set
        hint: set it: `export ORCHARD_KEY=…`, or take it out of the config
        exit 3
    "#]]);
}

#[test]
fn a_config_that_does_not_fit() {
    let text = format!(
        "[back.e]\nconnect = '''{}'''\nconfig = {{ kye = 1 }}\n",
        provider(&[&DESCRIBE, &EMPTY])
    );
    Page::of(&["call", "e.noop"]).config("orchard_config_wrong", &text).check(expect![[r#"
        stderr
        error: provider `e` cannot be configured: config.kye: unknown attribute, did you mean `key`?
        exit 2
    "#]]);
}

#[test]
fn refusals_keep_their_code() {
    let refused = |code: &str| {
        format!(
            r#"{{"id":$ID,"error":{{"code":"{code}","message":"no","detail":"a long story"}}}}"#
        )
    };
    called(
        &["say", &refused("execute_failed")],
        expect![[r#"
        stderr
        error: execute_failed: no
        exit 1
    "#]],
    );
    called(
        &["say", &refused("validation_failed")],
        expect![[r#"
        stderr
        error: validation_failed: no
        exit 1
    "#]],
    );
    called(
        &["say", &refused("unknown_action")],
        expect![[r#"
        stderr
        error: unknown_action: no
        hint: its schema has these actions: echo, noop
        exit 1
    "#]],
    );
    called(
        &["say", &refused("unknown_method")],
        expect![[r#"
        stderr
        error: unknown_method: no
        exit 3
    "#]],
    );
    called(
        &["say", &refused("out_of_coffee")],
        expect![[r#"
        stderr
        error: out_of_coffee: no
        exit 1
    "#]],
    );
    let address = answering(&["say", &refused("internal_error")]);
    Page::of(&["--json", "call", &address, "noop"]).check(expect![[r#"
        stdout
        {"error":{"kind":"failed","message":"no","code":"internal_error","detail":"a long story"}}
        stderr
        error: internal_error: no
        exit 1
    "#]]);
}

#[test]
fn a_provider_that_will_not_be_configured() {
    let refused = r#"{"id":$ID,"error":{"code":"configure_failed","message":"bad key"}}"#;
    let address = provider(&[&DESCRIBE, &["read", "say", refused], &EMPTY]);
    Page::of(&["call", &address, "noop"]).check(expect![[r#"
        stderr
        error: configure_failed: bad key
        exit 3
    "#]]);
}

#[test]
fn what_it_writes_to_stderr_is_shown() {
    let logs = ["err", "plain", "err", r#"{"level":"warn","msg":"careful","n":1}"#];
    let answer = ["say", r#"{"id":$ID,"result":{}}"#];
    called(
        &[&logs[..], &answer].concat(),
        expect![[r#"
        stdout
        {}
        stderr
        [faulty-tool] plain
        [faulty-tool] warn: careful
        exit 0
    "#]],
    );
}

#[test]
fn noise_is_a_warning() {
    called(
        &["say", "listening...", "say", r#"{"id":$ID,"result":{}}"#],
        expect![[r#"
        stdout
        {}
        stderr
        warning: provider `faulty-tool` wrote a line that is no frame: listening...
        exit 0
    "#]],
    );
}

#[test]
fn broken_answers() {
    let frames = [
        "{",
        r#"{"id":$ID,"result":{},"error":{"code":"x","message":"why"}}"#,
        r#"{"id":$ID}"#,
        r#"{"id":99,"result":{}}"#,
        r#"{"result":{}}"#,
        r#"{"id":"3","result":{}}"#,
    ];
    let pages: String = frames
        .iter()
        .map(|frame| Page::of(&["call", &answering(&["say", frame]), "noop"]).run().to_string())
        .collect();
    expect![[r#"
        stderr
        error: provider `e` wrote a broken frame: not JSON: unexpected end at byte 1
        hint: looks like pretty-printed JSON, each frame must be one line
        exit 3
        stderr
        error: provider `e` answered request 3 with both `result` and `error`: why
        exit 3
        stderr
        error: provider `e` answered request 3 with neither `result` nor `error`
        exit 3
        stderr
        error: provider `e` answered id 99, which was never asked
        exit 3
        stderr
        error: provider `e` wrote an answer without an `id`
        exit 3
        stderr
        error: provider `e` wrote an answer without an `id`
        hint: `id` must be a number
        exit 3
    "#]]
    .assert_eq(&pages.replace("faulty-tool", "e"));
}

#[test]
fn schemas_that_cannot_be_used() {
    let schemas = [
        r#"{"name":"echo","version":"0.1.0","protocol":"2","actions":{}}"#,
        r#"{"name":"echo","protocol":1,"actions":{}}"#,
        r#"{"name":"","protocol":"1"}"#,
        r#"{"name":"e","protocol":"1","actions":{"a":{"attrs":{"text":{"type":"strng"}}}}}"#,
        r#"{"name":"e","protocol":"1","actions":{"a":{"attrs":{"n":{"type":"number","default":"x"}}}}}"#,
    ];
    let listed = |schema: &&str| {
        let answer = format!(r#"{{"id":$ID,"result":{{"schema":{schema}}}}}"#);
        let address = provider(&[&["read", "say", &answer], &EMPTY]);
        Page::of(&["tools", &address]).run().stderr.replace(&address, "ADDRESS")
    };
    let pages: String = schemas.iter().map(listed).collect();
    expect![[r#"
        error: cannot list the tools of `ADDRESS`: provider `faulty-tool` (echo 0.1.0) speaks protocol "2", this host speaks "1"
        exit status 0
        error: cannot list the tools of `ADDRESS`: provider `faulty-tool` (echo) speaks protocol 1, this host speaks "1"
        exit status 0
        hint: `protocol` must be the string "1"
        error: cannot list the tools of `ADDRESS`: provider `faulty-tool` has a schema that cannot be used: name: must not be empty
        exit status 0
        error: cannot list the tools of `ADDRESS`: provider `faulty-tool` has a schema that cannot be used: actions.a.attrs.text.type: there is no type `strng`, did you mean `string`?
        exit status 0
        error: cannot list the tools of `ADDRESS`: provider `faulty-tool` has a schema that cannot be used: actions.a.attrs.n.default: want number, got string
        exit status 0
    "#]].assert_eq(&pages);
}

#[test]
fn a_provider_that_dies() {
    called(
        &["err", "panic: oh no", "exit", "2"],
        expect![[r#"
        stderr
        [faulty-tool] panic: oh no
        error: provider `faulty-tool` exited with status 2 during `execute` of `noop`
        exit status 2
          | panic: oh no
        exit 3
    "#]],
    );
    called(
        &["die", "SEGV"],
        expect![[r#"
        stderr
        error: provider `faulty-tool` was killed by SIGSEGV during `execute` of `noop`
        signal 11
        exit 3
    "#]],
    );
    let address = provider(&[&["err", "no home", "exit", "7"]]);
    Page::of(&["call", &address, "noop"]).check(expect![[r#"
        stderr
        [faulty-tool] no home
        error: provider `faulty-tool` exited with status 7 during `describe`
        exit status 7
          | no home
        exit 3
    "#]]);
}

#[test]
fn a_provider_that_is_late() {
    let address = provider(&[&["err", "thinking", "stay"]]);
    let words = ["call", "--start-timeout", "1s", &address, "noop"];
    Page::of(&words).check(expect![[r#"
        stderr
        [faulty-tool] thinking
        error: provider `faulty-tool` did not answer `describe` within 1s
          | thinking
        hint: is it an Orchard provider? without `orchard+stdio:` it is found out what it speaks
        exit 4
    "#]]);
    let address = answering(&["stay"]);
    Page::of(&["call", "--timeout", "2s", &address, "noop"]).check(expect![[r#"
        stderr
        error: provider `faulty-tool` did not answer `execute` of `noop` within 2s
        exit 4
    "#]]);
}

#[test]
fn a_provider_that_ignores_its_goodbye_costs_a_warning() {
    let address = answering(&["say", r#"{"id":$ID,"result":{}}"#, "stay"]);
    let text = format!("[back.e]\nconnect = '''{address}'''\nstop_timeout = \"100ms\"\n");
    let page = Page::of(&["call", "e.noop"]).config("orchard_goodbye", &text);
    page.check(expect![[r#"
        stdout
        {}
        stderr
        warning: provider `e` did not answer `shutdown` within 100ms
        exit 0
    "#]]);
}
