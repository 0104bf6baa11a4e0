//! W3C trace context through chains of toolbus: each wire that can carry it passes it on, with
//! the trace of its caller and a parent of its own.
//!
//! A chain is a client, three buses and a recorder. Between the buses are two wires, so that the
//! one in the middle is a pair, whose call comes in by the first and leaves by the second.

use std::fs;

use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{INITIALIZE, request};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The wires that have a place for a trace, and what carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hop {
    Mcp,
    McpHttp,
    Mediocre,
    MediocreHttp,
    Orchestra,
}

const HOPS: [Hop; 5] = [Hop::Mcp, Hop::McpHttp, Hop::Mediocre, Hop::MediocreHttp, Hop::Orchestra];

impl Hop {
    fn is_mcp(self) -> bool {
        matches!(self, Hop::Mcp | Hop::McpHttp)
    }

    /// The address of a bus that is spoken to in this wire, before `next`. Those that listen are
    /// kept in `servers`.
    fn before(self, next: &str, folder: &Scratch, servers: &mut Vec<Server>) -> String {
        let script = |scheme: &str, words: &str| {
            let file =
                folder.file(&format!("hop{}.sh", fs::read_dir(folder.path()).unwrap().count()));
            let toolbus = env!("CARGO_BIN_EXE_toolbus");
            let text = format!("exec '{toolbus}' {words} '{next}' \"$@\"\n");
            fs::write(&file, text).expect("the folder is ours");
            format!("{scheme}sh {file}")
        };
        let mut listen = |scheme: &str, words: &[&str]| {
            let server = Server::start(&[words, &[next]].concat(), 1);
            let url = server.url().strip_prefix("mediocre+").unwrap_or(server.url()).to_owned();
            servers.push(server);
            format!("{scheme}{url}")
        };
        match self {
            Hop::Mcp => script("mcp+stdio:", "mcp"),
            Hop::McpHttp => listen("mcp+", &["mcp", "--http", "0"]),
            Hop::Mediocre => script("mediocre+stdio:", "rpc serve --listen stdio:"),
            Hop::MediocreHttp => {
                listen("mediocre+", &["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc"])
            }
            Hop::Orchestra => script("orchestra+plugin:", "plugin"),
        }
    }
}

/// The `traceparent` that comes out of a chain, and the `tracestate`.
fn through(first: Hop, second: Hop) -> (String, bool) {
    let folder = Scratch::new();
    let record = folder.file("record");
    let recorder = folder.file("recorder.sh");
    let toolbus = env!("CARGO_BIN_EXE_toolbus");
    fs::write(&recorder, format!("tee '{record}' | '{toolbus}' mcp builtin:\n")).unwrap();
    let mut servers = Vec::new();
    let third = format!("mcp+stdio:sh {recorder}");
    let third = second.before(&third, &folder, &mut servers);
    let chain = first.before(&third, &folder, &mut servers);
    let mut client = Live::start(&["mcp", &chain]);
    client.ask(INITIALIZE);
    let meta = format!(r#""_meta":{{"traceparent":"00-{TRACE}-{PARENT}-01","tracestate":"a=b"}}"#);
    let params = format!(r#"{{"name":"upper","arguments":{{"text":"x"}},{meta}}}"#);
    let answer = client.ask(&request(1, "tools/call", &params));
    assert!(answer.contains(r#""text":"X""#), "{first:?} {second:?}: {answer}");
    let recorded = fs::read_to_string(&record).expect("it was called");
    let call = recorded.lines().find(|line| line.contains("tools/call")).expect("it was called");
    let parent = call
        .split(r#""traceparent":""#)
        .nth(1)
        .unwrap_or_else(|| panic!("{first:?} {second:?}: {call}"));
    (parent[..55].to_owned(), call.contains(r#""tracestate":"a=b""#))
}

#[track_caller]
fn check(first: Hop) {
    for second in HOPS {
        let (parent, has_state) = through(first, second);
        let fields: Vec<_> = parent.split('-').collect();
        let pair = format!("{first:?} {second:?}: {parent}");
        assert_eq!((fields[0], fields[1], fields[3]), ("00", TRACE, "01"), "{pair}");
        // What MCP says to MCP passes as it is, whatever bus is between.
        let is_raw = first.is_mcp() && second.is_mcp();
        assert_eq!(fields[2] == PARENT, is_raw, "{pair}");
        // Orchestra has no place for it.
        let can_carry_state = first != Hop::Orchestra && second != Hop::Orchestra;
        assert_eq!(has_state, can_carry_state, "{pair}");
    }
}

#[test]
fn mcp_passes_traces_on() {
    check(Hop::Mcp);
}

#[test]
fn mcp_over_http_passes_traces_on() {
    check(Hop::McpHttp);
}

#[test]
fn mediocre_passes_traces_on() {
    check(Hop::Mediocre);
}

#[test]
fn mediocre_over_http_passes_traces_on() {
    check(Hop::MediocreHttp);
}

#[test]
fn orchestra_passes_traces_on() {
    check(Hop::Orchestra);
}
