//! The run socket: what a command prints is the same whether a `toolbus serve` does the work or it
//! does so itself, and only one that is the same is asked.

mod attacks;
mod ends;
mod same;
mod used;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use toolbus_testkit::peer::quoted;
use toolbus_testkit::scratch::Scratch;

use crate::listening::Server;
use crate::page::{Page, command};

/// A folder with a config, a journal, and a run socket of its own.
struct Bench {
    scratch: Scratch,
}

/// The variables that a test may want otherwise.
type Env<'a> = &'a [(&'a str, &'a str)];

impl Bench {
    /// A server of MCP that has some of everything, the tools inside toolbus, and what stands here.
    fn of(config: &str) -> Bench {
        let bench = Bench { scratch: Scratch::new() };
        let server = bench.scratch.file("server.py");
        fs::write(&server, include_str!("server.py")).unwrap();
        let (server, told) = (quoted(&server), quoted(&bench.scratch.file("told")));
        // The second has to be found out to be one.
        let bare = Value::from(format!("python3 {server} {told}"));
        let address = format!("mcp+stdio:python3 {server} {told}");
        let front = "[front.web]\nserve = \"mcp+http://127.0.0.1:0/mcp\"\n";
        let journal = "[journal]\npath = \"calls.jsonl\"\n";
        let backs = format!(
            "[back.try]\nconnect = \"builtin:\"\n[back.s]\nconnect = {}\n[back.bare]\nconnect = {bare}\n",
            Value::from(address)
        );
        bench.write(&format!("{backs}{front}{journal}{config}"));
        bench
    }

    fn write(&self, config: &str) {
        fs::write(self.config(), config).unwrap();
    }

    fn config(&self) -> String {
        self.scratch.file("toolbus.toml")
    }

    /// What the server was told besides requests.
    fn told(&self) -> String {
        fs::read_to_string(self.scratch.file("told")).unwrap_or_default()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(words);
        command.current_dir(self.scratch.path());
        command.env("XDG_RUNTIME_DIR", self.scratch.file("run"));
        command.env("TOOLBUS_NO_DAEMON", "");
        command
    }

    fn serve(&self) -> Server {
        self.serve_with(&[], &[])
    }

    fn serve_with(&self, words: &[&str], env: Env<'_>) -> Server {
        let mut command = self.command(&[&["serve"], words].concat());
        command.envs(env.iter().copied());
        Server::run(command, 1)
    }

    /// `toolbus` with these words, which may use a `toolbus serve`.
    fn page(&self, words: &[&str]) -> Page {
        Page::of(words)
            .folder(self.scratch.path())
            .env("XDG_RUNTIME_DIR", self.scratch.file("run"))
            .env("TOOLBUS_NO_DAEMON", "")
    }

    /// What `-v` says first.
    fn says(&self, words: &[&str]) -> String {
        let page = self.page(&[words, &["-v"]].concat()).run();
        page.stderr.lines().next().unwrap_or_default().to_owned()
    }

    /// The one socket there is.
    fn socket(&self) -> PathBuf {
        let folder = self.scratch.path().join("run/toolbus");
        let mut files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let socket = files.next().expect("there is a socket");
        assert_eq!(files.next(), None);
        socket
    }

    /// Is there none?
    fn has_no_socket(&self) -> bool {
        let folder = self.scratch.path().join("run/toolbus");
        fs::read_dir(folder).map_or(0, Iterator::count) == 0
    }

    /// The journal, without times.
    fn journal(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.scratch.file("calls.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let mut line: Value = serde_json::from_str(line).unwrap();
                let members = line.as_object_mut().unwrap();
                members.remove("time");
                members.remove("duration");
                line
            })
            .collect()
    }
}
