//! `toolbus serve` on several threads: whatever holds on one holds over all of them.
//!
//! Connections are opened before anything is said on them, so that each thread has some.

use std::fs;
use std::process::Stdio;

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::mcp::{legacy_call, modern_call};
use crate::page::{Page, check, command};
use crate::serve::{BUILTIN, Config, MCP, back};

const THREADS: [&str; 3] = ["1", "2", "4"];
const SUM: &str = r#""structuredContent":3"#;
const ARGUMENTS: &str = r#"{"a":1,"b":2}"#;

fn serve(config: &Config, threads: &str) -> Server {
    Server::start(&["serve", "--config", &config.path(), "--threads", threads], 1)
}

fn connect(server: &Server, count: usize) -> Vec<Request> {
    (0..count).map(|_| Request::connect(server.url())).collect()
}

/// What each of them is answered, who all call before the first answer is read.
fn call_all(clients: Vec<Request>, tool: &str, arguments: &str) -> Vec<String> {
    let call = modern_call(1, tool, arguments);
    let say = |client: Request| client.say_modern("tools/call", tool, &call);
    let asked: Vec<_> = clients.into_iter().map(say).collect();
    asked.into_iter().map(Request::answer).collect()
}

fn count_of(answers: &[String], expected: &str) -> usize {
    answers.iter().filter(|answer| answer.contains(expected)).count()
}

#[test]
fn each_call_is_answered_and_written_down_once() {
    for threads in THREADS {
        let scratch = Scratch::new();
        let journal = scratch.file("calls.jsonl");
        let config = Config::of(&format!("{BUILTIN}{MCP}[journal]\npath = \"{journal}\"\n"));
        let server = serve(&config, threads);
        let answers = call_all(connect(&server, 20), "add", ARGUMENTS);
        assert_eq!(count_of(&answers, SUM), 20, "{threads} threads: {answers:?}");
        server.signal(Signal::TERM);
        assert_eq!(server.end(), "exit 0\n");
        let lines = fs::read_to_string(&journal).expect("calls were made");
        assert_eq!(lines.lines().count(), 20, "{threads} threads: {lines}");
    }
}

#[test]
fn a_rate_is_one_for_all_of_them() {
    for threads in THREADS {
        let config = Config::of(&format!("{BUILTIN}{MCP}rate = \"7/600s\"\n"));
        let server = serve(&config, threads);
        let answers = call_all(connect(&server, 20), "add", ARGUMENTS);
        assert_eq!(count_of(&answers, SUM), 7, "{threads} threads: {answers:?}");
    }
}

#[test]
fn a_session_is_known_on_every_connection() {
    for threads in THREADS {
        let server = serve(&Config::of(&format!("{BUILTIN}{MCP}")), threads);
        // Others stay open, so that what follows goes to several threads.
        let open = connect(&server, 3);
        let name = session(server.url());
        for id in 1..9 {
            let call = legacy_call(id, "add", ARGUMENTS);
            let answer = Request::send(server.url(), "POST", &name, &call).answer();
            assert!(answer.contains(r#""text":"3""#), "{threads} threads: {answer}");
        }
        drop(open);
    }
}

#[test]
fn a_reload_leads_all_of_them_to_the_tools_of_now() {
    for threads in THREADS {
        let config = Config::of(&format!("{BUILTIN}{MCP}"));
        let server = serve(&config, threads);
        let clients = connect(&server, 12);
        config.reload(&server, &format!("{BUILTIN}{}{MCP}", back("added", "builtin:")));
        let answers = call_all(clients, "added_add", ARGUMENTS);
        assert_eq!(count_of(&answers, SUM), 12, "{threads} threads: {answers:?}");
    }
}

#[test]
fn connections_are_counted_over_all_of_them() {
    for threads in THREADS {
        let config = Config::of(&format!("{BUILTIN}{MCP}connections_max = 4\n"));
        let server = serve(&config, threads);
        // Those that are silent make room for those that ask, and these are all answered.
        let silent = connect(&server, 4);
        let answers = call_all(connect(&server, 4), "add", ARGUMENTS);
        assert_eq!(count_of(&answers, SUM), 4, "{threads} threads: {answers:?}");
        drop(silent);
    }
}

/// More than the kernel holds for a connection is waited for by nobody but its own client.
#[test]
fn who_does_not_read_keeps_no_other_waiting() {
    for threads in THREADS {
        let server = serve(&Config::of(&format!("{BUILTIN}{MCP}")), threads);
        let blob = modern_call(1, "blob", r#"{"bytes":8000000}"#);
        let deaf: Vec<_> = connect(&server, 6)
            .into_iter()
            .map(|client| client.say_modern("tools/call", "blob", &blob))
            .collect();
        let answers = call_all(connect(&server, 6), "add", ARGUMENTS);
        assert_eq!(count_of(&answers, SUM), 6, "{threads} threads: {answers:?}");
        // Who reads in the end gets all of it.
        for client in deaf {
            let bytes = client.answer().len();
            assert!(8_000_000 < bytes, "{threads} threads: {bytes}");
        }
    }
}

#[test]
fn the_config_says_how_many_and_the_flag_says_more() {
    let config = Config::of(&format!("{BUILTIN}{MCP}[serve]\nthreads = \"auto\"\n"));
    let server = config.serve(1);
    let answers = call_all(connect(&server, 8), "add", ARGUMENTS);
    assert_eq!(count_of(&answers, SUM), 8, "{answers:?}");
    let wrong = format!("{BUILTIN}{MCP}[serve]\nthreads = 0\n");
    Page::of(&["serve"]).config("serve_threads", &wrong).check(expect![[r#"
        stderr
        error: `toolbus.toml` line 6: `serve.threads` must be "auto" or an integer from 1 to 64
        exit 2
    "#]]);
    check(
        "serve --threads 0",
        expect![[r#"
            stderr
            error: `--threads`: it is `auto` or a number from 1 to 64
            exit 2
        "#]],
    );
}

#[test]
fn how_many_there_are_stays_until_the_next_start() {
    let config = Config::of(&format!("{BUILTIN}{MCP}[serve]\nthreads = 2\n"));
    // Whatever else these tests are run with.
    let mut serving = command(&["serve", "--config", &config.path()]);
    serving.stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server::run(serving, 1);
    let heard = config.reload(&server, &format!("{BUILTIN}{MCP}[serve]\nthreads = 3\n"));
    expect![[r#"
        [
            "warning: `serve.threads`: 3 threads are there after the next start; for now it stays at 2",
        ]
    "#]]
    .assert_debug_eq(&heard);
}
