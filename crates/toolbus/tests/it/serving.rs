//! The serving loop over pipes: an oracle whose functions are answered in place.

use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;

use toolbus::wire::oracle::blocking::serve_on;
use toolbus_proto::channel::Ended;
use toolbus_proto::json::Json;
use toolbus_proto::oracle::translate::Binding;
use toolbus_proto::oracle::{Served, Server, Settings, signature};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, What};
use toolbus_testkit::patience::eventually;

use crate::PATIENCE;

const ACK: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n";

fn oracle() -> Server {
    let functions = signature::parse("echo(text: ByteArray) -> ByteArray; panics()").unwrap();
    let served = functions.into_iter().map(|function| Served {
        tool: function.name().into(),
        binding: Binding::of_oracle(function),
    });
    Server::new(&Settings::default(), served.collect())
}

fn handle(call: Call) -> Result<Outcome, Failure> {
    match call.what {
        What::Tool { name, .. } if name.as_str() == "panics" => panic!("as asked"),
        What::Tool { args: Some(args), .. } => {
            let text = args.as_str();
            let at = text.find(':').unwrap();
            Ok(Outcome::Value(Json::part_of(args.as_bytes(), &text[at + 1..text.len() - 1])))
        }
        _ => Err(Failure::new(FailureKind::Failed, "expected a tool")),
    }
}

/// Serves in a thread, and gives what the executor holds and how it will end.
fn serving() -> (PipeWriter, BufReader<io::PipeReader>, thread::JoinHandle<io::Result<Ended>>) {
    let (theirs_in, ours_out) = io::pipe().unwrap();
    let (ours_in, theirs_out) = io::pipe().unwrap();
    let server =
        thread::spawn(move || serve_on(oracle(), theirs_in.as_fd(), theirs_out.as_fd(), handle));
    let mut answers = BufReader::new(ours_in);
    let mut ready = String::new();
    answers.read_line(&mut ready).unwrap();
    assert!(ready.starts_with(r#"{"jsonrpc":"2.0","id":0,"method":"ready""#), "{ready}");
    (ours_out, answers, server)
}

fn invoke(id: usize, selector: &str, calldata: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"invoke\",\
         \"params\":{{\"selector\":\"{selector}\",\"calldata\":{calldata}}}}}\n"
    )
}

#[test]
fn what_arrives_together_is_answered_together() {
    let (mut calls, mut answers, server) = serving();
    let empty = r#"["0x0","0x0","0x0"]"#;
    let all = format!(
        "{ACK}{}{}{{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}}\n",
        invoke(0, "echo", empty),
        invoke(1, "echo", empty)
    );
    calls.write_all(all.as_bytes()).unwrap();
    // One write is in the pipe as a whole.
    let first = answers.fill_buf().unwrap();
    let both: String = (0..2)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{empty}}}\n"))
        .collect();
    assert_eq!(String::from_utf8_lossy(first), both);
    assert_eq!(server.join().unwrap().unwrap(), Ended::Well);
}

#[test]
fn a_panic_fails_its_call_and_no_other() {
    let (mut calls, mut answers, server) = serving();
    let both = [invoke(0, "panics", "[]"), invoke(1, "echo", r#"["0x0","0x61","0x1"]"#)];
    calls.write_all((ACK.to_owned() + &both.concat()).as_bytes()).unwrap();
    drop(calls);
    let mut text = String::new();
    while answers.read_line(&mut text).unwrap() != 0 {}
    let expected = "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32603,\
                    \"message\":\"the tool panicked: as asked\",\"data\":{\"kind\":\"failed\"}}}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"0x0\",\"0x61\",\"0x1\"]}\n";
    assert_eq!(text, expected);
    assert_eq!(server.join().unwrap().unwrap(), Ended::Well);
}

#[test]
fn reading_goes_on_while_answers_wait() {
    // All calls are written before the first answer is read: more than both pipes hold.
    const CALLS: usize = 1500;
    let (mut calls, mut answers, server) = serving();
    calls.write_all(ACK.as_bytes()).unwrap();
    for id in 0..CALLS {
        calls.write_all(invoke(id, "echo", r#"["0x0","0x61","0x1"]"#).as_bytes()).unwrap();
    }
    drop(calls);
    for id in 0..CALLS {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")), "{line}");
    }
    assert_eq!(server.join().unwrap().unwrap(), Ended::Well);
}

#[test]
fn what_was_read_ahead_is_answered_though_nothing_follows() {
    const CALLS: usize = 2000;
    let (mut calls, mut answers, server) = serving();
    calls.write_all(ACK.as_bytes()).unwrap();
    for id in 0..CALLS {
        calls.write_all(invoke(id, "echo", r#"["0x0","0x61","0x1"]"#).as_bytes()).unwrap();
    }
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let lines = (0..CALLS).map(|_| answers.read_line(&mut String::new()).unwrap());
        done.send(lines.filter(|count| *count > 0).count()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(CALLS));
    drop(calls);
    assert_eq!(server.join().unwrap().unwrap(), Ended::Well);
}

#[test]
fn an_executor_that_does_not_read_any_more_ends_the_oracle() {
    let (mut calls, answers, server) = serving();
    drop(answers);
    calls.write_all(ACK.as_bytes()).unwrap();
    // A process that is just being started elsewhere holds a copy of the pipe for a while.
    eventually("it ends", || {
        let _ = calls.write_all(invoke(0, "panics", "[]").as_bytes());
        server.is_finished()
    });
    assert_eq!(server.join().unwrap().unwrap(), Ended::Well);
}
