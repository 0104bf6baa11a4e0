//! The programs of Orchestra, as processes: certificates, a hub with its plugins, and MCP in front
//! of it.

mod calls;
mod certs;
mod hub;
mod stdio;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::patience::{PATIENCE, awaited};
use toolbus_testkit::scratch::Scratch;

use crate::page::command;

/// A program that says on its standard error what happens to it. Dropping it kills it.
pub(crate) struct Talking {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Talking {
    fn start(words: &[&str]) -> Talking {
        Talking::of(command(words))
    }

    fn of(mut command: Command) -> Talking {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built for this test");
        let stderr = BufReader::new(child.stderr.take().expect("is piped"));
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|l| tell.send(l)));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Talking { child, stdin, stdout, lines, heard: Vec::new() }
    }

    /// Waits for the next line that begins so, and gives the rest of it.
    #[track_caller]
    fn hear(&mut self, begin: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("it does not say `{begin}`, but {:#?}", self.heard);
            };
            self.heard.push(line.clone());
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }

    /// Did it say this line before the last that was heard?
    fn has_said(&self, line: &str) -> bool {
        self.heard.iter().any(|heard| heard == line)
    }

    fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("has not hung up");
        writeln!(stdin, "{line}").expect("it reads");
    }

    fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Its next line on standard output.
    #[track_caller]
    fn answer(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().expect("is read here");
        stdout.read_line(&mut line).expect("is text");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.answer()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it has not been collected");
    }

    /// Waits for its end: the exit code, or none if a signal ended it.
    #[track_caller]
    fn end(&mut self) -> Option<i32> {
        let status = awaited("it ends", || self.child.try_wait().expect("can be waited for"));
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.heard.push(line);
        }
        status.code()
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A hub with these plugins, in a folder of its own.
pub(crate) struct Hub {
    program: Talking,
    scratch: Scratch,
    address: String,
}

/// A plugin of ours with the built-in tools.
fn builtin(id: &str) -> String {
    let program = env!("CARGO_BIN_EXE_toolbus");
    format!(
        "{{id: {id}, binary: {program}, args: [plugin, --id, {id}, 'builtin:'], enabled: true}}"
    )
}

/// A plugin that is this script.
fn script(id: &str, text: &str, more: &str) -> String {
    let text = text.replace('\'', "''");
    format!("{{id: {id}, binary: sh, args: [-c, '{text}'], enabled: true{more}}}")
}

impl Hub {
    fn start(plugins: &[String]) -> Hub {
        Hub::start_at(Scratch::new(), "127.0.0.1:0", plugins)
    }

    fn start_at(scratch: Scratch, address: &str, plugins: &[String]) -> Hub {
        let mut text =
            format!("listen_addr: {address}\ncerts_dir: {}\nplugins:\n", scratch.file("certs"));
        for plugin in plugins {
            text.push_str(&format!("  - {plugin}\n"));
        }
        let file = scratch.file("plugins.yaml");
        std::fs::write(&file, text).unwrap();
        let mut program = command(&["orchestrator", "--config", &file]);
        program.current_dir(scratch.path());
        let mut program = Talking::of(program);
        let address = program.hear("orchestrator listening on ");
        Hub { program, scratch, address }
    }

    /// The same, with all its plugins up or failed.
    fn ready(plugins: &[String]) -> Hub {
        let mut hub = Hub::start(plugins);
        hub.program.hear("orchestrator ready: ");
        hub
    }

    fn certs(&self) -> String {
        self.scratch.file("certs")
    }

    /// A transport in front of it.
    fn stdio(&self, words: &[&str]) -> Talking {
        let certs = self.certs();
        let place =
            ["transport-stdio", "--orchestrator-addr", &self.address, "--certs-dir", &certs];
        Talking::start(&[&place[..], words].concat())
    }
}

fn call(id: u32, tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn text(id: u32, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}
