//! Ctrl-C on `toolbus call`: the tool is told to give up before its session ends
//! (`docs/protocols/mcp.md` 2.5).

use expect_test::expect;
use rustix::process::Signal;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::live::{Live, marked};
use crate::mcp::{DISCOVERED, INITIALIZED};
use crate::page::{Page, mcp_server};

/// A server that never answers a call, and leaves marks when it is called and told to give up.
fn slow(greeting: &[&str], called: &str, cancelled: &str) -> String {
    let called = ["if", "tools/call", "{", "mark", called, "}"];
    let cancelled = ["if", "notifications/cancelled", "{", "mark", cancelled, "}"];
    let steps = [&["forever", "{", "read"], greeting, &called, &cancelled, &["}"]].concat();
    mcp_server(&steps)
}

fn legacy() -> Vec<&'static str> {
    let refused = ["if", "server/discover", "{", "refuse", "-32601", "what?", "}"];
    let greeted = ["if", "\"initialize\"", "{", "answer", INITIALIZED, "}"];
    [&refused[..], &greeted].concat()
}

fn modern() -> Vec<&'static str> {
    vec!["if", "server/discover", "{", "answer", DISCOVERED, "}"]
}

/// Calls, interrupts, and sees that the server was told.
fn interrupt(address: &str, called: &str, cancelled: &str) {
    let live = Live::start(&["call", "--no-check", address, "f"]);
    marked(called, 1);
    live.signal(Signal::INT);
    assert_eq!(live.end(), "exit 130\n", "{address}");
    marked(cancelled, 1);
}

#[test]
fn over_pipes() {
    for greeting in [legacy(), modern()] {
        let scratch = Scratch::new();
        let (called, cancelled) = (scratch.file("called"), scratch.file("cancelled"));
        interrupt(&slow(&greeting, &called, &cancelled), &called, &cancelled);
    }
}

#[test]
fn over_http() {
    for (greeting, old) in [(legacy(), false), (modern(), false), (legacy(), true)] {
        let scratch = Scratch::new();
        let (called, cancelled) = (scratch.file("called"), scratch.file("cancelled"));
        let back = slow(&greeting, &called, &cancelled);
        let server = Server::start(&["mcp", "--http", "0", "--sse", &back], 1);
        let address = match old {
            true => server.url().replace("http://", "mcp+sse://").replace("/mcp", "/sse"),
            false => server.url().to_owned(),
        };
        interrupt(&address, &called, &cancelled);
    }
}

#[test]
fn the_old_transport_is_served_beside_the_new_one() {
    let server = Server::start(&["mcp", "--http", "0", "--sse", "builtin:"], 1);
    let old = server.url().replace("/mcp", "/sse");
    for address in [server.url().to_owned(), old.clone(), old.replace("http:", "mcp+sse:")] {
        let page = Page::of(&["call", &address, "upper", "text=hi"]).run();
        assert_eq!(page.to_string(), "stdout\n\"HI\"\nexit 0\n", "{address}");
    }
    let address = old.replace("http:", "mcp+sse:");
    Page::of(&["check", "mcp", &address]).check(expect![[r#"
        stdout
        ok handshake
        ok version
        ok ids
        ok tools-list
        ok unknown-tool
        ok unknown-method
        ok notification
        ok session
        note headers: not tried: HTTP+SSE is of the legacy era
        ok origin
        ok garbage
        ok ping
        exit 0
    "#]]);
}

#[test]
fn the_old_transport_comes_beside_http_alone() {
    Page::of(&["mcp", "--sse", "builtin:"]).check(expect![[r#"
        stderr
        error: --http is missing
        usage: toolbus mcp --sse <--http <ADDR>|--https <ADDR>> <ADDRESS>...
        hint: `--help` tells more
        exit 2
    "#]]);
}
