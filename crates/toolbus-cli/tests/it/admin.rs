//! `[admin]` of `toolbus serve`: is it alive, is it ready, what has it done?

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::marked;
use crate::page::{Page, oracle};
use crate::serve::{BUILTIN, Config, MCP, back, server_after};

const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";
const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n";

/// What the pages answer: head and body.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).expect("HTTP/1.1 200 OK")
    }
}

fn ask(url: &str, method: &str, path: &str, fields: &str) -> Answer {
    let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    let answer = Request::connect(url).say(&head).answer();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    Answer { head: head.to_owned(), body: body.to_owned() }
}

fn get(url: &str, path: &str) -> Answer {
    ask(url, "GET", path, "Host: localhost\r\n")
}

/// The lines of the metrics that tell of tools, without what differs from run to run.
fn of_tools(url: &str) -> String {
    let page = get(url, "/metrics").body;
    assert_is_exposition(&page);
    let is_of_tools = |line: &&str| {
        line.contains("toolbus_call")
            || line.contains("toolbus_re")
            || line.contains("toolbus_front")
            || line.contains("toolbus_back")
    };
    let is_quick = |line: &&str| !line.contains("_bucket{") || line.contains("le=\"+Inf\"");
    let line = |line: &str| match line.split_once("_seconds_sum{") {
        Some((name, rest)) => {
            let labels = rest.split_once('}').expect("labels").0;
            format!("{name}_seconds_sum{{{labels}}} SECONDS\n")
        }
        None => format!("{line}\n"),
    };
    page.lines().filter(is_of_tools).filter(is_quick).map(line).collect()
}

/// Is it what Prometheus reads? Each family is described once, before its numbers, which stand
/// together; buckets hold those of the ones before.
fn assert_is_exposition(page: &str) {
    assert!(page.ends_with('\n'), "{page}");
    let mut families: Vec<&str> = Vec::new();
    let mut kind = "";
    let mut below = 0.0;
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().expect("a name");
            assert!(!families.contains(&name), "{name} twice");
            families.push(name);
            continue;
        }
        let family = families.last().expect("a family");
        if let Some(told) = line.strip_prefix("# TYPE ") {
            let (name, told) = told.split_once(' ').expect("a name and a type");
            assert_eq!(name, *family);
            kind = told;
            let is_counter = kind == "counter";
            assert_eq!(is_counter, name.ends_with("_total"), "{name} is a {kind}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a number");
        let value: f64 = value.parse().expect(line);
        let name = name.split('{').next().expect("a name");
        let suffix = name.strip_prefix(family).expect(line);
        match (kind, suffix) {
            ("histogram", "_bucket") => {
                assert!(below <= value, "{line}");
                below = value;
            }
            ("histogram", "_sum") => {}
            ("histogram", "_count") => {
                assert_eq!(below, value, "{line}");
                below = 0.0;
            }
            _ => assert_eq!(suffix, "", "{line}"),
        }
    }
}

fn call(server: &Server, tool: &str, args: &str) {
    Page::of(&["rpc", "call", server.url(), tool, args]).run();
}

#[test]
fn what_was_called_is_counted() {
    let server = Config::of(&format!("{BUILTIN}{TCP}{ADMIN}")).serve(2);
    let admin = &server.urls[1];
    assert!(admin.starts_with("http://127.0.0.1:") && !admin.ends_with('/'), "{admin}");
    assert_eq!(get(admin, "/healthz").body, "ok\n");
    assert_eq!(get(admin, "/readyz").body, "ready\n");
    call(&server, "try.add", r#"{"a":1,"b":2}"#);
    call(&server, "try.add", r#"{"a":1}"#);
    call(&server, "try.fail", r#"{"message":"no"}"#);
    // Names that callers make up are counted, and not kept.
    call(&server, "try.made_up_1", "{}");
    call(&server, "try.made_up_2", "{}");
    call(&server, "made_up_3", "{}");
    let answer = get(admin, "/metrics");
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    expect![[r##"
        # HELP toolbus_calls_total Calls that have ended.
        # TYPE toolbus_calls_total counter
        toolbus_calls_total{back="try",tool="(other)"} 2
        toolbus_calls_total{back="try",tool="add"} 2
        toolbus_calls_total{back="try",tool="fail"} 1
        # HELP toolbus_calls_in_flight Calls under way.
        # TYPE toolbus_calls_in_flight gauge
        toolbus_calls_in_flight{back="try",tool="(other)"} 0
        toolbus_calls_in_flight{back="try",tool="add"} 0
        toolbus_calls_in_flight{back="try",tool="fail"} 0
        # HELP toolbus_request_bytes_total Bytes of arguments that were sent to a tool.
        # TYPE toolbus_request_bytes_total counter
        toolbus_request_bytes_total{back="try",tool="(other)"} 4
        toolbus_request_bytes_total{back="try",tool="add"} 20
        toolbus_request_bytes_total{back="try",tool="fail"} 16
        # HELP toolbus_response_bytes_total Bytes of answers that came from a tool.
        # TYPE toolbus_response_bytes_total counter
        toolbus_response_bytes_total{back="try",tool="(other)"} 0
        toolbus_response_bytes_total{back="try",tool="add"} 1
        toolbus_response_bytes_total{back="try",tool="fail"} 0
        # HELP toolbus_call_failures_total Calls that have failed, by the way they did.
        # TYPE toolbus_call_failures_total counter
        toolbus_call_failures_total{back="try",tool="(other)",kind="unknown_tool"} 2
        toolbus_call_failures_total{back="try",tool="add",kind="invalid_arguments"} 1
        toolbus_call_failures_total{back="try",tool="fail",kind="failed"} 1
        # HELP toolbus_call_duration_seconds How long calls took, from the bus to the tool and back.
        # TYPE toolbus_call_duration_seconds histogram
        toolbus_call_duration_seconds_bucket{back="try",tool="(other)",le="+Inf"} 2
        toolbus_call_duration_seconds_sum{back="try",tool="(other)"} SECONDS
        toolbus_call_duration_seconds_count{back="try",tool="(other)"} 2
        toolbus_call_duration_seconds_bucket{back="try",tool="add",le="+Inf"} 2
        toolbus_call_duration_seconds_sum{back="try",tool="add"} SECONDS
        toolbus_call_duration_seconds_count{back="try",tool="add"} 2
        toolbus_call_duration_seconds_bucket{back="try",tool="fail",le="+Inf"} 1
        toolbus_call_duration_seconds_sum{back="try",tool="fail"} SECONDS
        toolbus_call_duration_seconds_count{back="try",tool="fail"} 1
        # HELP toolbus_front_calls_total Calls that came by a front.
        # TYPE toolbus_front_calls_total counter
        toolbus_front_calls_total{front="scripts"} 6
        # HELP toolbus_refused_calls_total Calls that the bus answered itself, because no back could be found for them.
        # TYPE toolbus_refused_calls_total counter
        toolbus_refused_calls_total{kind="unknown_tool"} 1
        # HELP toolbus_back_up Whether a back answered when it was asked last: 1 if it did.
        # TYPE toolbus_back_up gauge
        toolbus_back_up{back="try"} 1
    "##]].assert_eq(&of_tools(admin));
    let text = answer.body;
    for name in ["toolbus_bytes_in_flight ", "toolbus_build_info{version=", "process_start_time"] {
        assert!(text.contains(&format!("\n{name}")), "{text}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn what_has_to_make_room_is_said_once_and_counted() {
    let few = "sessions_max = 2\nconnections_max = 2\n";
    let server = Config::of(&format!("{BUILTIN}{MCP}{few}{ADMIN}")).serve(2);
    let admin = &server.urls[1];
    assert!(!get(admin, "/metrics").body.contains("made_room"));
    let sessions: Vec<_> = (0..4).map(|_| session(server.url())).collect();
    assert_eq!(
        server.hear(),
        "warning: there are 2 sessions, as many as there may be (`sessions_max`): for each new one \
         the one that was idle longest ends, which is counted from now on"
    );
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let status = |session: &String| {
        let answer = Request::send(server.url(), "POST", session, ping).answer();
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!(sessions.iter().map(status).collect::<Vec<_>>(), ["404", "404", "200", "200"]);
    // Two that are kept open, and one more, which is let in when the first was silent for a while.
    let kept = || {
        let request = Request::connect(server.url());
        let mut request = request.say("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
        request.hear("404");
        request
    };
    let all = [kept(), kept(), kept()];
    assert_eq!(
        server.hear(),
        "warning: there are 2 connections, as many as there may be: for each new one the one that \
         was silent longest is closed, which is counted from now on"
    );
    let page = get(admin, "/metrics").body;
    assert_is_exposition(&page);
    assert!(page.contains("\ntoolbus_sessions_made_room_total 2\n"), "{page}");
    assert!(page.contains("\ntoolbus_connections_made_room_total 1\n"), "{page}");
    drop(all);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn only_what_is_there_is_answered() {
    let server = Config::of(&format!("{BUILTIN}{TCP}{ADMIN}")).serve(2);
    let admin = &server.urls[1];
    let other = get(admin, "/nothing");
    assert_eq!(
        (other.status(), other.body.as_str()),
        ("404", "there are /healthz, /readyz and /metrics\n")
    );
    let post = ask(admin, "POST", "/metrics", "Host: localhost\r\nContent-Length: 0\r\n");
    assert_eq!(post.status(), "405");
    assert!(post.head.contains("allow: GET, HEAD"), "{}", post.head);
    let head = ask(admin, "HEAD", "/healthz", "Host: localhost\r\n");
    assert_eq!((head.status(), head.body.as_str()), ("200", ""));
    // A page elsewhere whose name leads here.
    let host = "Host: evil.example\r\n";
    assert_eq!(ask(admin, "GET", "/metrics", host).status(), "403");
    let origin = "Host: localhost\r\nOrigin: https://evil.example\r\n";
    assert_eq!(ask(admin, "GET", "/metrics", origin).status(), "403");
}

#[test]
fn who_looks_may_have_to_show_a_token() {
    let config = format!("{BUILTIN}{TCP}[admin]\nlisten = \"0.0.0.0:0\"\ntoken_env = \"TOKEN\"\n");
    let config = Config::of(&config);
    let words = ["serve", "--config", &config.path()];
    let server = Server::start_with(&words, 2, &[("TOKEN", "s3cret-token")]);
    let admin = server.urls[1].replace("0.0.0.0", "127.0.0.1");
    let without = ask(&admin, "GET", "/metrics", "Host: tools.example\r\n");
    assert_eq!(without.status(), "401");
    assert!(without.head.contains("www-authenticate: Bearer"), "{}", without.head);
    let shown = "Host: tools.example\r\nAuthorization: Bearer s3cret-token\r\n";
    assert_eq!(ask(&admin, "GET", "/metrics", shown).status(), "200");
}

#[test]
fn configs_that_cannot_be_served() {
    let check = |name, admin: &str, expect: expect_test::Expect| {
        let config = format!("{BUILTIN}{TCP}[admin]\n{admin}\n");
        Page::of(&["serve"]).config(name, &config).check(expect);
    };
    check(
        "admin_no_listen",
        "",
        expect![[r#"
        stderr
        error: `toolbus.toml` line 5: `admin.listen` is missing
        exit 2
    "#]],
    );
    check(
        "admin_no_place",
        "listen = \"here\"",
        expect![[r#"
        stderr
        error: `toolbus.toml` line 6: `admin.listen`: `here` is no address to listen on
        hint: write `HOST:PORT`, `:PORT` or `PORT`, e.g. `127.0.0.1:8932` or `[::1]:8932`
        exit 2
    "#]],
    );
    check(
        "admin_strangers",
        "listen = \"0.0.0.0:0\"",
        expect![[r#"
        stderr
        error: `admin.listen`: will not listen on 0.0.0.0:0 without a token: other machines can reach it
        hint: name the variable that holds one by `token_env`, or set `insecure = true`
        exit 2
    "#]],
    );
    let no_token = "listen = \":0\"\ntoken_env = \"TOOLBUS_NO_SUCH_TOKEN\"";
    check(
        "admin_no_token",
        no_token,
        expect![[r#"
        stderr
        error: `admin.token_env`: the environment variable `TOOLBUS_NO_SUCH_TOKEN` holds no token
        hint: set it, and not to nothing: `export TOOLBUS_NO_SUCH_TOKEN=…`
        exit 2
    "#]],
    );
    let server = Config::of(&format!("{BUILTIN}{TCP}{ADMIN}")).serve(2);
    let taken = server.urls[1].strip_prefix("http://").expect("a URL").to_owned();
    let config = format!("{BUILTIN}{TCP}[admin]\nlisten = \"{taken}\"\n");
    let page = Page::of(&["serve"]).config("admin_taken", &config).run();
    assert_eq!((page.stdout.as_str(), page.status.code()), ("", Some(1)), "{page}");
    assert!(page.stderr.starts_with("error: cannot listen on 127.0.0.1:"), "{page}");
}

#[test]
fn it_is_ready_when_every_back_answers() {
    let scratch = Scratch::new();
    let (asked, mark) = (scratch.file("asked"), scratch.file("there"));
    // Dies when it is first asked for its tools, and then waits until it is let in.
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let let_in = gate.local_addr().unwrap().to_string();
    let dies = ["once", &asked, "{", "exit", "3", "}"];
    let waits = ["connect", &let_in, "{", "read", "}", "mark", &mark, "echo-oracle"];
    let shy = back("shy", &oracle(&[&dies[..], &waits].concat()));
    let server = Config::of(&format!("{BUILTIN}{shy}{TCP}{ADMIN}")).serve(2);
    let admin = &server.urls[1];
    assert_eq!(get(admin, "/healthz").status(), "200");
    let first = get(admin, "/readyz");
    let why = "`shy` ended with exit status 3 before it was ready";
    assert_eq!(first.body, format!("not ready\nback.shy: {why}\n"));
    assert_eq!(first.status(), "503");
    assert!(of_tools(admin).contains("toolbus_back_up{back=\"shy\"} 0\n"));
    thread::spawn(move || {
        for stream in gate.incoming() {
            stream.unwrap().write_all(b"come in\n").unwrap();
        }
    });
    // No caller asks it again, but who looks does.
    eventually("it is ready", || get(admin, "/readyz").status() == "200");
    assert!(of_tools(admin).contains("toolbus_back_up{back=\"shy\"} 1\n"));
    let restarts = "toolbus_back_restarts_total{back=\"shy\"}";
    assert!(of_tools(admin).contains(&format!("{restarts} 1\n")), "{}", of_tools(admin));
    let there = marked(&mark, 1);
    assert_eq!(there.len(), 1, "it was started once more, and only by who looks");
    there[0].kill();
    there[0].assert_gone();
    eventually("it is started again", || {
        call(&server, "shy.invoke", r#"{"selector":"f","calldata":["0x7"]}"#);
        of_tools(admin).contains(&format!("{restarts} 2\n"))
    });
}

#[test]
fn a_reload_opens_moves_and_closes_them() {
    let scratch = Scratch::new();
    let config = Config::of(&format!("{BUILTIN}{TCP}"));
    let server = config.serve(1);
    let heard = config.reload(&server, &format!("{BUILTIN}{TCP}{ADMIN}"));
    let first = heard[0].strip_prefix("listening on ").expect("it listens").to_owned();
    call(&server, "try.add", r#"{"a":1,"b":2}"#);
    let counted = "toolbus_calls_total{back=\"try\",tool=\"add\"} 1\n";
    assert!(of_tools(&first).contains(counted));
    // What was counted stays, with another back beside it.
    let other = back("other", &server_after(&["mark", &scratch.file("there")], "other"));
    assert!(config.reload(&server, &format!("{BUILTIN}{other}{TCP}{ADMIN}")).is_empty());
    assert!(of_tools(&first).contains(counted));
    let is_up = "toolbus_back_up{back=\"other\"} 1\n";
    eventually("it has been looked for", || of_tools(&first).contains(is_up));
    // Another token, at the same place.
    fs::write(scratch.file("token"), "s3cret-token\n").expect("the folder is ours");
    let token = format!("token = \"${{file:{}}}\"\n", scratch.file("token"));
    assert!(config.reload(&server, &format!("{BUILTIN}{TCP}{ADMIN}{token}")).is_empty());
    assert_eq!(get(&first, "/metrics").status(), "401");
    // A front that cannot listen is told, and is not ready.
    let taken = server.url().replace("tcp://", "http://");
    let taken = format!("{BUILTIN}{TCP}{ADMIN}[front.taken]\nserve = \"{taken}\"\n");
    assert!(config.reload(&server, &taken)[0].starts_with("error: cannot listen"));
    assert_eq!(get(&first, "/readyz").body, "not ready\nfront.taken: does not listen\n");
    // Elsewhere; then nowhere.
    let moved = ADMIN.replace("127.0.0.1", "localhost");
    let heard = config.reload(&server, &format!("{BUILTIN}{TCP}{moved}"));
    let second = heard[0].strip_prefix("listening on ").expect("it listens").to_owned();
    assert!(of_tools(&second).contains(counted));
    assert!(std::net::TcpStream::connect(first.strip_prefix("http://").expect("a URL")).is_err());
    assert!(config.reload(&server, &format!("{BUILTIN}{TCP}")).is_empty());
    assert!(std::net::TcpStream::connect(second.strip_prefix("http://").expect("a URL")).is_err());
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}
