//! Whole runs that need no server, replayed from `transcripts/godex/flags` and `mock`.

use std::fs;

use serde_json::Value;
use toolbus_testkit::page::{Page, Program};
use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::transcript;

use super::{command, split};

#[test]
fn runs_come_out_as_they_are_written() {
    for folder in ["flags", "mock"] {
        for file in transcript::files(format!("transcripts/godex/{folder}")) {
            replay(&file.display().to_string(), &transcript::read(&file));
        }
    }
}

fn replay(name: &str, text: &str) {
    let scratch = Scratch::new();
    let mut stdin = Vec::new();
    let mut page: Option<Page> = None;
    let mut printed = String::new();
    for line in text.lines() {
        let (arrow, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        match arrow.trim_end() {
            "--" if rest.starts_with("file ") => {
                let (file, content) = rest["file ".len()..].split_once(": ").unwrap();
                fs::write(scratch.path().join(file), content).unwrap();
            }
            "--" if rest.starts_with("stdin ") => {
                stdin = serde_json::from_str::<String>(&rest["stdin ".len()..]).unwrap().into();
            }
            "--" => {
                let words = split(rest);
                let words: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
                let mut command = command(&words);
                command.current_dir(scratch.path());
                page = Some(Program::of(command).stdin(std::mem::take(&mut stdin)).run());
                printed.clear();
            }
            ">>" => match rest.strip_prefix("text ") {
                Some(text) => printed += &serde_json::from_str::<String>(text).unwrap(),
                None => printed += &format!("{rest}\n"),
            },
            "==" => check(name, rest, page.as_ref().unwrap(), &printed, scratch.path()),
            _ => {}
        }
    }
}

fn check(name: &str, what: &str, page: &Page, printed: &str, folder: &std::path::Path) {
    let shown = format!("{name}: {what}\n{page}");
    if let Some(text) = what.strip_prefix("stderr has ").or(what.strip_prefix("stderr names ")) {
        assert!(page.stderr.contains(text), "{shown}");
    } else if let Some(code) = what.strip_prefix("exit ") {
        assert_eq!(page.status.code(), Some(code.parse().unwrap()), "{shown}");
        // What the body says is looked at by itself.
        if !printed.is_empty() || code != "0" {
            assert_eq!(page.stdout, printed, "{shown}");
        }
    } else if let Some(choice) = what.strip_prefix("body tool_choice ") {
        let body: Value = serde_json::from_str(&page.stdout).unwrap();
        assert_eq!(body["tool_choice"], serde_json::from_str::<Value>(choice).unwrap(), "{shown}");
    } else if let Some(file) = what.strip_prefix("file ") {
        let (file, line) = file.split_once(": ").unwrap();
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.lines().any(|known| known == line), "{shown}\n{text}");
    } else {
        panic!("what is `{what}`?");
    }
}
