//! Views, callers and limits of a config, as commands meet them: what is shown, under which names,
//! with which arguments filled in, and how often it may be called.

mod commands;
mod hidden;
mod limits;
mod mistakes;
mod names;

use std::fs;

use expect_test::{Expect, expect};
use toolbus_testkit::scratch::Scratch;

use crate::mcp::INITIALIZE;
use crate::page::Page;

const CONFIG: &str = r#"
[back.try]
connect = "builtin:"

[view.reader]
show = ["try.a*", "try.echo", "try.upper"]
hide = ["try.echo"]

[view.reader.tool."try.add"]
rename = "plus-two"
description = "Add two to a number."
append = "Nothing else."
fixed = { b = 2 }

[view.plain]
names = "plain"

[view.full]
names = "full"

[view.short]
show = ["*.upper"]
names = "full"

[view.none]
show = ["prompt:*"]

[caller.ann]
token_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
view = "reader"
limit."try.u*" = { rate = "1/60m" }
"#;

/// What `toolbus mcp` with these words says to a client of the old era.
fn said_to_mcp(words: &[&str], requests: &[String]) -> toolbus_testkit::page::Page {
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let said = [INITIALIZE, initialized].into_iter().chain(requests.iter().map(String::as_str));
    let said: String = said.map(|line| format!("{line}\n")).collect();
    Page::of(&[&["mcp"], words].concat()).stdin(said).run()
}

fn check(words: &[&str], expect: Expect) {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("toolbus.toml"), CONFIG).unwrap();
    Page::of(words).folder(scratch.path()).check(expect);
}

#[test]
fn a_view_lists_what_it_shows() {
    check(
        &["tools", "--view", "reader"],
        expect![[r#"
            stdout
            try.plus-two  a     Add two to a number.
            try.upper     text  Put a text in upper case
            exit 0
        "#]],
    );
    check(
        &["tools", "--view", "reader", "--json"],
        expect![[r#"
            stdout
            {"name":"try.plus-two","description":"Add two to a number.\n\nNothing else.","input":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},"output":{"type":"number"},"address":"builtin:"}
            {"name":"try.upper","description":"Put a text in upper case","input":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]},"output":{"type":"string"},"address":"builtin:"}
            exit 0
        "#]],
    );
    check(
        &["tools", "--view", "none"],
        expect![[r#"
            exit 0
        "#]],
    );
}

#[test]
fn a_call_goes_by_the_name_that_is_shown() {
    check(
        &["call", "--view", "reader", "try.plus-two", "a=1"],
        expect![[r#"
            stdout
            3
            exit 0
        "#]],
    );
    check(
        &["call", "--view", "plain", "upper", "text=hi"],
        expect![[r#"
            stdout
            "HI"
            exit 0
        "#]],
    );
    check(
        &["call", "--view", "reader", "--no-check", "try.plus-two", r#"{"a":1,"\u0062":3}"#],
        expect![[r#"
            stderr
            error: `try.plus-two` takes no argument `b`
            exit 2
        "#]],
    );
    for words in [&["--no-check", "try.plus-two", "[1]"][..], &["try.plus-two", "[1]"]] {
        check(
            &[&["call", "--view", "reader"], words].concat(),
            expect![[r#"
                stderr
                error: `try.plus-two` takes an object of arguments
                exit 2
            "#]],
        );
    }
}

#[test]
fn what_is_hidden_is_unknown() {
    for name in ["try.echo", "try.add", "try.nope"] {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("toolbus.toml"), CONFIG).unwrap();
        let words = ["call", "--view", "reader", name, "{}"];
        let page = Page::of(&words).folder(scratch.path()).run().to_string();
        let page = page.replace(name, "NAME");
        let page = page.lines().filter(|line| !line.starts_with("hint: "));
        let page = page.collect::<Vec<_>>().join("\n");
        // What is near a name differs by the name.
        let expected = "stderr\nerror: no such tool: `NAME`\nexit 2";
        assert_eq!(page, expected, "{name}");
    }
}

#[test]
fn a_limit_refuses_what_is_too_much() {
    let scratch = Scratch::new();
    // One call takes the only token; the second is made in the same run, by a bridge.
    let config = CONFIG.replace("[back.try]", "[back.try]\nrate = \"1/60m\"");
    fs::write(scratch.path().join("toolbus.toml"), config).unwrap();
    let calls = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n\
                 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n\
                 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"upper\",\"arguments\":{\"text\":\"a\"}}}\n\
                 {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"upper\",\"arguments\":{\"text\":\"b\"}}}\n";
    let page = Page::of(&["mcp", "--as", "ann"]).folder(scratch.path()).stdin(calls).run();
    let page = page.to_string();
    assert!(page.contains(r#""id":1,"result":"#), "{page}");
    let refusal = r#""code":-32603,"message":"too many calls "#;
    assert!(page.contains(refusal), "{page}");
    assert!(
        page.contains(r#""data":{"kind":"unavailable","reason":"rate_limited","retry_after_ms":"#),
        "{page}"
    );
}

#[test]
fn names_that_are_not_there() {
    check(
        &["tools", "--view", "reder"],
        expect![[r#"
            stderr
            error: there is no view `reder`
            hint: did you mean `reader`?
            exit 2
        "#]],
    );
    check(
        &["call", "--as", "anne", "try.upper", "text=a"],
        expect![[r#"
            stderr
            error: there is no caller `anne`
            hint: did you mean `ann`?
            exit 2
        "#]],
    );
    check(
        &["tools", "--view", "reader", "builtin:"],
        expect![[r#"
            stderr
            error: `--view` is for the tools of a config, and addresses stand in its place
            exit 2
        "#]],
    );
    check(
        &["exec", "--view", "reader", "hello"],
        expect![[r#"
            stderr
            error: `--view` needs `--bus`
            exit 2
        "#]],
    );
}

#[test]
fn a_doctor_looks_at_views_and_callers() {
    let scratch = Scratch::new();
    let config = format!(
        "{CONFIG}\n[view.odd]\nshow = [\"try.ehco\"]\n[view.odd.tool.\"try.ad\"]\ntitle = \"x\"\n\
         [view.odd.tool.\"try.add\"]\nfixed = {{ c = 1 }}\n\
         [caller.bob]\ntoken = \"s3cret-of-bob\"\nlimit.\"try.adf\" = {{ in_flight = 1 }}\n\
         [front.web]\nserve = \"mediocre+http://127.0.0.1:0\"\ncallers = [\"ann\"]\n"
    );
    fs::write(scratch.path().join("toolbus.toml"), config).unwrap();
    let run = |words: &[&str]| {
        let page = Page::of(words).folder(scratch.path()).run().to_string();
        page.lines().filter(|line| !line.contains("ok try")).collect::<Vec<_>>().join("\n")
    };
    expect![[r#"
        stdout
        ok view reader: 2 of 9 tools
        ok view plain: 9 of 9 tools
        ok view full: 9 of 9 tools
        ok view short: 1 of 9 tools
        ok view none: 0 of 9 tools
        note view none: shows no tool
        ok caller ann: token_sha256, view reader, fronts web
        ok view odd: 0 of 9 tools
        note view odd: `try.ehco` matches nothing; did you mean `try.echo`?
        note view odd: there is no tool `try.ad`; did you mean `try.add`?
        note view odd: there is no tool `try.add`
        note view odd: shows no tool
        ok caller bob: token
        note caller bob: no front lets it in
        note caller bob: `try.adf` matches nothing; did you mean `try.add`?
        exit 0"#]]
    .assert_eq(&run(&["doctor"]));
    let json = run(&["doctor", "--json"]);
    assert!(json.contains(r#"{"view":"reader","outcome":"ok","tools":2,"of":9}"#), "{json}");
    let ann = r#"{"caller":"ann","outcome":"ok","credentials":["token_sha256"],"view":"reader","fronts":["web"]}"#;
    assert!(json.contains(ann), "{json}");
}
