//! What clients and servers of MCP do that they should not, each with real processes.
//!
//! Here are the crowds, the floods and those who do not read. The others are with what they
//! are about:
//!
//! - what is no JSON on a server's stdout: `mcp_backs::what_is_not_json_is_skipped`
//! - a reply of 20 MB: `mcp_backs::a_reply_of_20_mb`
//! - a fast call during a slow one: `mcp_serve::a_fast_call_does_not_wait_for_a_slow_one`
//! - a server that dies in the middle of a call, that call and the next:
//!   `mcp_backs::a_server_that_dies_fails_its_call_at_once_and_serves_the_next`
//! - SIGTERM and SIGKILL of toolbus, with a stubborn child and a grandchild: `mcp_stop`, and
//!   `serve::no_process_is_left_however_it_ends`
//!
//! Memory is that of the toolbus process at its worst, with an ample bound: many times less
//! than what was sent, and not more for a longer flood.

use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ChildStdin;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use toolbus_testkit::form;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::{Vitals, stands_still};

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{INITIALIZE, INITIALIZED, legacy_call};
use crate::page::{Page, mcp_ourselves, mcp_server};

const MIB: usize = 1 << 20;

#[track_caller]
fn assert_memory_below(limit: usize, pid: u32) {
    let peak = Vitals::of(pid).memory_peak;
    assert!(peak < limit, "{} MiB, where {} are allowed", peak / MIB, limit / MIB);
}

/// Says all of it on a thread of its own, and awaits that toolbus takes no more of it.
fn pour(live: &mut Live, lines: String) -> thread::JoinHandle<ChildStdin> {
    let mut stdin = live.take_stdin();
    let pipe = stdin.as_fd().try_clone_to_owned().expect("descriptors are left");
    let pouring = thread::spawn(move || {
        for piece in lines.as_bytes().chunks(4096) {
            stdin.write_all(piece).expect("it reads in the end");
        }
        stdin
    });
    eventually("nothing moves any more", || {
        // Else it may sleep only because the other thread is slow.
        let is_told = || pouring.is_finished() || is_full(&pipe);
        is_told() && stands_still(live.id()) && is_told()
    });
    pouring
}

/// Does a pipe take nothing before something is read from it?
fn is_full(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).expect("the pipe is ours") == 0
}

#[test]
fn a_client_that_pipelines_requests_without_reading() {
    // Their answers are more than may wait unread, in either form.
    let count: u32 = form::short_or_long(25_000, 100_000);
    for address in ["builtin:", &mcp_ourselves(&["builtin:"])] {
        let mut live = Live::deaf(&["mcp", address]);
        let calls = (1..=count).map(|id| legacy_call(id, "add", r#"{"a":1,"b":2}"#));
        let lines = std::iter::once(INITIALIZE.to_owned()).chain(calls);
        let pouring = pour(&mut live, lines.map(|line| line + "\n").collect());
        assert!(!pouring.is_finished(), "{address}: all is taken, though its output is not read");
        live.listen();
        assert!(live.hear().contains("serverInfo"));
        let mut answered = vec![false; count as usize];
        for _ in 0..count {
            let answer = live.hear();
            let id = answer.strip_prefix(r#"{"jsonrpc":"2.0","id":"#);
            let id = id.and_then(|rest| {
                rest.split_once(r#","result":{"content":[{"type":"text","text":"3"}]}}"#)
            });
            let id: usize = id.and_then(|(id, _)| id.parse().ok()).expect(&answer);
            assert!(!std::mem::replace(&mut answered[id - 1], true), "{id} twice");
        }
        assert_memory_below(128 * MIB, live.id());
        drop(pouring.join().expect("all was taken"));
        assert_eq!(live.end(), "exit 0\n");
    }
}

/// A server whose every answer is a text of so many bytes.
fn large(bytes: usize) -> String {
    let text = format!(r#"{{"content":[{{"type":"text","text":"\{{78*{bytes}}}"}}]}}"#);
    let opening = ["read", "answer", INITIALIZED, "read"];
    mcp_server(&[&opening[..], &["forever", "{", "read", "answer", &text, "}"]].concat())
}

#[test]
fn a_client_that_reads_slowly() {
    // Together more than may be held, in either form.
    let count = form::short_or_long(420, 1000);
    let mut live = Live::deaf(&["mcp", &large(MIB)]);
    let calls = (1..=count).map(|id| legacy_call(id, "f", "{}"));
    let lines = std::iter::once(INITIALIZE.to_owned()).chain(calls);
    let pouring = pour(&mut live, lines.map(|line| line + "\n").collect());
    live.listen();
    assert!(live.hear().contains("serverInfo"));
    for _ in 0..count {
        assert!(MIB < live.hear().len());
    }
    assert_memory_below(400 * MIB, live.id());
    drop(pouring.join().expect("all was taken"));
    assert_eq!(live.end(), "exit 0\n");
}

fn assert_serves(server: &Server) {
    let page = Page::of(&["call", &format!("mcp+{}", server.url()), "add", "a=1", "b=2"]).run();
    assert_eq!(page.to_string(), "stdout\n3\nexit 0\n");
}

#[test]
fn http_connections_that_are_only_half_there() {
    let server = Server::start(&["mcp", "--http", "0", "builtin:"], 1);
    assert_serves(&server);
    let before = Vitals::of(server.id()).open_files;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let halves: Vec<_> = (0..800)
        .map(|number| {
            let half = Request::connect(server.url());
            match number % 4 {
                0 => half,
                1 => half.say("POST /mcp HT"),
                2 => half.say(&format!("{head}Content-Length: 1000\r\n\r\n{{\"jsonrpc\"")),
                _ => {
                    let half = half.say(head);
                    half.stream.shutdown(Shutdown::Write).expect("it is there");
                    half
                }
            }
        })
        .collect();
    assert_serves(&server);
    assert_memory_below(128 * MIB, server.id());
    drop(halves);
    eventually("nothing is left of them", || Vitals::of(server.id()).open_files <= before);
    assert_serves(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn sessions_opened_and_dropped() {
    // Those that end and those that do not are together more than there may be at once, 1,024:
    // in the short form before one back alone.
    let backs = [
        ("builtin:", form::short_or_long([700, 400], [1000, 1000])),
        (&*mcp_ourselves(&["builtin:"]), form::short_or_long([50, 100], [1000, 1000])),
    ];
    for (address, [ended, dropped]) in backs {
        let server = Server::start(&["mcp", "--http", "0", address], 1);
        // Both eras have been spoken: the server behind has been started for each.
        assert_serves(&server);
        session(server.url());
        let before = Vitals::of(server.id()).open_files;
        // Properly ended, they make room for others.
        for _ in 0..ended {
            let name = session(server.url());
            let ended = Request::send(server.url(), "DELETE", &name, "").answer();
            assert!(ended.starts_with("HTTP/1.1 204 "), "{ended}");
        }
        // Half of these are dropped with a stream open, and a call under way.
        for number in 0..dropped {
            let name = session(server.url());
            if number % 2 == 0 {
                drop(Request::send(server.url(), "GET", &name, ""));
                let slow = legacy_call(1, "sleep", r#"{"ms":600000}"#);
                drop(Request::send(server.url(), "POST", &name, &slow));
            }
        }
        assert_serves(&server);
        let name = session(server.url());
        let call = legacy_call(1, "add", r#"{"a":1,"b":2}"#);
        let answer = Request::send(server.url(), "POST", &name, &call).answer();
        assert!(answer.contains(r#""text":"3""#), "{answer}");
        assert_memory_below(128 * MIB, server.id());
        eventually("no connection is left", || Vitals::of(server.id()).open_files <= before);
    }
}

#[test]
fn http_clients_that_do_not_read() {
    let server = Server::start(&["mcp", "--http", "0", &large(20 * MIB)], 1);
    let name = session(server.url());
    let call = |id| Request::send(server.url(), "POST", &name, &legacy_call(id, "f", "{}"));
    // Together more than may be held in the long form alone.
    let unread: Vec<_> = (1..=form::short_or_long(8, 24)).map(call).collect();
    // The session still answers, though these do not read.
    let ping = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    let answer = Request::send(server.url(), "POST", &name, ping).answer();
    assert!(answer.ends_with(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#), "{answer}");
    for request in &unread {
        request.stream.peek(&mut [0]).expect("each answer begins");
    }
    eventually("nothing moves any more", || stands_still(server.id()));
    for request in unread {
        let answer = request.answer();
        assert!(20 * MIB < answer.len(), "{}", &answer[..200.min(answer.len())]);
    }
    assert_memory_below(400 * MIB, server.id());
}
