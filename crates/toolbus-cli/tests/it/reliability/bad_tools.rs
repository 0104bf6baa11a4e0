//! Tools that behave until they are called: what they do then, in the steps of `faulty-tool`.

use std::fs;

use toolbus_testkit::patience::awaited;
use toolbus_testkit::peer::{Peer, command_line};
use toolbus_testkit::scratch::Scratch;

use super::{Carriage, Case, Fault};

/// A bad tool, to be found at an address.
pub(super) struct BadTool {
    /// What stands in the config for it.
    pub(super) back: String,
    /// The process, if it is not ours to start.
    _peer: Option<Peer>,
}

/// What it answers to everything but a call: who it is, and what it can do.
const ABOUT: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","tools":[{"name":"f","inputSchema":{"type":"object"}}],"content":[]}"#;
/// What nobody asked for.
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"noise"}}"#;
const STRAY: &str = r#"{"jsonrpc":"2.0","id":4242,"result":["0x1"]}"#;
/// An event that says nothing: who says something is not quiet, and is listened to.
const EMPTY: &str = r#"{"type":"response.in_progress"}"#;
/// Heads of answers whose bodies end with the connection.
const HTTP_JSON: &str =
    r"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
const HTTP_EVENTS: &str =
    r"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

impl BadTool {
    /// It leaves its mark once it has begun to be bad.
    pub(super) fn new(case: &Case, mark: &str, scratch: &Scratch) -> BadTool {
        let fault = fault(case);
        let fault: Vec<&str> = ["mark", mark].into_iter().chain(fault).collect();
        let steps = match (case.wire, case.carriage) {
            ("oracle", _) => [&["ready", "read"], &fault[..]].concat(),
            ("mcp", Carriage::Stdio) => {
                let called = [&["forever", "{", "read", "if", "\"tools/call\"", "{"], &fault[..]];
                [called.concat(), vec!["}", "answer", ABOUT, "}"]].concat()
            }
            ("mcp", _) => {
                let called = [&["read-http", "if", "\"tools/call\"", "{"], &fault[..]].concat();
                [called, vec!["}", "raw", HTTP_JSON, "answer", ABOUT]].concat()
            }
            // It is asked by its words.
            ("godex", _) => fault,
            (_, Carriage::Http) => [&["read-http"], &fault[..]].concat(),
            _ => [&["read"], &fault[..]].concat(),
        };
        let mut peer = None;
        let connect = match case.carriage {
            // The steps take no more words.
            Carriage::Stdio if case.wire == "godex" => {
                let script = scratch.file("bad.sh");
                fs::write(&script, format!("exec {}", command_line(&steps))).unwrap();
                format!("godex+stdio:sh {script}")
            }
            Carriage::Stdio => format!("{}+stdio:{}", case.wire, command_line(&steps)),
            Carriage::Tcp | Carriage::Http => {
                let file = scratch.file("address");
                let listen = [&["listen", &file, "{"], &steps[..], &["}"]].concat();
                peer = Some(Peer::start(&listen));
                let address = awaited("it listens", || fs::read_to_string(&file).ok());
                let path = if case.carriage == Carriage::Http { "/mcp" } else { "" };
                format!("{}+{}://{address}{path}", case.wire, case.carriage.name())
            }
        };
        let own = match case.wire {
            "oracle" => "functions = [\"f(text: ByteArray) -> ByteArray\"]\n",
            "mediocre" => "methods = [\"f\"]\n",
            _ => "",
        };
        let back = format!(
            "[back.bad]\nconnect = '''{connect}'''\ntimeout = \"300ms\"\nstop_timeout = \"100ms\"\n{own}"
        );
        BadTool { back, _peer: peer }
    }
}

/// What it does when it is called, for ever.
fn fault(case: &Case) -> Vec<&'static str> {
    let head = match (case.wire, case.carriage) {
        ("mcp", Carriage::Http) => vec!["raw", HTTP_EVENTS],
        ("mediocre", Carriage::Http) => vec!["raw", HTTP_JSON],
        _ => vec![],
    };
    let noise = match (case.fault, case.wire, case.carriage) {
        (Fault::DoesNotRead, ..) => return vec!["stop"],
        (Fault::FloodsStderr, ..) => vec!["forever", "{", "flood-err", "1000", "noise", "}"],
        (Fault::Floods, "oracle", _) => vec!["forever", "{", "flood", "1000", STRAY, "}"],
        (Fault::Floods, "mcp", Carriage::Http) => vec!["forever", "{", "flood", "1000", EVENT, "}"],
        (Fault::Floods, "mcp", _) => vec!["forever", "{", "flood", "1000", NOTE, "}"],
        (Fault::Floods, "godex", _) => vec!["forever", "{", "flood", "1000", EMPTY, "}"],
        // One value without an end.
        (Fault::Floods, ..) => {
            vec!["raw", "{\"res\":[", "forever", "{", "flood", "1000", "\"noise\",", "}"]
        }
        // A comment, and blanks.
        (Fault::Trickles, "mcp", Carriage::Http) => {
            vec!["forever", "{", "say", ":", "pause", "20", "}"]
        }
        (Fault::Trickles, ..) => vec!["forever", "{", "raw", " ", "pause", "20", "}"],
    };
    [head, noise].concat()
}

/// [`NOTE`] as an event.
const EVENT: &str = r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"noise"}}\n"#;
