//! What a person sees who asks from a terminal: text as it comes, tools as they run, and a spinner
//! only while there is nothing else to see. Nothing of it goes into a pipe.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Stdio};

use toolbus_testkit::patience::awaited;
use toolbus_testkit::responses::{Answer, Gate, Server};
use toolbus_testkit::terminal::open as terminal;

use super::command;
use crate::terminal::Terminal;

const COMPLETED: &str = r#"{"type":"response.completed"}"#;
/// What removes a line, and the spinner with it.
const WIPE: &str = "\r\u{1b}[K";

fn delta(text: &str) -> String {
    format!(r#"{{"type":"response.output_text.delta","item_id":"m","delta":"{text}"}}"#)
}

fn call(name: &str, arguments: &str) -> String {
    let arguments = serde_json::Value::from(arguments);
    format!(
        r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f","call_id":"c","name":"{name}","arguments":{arguments}}}}}"#
    )
}

/// A run whose standard error, and standard output if that is wanted, are a terminal.
struct Watched {
    child: Child,
    screen: File,
    seen: String,
}

impl Watched {
    fn start(words: &[&str], server: &Server, has_stdout: bool) -> Watched {
        let url = server.url();
        let words = [&["exec", "hi", "--base-url", &url], words].concat();
        let (screen, theirs) = terminal();
        let mut command = command(&words);
        let stdout = match has_stdout {
            true => theirs.try_clone().unwrap().into(),
            false => Stdio::piped(),
        };
        command.stdin(Stdio::null()).stdout(stdout).stderr(theirs);
        let child = command.spawn().unwrap();
        Watched { child, screen: screen.into(), seen: String::new() }
    }

    /// Reads until this is seen behind what was seen before.
    fn until(&mut self, text: &str) {
        let from = self.seen.len();
        while !self.seen[from..].contains(text) {
            assert!(self.more(), "no {text:?} in {:?}", self.seen);
        }
    }

    /// A terminal whose other end is closed says so by an error.
    fn more(&mut self) -> bool {
        let mut bytes = vec![0; 4096];
        let Ok(count @ 1..) = self.screen.read(&mut bytes) else { return false };
        bytes.truncate(count);
        // A character may be cut by a read.
        while str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_none()) {
            let mut byte = [0];
            self.screen.read_exact(&mut byte).unwrap();
            bytes.extend(byte);
        }
        self.seen += &String::from_utf8(bytes).unwrap().replace("\r\n", "\n");
        true
    }

    /// All that was shown, and what came by the pipe.
    fn end(mut self) -> (String, String) {
        while self.more() {}
        let mut piped = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut piped).unwrap();
        }
        let status = awaited("it ends", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0), "{}", self.seen);
        (self.seen, piped)
    }
}

/// An answer of this text that waits behind its head.
fn held(text: &str) -> (Answer, Gate) {
    let mut answer = Answer::new(200, "text/event-stream");
    let gate = answer.hold();
    answer.event(&delta(text));
    answer.event(COMPLETED);
    (answer, gate)
}

/// The frames of the spinner, each with its line.
fn frames(seen: &str) -> usize {
    seen.chars().filter(|char| ('\u{2800}'..='\u{28ff}').contains(char)).count()
}

#[test]
fn a_spinner_turns_until_text_begins() {
    let (answer, gate) = held("Hel");
    let server = Server::start(vec![answer]);
    let mut watched = Watched::start(&[], &server, true);
    watched.until("s ");
    assert!(0 < frames(&watched.seen), "{:?}", watched.seen);
    gate.open();
    let (seen, _) = watched.end();
    // Wiped before the text, which then ends its line; and never shown again.
    let (before, behind) = seen.split_once("Hel").unwrap();
    assert!(before.ends_with(WIPE), "{seen:?}");
    assert_eq!(behind, "\n", "{seen:?}");
}

#[test]
fn tools_are_shown_as_they_run() {
    let (last, gate) = held("two");
    let first = [delta("one"), call("upper", r#"{"text":"hi"}"#), COMPLETED.to_owned()];
    let first = Answer::events(first.iter().map(String::as_str));
    let server = Server::start(vec![first, last]);
    let mut watched = Watched::start(&["--tools-from", "builtin:"], &server, true);
    watched.until("running upper {\"text\":\"hi\"}\n");
    // The model thinks about what the tool said.
    watched.until("s ");
    gate.open();
    let (seen, _) = watched.end();
    let (before, behind) = seen.split_once("one\nrunning upper {\"text\":\"hi\"}\n").unwrap();
    assert!(before.is_empty() || before.ends_with(WIPE), "{seen:?}");
    assert!(0 < frames(behind) && behind.ends_with("\ntwo\n"), "{seen:?}");
}

#[test]
fn a_tool_that_takes_long_is_named_beside_the_spinner() {
    let first = [call("sleep", r#"{"ms":100000}"#), COMPLETED.to_owned()];
    let first = Answer::events(first.iter().map(String::as_str));
    let server = Server::start(vec![first, held("x").0]);
    let mut watched = Watched::start(&["--tools-from", "builtin:"], &server, true);
    watched.until("s sleep\u{1b}[K");
    super::live::signal(&watched.child, rustix::process::Signal::INT);
    watched.until("error: interrupted\n");
    let status = awaited("it ends", || watched.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
}

#[test]
fn a_pipe_gets_the_text_alone() {
    for words in [&[][..], &["-q"]] {
        let (answer, gate) = held("Hello");
        let server = Server::start(vec![answer]);
        let mut watched = Watched::start(words, &server, false);
        match words {
            [] => watched.until("s "),
            _ => awaited("it has asked", || (!server.asked().is_empty()).then_some(())),
        }
        gate.open();
        let (seen, piped) = watched.end();
        assert_eq!(piped, "Hello", "no newline is added in a pipe");
        match words {
            [] => assert!(seen.ends_with(WIPE), "{seen:?}"),
            _ => assert_eq!(seen, ""),
        }
    }
}

#[test]
fn lines_of_json_have_no_spinner() {
    let (answer, gate) = held("Hello");
    let server = Server::start(vec![answer]);
    let watched = Watched::start(&["--json"], &server, true);
    awaited("it has asked", || (!server.asked().is_empty()).then_some(()));
    gate.open();
    let (seen, _) = watched.end();
    assert_eq!(frames(&seen), 0, "{seen:?}");
    assert!(seen.starts_with("{\"type\":\"response.output_text.delta\""), "{seen:?}");
}

/// None of the built-in tools says of itself that it is read-only.
#[test]
fn with_ask_a_tool_that_may_change_something_waits_for_the_user() {
    let words = ["--tools-from", "builtin:", "--ask"];
    for (typed, output) in
        [("n", "error: cancelled: the user did not allow this call"), ("y", "error: failed: no")]
    {
        let calls = [call("fail", r#"{"message":"no"}"#), COMPLETED.to_owned()];
        let last = [delta("done"), COMPLETED.to_owned()];
        let answers = [calls, last].map(|events| Answer::events(events.iter().map(String::as_str)));
        let server = Server::start(answers.into());
        let url = server.url();
        let exec = command(&[&["exec", "hi", "--base-url", &url][..], &words].concat());
        let shown = Terminal::of(80).types("[a]lways: ", typed).shows(exec);
        assert!(shown.contains("run fail {\"message\":\"no\"}? "), "{shown:?}");
        assert!(shown.ends_with("done\n"), "{shown:?}");
        assert!(server.asked()[1].body.contains(output), "{:?}", server.asked()[1].body);
    }
}
