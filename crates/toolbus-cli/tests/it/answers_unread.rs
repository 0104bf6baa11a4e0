//! Answers to a client that has said all it has to say and does not read.
//!
//! It waits for longer than most tests, so it should be among the first that are run.

use std::io::Write as _;

use toolbus_testkit::patience::awaited;

use crate::mcp::modern_call;
use crate::page::command;

#[test]
fn a_client_that_has_ended_and_does_not_read_is_not_waited_for_for_ever() {
    let long = "x".repeat(1 << 20);
    let echo = format!(r#"{{"text":"{long}"}}"#);
    let rpc = format!(r#"{{"method":"echo","args":{echo}}}"#);
    let count = |id| {
        let params = r#"{"selector":"count","calldata":["0x10"]}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"invoke","params":{params}}}"#)
    };
    let ready = r#"{"jsonrpc":"2.0","id":0,"result":{}}"#.to_owned();
    let counts = [ready].into_iter().chain((1..3000).map(count)).collect();
    let fronts = [
        (vec!["mcp", "builtin:"], vec![modern_call(1, "echo", &echo)]),
        (vec!["rpc", "serve", "--listen", "stdio:", "builtin:"], vec![rpc]),
        (vec!["oracle", "serve", "builtin:"], counts),
    ];
    let ended: Vec<_> = fronts
        .map(|(words, lines)| {
            let mut command = command(&words);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            for line in lines {
                writeln!(stdin, "{line}").unwrap();
            }
            (words[0].to_owned(), child)
        })
        .into();
    for (name, mut child) in ended {
        // Its standard output is open and unread.
        awaited(&format!("{name} ends"), || child.try_wait().unwrap());
    }
}
