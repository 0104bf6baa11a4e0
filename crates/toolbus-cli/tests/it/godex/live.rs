//! Runs that are looked at while they run: signals, readers that leave, other names.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use toolbus_testkit::page::Program;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::responses::{Answer, Server};
use toolbus_testkit::scratch::Scratch;

use super::command;

const TICK: &str = r#"{"type":"response.output_text.delta","delta":"tick"}"#;

fn silent() -> Server {
    let mut answer = Answer::events([TICK]);
    answer.fall_silent();
    Server::start(vec![answer])
}

pub(super) fn spawn(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

pub(super) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_signal_ends_it_with_one_error_line() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let server = silent();
        let mut child = spawn(command(&["exec", "hi", "--json", "--base-url", &server.url()]));
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("tick"), "{line}");
        signal(&child, sent);
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(
            rest,
            "{\"type\":\"error\",\"message\":\"interrupted\",\"code\":\"interrupted\"}\n"
        );
        let status = awaited("it ends", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn a_signal_ends_the_wait_for_standard_input_too() {
    let mut child = spawn(command(&["-v", "exec", "-", "--json", "--mock"]));
    // It has begun to listen for signals once it waits for its input.
    let pid = child.id();
    awaited("it sleeps", || toolbus_testkit::process::stands_still(pid).then_some(()));
    signal(&child, Signal::TERM);
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert!(stdout.contains("interrupted"), "{stdout}");
    let status = awaited("it ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
}

#[test]
fn standard_input_that_does_not_end_is_not_waited_for_longer_than_the_run() {
    let words = ["exec", "-", "--json", "--mock", "--timeout", "200ms"];
    let mut child = spawn(command(&words));
    // Held open: nothing comes by it, and no end.
    let stdin = child.stdin.take();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let line = r#"{"type":"error","message":"not done within 0.2s","code":"timeout"}"#;
    assert_eq!(stdout.trim_end(), line);
    let status = awaited("it ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(4));
    drop(stdin);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let mut answer = Answer::events(std::iter::repeat_n(TICK, 5000));
    answer.fall_silent();
    let server = Server::start(vec![answer.in_chunks_of(1000)]);
    let mut child = spawn(command(&["exec", "hi", "--json", "--base-url", &server.url()]));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    let status = awaited("it ends", || child.try_wait().unwrap());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((status.code(), stderr.as_str()), (Some(1), ""));
}

#[test]
fn nobody_listens_there() {
    let words = ["exec", "hi", "--json", "--retries", "0", "--base-url", "http://127.0.0.1:9/v1"];
    let page = Program::of(command(&words)).run();
    assert_eq!(page.status.code(), Some(3));
    assert!(page.stdout.contains("http://127.0.0.1:9/v1"), "{page}");
    assert!(page.stdout.contains("\"code\":\"unreachable\""), "{page}");
}

#[test]
fn under_the_name_of_godex_it_is_godex() {
    let scratch = Scratch::new();
    let link = scratch.file("godex");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_toolbus"), &link).unwrap();
    let run = |words: &[&str]| Program::new(&link).args(words).run();
    let page = run(&["exec", "--mock", "--mock-mode", "text", "--json", "--prompt", "-x"]);
    assert_eq!(page.status.code(), Some(0), "{page}");
    assert!(page.stdout.contains("mock response text"), "{page}");
    for words in [&[][..], &["tools"], &["call", "builtin:", "add"]] {
        assert_eq!(run(words).status.code(), Some(2), "{words:?}");
    }
    for flag in ["--help", "--version"] {
        assert_eq!(run(&[flag]).status.code(), Some(0), "{flag}");
    }
    let page = run(&["exec", "--help"]);
    assert!(page.stdout.contains("godex exec"), "{page}");
}
