//! `--view` and `--as` at each command that has them.

use std::fmt::Write as _;

use expect_test::expect;
use toolbus_testkit::scratch::Scratch;

use super::CONFIG;
use crate::page::Page;

const COMMANDS: [&[&str]; 9] = [
    &["tools"],
    &["describe", "try.upper"],
    &["call", "try.upper", "text=a"],
    &["mcp"],
    &["oracle", "serve"],
    &["rpc", "serve", "--listen", "mediocre+tcp://127.0.0.1:0"],
    &["provider"],
    &["plugin"],
    &["exec", "--bus", "hi"],
];

fn config(scratch: &Scratch) -> String {
    let path = scratch.file("toolbus.toml");
    std::fs::write(&path, CONFIG).unwrap();
    path
}

#[test]
fn a_name_that_is_not_there_is_told_by_every_command() {
    let scratch = Scratch::new();
    let path = config(&scratch);
    for words in COMMANDS {
        for (flag, what, wrong, right) in
            [("--view", "view", "reder", "reader"), ("--as", "caller", "anne", "ann")]
        {
            let words = [words, &[flag, wrong, "--config", &path]].concat();
            let page = Page::of(&words).inside().run().to_string();
            let expected = format!(
                "stderr\nerror: there is no {what} `{wrong}`\nhint: did you mean `{right}`?\nexit 2\n"
            );
            assert_eq!(page, expected, "{words:?}");
        }
    }
    let none = Page::of(&["tools", "--config", &path, "--view", "far-away"]).inside().run();
    assert_eq!(none.to_string(), "stderr\nerror: there is no view `far-away`\nexit 2\n");
}

#[test]
fn addresses_have_no_views_and_no_callers() {
    let served: [&[&str]; 8] = [
        &["tools", "builtin:"],
        &["describe", "builtin:", "upper"],
        &["call", "builtin:", "upper", "text=a"],
        &["mcp", "builtin:"],
        &["oracle", "serve", "builtin:"],
        &["rpc", "serve", "--listen", "mediocre+tcp://127.0.0.1:0", "builtin:"],
        &["provider", "builtin:"],
        &["plugin", "builtin:"],
    ];
    for words in served {
        for (flag, name) in [("--view", "reader"), ("--as", "ann")] {
            let words = [words, &[flag, name]].concat();
            let expected = format!(
                "stderr\nerror: `{flag}` is for the tools of a config, and addresses stand in its place\nexit 2\n"
            );
            assert_eq!(Page::of(&words).inside().run().to_string(), expected, "{words:?}");
        }
    }
    for words in [&["exec", "hi"][..], &["exec", "--tools-from", "builtin:", "hi"]] {
        for (flag, name) in [("--view", "reader"), ("--as", "ann")] {
            let page = Page::of(&[words, &[flag, name]].concat()).inside().run().to_string();
            assert_eq!(page, format!("stderr\nerror: `{flag}` needs `--bus`\nexit 2\n"));
        }
    }
    for command in ["prompt", "resource"] {
        let page = Page::of(&[command, "list", "--view", "reader"]).inside().run();
        assert!(page.stderr.starts_with("error: there is no option `--view`\n"), "{page}");
    }
}

/// What each front that is a command tells of the tools that a view shows, with their arguments.
#[test]
fn every_command_shows_what_the_view_shows() {
    let scratch = Scratch::new();
    let path = config(&scratch);
    let initialize = crate::mcp::INITIALIZE;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = crate::mcp::request(1, "tools/list", "{}");
    let mut told = String::new();
    for (words, said) in [
        (&["mcp"][..], format!("{initialize}\n{initialized}\n{list}\n")),
        (&["oracle", "serve"], String::new()),
        (&["provider"], "{\"id\":1,\"method\":\"describe\"}\n".to_owned()),
    ] {
        for seen in [&["--view", "reader"][..], &["--as", "ann"], &["--view", "short"]] {
            let words = [words, &["--config", &path], seen].concat();
            let page = Page::of(&words).stdin(said.clone()).run();
            let _ = writeln!(told, "{} {}", words[0], seen.join(" "));
            let lists = page.stdout.lines().filter(|line| line.contains("upper"));
            lists.for_each(|line| {
                let _ = writeln!(told, "{line}");
            });
        }
    }
    expect![[r#"
        mcp --view reader
        {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"plus-two","description":"Add two to a number.\n\nNothing else.","inputSchema":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}},{"name":"upper","description":"Put a text in upper case","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}}
        mcp --as ann
        {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"plus-two","description":"Add two to a number.\n\nNothing else.","inputSchema":{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}},{"name":"upper","description":"Put a text in upper case","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}}
        mcp --view short
        {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"try_upper","description":"Put a text in upper case","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}}
        oracle --view reader
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["try.plus-two(a: i128) -> i128","try.upper(text: ByteArray) -> ByteArray"]}}
        oracle --as ann
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["try.plus-two(a: i128) -> i128","try.upper(text: ByteArray) -> ByteArray"]}}
        oracle --view short
        {"jsonrpc":"2.0","id":0,"method":"ready","params":{"toolbus":1,"functions":["try.upper(text: ByteArray) -> ByteArray"]}}
        provider --view reader
        {"id":1,"result":{"schema":{"name":"toolbus","version":"0.1.0","protocol":"1","config":{},"actions":{"plus-two":{"description":"Add two to a number.\n\nNothing else.","attrs":{"a":{"type":"number","required":true}},"outputs":{"type":"object({result=number})","required":false}},"upper":{"description":"Put a text in upper case","attrs":{"text":{"type":"string","required":true}},"outputs":{"type":"object({result=string})","required":false}}},"extensions":["parallel"]}}}
        provider --as ann
        {"id":1,"result":{"schema":{"name":"toolbus","version":"0.1.0","protocol":"1","config":{},"actions":{"plus-two":{"description":"Add two to a number.\n\nNothing else.","attrs":{"a":{"type":"number","required":true}},"outputs":{"type":"object({result=number})","required":false}},"upper":{"description":"Put a text in upper case","attrs":{"text":{"type":"string","required":true}},"outputs":{"type":"object({result=string})","required":false}}},"extensions":["parallel"]}}}
        provider --view short
        {"id":1,"result":{"schema":{"name":"toolbus","version":"0.1.0","protocol":"1","config":{},"actions":{"try_upper":{"description":"Put a text in upper case","attrs":{"text":{"type":"string","required":true}},"outputs":{"type":"object({result=string})","required":false}}},"extensions":["parallel"]}}}
    "#]].assert_eq(&told);
}

#[test]
fn names_are_spelled_as_the_view_says() {
    let scratch = Scratch::new();
    let path = config(&scratch);
    let mut told = String::new();
    for view in ["reader", "plain", "full", "short", "none"] {
        let page = Page::of(&["tools", "--config", &path, "--view", view]).inside().run();
        assert_eq!((page.status.code(), page.stderr.as_str()), (Some(0), ""), "{page}");
        let names = page.stdout.lines().filter_map(|line| line.split_whitespace().next());
        let _ = writeln!(told, "{view}: {}", names.collect::<Vec<_>>().join(" "));
    }
    expect![[r#"
        reader: try.plus-two try.upper
        plain: add blob count early echo fail sink sleep upper
        full: try.add try.blob try.count try.early try.echo try.fail try.sink try.sleep try.upper
        short: try.upper
        none: 
    "#]]
    .assert_eq(&told);
    // What shows nothing gives nothing, and no other name calls a tool.
    let names = ["try.plus-two", "plus-two", "try_plus-two", "try.add", "add"];
    let mut told = String::new();
    for view in ["reader", "plain", "full"] {
        for name in names {
            let words =
                ["call", "--config", &path, "--view", view, "--no-check", name, "a=1", "b=2"];
            let words = if name.ends_with("two") { &words[..8] } else { &words[..] };
            let page = Page::of(words).inside().run();
            let _ = writeln!(told, "{view} {name}: {}", page.to_string().replace('\n', " | "));
        }
    }
    expect![[r#"
        reader try.plus-two: stdout | 3 | exit 0 | 
        reader plus-two: stderr | error: no such tool: `plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        reader try_plus-two: stderr | error: no such tool: `try_plus-two` | hint: did you mean `try.plus-two`? | exit 2 | 
        reader try.add: stderr | error: no such tool: `try.add` | hint: `toolbus tools` lists what can be called | exit 2 | 
        reader add: stderr | error: no such tool: `add` | hint: `toolbus tools` lists what can be called | exit 2 | 
        plain try.plus-two: stderr | error: no such tool: `try.plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        plain plus-two: stderr | error: no such tool: `plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        plain try_plus-two: stderr | error: no such tool: `try_plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        plain try.add: stderr | error: no such tool: `try.add` | hint: `toolbus tools` lists what can be called | exit 2 | 
        plain add: stdout | 3 | exit 0 | 
        full try.plus-two: stderr | error: no such tool: `try.plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        full plus-two: stderr | error: no such tool: `plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        full try_plus-two: stderr | error: no such tool: `try_plus-two` | hint: `toolbus tools` lists what can be called | exit 2 | 
        full try.add: stdout | 3 | exit 0 | 
        full add: stderr | error: no such tool: `add` | hint: `toolbus tools` lists what can be called | exit 2 | 
    "#]].assert_eq(&told);
}

#[test]
fn a_description_shows_a_call_in_the_same_view() {
    let scratch = Scratch::new();
    let path = config(&scratch);
    for (seen, tool) in [(&["--view", "plain"][..], "upper"), (&["--as", "ann"], "try.upper")] {
        let words = [&["describe", tool, "--config", &path], seen].concat();
        let page = Page::of(&words).inside().run();
        let example = format!("Example:\n  toolbus call {} {tool} text=…\n", seen.join(" "));
        assert!(page.stdout.contains(&example), "{page}");
    }
    // What is unknown there may be named otherwise than in the config.
    let words = ["call", "--config", &path, "--view", "plain", "far-away", "{}"];
    let page = Page::of(&words).inside().run();
    assert!(page.stderr.contains("hint: `toolbus tools` lists what can be called\n"), "{page}");
}
