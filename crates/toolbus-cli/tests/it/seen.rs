//! What people and scripts see of what goes wrong: refused requests, crashed servers, lines of
//! JSON, and that each rule of a check is explained.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::Value;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::side_by_side::side_by_side;

use crate::http::Request;
use crate::listening::Server;
use crate::page::{Page, WAITS_TOLD_AFTER, mcp_ourselves, our_command, ourselves};
use crate::serve::{Config, MCP, back};

/// Lets every request be asked for a token.
fn closed_door() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let at = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut bytes = [0; 4096];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut bytes) {
                    Ok(count @ 1..) => head.extend_from_slice(&bytes[..count]),
                    _ => break,
                }
            }
            let answer =
                "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    at.to_string()
}

#[test]
fn a_closed_door_names_the_flags_that_open_it() {
    let at = closed_door();
    let mcp = format!("http://{at}/mcp");
    let mediocre = format!("mediocre+http://{at}/");
    let asked: &[&[&str]] = &[
        &["tools", &mcp],
        &["tools", &mediocre],
        &["call", &mcp, "f", "x=1"],
        &["call", &mcp, "f", "{}"],
        &["call", &mediocre, "f", "x=1"],
        &["describe", &mcp, "f"],
        &["prompt", "list", &mcp],
        &["prompt", "get", &mcp, "f"],
        &["resource", "list", &mcp],
        &["resource", "read", &mcp, "f"],
        &["doctor", &mcp],
        &["check", "mcp", &mcp],
        &["rpc", "call", &mediocre, "f"],
        &["oracle", "serve", &mcp],
        &["provider", &mcp],
        &["rpc", "serve", "--listen", "tcp://127.0.0.1:0", &mcp],
        &["exec", "--mock", "--tools-from", &mcp, "--prompt", "hi"],
    ];
    side_by_side(asked, |words| {
        let page = Page::of(words).run().to_string();
        // Of a server of MCP it is not known yet whether it takes a token or wants a sign-in.
        let may_sign_in = words.contains(&mcp.as_str()) && page.contains("toolbus login");
        let names_both = page.contains("--token-env") && page.contains("--header");
        assert!(may_sign_in || names_both, "{words:?}: {page}");
    });
}

#[test]
fn every_line_on_standard_error_can_be_json() {
    let closed = format!("http://{}/v1", closed_door());
    let rpc = format!(
        "mediocre+stdio:{}",
        our_command(&["rpc", "serve", "--listen", "stdio:", "builtin:"])
    );
    let oracle = ourselves(&["builtin:"]);
    let ran: &[&[&str]] = &[
        &["no-such-command"],
        &["call"],
        &["call", "builtin:", "fail", "message=no"],
        &["-vv", "call", "builtin:", "count", "n=2"],
        &["tools", "bultin"],
        &["tools", "mcp+stdio:false"],
        &["-v", "call", "--timeout", "500ms", "stdio:sleep 60", "f", "x=1"],
        &["describe", "builtin:", "ad"],
        &["prompt", "list", "builtin:"],
        &["doctor", "builtin:", "mcp+stdio:false", "-v"],
        &["check", "mcp", "mcp+stdio:false"],
        &["check", "mcp", "mcp+stdio:sleep 60", "--timeout", "2500ms", "-v"],
        &["exec"],
        &["exec", "--mock", "--prompt", "hi", "--trace"],
        &["exec", "--base-url", &closed, "--prompt", "hi", "--retries", "1"],
        &["rpc", "call", "tcp://127.0.0.1:1", "f"],
        &["-vv", "rpc", "call", &rpc, "upper", r#"{"text":"x"}"#, "--debug", r#"{"a":1}"#],
        &["-vv", "oracle", "invoke", &oracle, "upper", "1"],
        &["orchestrator", "--config", "no-such-file.yaml"],
        &["transport-stdio", "--orchestrator-addr", "127.0.0.1:1", "--certs-dir", "no-such-folder"],
        &["orchard", "plan", "no-such-folder"],
        &["orchard", "run", "no-such-folder"],
        &["-v", "provider", "builtin:"],
        &["-vv", "mcp", "builtin:"],
        &["decode", "mediocre", "--as", "call"],
    ];
    side_by_side(ran, |words| {
        let page = Page::of(&[&["--log-format", "json"], *words].concat()).stdin("{bad\n");
        let page = page.env(WAITS_TOLD_AFTER, "0").run();
        for line in page.stderr.lines() {
            let json: Value =
                serde_json::from_str(line).unwrap_or_else(|_| panic!("{words:?}: {line}"));
            assert!(json["message"].is_string() && json["level"].is_string(), "{words:?}: {line}");
        }
    });
    let config = Config::of(&format!("{}{MCP}", back("x", "mcp+stdio:false")));
    let server = Server::start(&["--log-format", "json", "serve", "--config", &config.path()], 0);
    let heard = std::iter::repeat_with(|| server.hear()).find_map(|line| {
        let json: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        json["message"].as_str()?.strip_prefix("listening on ").map(str::to_owned)
    });
    assert!(heard.is_some_and(|url| url.starts_with("http://127.0.0.1:")));
}

#[test]
fn a_refused_request_is_a_line() {
    let server = Server::start(&["-v", "mcp", "--http", "0", "builtin:"], 1);
    let url = server.url();
    let refusals = [
        (
            "GET /nope HTTP/1.1\r\nHost: localhost\r\n",
            "",
            "refused with HTTP status 404: there is nothing at `/nope`",
        ),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/html\r\n",
            "{}",
            "refused with HTTP status 415: Content-Type must be application/json",
        ),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n",
            "{}",
            "refused with HTTP status 403: ",
        ),
        (
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
            "{bad",
            "refused with HTTP status 400: ",
        ),
    ];
    for (head, body, line) in refusals {
        let length = body.len();
        let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        Request::connect(url).say(&request).answer();
        let heard = server.hear();
        let (peer, said) = heard.split_once(": refused").expect(&heard);
        assert!(peer.starts_with("info: 127.0.0.1:"), "{heard}");
        assert!(format!("refused{said}").starts_with(line), "{heard}");
    }
    Request::connect(url).say("GARBAGE\r\n\r\n").answer();
    let heard = server.hear();
    assert!(heard.contains(": refused: what came is no HTTP: "), "{heard}");
}

#[test]
fn a_refused_message_is_a_line() {
    let page = |words: &[&str], said: &str| {
        let page = Page::of(&[&["-v"], words].concat()).stdin(said).run();
        page.stderr
            .lines()
            .filter(|line| line.contains("refused"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let said = [
        page(
            &["mcp", "builtin:"],
            "{bad\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n",
        ),
        page(&["provider", "builtin:"], "{bad\n{\"id\":1,\"method\":\"nope\"}\n"),
        page(
            &["oracle", "serve", "builtin:"],
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n{bad\n",
        ),
        page(&["rpc", "serve", "--listen", "stdio:", "builtin:"], "{\"method\":\"\"}"),
    ];
    expect![[r#"
        info: the client: refused: parse error: not JSON: unexpected `b` at byte 1
        info: the client: refused: not initialized: send initialize, or put io.modelcontextprotocol/protocolVersion into _meta
        info: the client: refused: line is not a JSON object
        info: the client: refused: unknown method: nope
        info: the client: refused: not JSON: unexpected `b` at byte 1
        info: the client: refused: method must be a non-empty string
    "#]]
    .assert_eq(&said.concat());
}

#[test]
fn a_crashing_server_is_told_of_once() {
    let dying = "mcp+stdio:sh -c 'echo alas >&2; exit 3'";
    let config = Config::of(&format!("{}{}{MCP}", back("x", dying), back("try", "builtin:")));
    let server = config.serve(1);
    let address = format!("mcp+{}", server.url());
    for _ in 0..3 {
        let page = Page::of(&["tools", "-q", &address]).run().to_string();
        assert!(page.contains("try_add"), "{page}");
    }
    server.signal(Signal::TERM);
    let said = server.end();
    for line in
        ["warning: x: left out: `x` ended with exit status 3 before it was ready\n", "[x] alas\n"]
    {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
    // A check shows its last words, too.
    let page = Page::of(&["check", "mcp", dying]).run().to_string();
    assert!(page.contains("alas"), "{page}");
}

#[test]
fn doctor_starts_all_at_once() {
    // None of them gets ready before all six are there.
    let met = Scratch::new();
    let at = met.file("met");
    fs::create_dir(&at).expect("the folder is ours");
    let server = our_command(&["mcp", "builtin:"]);
    let backs = (0..6).map(|number| {
        let wait = format!("while [ $(ls {at} | wc -l) -lt 6 ]; do sleep 0.05; done");
        let script = format!("touch {at}/{number}; {wait}; exec {server}").replace('\'', "");
        back(&format!("b{number}"), &format!("mcp+stdio:sh -c \"{script}\""))
    });
    let config = Config::of(&backs.collect::<String>());
    let page = Page::of(&["doctor", "--config", &config.path()]).run().to_string();
    assert_eq!(page.matches(": 9 tools, ").count(), 6, "{page}");
}

#[test]
fn a_slow_program_keeps_no_other_from_being_served() {
    let backs = [back("slow", "sh -c 'exec sleep 60'"), back("try", "builtin:")].concat();
    // It is on no list, whoever lists before the call.
    let config = Config::of(&format!("{backs}{MCP}list_timeout = \"100ms\"\n"));
    let server = config.serve(1);
    let page = Page::of(&["call", "-q", &format!("mcp+{}", server.url()), "try_add", "a=1", "b=2"]);
    assert_eq!(page.run().to_string(), "stdout\n3\nexit 0\n");
}

#[test]
fn all_of_a_command_is_bounded() {
    let bounded = [
        &["tools", "--timeout", "1s", "mcp+stdio:sleep 60"][..],
        &["tools", "--timeout", "1s", "sleep 60"],
        &["call", "--timeout", "1s", "mcp+stdio:sleep 60", "f"],
        &["call", "--timeout", "1s", "sleep 60", "f", "x=1"],
        &["describe", "--timeout", "1s", "mcp+stdio:sleep 60", "f"],
        &["prompt", "list", "--timeout", "1s", "mcp+stdio:sleep 60"],
        &["resource", "read", "--timeout", "1s", "mcp+stdio:sleep 60", "a:b"],
        &["check", "mcp", "--timeout", "1s", "mcp+stdio:sleep 60"],
        &["check", "orchard", "--timeout", "1s", "sleep 60"],
        &["doctor", "--timeout", "1s", "mcp+stdio:sleep 60"],
        &["oracle", "invoke", "--timeout", "1s", "stdio:sleep 60", "f"],
        &["rpc", "call", "--timeout", "1s", "stdio:sleep 60", "f"],
    ];
    side_by_side(bounded, |words| {
        let page = Page::of(words).run().to_string();
        // MCP has words of its own for it.
        let is_told = page.contains("within 1s") || page.contains("timed out after 1 s");
        assert!(is_told, "{words:?}: {page}");
        let exit = match words[0] {
            "tools" => 3,
            "doctor" => 1,
            _ => 4,
        };
        assert!(page.ends_with(&format!("exit {exit}\n")), "{words:?}: {page}");
    });
}

#[test]
fn a_program_that_lacks_a_variable_is_told_so() {
    let dying = "sh -c 'echo no WEATHER_KEY >&2; exit 3'";
    side_by_side(["mcp+stdio:", "mediocre+stdio:", ""], |scheme| {
        let address = format!("{scheme}{dying}");
        for words in [
            &["tools", &address][..],
            &["call", &address, "f", "{}"],
            &["describe", &address, "f"],
            &["doctor", &address],
        ] {
            let page = Page::of(words).env("WEATHER_KEY", "k").run().to_string();
            assert!(page.contains("write `--env-pass WEATHER_KEY`"), "{words:?}: {page}");
        }
    });
}

#[test]
fn every_rule_is_explained() {
    let us = |words: &[&str]| our_command(words);
    let peers = [
        ("oracle", ourselves(&["builtin:"])),
        ("mcp", mcp_ourselves(&["builtin:"])),
        ("orchard", us(&["provider", "builtin:"])),
        ("mediocre", format!("stdio:{}", us(&["rpc", "serve", "--listen", "stdio:", "builtin:"]))),
        ("orchestra", format!("orchestra+plugin:{}", us(&["plugin", "builtin:"]))),
        ("godex", us(&["exec"])),
    ];
    side_by_side(peers, |(wire, target)| {
        let rules = |words: &[&str]| -> BTreeSet<String> {
            let page = Page::of(&[words, &["--json"]].concat()).run();
            let rule = |line: &str| {
                let line: Value = serde_json::from_str(line).ok()?;
                assert_ne!(line["explanation"], "", "{line}");
                line["rule"].as_str().map(str::to_owned)
            };
            page.stdout.lines().filter_map(rule).collect()
        };
        let explained = rules(&["check", wire, "--explain"]);
        let tried = rules(&["check", wire, &target]);
        assert!(!tried.is_empty(), "{wire}");
        let unknown: Vec<_> = tried.difference(&explained).collect();
        assert!(unknown.is_empty(), "{wire}: {unknown:?}");
    });
}

/// A shell that runs this and then our own server.
fn script(scratch: &Scratch, before: &str) -> String {
    let file = scratch.file("server.sh");
    fs::write(&file, format!("{before}\nexec {}", our_command(&["mcp", "builtin:"]))).unwrap();
    format!("mcp+stdio:sh {file}")
}

#[test]
fn the_log_calls_one_peer_by_one_name() {
    let scratch = Scratch::new();
    let address = script(&scratch, "echo hello >&2");
    let page = Page::of(&["call", "-v", &address, "add", "a=1", "b=2"]).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("3\n", Some(0)), "{page}");
    let is_its = |line: &str| line.starts_with("info: sh: ");
    assert!(page.stderr.lines().all(is_its), "{page}");
    assert!(page.stderr.contains("info: sh: call of `add` over mcp: ok in "), "{page}");
    // Of two each has a name of its own, in the lines of its process, too.
    let page = Page::of(&["tools", "-v", &address, &address]).run();
    for name in ["server", "server2"] {
        assert!(page.stderr.contains(&format!("info: {name}: started, process ")), "{page}");
    }
}

#[test]
fn a_server_that_floods_its_standard_error_fills_no_log() {
    let scratch = Scratch::new();
    // Written whole before it serves: it is all there when the call is answered.
    let flood = "yes 'the same again' | head -n 100000 >&2\nseq 100000 >&2";
    let address = script(&scratch, flood);
    // How fast it is on a busy machine is not asked here.
    let patience = ["--start-timeout", "3m", "--timeout", "3m"];
    let words = [&["call", "-v"], &patience[..], &[&address, "add", "a=1", "b=2"]].concat();
    let page = Page::of(&words).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("3\n", Some(0)), "{page}");
    // Of 200,000 lines, however long they took.
    let is_same = |line: &&str| line.ends_with("the same again");
    assert!(page.stderr.lines().filter(is_same).count() < 1000, "{page}");
    assert!(page.stderr.contains("info: sh: the same again … "), "{page}");
    assert!(page.stderr.contains(" more lines in "), "{page}");
    assert!(page.stderr.len() < 1 << 20, "{} bytes", page.stderr.len());
}
