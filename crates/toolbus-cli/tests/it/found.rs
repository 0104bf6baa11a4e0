//! Programs whose wire is not said, or said wrongly: it is found out.

use expect_test::expect;
use toolbus_testkit::side_by_side::side_by_side;

use crate::page::{Page, our_command};

/// Our own program as a tool of each wire on pipes, and how its answer looks.
const PROGRAMS: [(&[&str], &str, &str); 5] = [
    (&["oracle", "serve", "builtin:"], "an oracle: stdio:", "\"HI\""),
    (&["mcp", "builtin:"], "an MCP server: mcp+stdio:", "\"HI\""),
    (&["provider", "builtin:"], "an Orchard provider: orchard+stdio:", "{\"result\":\"HI\"}"),
    (
        &["rpc", "serve", "--listen", "stdio:", "builtin:"],
        "a mediocre-rpc server: mediocre+stdio:",
        "\"HI\"",
    ),
    (&["plugin", "builtin:"], "an Orchestra hub or plugin: orchestra+plugin:", "{\"text\":\"HI\"}"),
];

#[test]
fn each_wire_is_found_out() {
    for (words, found, answer) in PROGRAMS {
        let page = Page::of(&["call", "-v", &our_command(words), "upper", "text=hi"]).run();
        let page = page.to_string();
        assert!(page.starts_with(&format!("stdout\n{answer}\n")), "{words:?}: {page}");
        assert!(page.contains(&format!(" is {found}")), "{words:?}: {page}");
        assert!(page.ends_with("exit 0\n"), "{words:?}: {page}");
    }
    let page = Page::of(&["tools", "-v", &our_command(&["exec"])]).run().to_string();
    assert!(page.contains("is a `godex exec` program: godex+stdio:"), "{page}");
}

#[test]
fn a_config_and_fronts_take_them_too() {
    let server = our_command(&["mcp", "builtin:"]);
    let config = format!("[back.x]\nconnect = \"\"\"{server}\"\"\"\n");
    Page::of(&["call", "x.add", "a=1", "b=2"]).config("found", &config).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    let front = format!("mcp+stdio:{}", our_command(&["mcp", &server]));
    Page::of(&["call", &front, "add", "a=1", "b=2"]).check(expect![[r#"
        stdout
        3
        exit 0
    "#]]);
    let page = Page::of(&["check", "mcp", &server]).run().to_string();
    assert!(page.starts_with("stdout\nok handshake\n"), "{page}");
    let page = Page::of(&["doctor", &server]).run().to_string();
    assert!(page.contains(": 9 tools, "), "{page}");
}

#[test]
fn programs_that_show_nothing() {
    Page::of(&["tools", "bultin"]).check(expect![[r#"
        stderr
        error: there is no program `bultin` in PATH
        hint: did you mean `builtin:`?
        exit 3
    "#]]);
    Page::of(&["tools", "no-such-program-at-all -y"]).check(expect![[r#"
        stderr
        error: there is no program `no-such-program-at-all` in PATH
        hint: install `no-such-program-at-all`, or give its path
        exit 3
    "#]]);
    Page::of(&["tools", "sh -c 'exit 0'"]).check(expect![[r#"
        stderr
        error: `sh` ended with exit status 0 before it showed what it speaks
        exit status 0
        exit 3
    "#]]);
    Page::of(&["call", "sh -c 'echo no WEATHER_KEY >&2; exit 3'", "f"])
        .env("WEATHER_KEY", "k")
        .check(expect![[r#"
            stderr
            error: `sh` ended with exit status 3 before it showed what it speaks
            exit status 3
              | no WEATHER_KEY
            hint: `WEATHER_KEY` was not passed on to it: write `--env-pass WEATHER_KEY` (`env_pass` in the config)
            exit 3
        "#]]);
    Page::of(&["call", "--timeout", "100ms", "sh -c 'exec cat'", "f"]).check(expect![[r#"
        stderr
        error: `sh` did not show within 100ms what it speaks
        hint: say it before the command, as in `mcp+stdio:sh -c 'exec cat'`
        exit 4
    "#]]);
}

#[test]
fn the_wrong_wire_is_told_with_the_right_one() {
    let page = |words: &[&str]| {
        let page = Page::of(words).run().to_string();
        let page = page.replace(env!("CARGO_BIN_EXE_toolbus"), "toolbus");
        // How it ends depends on how far it has come until it is told to.
        let is_end = |line: &&str| line.starts_with("exit status") || line.starts_with("signal");
        page.lines().filter(|line| !is_end(line)).flat_map(|line| [line, "\n"]).collect::<String>()
    };
    let server = our_command(&["mcp", "builtin:"]);
    let oracle = our_command(&["oracle", "serve", "builtin:"]);
    expect![[r#"
        stderr
        warning: waiting for the `ready` that an oracle begins with, `toolbus` has 2s for that
        error: `toolbus` was not ready within 2s
        hint: it is an MCP server: write `mcp+stdio:toolbus 'mcp' 'builtin:'`
        exit 4
    "#]]
    .assert_eq(&page(&["call", "--start-timeout", "2s", &format!("stdio:{server}"), "add"]));
    expect![[r#"
        stderr
        error: `toolbus` was not ready within 100ms
        hint: it is an MCP server: write `mcp+stdio:toolbus 'mcp' 'builtin:'`
        exit 4
    "#]]
    .assert_eq(&page(&[
        "oracle",
        "invoke",
        "--start-timeout",
        "100ms",
        &format!("stdio:{server}"),
        "add",
    ]));
    expect![[r#"
        stderr
        error: cannot list the tools of `mcp+stdio:toolbus 'oracle' 'serve' 'builtin:'`: `toolbus` ended with exit status 3 before it was ready
          | error: expected the answer to ready, got: {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"toolbus","version":"0.1.0"}}}
        hint: it is an oracle: write `stdio:toolbus 'oracle' 'serve' 'builtin:'`
        exit 3
    "#]].assert_eq(&page(&["tools", &format!("mcp+stdio:{oracle}")]));
}

/// The schemes of programs, and our own program as one of each.
const ALL: [(&str, &[&str]); 6] = [
    ("stdio:", &["oracle", "serve", "builtin:"]),
    ("mcp+stdio:", &["mcp", "builtin:"]),
    ("orchard+stdio:", &["provider", "builtin:"]),
    ("mediocre+stdio:", &["rpc", "serve", "--listen", "stdio:", "builtin:"]),
    ("orchestra+plugin:", &["plugin", "builtin:"]),
    ("godex+stdio:", &["exec"]),
];

#[test]
fn every_wrong_scheme_is_told_with_the_right_one() {
    let pairs = ALL.iter().flat_map(|right| ALL.iter().map(move |wrong| (right, wrong)));
    let wrong = pairs.filter(|(right, wrong)| right != wrong);
    side_by_side(wrong, |((right, words), (wrong, _))| {
        let command = our_command(words);
        let address = format!("{wrong}{command}");
        let call = ["call", "--start-timeout", "300ms", &address, "upper", "text=hi"];
        let page = Page::of(&call).run();
        let hint = format!("write `{right}{command}`");
        assert!(page.stderr.contains(&hint), "{wrong} before {words:?}: {page}");
        assert!(page.stdout.is_empty(), "{wrong} before {words:?}: {page}");
    });
}

#[test]
fn what_is_waited_for_is_told() {
    let silent = [
        ("stdio:", "the `ready` that an oracle begins with, `sh` has 20s for that"),
        ("mcp+stdio:", "the first answer of an MCP server, `sh` has 20s for that"),
        (
            "orchard+stdio:",
            "the answer of an Orchard provider to `describe`, `exec-sleep-60` has 20s for that",
        ),
        ("mediocre+stdio:", "the first answer of a mediocre-rpc server"),
        (
            "orchestra+plugin:",
            "the `READY` that an Orchestra plugin begins with, `sh` has 20s for that",
        ),
        ("godex+stdio:", "the first event of a `godex exec` program"),
    ];
    side_by_side(silent, |(scheme, what)| {
        let silent = format!("{scheme}sh -c 'exec sleep 60'");
        let limits = ["--start-timeout", "20s", "--timeout", "2500ms"];
        let tool = if scheme.starts_with("godex") { ["ask", "prompt=x"] } else { ["f", "x=1"] };
        let page = Page::of(&[&["call"], &limits[..], &[&silent], &tool].concat()).run();
        let line = format!("warning: waiting for {what}\n");
        assert!(page.stderr.starts_with(&line), "{scheme}: {page}");
        assert!(page.stderr.contains("error: no answer within 2.5s\n"), "{scheme}: {page}");
    });
}
