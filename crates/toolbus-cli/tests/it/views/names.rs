//! Names that are not as simple as they look: two tools that a view calls alike, and tools of backs
//! that cannot be listed.

use std::fs;

use toolbus_testkit::scratch::Scratch;

use super::said_to_mcp;
use crate::http::Request;
use crate::mcp::{legacy_call, request};
use crate::page::Page;
use crate::serve::Config;

/// `two.upper` is given the name that `one.add` has, and two tools have the name `echo`.
const ALIKE: &str = r#"
[back.one]
connect = "builtin:"

[back.two]
connect = "builtin:"

[view.v]
names = "plain"
show = ["*.echo", "one.add", "one.upper", "two.upper"]

[view.v.tool."two.upper"]
rename = "add"
"#;

const TOLD: [&str; 2] = [
    "view v: tool name add stands for both two.upper and one.add",
    "view v: tool name echo stands for both one.echo and two.echo",
];

#[test]
fn of_two_tools_that_are_called_alike_an_mcp_front_serves_one_and_says_so_once() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    fs::write(&path, ALIKE).unwrap();
    let page = said_to_mcp(
        &["--config", &path, "--view", "v"],
        &[
            request(1, "tools/list", "{}"),
            request(2, "tools/list", "{}"),
            legacy_call(3, "add", r#"{"text":"a"}"#),
            legacy_call(4, "upper", r#"{"text":"b"}"#),
        ],
    );
    let lists = page.stdout.lines().filter(|line| line.contains(r#""tools":["#));
    for list in lists {
        let names: Vec<_> = list.split(r#"{"name":""#).skip(1).collect();
        let names: Vec<_> = names.iter().filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(names, ["echo", "upper", "add"], "{list}");
    }
    assert!(page.stdout.contains(r#""text":"A""#), "{page}");
    assert!(page.stdout.contains(r#""text":"B""#), "{page}");
    for told in TOLD {
        assert_eq!(page.stderr.matches(told).count(), 1, "{page}");
        assert!(page.stderr.contains(&format!("warning: {told}\n")), "{page}");
    }
}

#[test]
fn every_other_command_ends_with_what_two_tools_are_both_called() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    fs::write(&path, ALIKE).unwrap();
    let commands: [&[&str]; 6] = [
        &["tools"],
        &["describe", "upper"],
        &["call", "upper", "text=a"],
        &["oracle", "serve"],
        &["provider"],
        &["rpc", "serve", "--listen", "stdio:"],
    ];
    for words in commands {
        let words = [words, &["--config", &path, "--view", "v"]].concat();
        let page = Page::of(&words).run();
        assert_eq!(page.status.code(), Some(2), "{words:?}: {page}");
        assert!(page.stderr.contains(&format!("error: {}\n", TOLD[0])), "{words:?}: {page}");
    }
}

#[test]
fn all_fronts_of_one_program_serve_the_rest() {
    let fronts = "[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\nview = \"v\"\n\
                  [front.rpc]\nserve = \"mediocre+http://127.0.0.1:0/rpc\"\nview = \"v\"\n";
    let config = Config::of(&[ALIKE, fronts].concat());
    let server = config.serve(2);
    for url in &server.urls {
        let address = match url.strip_prefix("mediocre+") {
            Some(_) => url.clone(),
            None => format!("mcp+{url}"),
        };
        let call = |tool: &str| Page::of(&["call", "-q", &address, tool, "text=a"]).run().stdout;
        assert!(call("add").contains('A'), "{url}");
        assert!(call("upper").contains('A'), "{url}");
    }
    server.signal(rustix::process::Signal::TERM);
    let said = server.end();
    for told in TOLD {
        assert_eq!(said.matches(&format!("warning: {told}\n")).count(), 1, "{said}");
    }
}

/// Nothing listens where `gone` should be; what is shown of it is known by its name alone.
const GONE: &str = r#"
[back.gone]
connect = "mediocre+unix:/nowhere/at/all"

[view.v]
show = ["gone.a*"]

[view.v.tool."gone.abc"]
rename = "xyz"

[view.read]
show = ["gone.a*"]
hints = { read_only = true }
"#;

#[test]
fn of_a_back_that_was_never_listed_patterns_decide() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let other = "[back.other]\nconnect = \"builtin:\"\n";
    for (more, before) in [("", ""), (other, "gone_")] {
        fs::write(&path, [GONE, more].concat()).unwrap();
        // Shown, shown under another name; not shown, the old name, and what only looks like one.
        let names = ["alpha", "xyz", "beta", "abc"].map(|name| format!("{before}{name}"));
        let calls = names.iter().zip(1..).map(|(name, id)| legacy_call(id, name, "{}"));
        // Each twice: the first may have the back asked, the second finds it away.
        let again = names.iter().zip(11..).map(|(name, id)| legacy_call(id, name, "{}"));
        let calls: Vec<_> = calls.chain([request(9, "tools/list", "{}")]).chain(again).collect();
        let page = said_to_mcp(&["--config", &path, "--view", "v"], &calls);
        for (name, id) in names.iter().zip(1..) {
            for id in [id, id + 10] {
                let begin = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#);
                let told = page.stdout.lines().find(|line| line.starts_with(&begin));
                let told = told.unwrap_or_else(|| panic!("{id} was answered: {page}"));
                match id % 10 {
                    1 | 2 => assert!(told.contains(r#""kind":"unavailable""#), "{told}"),
                    _ => {
                        let unknown =
                            format!(r#"{{"code":-32602,"message":"unknown tool: {name}"}}}}"#);
                        assert_eq!(told, [begin, unknown].concat());
                    }
                }
            }
        }
        // It is not known what it would say of its tools.
        let page = said_to_mcp(
            &["--config", &path, "--view", "read"],
            &[legacy_call(1, &format!("{before}alpha"), "{}")],
        );
        assert!(page.stdout.contains("unknown tool: "), "{page}");
    }
    for (view, name, code) in [
        ("v", "gone.alpha", 3),
        ("v", "gone.xyz", 3),
        ("v", "gone.abc", 2),
        ("v", "gone.beta", 2),
        ("read", "gone.alpha", 2),
    ] {
        let words = ["call", "--no-check", "--config", &path, "--view", view, name, "{}"];
        let page = Page::of(&words).run();
        assert_eq!(page.status.code(), Some(code), "{name}: {page}");
    }
}

#[test]
fn fronts_refuse_what_is_hidden_of_a_back_that_is_away() {
    let front = "[front.rpc]\nserve = \"mediocre+http://127.0.0.1:0/rpc\"\nview = \"v\"\n";
    let config = Config::of(&[GONE, front].concat());
    let server = config.serve(1);
    let url = server.url().replacen("mediocre+", "", 1);
    let call = |name: &str| {
        let body = format!(r#"{{"method":"{name}"}}"#);
        let length = body.len();
        let head = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        Request::connect(&url).say(&[head, body].concat()).answer()
    };
    assert!(call("gone.alpha").contains(r#""code":"unavailable""#), "{}", call("gone.alpha"));
    for name in ["gone.beta", "gone.abc"] {
        let answer = call(name);
        assert!(answer.contains(r#""code":"method_not_found""#), "{answer}");
    }
}
