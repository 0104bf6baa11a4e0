//! `godex+stdio:` with many calls at once, and with a caller that reads slowly.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;
use toolbus_testkit::patience::awaited;
use toolbus_testkit::process::stands_still;
use toolbus_testkit::responses::{Answer, Server};
use toolbus_testkit::scratch::Scratch;

use super::command;
use super::live::spawn;

const CALLS: usize = 20;
const PROCESSES_MAX: usize = 16;

#[test]
fn no_more_than_sixteen_processes_run_at_once() {
    let scratch = Scratch::new();
    let (gate, started) = (scratch.file("gate"), scratch.file("started"));
    // Each tells that it is there and waits until the gate is opened.
    let script = format!(
        "echo \"$$\" >> {started}; cat {gate} > {gate}.nothing\n\
         echo '{{\"type\":\"response.output_text.delta\",\"delta\":\"x\"}}'\n\
         echo '{{\"type\":\"response.completed\"}}'\n"
    );
    fs::write(scratch.file("child.sh"), script).unwrap();
    fs::write(&started, "").unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &*gate, rustix::fs::FileType::Fifo, mode, 0).unwrap();

    let calls: Vec<_> = (0..CALLS)
        .map(|index| {
            format!(
                r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f{index}","call_id":"c{index}","name":"ask","arguments":"{{\"prompt\":\"hi\"}}"}}}}"#
            )
        })
        .collect();
    let completed = r#"{"type":"response.completed"}"#;
    let first = Answer::events(calls.iter().map(String::as_str).chain([completed]));
    let server = Server::start(vec![first, Answer::events([completed])]);
    let address = format!("godex+stdio:sh {}", scratch.file("child.sh"));
    let url = server.url();
    let mut child = spawn(command(&["exec", "hi", "--tools-from", &address, "--base-url", &url]));

    let count = || fs::read_to_string(&started).unwrap().lines().count();
    let pid = child.id();
    awaited("as many as may run", || (PROCESSES_MAX <= count()).then_some(()));
    awaited("it has nothing to do", || stands_still(pid).then_some(()));
    assert_eq!(count(), PROCESSES_MAX);
    // Who reads the gate sees its end when it is opened for writing and closed.
    while server.asked().len() < 2 {
        // Without a reader there is none to wait for.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        drop(rustix::fs::open(&*gate, flags, rustix::fs::Mode::empty()));
        std::thread::yield_now();
    }
    let status = awaited("it ends", || child.try_wait().unwrap());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(count(), CALLS);
    let body: Value = serde_json::from_str(&server.asked()[1].body).unwrap();
    let outputs =
        body["input"].as_array().unwrap().iter().filter_map(|item| item["output"].as_str());
    assert_eq!(outputs.filter(|output| output.contains(r#""text":"x""#)).count(), CALLS);
}

#[test]
fn a_slow_reader_gets_all_of_the_text_in_fewer_pieces() {
    const DELTAS: usize = 200_000;
    let scratch = Scratch::new();
    let script = format!(
        "yes '{{\"type\":\"response.output_text.delta\",\"delta\":\"tick \"}}' | head -n {DELTAS}\n\
         echo '{{\"type\":\"response.completed\"}}'\n"
    );
    fs::write(scratch.file("child.sh"), script).unwrap();
    let address = format!("godex+stdio:sh {}", scratch.file("child.sh"));
    let mut command = command(&["call", "--stream", &address, "ask", "prompt=hi"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    awaited("it waits for its reader", || stands_still(pid).then_some(()));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let status = awaited("it ends", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (end, pieces) = lines.split_last().unwrap();
    let text: String = pieces.iter().map(|piece| piece["progress"].as_str().unwrap()).collect();
    assert_eq!(text.len(), "tick ".len() * DELTAS);
    assert_eq!(end["end"]["text"], text);
    assert!(pieces.len() < DELTAS, "{} pieces", pieces.len());
}
