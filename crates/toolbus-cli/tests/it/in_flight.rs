//! 1,024 calls at once, each with a large reply that is not read: what waits in memory keeps its
//! limit, whatever carries the replies, and every call ends once. In the short form the limit is
//! reached on pipes alone; what else carries replies has fewer of them, and every call ends.

use toolbus_testkit::form;
use toolbus_testkit::patience::eventually;
use toolbus_testkit::process::{Vitals, stands_still};

use crate::listening::Server;
use crate::live::Live;
use crate::mcp::{INITIALIZE, legacy_call};
use crate::page::{mcp_ourselves, our_command};

const MIB: usize = 1 << 20;
const CALLS: u32 = 1024;
/// Together half as much again as may wait: base64 makes it more, and it comes twice, as a block
/// and collected.
const REPLY_BYTES: usize = 144 * 1024;
/// What may wait, and as much again for what was read and not counted yet, and for the program.
const MEMORY_MAX: usize = 512 * MIB;

/// As many calls as this form has.
fn flood(address: &str) {
    calls(address, form::short_or_long(CALLS / 8, CALLS));
}

/// Makes the calls by a client of `toolbus mcp` before this back, which reads nothing until all
/// are made and nothing moves any more.
fn calls(address: &str, count: u32) {
    let mut live = Live::deaf(&["mcp", "--timeout", "300", address]);
    live.say(INITIALIZE);
    for id in 1..=count {
        live.say(&legacy_call(id, "blob", &format!(r#"{{"bytes":{REPLY_BYTES}}}"#)));
    }
    eventually("nothing moves", || stands_still(live.id()));
    assert_bounded(&live, address);
    live.listen();
    let greeting = live.hear();
    assert!(greeting.contains("serverInfo"), "{greeting}");
    let mut seen = vec![false; count as usize + 1];
    let mut whole = 0;
    for _ in 0..count {
        let answer = live.hear();
        let id = answer.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next());
        let id: usize = id.and_then(|id| id.parse().ok()).expect("an id");
        assert!(!std::mem::replace(&mut seen[id], true), "{address}: {id} was answered twice");
        if REPLY_BYTES < answer.len() {
            whole += 1;
            continue;
        }
        // Refused, by us or by a server that has the same limit and cuts us off; it says why.
        // Over some wires its kind is that of all failures.
        let is_told = [r#""kind":"unavailable""#, r#""kind":"gone""#, "does not read"];
        let begin: String = answer.chars().take(300).collect();
        let bytes = answer.len();
        assert!(is_told.iter().any(|kind| answer.contains(kind)), "{address}: {bytes}: {begin}");
    }
    println!(
        "{address}: {whole} of {count} were answered, {} MiB",
        Vitals::of(live.id()).memory_peak / MIB
    );
    // A client that reads is served, as if nothing had been.
    live.say(&legacy_call(count + 1, "upper", r#"{"text":"x"}"#));
    // A server that was started again has told that its tools may have changed.
    let mut answers = std::iter::repeat_with(|| live.hear());
    let answer = answers.find(|answer| !answer.contains("list_changed")).unwrap_or_default();
    assert!(answer.contains("X"), "{address}: {answer}");
    assert_bounded(&live, address);
}

#[track_caller]
fn assert_bounded(live: &Live, address: &str) {
    let peak = Vitals::of(live.id()).memory_peak;
    assert!(peak < MEMORY_MAX, "{address}: {} MiB", peak / MIB);
}

#[test]
fn over_pipes_of_mcp() {
    calls(&mcp_ourselves(&["builtin:"]), CALLS);
}

#[test]
fn over_mcp_and_http() {
    let server = Server::start(&["mcp", "--http", "0", "builtin:"], 1);
    flood(&format!("mcp+{}", server.url()));
}

#[test]
fn over_pipes_of_a_provider() {
    flood(&format!("orchard+stdio:{}", our_command(&["provider", "builtin:"])));
}

#[test]
fn over_sockets_of_mediocre() {
    let server = Server::start(&["rpc", "serve", "--listen", "tcp://127.0.0.1:0", "builtin:"], 1);
    flood(server.url());
}

#[test]
fn over_mediocre_and_http() {
    let words = ["rpc", "serve", "--listen", "http://127.0.0.1:0/rpc", "builtin:"];
    let server = Server::start(&words, 1);
    flood(server.url());
}

#[test]
fn over_quic() {
    flood(&format!("orchestra+plugin:{}", our_command(&["plugin", "builtin:"])));
}
