//! Tools that were written with `toolbus::author`: the examples, as processes of their own.

mod asynchronous;
mod lean;
mod mcp;
mod talking;
mod wires;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::PATIENCE;

/// The program of an example of this crate, which cargo builds together with its tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let program = folder.join(name);
    assert!(program.exists(), "no {}; `cargo test -p toolbus` builds it", program.display());
    program
}

/// Says what opens a session.
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

fn call(id: u64, tool: &str, arguments: &str) -> String {
    request(id, "tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
}

fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A program that is talked to line by line.
struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<String>,
}

impl Talk {
    /// Starts an example and opens a session of MCP.
    fn with(name: &str) -> Talk {
        let mut command = Command::new(example(name));
        command.arg("--mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (says, heard) = mpsc::channel();
        thread::spawn(move || stdout.lines().try_for_each(|line| says.send(line.unwrap())));
        let mut talk = Talk { stdin: child.stdin.take(), child, heard };
        talk.say(INITIALIZE);
        assert!(talk.hear().contains("serverInfo"));
        talk
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    #[track_caller]
    fn hear(&self) -> String {
        self.heard.recv_timeout(PATIENCE).expect("it says nothing")
    }

    /// The next line that is no progress.
    #[track_caller]
    fn hear_answer(&self) -> String {
        loop {
            let line = self.hear();
            if !line.contains("notifications/progress") {
                return line;
            }
        }
    }

    /// Closes its input; it ends, and says nothing more.
    #[track_caller]
    fn end(mut self) {
        self.stdin = None;
        assert!(self.heard.recv_timeout(PATIENCE).is_err(), "it says more");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
