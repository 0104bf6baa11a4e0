//! `toolbus serve` reads its config again: what is under way goes on, what is new is there at once.

use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use toolbus_testkit::page::Page as Ended;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::port;
use toolbus_testkit::process::Group;
use toolbus_testkit::scratch::Scratch;

use crate::http::{Request, session};
use crate::listening::Server;
use crate::live::marked;
use crate::mcp::{DISCOVERED, legacy_call};
use crate::page::{Page, mcp_server};
use crate::serve::{BUILTIN, Config, MCP, back};

const TCP: &str = "[front.scripts]\nserve = \"mediocre+tcp://127.0.0.1:0\"\n";

/// A server that says its name, after a while if it is asked for `slow`, and never for `wait`.
struct Named {
    scratch: Scratch,
    name: &'static str,
}

impl Named {
    fn new(name: &'static str) -> Named {
        Named { scratch: Scratch::new(), name }
    }

    fn address(&self) -> String {
        let tools = ["say", "slow", "wait"];
        let tools =
            tools.map(|tool| format!(r#"{{"name":"{tool}","inputSchema":{{"type":"object"}}}}"#));
        let both = format!(
            r#"{{"resultType":"complete","tools":[{}],"content":[{{"type":"text","text":"{}"}}]}}"#,
            tools.join(","),
            self.name
        );
        let asked = self.scratch.file("asked");
        let started = self.scratch.file("started");
        let slow = ["if", r#""name":"slow""#, "{", "mark", &asked, "pause", "2000", "}"];
        let wait = ["if", r#""name":"wait""#, "{", "mark", &asked, "stay", "}"];
        mcp_server(
            &[
                &["mark", &started, "read", "answer", DISCOVERED, "forever", "{", "read"],
                slow.as_slice(),
                wait.as_slice(),
                &["answer", &both, "}"],
            ]
            .concat(),
        )
    }

    fn back(&self, keys: &str) -> String {
        format!("{}{keys}", back("x", &self.address()))
    }

    /// The process that was asked for something that takes its time.
    fn asked(&self) -> Group {
        marked(&self.scratch.file("asked"), 1)[0]
    }

    fn started(&self, count: usize) -> Vec<Group> {
        marked(&self.scratch.file("started"), count)
    }
}

fn said(name: &str) -> String {
    format!("stdout\n\"{name}\"\nexit 0\n")
}

fn rpc(url: &str, tool: &str) -> Ended {
    Page::of(&["rpc", "call", url, tool]).run()
}

fn mcp(url: &str, tool: &str) -> Ended {
    Page::of(&["call", "-q", &format!("mcp+{url}"), tool]).run()
}

#[test]
fn a_changed_back_keeps_its_calls_until_they_end() {
    let (old, new) = (Named::new("old"), Named::new("new"));
    let config = Config::of(&format!("{}{TCP}", old.back("")));
    let server = config.serve(1);
    let url = server.url();
    thread::scope(|scope| {
        let slow = scope.spawn(move || rpc(url, "x.slow").to_string());
        let process = old.asked();
        assert_eq!(config.reload(&server, &format!("{}{TCP}", new.back(""))), [""; 0]);
        assert_eq!(rpc(server.url(), "x.say").to_string(), said("new"));
        assert_eq!(slow.join().unwrap(), said("old"));
        process.assert_gone();
    });
}

#[test]
fn a_reload_does_not_wait_for_a_call_that_never_ends() {
    let (old, new) = (Named::new("old"), Named::new("new"));
    let config = Config::of(&format!("{}{TCP}", old.back("timeout = \"2s\"\n")));
    let server = config.serve(1);
    let url = server.url();
    thread::scope(|scope| {
        let never = scope.spawn(move || rpc(url, "x.wait"));
        let process = old.asked();
        config.reload(&server, &format!("{}{TCP}", new.back("")));
        assert_eq!(rpc(server.url(), "x.say").to_string(), said("new"));
        // It has its time, and is gone when that is over.
        let late = never.join().unwrap();
        assert!(late.stderr.contains("deadline_exceeded"), "{late}");
        process.assert_gone();
    });
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn a_server_that_is_passed_through_keeps_its_calls_too() {
    let (old, new) = (Named::new("old"), Named::new("new"));
    let port = port::free();
    let front = format!("[front.editor]\nserve = \"mcp+http://127.0.0.1:{port}/mcp\"\n");
    let config = Config::of(&format!("{}{front}", old.back("")));
    let server = config.serve(1);
    let url = server.url();
    thread::scope(|scope| {
        let slow = scope.spawn(move || mcp(url, "slow").to_string());
        let process = old.asked();
        let heard = config.reload_listening(&server, &format!("{}{front}", new.back("")), 1);
        assert_eq!(heard, [format!("listening on http://127.0.0.1:{port}/mcp")]);
        assert_eq!(mcp(server.url(), "say").to_string(), said("new"));
        assert_eq!(slow.join().unwrap(), said("old"));
        process.assert_gone();
    });
}

#[test]
fn calls_of_a_back_that_is_gone_do_not_keep_us_from_ending() {
    let old = Named::new("old");
    let config = Config::of(&format!("{}{TCP}", old.back("")));
    let server = config.serve(1);
    let url = server.url();
    thread::scope(|scope| {
        let never = scope.spawn(move || rpc(url, "x.wait"));
        let process = old.asked();
        config.reload(&server, &format!("{BUILTIN}{TCP}"));
        let unknown = rpc(server.url(), "x.say");
        assert!(unknown.stderr.contains("method_not_found"), "{unknown}");
        server.signal(Signal::TERM);
        assert_ne!(never.join().unwrap().status.code(), Some(0));
        process.assert_gone();
    });
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn the_last_of_two_reloads_counts() {
    let [first, second, third] = ["first", "second", "third"].map(Named::new);
    let config = Config::of(&format!("{}{TCP}", first.back("")));
    let server = config.serve(1);
    assert_eq!(rpc(server.url(), "x.say").to_string(), said("first"));
    for next in [&second, &third] {
        config.write(&format!("{}{TCP}", next.back("")));
        server.signal(Signal::HUP);
    }
    eventually("the third is in force", || rpc(server.url(), "x.say").to_string() == said("third"));
    first.started(1)[0].assert_gone();
    // The second may have been started, and is gone if it was.
    eventually("the second is gone", || {
        let pids = std::fs::read_to_string(second.scratch.file("started")).unwrap_or_default();
        let mut pids = pids.lines().filter_map(|pid| pid.parse().ok());
        pids.all(|pid| Group::led_by(pid).living().is_empty())
    });
    assert_eq!(third.started(1).len(), 1);
}

#[test]
fn what_is_allowed_changes_without_a_new_process() {
    let server_of_all = Named::new("x");
    let config = Config::of(&format!("{}{TCP}", server_of_all.back("")));
    let server = config.serve(1);
    assert_eq!(rpc(server.url(), "x.slow").to_string(), said("x"));
    config.reload(&server, &format!("{}{TCP}", server_of_all.back("allow = [\"say\"]\n")));
    let unknown = rpc(server.url(), "x.slow");
    assert!(unknown.stderr.contains("method_not_found"), "{unknown}");
    assert_eq!(rpc(server.url(), "x.say").to_string(), said("x"));
    assert_eq!(server_of_all.started(1).len(), 1, "it was started again");
}

#[test]
fn a_front_that_is_renamed_keeps_its_sessions() {
    let config = Config::of(&format!("{BUILTIN}{}{MCP}", back("other", "builtin:")));
    let server = config.serve(1);
    let session = session(server.url());
    let call = legacy_call(1, "try_add", r#"{"a":1,"b":2}"#);
    let renamed = MCP.replace("editor", "agent");
    let backs = format!("{BUILTIN}{}", back("added", "builtin:"));
    assert_eq!(config.reload(&server, &format!("{backs}{renamed}")), [""; 0]);
    let answer = Request::send(server.url(), "POST", &session, &call).answer();
    assert!(answer.contains(r#""text":"3""#), "{answer}");
}

#[test]
fn a_front_whose_new_port_is_taken_goes_on_at_the_old_one() {
    let config = Config::of(&format!("{BUILTIN}{TCP}"));
    let server = config.serve(1);
    let port = port::free();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let moved = TCP.replace(":0", &format!(":{port}"));
    let heard = config.reload(&server, &format!("{}{moved}", back("other", "builtin:")));
    assert!(heard[0].starts_with("error: cannot listen"), "{heard:?}");
    assert!(
        heard.iter().any(|line| line == "warning: `front.scripts` goes on as it was"),
        "{heard:?}"
    );
    // It leads to the backs of the new config, for those are right.
    assert_eq!(rpc(server.url(), "other.upper").status.code(), Some(1));
    port::stop_listening(taken);
    let text = format!("{}{moved}", back("other", "builtin:"));
    let heard = config.reload_listening(&server, &text, 1);
    assert_eq!(heard, [format!("listening on mediocre+tcp://127.0.0.1:{port}")]);
}

#[test]
fn fronts_may_swap_their_ports() {
    let [first, second] = [port::free(), port::free()];
    let fronts = |mcp: u16, tcp: u16| {
        let mcp = MCP.replace(":0", &format!(":{mcp}"));
        format!("{BUILTIN}{mcp}{}", TCP.replace(":0", &format!(":{tcp}")))
    };
    let config = Config::of(&fronts(first, second));
    let server = config.serve(2);
    let mut heard = config.reload_listening(&server, &fronts(second, first), 2);
    heard.sort();
    let at_http = format!("listening on http://127.0.0.1:{second}/mcp");
    assert_eq!(heard, [at_http, format!("listening on mediocre+tcp://127.0.0.1:{first}")]);
    let url = format!("http://127.0.0.1:{second}/mcp");
    let call = Page::of(&["call", "-q", &format!("mcp+{url}"), "upper", "text=a"]).run();
    assert_eq!(call.to_string(), said("A"));
}

#[test]
fn a_program_whose_wire_was_found_out_is_not_started_again() {
    let named = Named::new("x");
    let bare = named.address().replace("mcp+stdio:", "");
    let config = |front: &str| format!("{}{front}", back("x", &bare));
    let served = Config::of(&config(TCP));
    let server = served.serve(1);
    assert_eq!(rpc(server.url(), "x.say").to_string(), said("x"));
    let before = named.started(1).len();
    served.reload(&server, &config(&format!("{TCP}{MCP}")));
    assert_eq!(rpc(server.url(), "x.say").to_string(), said("x"));
    assert_eq!(named.started(1).len(), before);
}

#[test]
fn all_kinds_of_fronts_are_served_at_once() {
    let scratch = Scratch::new();
    let (socket, certs) = (scratch.file("socket"), scratch.file("certs"));
    let fronts = [
        ("a", "mcp+http://127.0.0.1:0/mcp".to_owned()),
        ("b", "mediocre+tcp://127.0.0.1:0".to_owned()),
        ("c", format!("mediocre+unix:{socket}")),
        ("d", "mediocre+http://127.0.0.1:0/rpc".to_owned()),
        ("e", format!("orchestra+quic://127.0.0.1:0?certs={certs}&id=tools.bus")),
    ];
    let fronts = fronts.map(|(name, serve)| format!("[front.{name}]\nserve = \"{serve}\"\n"));
    let config = Config::of(&format!("{BUILTIN}{}", fronts.concat()));
    let server = config.serve(5);
    let check = |server: &Server| {
        let [http, tcp, unix, rpc, quic] = &server.urls[..] else { panic!("{:?}", server.urls) };
        let plugin = format!("{quic}?certs={certs}");
        for (address, tool) in [
            (&format!("mcp+{http}"), "upper"),
            (tcp, "try.upper"),
            (unix, "try.upper"),
            (rpc, "try.upper"),
            (&plugin, "try.upper"),
        ] {
            let page = Page::of(&["call", "-q", address, tool, "text=hello"]).run();
            assert!(page.stdout.contains("HELLO"), "{address}: {page}");
        }
    };
    check(&server);
    assert_eq!(config.reload(&server, &format!("{BUILTIN}{}", fronts.concat())), [""; 0]);
    check(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.end(), "exit 0\n");
}

#[test]
fn a_second_back_that_renames_the_tools_of_the_first_is_warned_of() {
    let config = Config::of(&format!("{BUILTIN}{MCP}"));
    let server = config.serve(1);
    let two = format!("{BUILTIN}[back.more]\nconnect = \"builtin:\"\n{MCP}");
    let heard = config.reload(&server, &two);
    let warning = "spells the tools of `try` otherwise from now on: `tool` is `try_tool`";
    assert!(heard.iter().any(|line| line.contains(warning)), "{heard:?}");
}
