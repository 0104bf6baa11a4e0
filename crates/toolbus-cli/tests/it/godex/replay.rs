//! The conversations with servers and tools, in the program and over real connections, a byte a
//! chunk.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::process::stop_reading;
use toolbus_testkit::responses::{Answer, Asked, Gate, Server};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::transcript;

use super::live::{signal, spawn};
use super::{command, split};
use crate::mcp::DISCOVERED;
use crate::page::mcp_server;

#[test]
fn every_conversation_comes_out_over_http() {
    for folder in ["stream", "text", "http", "loop"] {
        for file in transcript::files(format!("transcripts/godex/{folder}")) {
            replay(&file);
        }
    }
}

/// What a conversation says.
#[derive(Default)]
struct Story {
    words: Vec<String>,
    files: Vec<(String, String)>,
    key: Option<String>,
    script: Vec<Answer>,
    /// Each request: its first line, header fields and body, as far as they are shown.
    requests: Vec<Vec<String>>,
    printed: Vec<String>,
    text: String,
    told: Vec<String>,
    exit: Option<i32>,
    /// The tools of the one address, and the steps by which they answer.
    tools: Vec<String>,
    steps: Vec<String>,
    happening: Option<Happening>,
}

/// What happens behind the lines that came so far.
enum Happening {
    Signal(Signal),
    ReaderLeaves(Gate),
}

fn replay(file: &Path) {
    let mut story = Story::default();
    transcript::read(file).lines().for_each(|line| story.read(line));
    let scratch = Scratch::new();
    for (name, content) in &story.files {
        fs::write(scratch.path().join(name), content).unwrap();
    }
    let server = Server::start(story.script.clone());
    let mut command = story.command(&server);
    command.current_dir(scratch.path());
    let shown = file.display().to_string();
    let (stdout, stderr, code) = story.run(command);
    let shown = format!("{shown}\n{stdout}\n{stderr}");
    let printed: Vec<_> = stdout.lines().collect();
    if story.text.is_empty() {
        assert_eq!(printed.len(), story.printed.len(), "{shown}");
        for (expected, line) in story.printed.iter().zip(printed) {
            assert!(is_line(expected, line), "{expected}\n{shown}");
        }
    } else {
        assert_eq!(stdout, story.text, "{shown}");
    }
    assert_eq!(code, story.exit, "{shown}");
    for told in &story.told {
        match told.as_str() {
            "is empty" => assert_eq!(stderr, "", "{shown}"),
            told => assert!(stderr.contains(told.strip_prefix("has ").unwrap()), "{told}\n{shown}"),
        }
    }
    let asked = server.asked();
    assert_eq!(asked.len(), story.script.len(), "{shown}");
    if !story.requests.is_empty() {
        assert_eq!(asked.len(), story.requests.len(), "{shown}");
    }
    for (request, asked) in story.requests.iter().zip(&asked) {
        check_request(request, asked, &shown);
    }
    if let Some((name, _)) = story.files.iter().find(|_| shown.contains("a_token")) {
        let path = scratch.path().join(name);
        let tokens = r#"{"access_token":"tok2","refresh_token":"r2","account_id":"acct_1","id_token":"j.w.t"}"#;
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{{\"tokens\":{tokens}}}"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// `<names X>` stands for any text with X in it.
fn is_line(expected: &str, line: &str) -> bool {
    let Some((before, rest)) = expected.split_once("<names ") else { return expected == line };
    let (name, behind) = rest.split_once('>').unwrap();
    line.starts_with(before) && line.ends_with(behind) && line.contains(name)
}

fn check_request(shown: &[String], asked: &Asked, story: &str) {
    let path = shown[0].replace("https://auth.openai.com", "");
    assert_eq!(asked.line, format!("{path} HTTP/1.1"), "{story}");
    for line in &shown[1..] {
        match line.starts_with('{') {
            true => assert_eq!(&asked.body, line, "{story}"),
            false => {
                let (name, value) = line.split_once(": ").unwrap();
                let value = value.replace("<version>", env!("CARGO_PKG_VERSION"));
                assert_eq!(asked.header(name), Some(value.as_str()), "{line}\n{story}");
            }
        }
    }
    let shows_who = shown.iter().any(|line| line.starts_with("authorization: "));
    assert_eq!(asked.header("authorization").is_some(), shows_who, "{story}");
    assert_eq!(asked.header("accept-encoding"), None, "{story}");
}

impl Story {
    fn read(&mut self, line: &str) {
        let (arrow, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        match arrow.trim_end() {
            "--" => self.happens(rest),
            "<<" => match rest.strip_prefix("HTTP ") {
                Some(head) => {
                    let (status, head) = head.split_once(' ').unwrap();
                    self.script.push(Answer::new(status.parse().unwrap(), head));
                }
                None => {
                    let answer = self.script.last_mut().unwrap();
                    match answer.is_stream() {
                        true => answer.event(rest),
                        false => answer.bytes(rest.as_bytes()),
                    }
                }
            },
            ">>" => self.leaves(rest),
            "==" => match rest.split_once(' ').unwrap() {
                ("exit", code) => self.exit = Some(code.parse().unwrap()),
                ("stderr", told) => self.told.push(told.to_owned()),
                other => assert_eq!(other.0, "file", "{line}"),
            },
            _ => {}
        }
    }

    fn leaves(&mut self, line: &str) {
        if let Some(text) = line.strip_prefix("text ") {
            self.text += &serde_json::from_str::<String>(text).unwrap();
        } else if line.starts_with("{\"type\"") {
            self.printed.push(line.to_owned());
        } else if line.starts_with("POST ") {
            self.requests.push(vec![line.to_owned()]);
        } else {
            self.requests.last_mut().unwrap().push(line.to_owned());
        }
    }

    fn happens(&mut self, what: &str) {
        if what.starts_with("toolbus ") {
            self.words = split(what);
        } else if let Some(file) = what.strip_prefix("file ") {
            let (name, content) = file.split_once(": ").unwrap();
            self.files.push((name.to_owned(), content.to_owned()));
        } else if let Some(key) = what.strip_prefix("environment OPENAI_API_KEY=") {
            self.key = Some(key.to_owned());
        } else if what.starts_with("answered ") {
            self.script.push(Answer::new(200, "text/event-stream"));
        } else if what == "connection cut inside an event" {
            let answer = self.script.last_mut().unwrap();
            answer.bytes(b"data: {\"type\":");
            answer.cut();
        } else if what.ends_with("pass without a byte") {
            self.script.last_mut().unwrap().fall_silent();
        } else if what.starts_with("SIG") {
            self.script.last_mut().unwrap().fall_silent();
            let signal = if what == "SIGINT" { Signal::INT } else { Signal::TERM };
            self.happening = Some(Happening::Signal(signal));
        } else if what == "the reader of stdout is gone" {
            let gate = self.script.last_mut().unwrap().hold();
            self.happening = Some(Happening::ReaderLeaves(gate));
        } else if what == "connection closed by us" {
            self.script.last_mut().unwrap().fall_silent();
        } else if let Some((_, tool)) = what.split_once(" offers ") {
            let (name, rest) = tool.split_once(": ").unwrap();
            let (description, schema) = rest.split_once(", ").unwrap();
            self.tools.push(format!(
                r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#
            ));
        } else if let Some(call) = what.strip_prefix("call ") {
            // A call with other arguments is never answered.
            let arguments = call.splitn(3, ' ').last().unwrap();
            self.step(&["read", "if", &format!("\"arguments\":{arguments}"), "{"]);
        } else if what.starts_with("call_") {
            self.answers(what.split_once(' ').unwrap().1);
        } else {
            let known = ["stream ends", "connection refused", "no tool is called"];
            assert!(known.contains(&what), "what is `{what}`?");
        }
    }

    fn answers(&mut self, what: &str) {
        let (text, is_error) = match what.strip_prefix("answers text ") {
            Some(text) => (text, false),
            None => match what.strip_prefix("fails failed ") {
                Some(text) => (text, true),
                None => return self.step(&["}"]),
            },
        };
        let content =
            format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":{is_error}}}"#);
        self.step(&["answer", &content, "}"]);
    }

    fn step(&mut self, words: &[&str]) {
        self.steps.extend(words.iter().map(|word| (*word).to_owned()));
    }

    fn command(&mut self, server: &Server) -> Command {
        let url = format!("{}/v1", server.url());
        let is_there = !self.script.is_empty();
        match self.words.iter().position(|word| word == "--base-url") {
            Some(at) if is_there => self.words[at + 1] = url,
            Some(_) => {}
            None => self.words.extend(["--base-url".to_owned(), url]),
        }
        if let Some(at) = self.words.iter().position(|word| word == "--tools-from") {
            let tools = format!(r#"{{"tools":[{}]}}"#, self.tools.join(","));
            let mut steps = vec!["read", "answer", DISCOVERED, "read", "answer", &tools];
            steps.extend(self.steps.iter().map(String::as_str));
            steps.extend(["forever", "{", "read", "}"]);
            self.words[at + 1] = mcp_server(&steps);
        }
        let words: Vec<_> = self.words.iter().skip(1).map(String::as_str).collect();
        let mut command = command(&words);
        command.envs(self.key.iter().map(|key| ("OPENAI_API_KEY", key)));
        let refresh = format!("{}/oauth/token", server.url());
        command.env("CODEX_REFRESH_TOKEN_URL_OVERRIDE", refresh);
        command
    }

    /// Runs it, and lets happen what happens behind all lines but those that come of it.
    fn run(&self, command: Command) -> (String, String, Option<i32>) {
        let mut child = spawn(command);
        drop(child.stdin.take());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut printed = String::new();
        match &self.happening {
            Some(Happening::Signal(sent)) => {
                for _ in 1..self.printed.len() {
                    stdout.read_line(&mut printed).unwrap();
                }
                signal(&child, *sent);
                stdout.read_to_string(&mut printed).unwrap();
            }
            Some(Happening::ReaderLeaves(gate)) => {
                stdout.read_line(&mut printed).unwrap();
                stop_reading(&child, stdout);
                gate.open();
            }
            None => {
                stdout.read_to_string(&mut printed).unwrap();
            }
        }
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = awaited("it ends", || child.try_wait().unwrap());
        (printed, stderr, status.code())
    }
}
