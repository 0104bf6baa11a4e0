//! The serving loop over pipes, with a machine that keeps time and whose calls come in parts.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use toolbus_engine::blocking::serving::serve_talking;
use toolbus_engine::chance::OsRandom;
use toolbus_proto::channel::{Down, Ended};
use toolbus_proto::json::Json;
use toolbus_proto::mediocre::{Server, ServerSettings};
use toolbus_proto::tool::{Call, Failure, Outcome, Part, What};

use crate::PATIENCE;

struct Serving {
    calls: PipeWriter,
    answers: PipeReader,
    server: JoinHandle<io::Result<Ended>>,
}

/// Serves in a thread: every call is answered with its arguments, as a value, or by `parts` as
/// so many parts.
fn serving(settings: ServerSettings) -> Serving {
    let (theirs_in, calls) = io::pipe().unwrap();
    let (answers, theirs_out) = io::pipe().unwrap();
    let server = thread::spawn(move || {
        let machine = Server::new(Instant::now(), settings, OsRandom::new());
        let (input, output) = (theirs_in.as_fd(), theirs_out.as_fd());
        serve_talking(machine, input, output, Some(settings.call_timeout), |call, caller| {
            let (name, args) = named(call);
            if name == "parts" {
                caller.tell(Down::Begin { head: None, parts: None });
                for _ in 0..args.read::<u64>().unwrap() {
                    caller.tell(Down::Part(Part::Json(Json::of(&"x".repeat(1000)))));
                }
                return Ok::<_, Failure>(Outcome::End(None));
            }
            Ok(Outcome::Value(args))
        })
    });
    Serving { calls, answers, server }
}

fn named(call: Call) -> (String, Json) {
    match call.what {
        What::Tool { name, args } => (name.to_string(), args.unwrap_or(Json::null())),
        other => panic!("{other:?}"),
    }
}

impl Serving {
    fn say(&mut self, text: &str) {
        self.calls.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until so much was answered.
    fn hear(&mut self, expected: &str) {
        let mut heard = vec![0; expected.len()];
        self.answers.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), expected);
    }

    /// Says nothing more, and waits for the end: what is still answered, and how it ended.
    fn end(self) -> (String, Ended) {
        let Serving { calls, answers, server } = self;
        drop(calls);
        ended(answers, server)
    }
}

fn ended(mut answers: PipeReader, server: JoinHandle<io::Result<Ended>>) -> (String, Ended) {
    let (told, tells) = mpsc::channel();
    thread::spawn(move || {
        let mut rest = String::new();
        answers.read_to_string(&mut rest).unwrap();
        let _ = told.send((rest, server.join().unwrap().unwrap()));
    });
    tells.recv_timeout(PATIENCE).expect("it hangs")
}

#[test]
fn a_call_in_parts_is_made_when_they_are_all_there() {
    let mut serving = serving(ServerSettings::default());
    serving.say(r#"{"method":"echo","args":{"a":1}}{"method":"echo","streamStart":true}{"el":1}"#);
    // What is complete does not wait for what is not.
    serving.hear("{\"res\":{\"a\":1}}\n");
    serving.say(r#"{"el":"b"}"#);
    serving.say(r#"{"args":3,"streamEnd":true}{"method":"echo","args":4}"#);
    serving.hear("{\"res\":{\"elements\":[1,\"b\"],\"tail\":3}}\n{\"res\":4}\n");
    assert_eq!(serving.end(), (String::new(), Ended::Well));
}

#[test]
fn a_caller_who_goes_inside_a_stream_gets_nothing() {
    let mut serving = serving(ServerSettings::default());
    serving.say(r#"{"method":"echo","streamStart":true}{"el":1}"#);
    let (rest, ended) = serving.end();
    assert_eq!(rest, "");
    assert!(matches!(ended, Ended::Broke(_)), "{ended:?}");
}

#[test]
fn answers_that_do_not_fit_stop_no_call_for_good() {
    const CALLS: usize = 3_000;
    let text = "x".repeat(1_000);
    let Serving { mut calls, mut answers, server } = serving(ServerSettings::default());
    let call = format!("{{\"method\":\"echo\",\"args\":\"{text}\"}}");
    let writer = thread::spawn(move || {
        (0..CALLS).for_each(|_| calls.write_all(call.as_bytes()).unwrap());
        calls
    });
    let answer = format!("{{\"res\":\"{text}\"}}\n");
    let mut heard = vec![0; answer.len()];
    for _ in 0..CALLS {
        answers.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), answer);
    }
    let calls = writer.join().unwrap();
    assert_eq!(Serving { calls, answers, server }.end(), (String::new(), Ended::Well));
}

#[test]
fn parts_go_out_as_they_are_told() {
    let mut serving = serving(ServerSettings::default());
    // More than fits into a pipe.
    serving.say(r#"{"method":"parts","args":500}"#);
    let part = format!("{{\"el\":\"{}\"}}\n", "x".repeat(1000));
    serving.hear(&format!("{{\"streamStart\":true}}\n{}", part.repeat(500)));
    serving.hear("{\"streamEnd\":true}\n");
    assert_eq!(serving.end(), (String::new(), Ended::Well));
}

#[test]
fn a_caller_who_says_nothing_is_left_in_the_end() {
    let quick = Duration::from_millis(20);
    let idle = ServerSettings { idle_timeout: quick, ..ServerSettings::default() };
    let Serving { calls, answers, server } = serving(idle);
    assert_eq!(ended(answers, server), (String::new(), Ended::Well));
    drop(calls);

    // Who stops inside a call is told so, and may go on with another.
    let slow = ServerSettings { call_timeout: quick, ..ServerSettings::default() };
    let mut serving = serving(slow);
    serving.say(r#"{"method":"echo","streamStart":true}{"el":1}"#);
    serving.hear("{\"err\":{\"msg\":\"no answer within 20ms\"");
}

#[test]
fn a_caller_who_does_not_read_is_left_in_the_end() {
    let quick = Duration::from_millis(20);
    let settings = ServerSettings { call_timeout: quick, ..ServerSettings::default() };
    let mut serving = serving(settings);
    serving.say(r#"{"method":"parts","args":5000}"#);
    let (told, tells) = mpsc::channel();
    let Serving { calls, answers, server } = serving;
    thread::spawn(move || told.send(server.join().unwrap().unwrap()));
    let ended = tells.recv_timeout(PATIENCE).expect("it hangs");
    assert_eq!(ended, Ended::PeerStoppedReading);
    drop((calls, answers));
}
