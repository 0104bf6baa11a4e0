//! Programs whose wire is not said, or said wrongly: it is found out.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use expect_test::expect;
use toolbus_testkit::peer::command_line;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::side_by_side::side_by_side;

use crate::listening::Server;
use crate::live::marked;
use crate::mcp::DISCOVERED;
use crate::page::{Page, WAITS_TOLD_AFTER, our_command};
use crate::terminal::Terminal;

const TOOLS: &str = r#"{"tools":[{"name":"f","inputSchema":{"type":"object"}}]}"#;
const FINE: &str = r#"{"content":[{"type":"text","text":"fine"}]}"#;

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
    let oracle = our_command(&["oracle", "serve", "builtin:"]);
    let rpc = our_command(&["rpc", "serve", "--listen", "stdio:", "builtin:"]);
    for (wire, command, first) in
        [("oracle", oracle, "first-byte"), ("mediocre", rpc, "unknown-method")]
    {
        let page = Page::of(&["check", wire, &command]).run().to_string();
        assert!(page.starts_with(&format!("stdout\nok {first}\n")), "{page}");
    }
    let page = Page::of(&["doctor", &server]).run().to_string();
    assert!(page.contains(": 9 tools, "), "{page}");
}

#[test]
fn what_is_tested_may_say_itself_by_which_rules() {
    let page = |words: &[&str]| Page::of(words).run();
    let server = our_command(&["mcp", "builtin:"]);
    let (told, found) = (page(&["check", "mcp", &server]), page(&["check", &server]));
    assert_eq!(told.stdout, found.stdout);
    assert_eq!(found.stderr, "it is an MCP server, tested by `toolbus check mcp`\n");
    let rpc = our_command(&["rpc", "serve", "--listen", "stdio:", "builtin:"]);
    let found = page(&["check", &rpc, "--method", "echo"]);
    assert!(found.stdout.starts_with("ok unknown-method\n"), "{found}");
    let said = "it is a mediocre-rpc server, tested by `toolbus check mediocre`\n";
    assert_eq!(found.stderr, said);
    // An address says it already.
    let found = page(&["check", &format!("mcp+stdio:{server}")]);
    assert_eq!((&*found.stdout, &*found.stderr), (&*told.stdout, ""));
    Page::of(&["check", "builtin:"]).check(expect![[r#"
        stderr
        error: there are no tests for tools inside toolbus itself
        exit 2
    "#]]);
    Page::of(&["check"]).check(expect![[r#"
        stderr
        error: TARGET is missing
        usage: toolbus check [PROTOCOL] <TARGET>
        hint: `--help` tells more
        exit 2
    "#]]);
}

#[test]
fn programs_that_show_nothing() {
    Page::of(&["tools", "bultin"]).check(expect![[r#"
        stderr
        error: cannot list the tools of `bultin`: there is no program `bultin` in PATH
        hint: did you mean `builtin:`?
        exit 3
    "#]]);
    Page::of(&["tools", "no-such-program-at-all -y"]).check(expect![[r#"
        stderr
        error: cannot list the tools of `no-such-program-at-all -y`: there is no program `no-such-program-at-all` in PATH
        hint: install `no-such-program-at-all`, or give its path
        exit 3
    "#]]);
    Page::of(&["tools", "sh -c 'exit 0'"]).check(expect![[r#"
        stderr
        error: cannot list the tools of `sh -c 'exit 0'`: `sh` ended with exit status 0 before it showed what it speaks
        exit 3
    "#]]);
    Page::of(&["call", "sh -c 'echo no WEATHER_KEY >&2; exit 3'", "f"])
        .env("WEATHER_KEY", "k")
        .check(expect![[r#"
            stderr
            error: `sh` ended with exit status 3 before it showed what it speaks
              | no WEATHER_KEY
            hint: `WEATHER_KEY` was not passed on to it: write `--env-pass WEATHER_KEY` (`env_pass` in the config)
            exit 3
        "#]]);
    Page::of(&["call", "--timeout", "100ms", "sh -c 'exec sleep 100'", "f"]).check(expect![[r#"
        stderr
        error: no answer within 100ms
        exit 4
    "#]]);
    Page::of(&["call", "--start-timeout", "100ms", "sh -c 'exec sleep 100'", "f"]).check(expect![
        [r#"
        stderr
        error: `sh` did not show within 100ms what it speaks
        hint: say it before the command, as in `mcp+stdio:sh -c 'exec sleep 100'`
        exit 4
    "#]
    ]);
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
    // It says nothing before it is asked, and nothing is started only to ask.
    let words = ["call", "--start-timeout", "100ms", &format!("stdio:{server}"), "add"];
    expect![[r#"
        stderr
        error: `toolbus` was not ready within 100ms
        hint: is it an oracle? without `stdio:` it is found out what it speaks
        exit 4
    "#]]
    .assert_eq(&page(&words));
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
        // One that said nothing, or was asked to be what it is not by its arguments, cannot be
        // known.
        let can_be_known = match *wrong {
            "stdio:" => ["orchestra+plugin:", "godex+stdio:"].contains(right),
            "orchestra+plugin:" | "godex+stdio:" => false,
            _ => true,
        };
        let patience = if can_be_known { "20s" } else { "300ms" };
        let call = ["call", "--start-timeout", patience, &address, "upper", "text=hi"];
        let page = Page::of(&call).run();
        let hint = format!("write `{right}{command}`");
        let is_told = page.stderr.contains(&hint);
        assert!(is_told || !can_be_known, "{wrong} before {words:?}: {page}");
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
        let limits = ["--start-timeout", "20s", "--timeout", "1s"];
        let tool = if scheme.starts_with("godex") { ["ask", "prompt=x"] } else { ["f", "x=1"] };
        let words = [&["-v", "call"], &limits[..], &[&silent], &tool].concat();
        let page = Page::of(&words).env(WAITS_TOLD_AFTER, "0").run();
        let line = format!("\ninfo: waiting for {what}\n");
        assert!(format!("\n{}", page.stderr).contains(&line), "{scheme}: {page}");
        assert!(page.stderr.contains("error: no answer within 1s\n"), "{scheme}: {page}");
    });
}

#[test]
fn waiting_is_no_warning() {
    let silent = "mcp+stdio:sh -c 'exec sleep 60'";
    let words = ["call", "--start-timeout", "20s", "--timeout", "1s", silent, "f", "{}"];
    // A script is told nothing that it did not ask for.
    Page::of(&words).env(WAITS_TOLD_AFTER, "0").check(expect![[r#"
        stderr
        error: timed out after 1 s
        hint: is it an MCP server? without `mcp+stdio:` it is found out what it speaks
        exit 4
    "#]]);
    // For people it stands beside the spinner, and is gone with it.
    for (scheme, line) in [
        ("mcp+stdio:", "s waiting for the first answer of an MCP server, `sh` has 60s for that"),
        // So it does while it is found out what a program speaks.
        ("", "s waiting for `sh` to show what it speaks, it has 60s for that"),
    ] {
        let scratch = Scratch::new();
        let seen = scratch.file("seen");
        let silent = format!("{scheme}sh -c 'until [ -e {seen} ]; do sleep 0.02; done; exit 3'");
        let shown = Terminal::of(100)
            .env("NO_COLOR", "1")
            .env(WAITS_TOLD_AFTER, "0")
            .does(line, move || drop(File::create(&seen).unwrap()))
            .shown(&["call", "--start-timeout", "60s", &silent, "f", "{}"]);
        let (_, after) = shown.rsplit_once(line).expect("it is shown");
        assert!(after.contains("\r\x1b[Kerror: `sh` ended with exit status 3"), "{shown:?}");
        assert!(!shown.contains("warning"), "{shown:?}");
    }
}

#[test]
fn the_process_that_answered_goes_on() {
    let scratch = Scratch::new();
    let mark = scratch.file("mark");
    let steps = ["mark", &mark, "read", "answer", DISCOVERED, "read", "answer", TOOLS];
    let server = command_line(&[&steps[..], &["read", "answer", FINE, "readall"]].concat());
    Page::of(&["call", &server, "f", "x=1"]).check(expect![[r#"
        stdout
        "fine"
        exit 0
    "#]]);
    assert_eq!(marked(&mark, 1).len(), 1);
}

#[test]
fn what_a_program_spoke_is_remembered_and_checked() {
    let scratch = Scratch::new();
    let (mark, lives) = (scratch.file("mark"), scratch.file("lives"));
    let cache = scratch.file("cache");
    // It is an MCP server at first, and an oracle from then on.
    let server = ["read", "answer", DISCOVERED, "read", "answer", TOOLS, "readall", "exit", "0"];
    let both = ["mark", &mark, "once", &lives, "{"];
    let words = [&both[..], &server, &["}", "echo-oracle"]].concat();
    let program = command_line(&words);
    let run = |words: &[&str]| Page::of(words).env("XDG_CACHE_HOME", &cache).run();
    let listed = run(&["tools", "--json", &program]);
    assert!(listed.stdout.starts_with(r#"{"name":"f""#), "{listed}");
    let invoke = ["call", &program, "invoke", r#"{"selector":"f","calldata":["0x1"]}"#];
    let mut starts = 1;
    // Found out again, remembered, found out with a file that is broken.
    for (begun, memory) in [(2, None), (1, None), (2, Some("\u{1}\u{2}\nx"))] {
        if let Some(broken) = memory {
            fs::write(format!("{cache}/toolbus/programs"), broken).unwrap();
        }
        let called = run(&invoke);
        assert_eq!(called.stdout, "[\"0x1\"]\n", "{called}");
        starts += begun;
        assert_eq!(marked(&mark, starts).len(), starts);
    }
}

#[test]
fn a_program_that_says_nothing_is_started_once() {
    let schemes = ["stdio:", "mcp+stdio:", "orchard+stdio:", "mediocre+stdio:", ""];
    side_by_side(schemes, |scheme| {
        let scratch = Scratch::new();
        let mark = scratch.file("mark");
        let silent = format!("{scheme}{}", command_line(&["mark", &mark, "stay"]));
        for words in [
            ["call", "-q", "--timeout", "1s", &silent, "f"].as_slice(),
            ["tools", "-q", "--timeout", "1s", &silent].as_slice(),
        ] {
            let page = Page::of(words).run();
            let code = if words[0] == "call" { 4 } else { 3 };
            assert_eq!(page.status.code(), Some(code), "{scheme} {page}");
        }
        assert_eq!(marked(&mark, 2).len(), 2, "{scheme}");
    });
    let scratch = Scratch::new();
    let mark = scratch.file("mark");
    let silent = format!("stdio:{}", command_line(&["mark", &mark, "raw", "x", "stay"]));
    for flag in ["--start-timeout", "--timeout"] {
        let page = Page::of(&["oracle", "invoke", flag, "5s", &silent, "f"]).run();
        assert_eq!(page.status.code(), Some(3), "{page}");
    }
    assert_eq!(marked(&mark, 2).len(), 2);
}

#[test]
fn a_name_that_no_tool_has_starts_no_more_than_the_list_did() {
    let scratch = Scratch::new();
    let mark = scratch.file("mark");
    let lists = ["forever", "{", "read", "answer", TOOLS, "}"];
    let server =
        command_line(&[&["mark", &mark, "read", "answer", DISCOVERED], &lists[..]].concat());
    for (at, scheme) in ["mcp+stdio:", ""].into_iter().enumerate() {
        let page = Page::of(&["call", &format!("{scheme}{server}"), "g", "x=1"]).run();
        assert_eq!(page.status.code(), Some(2), "{page}");
        assert_eq!(marked(&mark, at + 1).len(), at + 1);
    }
}

#[test]
fn what_was_late_is_told_before_a_goodbye_that_is_short() {
    let scratch = Scratch::new();
    let mark = scratch.file("mark");
    let steps = ["mark", &mark, "ignore-term", "read", "answer", DISCOVERED, "read", "stay"];
    let server = command_line(&steps);
    // Without the bound the goodbye would outlast the patience of every test.
    let config =
        format!("[back.x]\nconnect = \"\"\"mcp+stdio:{server}\"\"\"\nstop_timeout = \"1000s\"\n");
    let page = Page::of(&["call", "-v", "--timeout", "2s", "x.f"]).config("late", &config).run();
    assert_eq!(page.status.code(), Some(4), "{page}");
    let told = page.stderr.find("error: timed out after 2 s");
    let ended = page.stderr.find(": ended");
    assert!(told.is_some() && told < ended, "{page}");
    marked(&mark, 1)[0].assert_gone();
}

/// Where a server is that answers every request with this.
fn answering(answer: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let answer = answer.to_owned();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            answer_one(client, &answer);
        }
    });
    host
}

fn answer_one(mut client: TcpStream, answer: &str) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).is_ok_and(|count| 2 < count) {
        if let Some(found) = line.to_lowercase().strip_prefix("content-length:") {
            length = found.trim().parse().unwrap();
        }
        line.clear();
    }
    let _ = reader.read_exact(&mut vec![0; length]);
    let _ = client.write_all(answer.as_bytes());
}

#[test]
fn what_is_no_mcp_server_over_http_is_told() {
    let told = |answer: &str, path: &str| {
        let head = "Connection: close\r\nContent-Length";
        let (status, body) = answer.split_once('\n').unwrap();
        let answer = format!("HTTP/1.1 {status}\r\n{head}: {}\r\n\r\n{body}", body.len());
        let host = answering(&answer);
        let page = Page::of(&["tools", &format!("http://{host}{path}")]).run();
        page.stderr.replace(&host, "HOST")
    };
    expect![[r#"
        error: cannot list the tools of `http://HOST/`: -32603: refused the handshake: the server answered with a web page, HTTP status 200
        hint: is the path `/mcp`?
    "#]]
    .assert_eq(&told("200 OK\n<!DOCTYPE html>", "/"));
    expect![[r#"
        error: cannot list the tools of `http://HOST/`: -32603: refused the handshake: the server answered with HTTP status 404
        hint: is the path `/mcp`?
    "#]]
    .assert_eq(&told("404 Not Found\n", "/"));
    expect![[r#"
        error: cannot list the tools of `http://HOST/mcp`: -32603: refused the handshake: the server answered with HTTP status 500: it burns
    "#]]
    .assert_eq(&told("500 Internal Server Error\nit burns", "/mcp"));
}

#[test]
fn the_wrong_wire_over_http_is_told_with_the_right_one() {
    let words = ["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc", "builtin:"];
    let server = Server::start(&words, 1);
    let (_, place) = server.url().split_once("://").unwrap();
    let page = Page::of(&["tools", &format!("http://{place}")]).run();
    let hint = format!("hint: it is a mediocre-rpc server: write `mediocre+http://{place}`");
    assert!(page.stderr.contains(&hint), "{page}");

    let server = Server::start(&["mcp", "--http", "127.0.0.1:0", "builtin:"], 1);
    let (_, place) = server.url().split_once("://").unwrap();
    let hint = format!("hint: it is an MCP server: write `http://{place}`\n");
    for words in [
        &["tools", &format!("mediocre+http://{place}")][..],
        &["call", &format!("mediocre+http://{place}"), "upper", "text=hi"],
        &["rpc", "call", &format!("http://{place}"), "upper", r#"{"text":"hi"}"#],
    ] {
        let page = Page::of(words).run();
        assert!(page.stderr.ends_with(&hint), "{words:?}: {page}");
        assert_eq!(page.status.code(), Some(3), "{words:?}: {page}");
    }
    // Others say so in the body of a success, and without a line's end.
    let said = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#;
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length";
    let host = answering(&format!("{head}: {}\r\n\r\n{said}", said.len()));
    let page = Page::of(&["tools", &format!("mediocre+http://{host}/mcp")]).run();
    let hint = format!("hint: it is an MCP server: write `http://{host}/mcp`\n");
    assert!(page.stderr.ends_with(&hint), "{page}");
}
