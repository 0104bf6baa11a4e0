//! `toolbus orchard run`, `teardown` and `runs`, with providers that are real processes.

mod ends;
mod golden;
mod kill;
mod terminal;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use toolbus_testkit::page::{self, Program};
use toolbus_testkit::scratch::Scratch;

/// A folder with the provider, the scenarios of the golden pages and one more.
struct Folder(Scratch);

impl Folder {
    fn new() -> Folder {
        let scratch = Scratch::new();
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../transcripts/orchard/pages");
        for name in ["shop.hcl", "greeter.hcl"] {
            fs::copy(format!("{pages}/{name}"), scratch.file(name)).unwrap();
        }
        fs::write(scratch.file("sweep.hcl"), include_str!("sweep.hcl")).unwrap();
        scratch.program("orchard-echo", include_str!("orchard-echo"));
        Folder(scratch)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.file(name), text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = crate::page::command(&[&["orchard"], words].concat());
        command.current_dir(self.0.path());
        command
    }

    fn run(&self, words: &[&str]) -> page::Page {
        Program::of(self.command(words)).run()
    }

    /// The states in the newest record.
    fn states(&self) -> Vec<String> {
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(self.record()).unwrap()).unwrap();
        let nodes = record["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
    }

    fn record(&self) -> PathBuf {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_record = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
        paths.filter(is_record).max().unwrap()
    }
}

/// The text with `N` in place of times, `RUN` in place of the ids of runs, and no `at`.
fn without_chance(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let behind = &rest[digits..];
        if let Some(end) = rest.strip_prefix(",\"at\":\"").and_then(|at| at.find('"')) {
            rest = &rest[",\"at\":\"".len() + end + 1..];
        } else if digits == 8 && behind.starts_with('T') && behind.get(7..9) == Some("Z_") {
            out.push_str("RUN");
            rest = &rest[8 + 9 + 8..];
        } else if 0 < digits && behind.starts_with("ms") {
            out.push('N');
            rest = behind;
        } else if let Some(number) = rest.strip_prefix("\"duration_ms\":") {
            out.push_str("\"duration_ms\":N");
            rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
        } else if 0 < digits {
            out.push_str(&rest[..digits]);
            rest = behind;
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..next]);
            rest = &rest[next..];
        }
    }
    out
}
