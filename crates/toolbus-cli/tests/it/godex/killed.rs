//! The tool loop and its tool `ask`, killed in the middle of a call.

use std::process::Stdio;

use serde_json::Value;
use toolbus_testkit::page::Program;
use toolbus_testkit::process::Group;
use toolbus_testkit::responses::{Answer, Server};

use super::command;
use crate::matrix::harness::quoted;
use crate::matrix_killed::{Back, LAST_WORDS, says_its_end};

const WAITS: &str = "wait for ever";

/// A program that asks a model, or waits if the prompt says so.
pub(crate) fn back() -> Back {
    let hello = ["ask", r#"{"prompt":"hi"}"#];
    let waits = ["ask", r#"{"prompt":"wait for ever"}"#];
    Back::scripted("godex", hello, waits, |scratch| {
        let program = quoted(env!("CARGO_BIN_EXE_toolbus"));
        let script = format!(
            "echo {} >&2; case \"$*\" in *{}*) echo $$ >> {}; echo $$ >> {}; exec sleep 1000;; esac; \
             exec {program} \"$@\" --mock --mock-mode text",
            quoted(LAST_WORDS),
            quoted(WAITS),
            quoted(&scratch.file("back")),
            quoted(&scratch.file("asked")),
        );
        format!("godex+stdio:sh -c {} sh", quoted(&script))
    })
}

/// The tool loop before a back: first the back is killed, and the model is told so and can call
/// again; then the loop, and nothing is left.
pub(crate) fn behind_and_in_front(back: &Back) {
    let completed = r#"{"type":"response.completed"}"#;
    let turn = |[name, arguments]: [&str; 2]| {
        let arguments = Value::from(arguments);
        let done = format!(
            r#"{{"type":"response.output_item.done","item":{{"type":"function_call","id":"f","call_id":"c","name":"{name}","arguments":{arguments}}}}}"#
        );
        Answer::events([done.as_str(), completed]).in_chunks_of(1 << 16)
    };
    let turns = [back.waits, back.hello].map(turn);
    let server = Server::start(turns.into_iter().chain([Answer::events([completed])]).collect());
    let url = server.url();
    let usual = ["exec", "hi", "--json", "--tools-from", &back.address, "--base-url", &url];
    std::thread::scope(|scope| {
        let run = scope.spawn(|| Program::of(command(&usual)).run());
        let (last, _) = back.asked(1);
        last.kill();
        let page = run.join().unwrap();
        assert_eq!(page.status.code(), Some(0), "{}: {}", back.name, page.stderr);
    });
    let asked = server.asked();
    let body: Value = serde_json::from_str(&asked[2].body).unwrap();
    let outputs = body["input"].as_array().unwrap().iter();
    let outputs: Vec<_> = outputs.filter_map(|item| item["output"].as_str()).collect();
    assert!(outputs[0].starts_with("error: gone: "), "{}: {outputs:?}", back.name);
    assert!(says_its_end(outputs[0]), "{}: {outputs:?}", back.name);
    assert!(!outputs[1].starts_with("error: "), "{}: {outputs:?}", back.name);

    let server = Server::start(vec![turn(back.waits)]);
    let url = server.url();
    let usual = ["exec", "hi", "--json", "--tools-from", &back.address, "--base-url", &url];
    let mut command = command(&usual);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (_, all) = back.asked(2);
    child.kill().unwrap();
    child.wait().unwrap();
    all.iter().copied().for_each(Group::assert_gone);
}
