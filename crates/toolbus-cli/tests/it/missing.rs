//! A variable or file that one back of the config needs and that is not there: that back fails,
//! and the others work.

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::live::Live;
use crate::mcp::{META, request};
use crate::page::Page;
use crate::serve::{Config, MCP};

/// One back that works, and some that cannot be started as they are. If one of them were started
/// all the same, it would say so.
const BACKS: &str = r#"
[back.near]
connect = "builtin:"
allow = ["add", "uper"]
[back.key]
connect = "mcp+stdio:sh -c 'echo started >&2'"
env = { KEY = "${NO_KEY}", ID = "${NO_ID}", HOME = "${HOME}" }
[back.bare]
connect = "sh -c 'echo started >&2'"
env = { KEY = "${NO_KEY}" }
[back.file]
connect = "orchard+stdio:sh -c 'echo started >&2'"
config = { key = ["${file:nowhere}"] }
[back.header]
connect = "http://127.0.0.1:1/mcp"
headers = { X-Key = "Key ${NO_KEY}" }
[back.token]
connect = "mediocre+http://127.0.0.1:1"
token = "${EMPTY}"
[back.variable]
connect = "http://127.0.0.1:1/mcp"
token_env = "NO_TOKEN"
"#;

fn page(words: &[&str]) -> Page {
    Page::of(words).config(&format!("missing_{}", words.join("_")), BACKS).env("EMPTY", " ")
}

/// What the doctor said, but for how long it took.
fn without_times(page: &str) -> String {
    let is_time = |c: char| c.is_ascii_digit() || c == '.';
    let line = |line: &str| match line.split_once("\"seconds\":") {
        Some((before, behind)) => {
            format!("{before}\"seconds\":N{}\n", behind.trim_start_matches(is_time))
        }
        None => match line.strip_suffix(" s").filter(|_| line.starts_with("ok ")) {
            Some(timed) => format!("{} N s\n", timed.trim_end_matches(is_time).trim_end()),
            None => format!("{line}\n"),
        },
    };
    page.lines().map(line).collect()
}

#[test]
fn the_doctor_names_it_for_that_back_alone() {
    expect![[r#"
        stdout
        ok near: 1 tool, N s
          warning: `allow` names `uper`, which it does not list; did you mean `upper`?
        FAIL key: `back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set
          hint: set them: `export NO_KEY=… NO_ID=…`, or take them out of the config
        FAIL bare: `back.bare.env.KEY` asks for the environment variable `NO_KEY`, which is not set
          hint: set it: `export NO_KEY=…`, or take it out of the config
        FAIL file: `back.file.config.key[0]` asks for the file `nowhere`, which cannot be read: No such file or directory (os error 2)
          hint: see that the file is there and can be read, or take it out of the config
        FAIL header: `back.header.headers.X-Key` asks for the environment variable `NO_KEY`, which is not set
          hint: set it: `export NO_KEY=…`, or take it out of the config
        FAIL token: `back.token.token` is empty
          hint: give `token` a value, see that the variable or file it names has one, or take it out of the config
        FAIL variable: the environment variable `NO_TOKEN` holds no token
          hint: set it, and not to nothing: `export NO_TOKEN=…`
        exit 1
    "#]].assert_eq(&without_times(&page(&["doctor"]).run().to_string()));
    let page = page(&["doctor", "--json", "near", "key"]).run().to_string();
    expect![[r#"
        stdout
        {"back":"near","outcome":"ok","tools":1,"seconds":N,"warnings":["`allow` names `uper`, which it does not list; did you mean `upper`?"]}
        {"back":"key","outcome":"fail","why":"`back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set","hint":"set them: `export NO_KEY=… NO_ID=…`, or take them out of the config"}
        exit 1
    "#]].assert_eq(&without_times(&page));
}

#[test]
fn the_tools_of_the_others_are_listed() {
    page(&["tools"]).check(expect![[r#"
        stdout
        near.add  a, b  Add two numbers  builtin:
        stderr
        warning: near: `allow` names `uper`, which it does not list; did you mean `upper`?
        error: cannot list the tools of `mcp+stdio:sh -c 'echo started >&2'`: `back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set
        hint: set them: `export NO_KEY=… NO_ID=…`, or take them out of the config
        error: cannot list the tools of `sh -c 'echo started >&2'`: `back.bare.env.KEY` asks for the environment variable `NO_KEY`, which is not set
        hint: set it: `export NO_KEY=…`, or take it out of the config
        error: cannot list the tools of `orchard+stdio:sh -c 'echo started >&2'`: `back.file.config.key[0]` asks for the file `nowhere`, which cannot be read: No such file or directory (os error 2)
        hint: see that the file is there and can be read, or take it out of the config
        error: cannot list the tools of `http://127.0.0.1:1/mcp`: `back.header.headers.X-Key` asks for the environment variable `NO_KEY`, which is not set
        hint: set it: `export NO_KEY=…`, or take it out of the config
        error: cannot list the tools of `mediocre+http://127.0.0.1:1`: `back.token.token` is empty
        hint: give `token` a value, see that the variable or file it names has one, or take it out of the config
        error: cannot list the tools of `http://127.0.0.1:1/mcp`: the environment variable `NO_TOKEN` holds no token
        hint: set it, and not to nothing: `export NO_TOKEN=…`
        exit 3
    "#]]);
}

#[test]
fn the_tools_of_the_others_can_be_called() {
    page(&["call", "near.add", "a=1", "b=2"]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    for tool in ["key.x", "bare.x", "file.x", "header.x", "token.x", "variable.x"] {
        let page = page(&["call", tool, "a=1"]).run().to_string();
        assert!(page.ends_with("exit 3\n"), "{page}");
        assert!(!page.contains("started"), "{page}");
    }
    page(&["call", "key.x", "--json"]).check(expect![[r#"
        stdout
        {"error":{"kind":"unavailable","message":"`back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set"}}
        stderr
        error: `back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set
        hint: set them: `export NO_KEY=… NO_ID=…`, or take them out of the config
        exit 3
    "#]]);
    page(&["prompt", "list", "key"]).check(expect![[r#"
        stderr
        error: `back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set
        hint: set them: `export NO_KEY=… NO_ID=…`, or take them out of the config
        exit 3
    "#]]);
    // The command line is the same for all of them.
    page(&["tools", "near", "variable", "--token-env", "NO_OTHER"]).check(expect![[r#"
        stderr
        error: the environment variable `NO_OTHER` holds no token
        hint: set it, and not to nothing: `export NO_OTHER=…`
        exit 2
    "#]]);
}

#[test]
fn the_tools_of_the_others_are_served() {
    let server = Config::of(&format!("{BACKS}{MCP}")).serve(1);
    let address = format!("mcp+{}", server.url());
    let words = ["call", &address, "near_add", "a=1", "b=2"];
    assert_eq!(Page::of(&words).run().to_string(), "stdout\n3\nexit 0\n");
    let called = Page::of(&["call", &address, "key_x"]).run().to_string();
    expect![[r#"
        stderr
        error: no such tool: `key_x`
        hint: `toolbus tools` lists what can be called
        exit 2
    "#]]
    .assert_eq(&called);
    server.signal(Signal::TERM);
    let said = server.end();
    let mut said: Vec<_> = said.lines().filter(|line| !line.starts_with("listening")).collect();
    said.sort_unstable();
    expect![[r#"
        exit 0
        warning: bare: left out: `back.bare.env.KEY` asks for the environment variable `NO_KEY`, which is not set
        warning: file: left out: `back.file.config.key[0]` asks for the file `nowhere`, which cannot be read: No such file or directory (os error 2)
        warning: header: left out: `back.header.headers.X-Key` asks for the environment variable `NO_KEY`, which is not set
        warning: key: left out: `back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set; `back.key.env.ID` asks for the environment variable `NO_ID`, which is not set
        warning: near: `allow` names `uper`, which it does not list; did you mean `upper`?
        warning: token: left out: `back.token.token` asks for the environment variable `EMPTY`, which is not set
        warning: variable: left out: the environment variable `NO_TOKEN` holds no token"#]].assert_eq(&said.join("\n"));
}

#[test]
fn a_server_alone_answers_its_client_with_what_is_missing() {
    let scratch = Scratch::new();
    let path = scratch.file("toolbus.toml");
    let config = "[back.key]\nconnect = \"mcp+stdio:sh -c 'echo started >&2'\"\nenv = { KEY = \"${NO_KEY}\" }\n";
    std::fs::write(&path, config).unwrap();
    let mut live = Live::start(&["mcp", "--config", &path]);
    let answer = live.ask(&request(1, "tools/list", &format!("{{{META}}}")));
    expect![[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"`back.key.env.KEY` asks for the environment variable `NO_KEY`, which is not set","data":{"kind":"unavailable"}}}"#]].assert_eq(&answer);
    live.hang_up();
    expect![[r#"
        exit 0
    "#]]
    .assert_eq(&live.end());
}
