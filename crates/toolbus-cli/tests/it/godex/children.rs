//! The conversations with children, as whole processes: `toolbus call` before scripts that say
//! their lines.

use std::fs;
use std::path::Path;

use serde_json::Value;
use toolbus_testkit::page::Program;
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::transcript;

use super::{command, split};

/// Says how it was started, its lines, its last words, and ends.
const SCRIPT: &str = "#!/bin/sh\n\
    printf '%s\\n' \"${0##*/}\" \"$@\" > \"$GODEX_FOLDER/started\"\n\
    cat \"$GODEX_FOLDER/lines\"; cat \"$GODEX_FOLDER/errors\" >&2\n\
    exit \"$(cat \"$GODEX_FOLDER/exit\")\"\n";

#[test]
fn every_child_is_understood() {
    for file in transcript::files("transcripts/godex/ask") {
        for conversation in transcript::read(&file).split("\n\n") {
            replay(&file, conversation);
        }
    }
}

fn replay(file: &Path, conversation: &str) {
    let scratch = Scratch::new();
    let bin = scratch.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let script = scratch.program("bin/godex", SCRIPT);
    for name in ["python3", "toolbus"] {
        fs::hard_link(&script, bin.join(name)).unwrap();
    }
    let (mut address, mut arguments, mut started) = (String::new(), String::new(), Vec::new());
    let (mut lines, mut errors, mut exit) = (String::new(), String::new(), "0".to_owned());
    let mut learned = Vec::new();
    for line in conversation.lines() {
        let (arrow, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        let is = |word: &str| rest.strip_prefix(word).map(str::to_owned);
        match arrow.trim_end() {
            "<<" => lines += &format!("{rest}\n"),
            "==" => learned.push(rest.to_owned()),
            "--" => {
                if let Some(rest) = is("address ") {
                    address = rest;
                } else if rest == "call t1 ask with a prompt of 100001 bytes" {
                    arguments = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(100_001));
                } else if let Some(rest) = is("call t1 ask ") {
                    arguments = rest;
                } else if let Some(rest) = is("started ") {
                    started = split(&rest);
                } else if let Some(rest) = is("exited ") {
                    let (code, said) = rest.split_once(", stderr: ").unwrap_or((&rest, ""));
                    exit = code.to_owned();
                    errors = format!("{said}\n");
                }
            }
            _ => {}
        }
    }
    for (name, text) in [("lines", &lines), ("errors", &errors), ("exit", &exit)] {
        fs::write(scratch.path().join(name), text).unwrap();
    }
    let mut command = command(&["call", "--stream", &address, "ask", &arguments]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display())).env("GODEX_FOLDER", scratch.path());
    let page = Program::of(command).run();
    let shown = format!("{}\n{page}", file.display());

    let words = fs::read_to_string(scratch.path().join("started")).unwrap();
    let words: Vec<_> = words.lines().collect();
    if let Some(place) = started.iter().position(|word| word == "<private") {
        started.truncate(place);
        assert!(!Path::new(words[place]).exists(), "the private file is gone: {shown}");
        assert_eq!(words[..place], started, "{shown}");
    } else {
        assert_eq!(words, started, "{shown}");
    }
    check(&learned, &page, &shown);
}

/// Pieces of text may come joined: a reader may be slow.
fn check(learned: &[String], page: &toolbus_testkit::page::Page, shown: &str) {
    let (mut text, mut end) = (String::new(), None);
    for line in page.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        match line.get("progress") {
            Some(piece) => text += piece.as_str().unwrap(),
            None => end = line.get("end").cloned(),
        }
    }
    let mut expected = String::new();
    for what in learned {
        let (kind, rest) =
            what.strip_prefix("t1 ").unwrap_or(what).split_once(' ').unwrap_or((what, ""));
        let code = match kind {
            "progress" => {
                expected += &serde_json::from_str::<String>(rest).unwrap();
                continue;
            }
            "ok" => {
                assert_eq!(end, Some(serde_json::from_str(rest).unwrap()), "{shown}");
                0
            }
            "failed" | "broke_protocol" => {
                let message = rest.split('"').nth(1).unwrap();
                assert!(page.stderr.contains(message), "{shown}");
                if kind == "failed" { 1 } else { 3 }
            }
            "gone" => {
                let (status, said) = rest.split_once(", stderr ").unwrap();
                let said: String = serde_json::from_str(said).unwrap();
                assert!(page.stderr.contains(status) && page.stderr.contains(&said), "{shown}");
                3
            }
            "warning" | "the" => continue,
            other => panic!("what is `{other}`?"),
        };
        assert_eq!(page.status.code(), Some(code), "{shown}");
    }
    assert_eq!(text, expected, "{shown}");
}
