//! Callers that misbehave from their first byte on, in the steps of `faulty-tool`.

use toolbus_testkit::form;
use toolbus_testkit::peer::Peer;

use super::{Carriage, Case, Fault};

/// The text of a call whose caller does not read what it is answered.
const LARGE: &str = r"\{78*65536}";

/// Bad callers of a front that listens there, as many at once as this form has. Each leaves its
/// mark when it has begun.
pub(super) fn crowd(case: &Case, url: &str, mark: &str) -> Vec<Peer> {
    let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
    let authority = authority.expect("a URL has a host");
    let steps = steps(case);
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let connect = [&["connect", authority, "{", "mark", mark], &steps[..], &["}"]].concat();
    (0..form::short_or_long(4, 8)).map(|_| Peer::start(&connect)).collect()
}

/// What a bad caller does on its connection or pipes.
pub(super) fn steps(case: &Case) -> Vec<String> {
    let text = if case.fault == Fault::DoesNotRead { LARGE } else { "x" };
    let call = call(case, text);
    let steps: Vec<&str> = match case.fault {
        Fault::Floods | Fault::FloodsStderr => {
            vec!["fork", "{", "readall", "}", "forever", "{", "flood", "100", &call, "}"]
        }
        Fault::DoesNotRead => vec!["forever", "{", "flood", "1", &call, "}"],
        // Half a message, and then never enough to end it.
        Fault::Trickles => {
            vec!["raw", half(case), "forever", "{", "raw", " ", "pause", "20", "}"]
        }
    };
    let opening = opening(case);
    opening.iter().copied().chain(steps).map(str::to_owned).collect()
}

/// What is said before the first call.
fn opening(case: &Case) -> &'static [&'static str] {
    match (case.wire, case.carriage) {
        ("oracle", _) => &["read", "say", r#"{"jsonrpc":"2.0","id":0,"result":{}}"#],
        ("mcp", Carriage::Stdio) => &["say", INITIALIZE, "read"],
        _ => &[],
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bad","version":"1"}}}"#;

/// What a request without a session carries.
const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn oracle_call(selector: &str, calldata: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"invoke","params":{{"selector":"{selector}","calldata":[{calldata}]}}}}"#
    )
}

/// A call whose answer is as long as `text`.
fn call(case: &Case, text: &str) -> String {
    let body = match case.wire {
        "oracle" if case.fault == Fault::DoesNotRead => oracle_call("blob", r#""0x10000","0x1""#),
        "oracle" => oracle_call("upper", r#""0x0","0x78","0x1""#),
        "mcp" => {
            let meta = match case.carriage {
                Carriage::Http => META,
                _ => "",
            };
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"upper","arguments":{{"text":"{text}"}}{meta}}}}}"#
            )
        }
        _ => format!(r#"{{"method":"good.upper","args":{{"text":"{text}"}}}}"#),
    };
    match case.carriage {
        Carriage::Stdio | Carriage::Tcp => body,
        Carriage::Http => {
            // As long as it is when its escapes are bytes.
            let length = if text == LARGE { body.len() - LARGE.len() + 65536 } else { body.len() };
            format!("{}Content-Length: {length}\\r\\n\\r\\n{body}", head(case))
        }
    }
}

/// The head of a request up to its length.
fn head(case: &Case) -> &'static str {
    match case.wire {
        "mcp" => {
            r"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: upper\r\n"
        }
        _ => r"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
    }
}

fn half(case: &Case) -> &'static str {
    match (case.wire, case.carriage) {
        ("mcp", Carriage::Http) => {
            r"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 1000000\r\n\r\n\x7b"
        }
        (_, Carriage::Http) => {
            r"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n\x7b"
        }
        _ => r"\x7b",
    }
}
