//! A server of a model that misbehaves before a tool loop, which has no other: what ends the run is
//! the time that it has in all, whatever the server sends, reads or does not read.

use std::fs;
use std::process::Stdio;

use toolbus_testkit::form;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::peer::Peer;
use toolbus_testkit::scratch::Scratch;

use super::run::Seen;
use super::{Case, Fault};
use crate::godex::command;

/// The exit code of a run that was not done in time.
const TIMED_OUT: i32 = 4;
/// More than pipes and sockets take before their reader does.
const PROMPT_BYTES: usize = 15 << 20;
const HEAD: &str =
    r"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
const EVENT: &str = r#"data: {"type":"response.output_text.delta","delta":"noise"}\n"#;

pub(super) fn run(case: &Case) -> Seen {
    let scratch = Scratch::new();
    let (address, prompt) = (scratch.file("address"), scratch.file("prompt"));
    let bytes = if case.fault == Fault::DoesNotRead { PROMPT_BYTES } else { 1 };
    let item = format!(r#"[{{"type":"message","role":"user","content":"{}"}}]"#, "x".repeat(bytes));
    fs::write(&prompt, item).unwrap();
    let fault: &[&str] = match case.fault {
        Fault::DoesNotRead => &["stop"],
        Fault::Floods | Fault::FloodsStderr => {
            &["read-http", "raw", HEAD, "forever", "{", "flood", "1000", EVENT, "}"]
        }
        // A comment, which is a sign of life.
        Fault::Trickles => {
            &["read-http", "raw", HEAD, "forever", "{", "say", ":", "pause", "20", "}"]
        }
    };
    let _model = Peer::start(&[&["listen", &address, "{"], fault, &["}"]].concat());
    let address = awaited("it listens", || fs::read_to_string(&address).ok());
    let url = format!("http://{address}");
    let words = ["exec", "--json", "--tools-from", "builtin:", "--input-json", &prompt];
    let time = ["--timeout", form::short_or_long("500ms", "3s"), "--base-url", &url];
    let mut command = command(&[&words[..], &time].concat());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut seen = Seen::default();
    let status = awaited("it ends", || {
        seen.look_at_memory_if_alive(child.id());
        child.try_wait().unwrap()
    });
    match status.code() {
        Some(TIMED_OUT) => drop(seen.bad.insert("TimedOut".to_owned(), 1)),
        _ => seen.broken.push(format!("ended with {status}")),
    }
    seen
}
