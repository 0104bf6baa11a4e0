//! The golden pages of `transcripts/orchard/pages`.

use std::fs;

use toolbus_testkit::page::Program;

use super::{Folder, without_chance};

/// What a page says that must be printed.
struct Golden {
    words: Vec<String>,
    stdout: String,
    stderr: String,
    exit: i32,
}

fn golden(name: &str) -> Golden {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../transcripts/orchard/pages");
    let text = fs::read_to_string(format!("{pages}/{name}.txt")).unwrap();
    let (head, rest) = text.split_once("stdout:\n").unwrap();
    let (stdout, rest) = rest.split_once("stderr:\n").unwrap();
    let (stderr, exit) = rest.rsplit_once("exit: ").unwrap();
    let line = head.lines().find_map(|line| line.strip_prefix("$ toolbus orchard ")).unwrap();
    Golden {
        words: line.split_whitespace().map(str::to_owned).collect(),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        exit: exit.trim().parse().unwrap(),
    }
}

fn check(folder: &Folder, name: &str, fail: Option<&str>) {
    let golden = golden(name);
    let words: Vec<&str> = golden.words.iter().map(String::as_str).collect();
    let mut command = folder.command(&words);
    if let Some(fail) = fail {
        command.env("ECHO_FAIL", fail);
    }
    let page = Program::of(command).run();
    assert_eq!(without_chance(&page.stdout), golden.stdout, "{name}: {page}");
    assert!(fits(&without_chance(&page.stderr), &golden.stderr), "{name}: {page}");
    assert_eq!(page.status.code(), Some(golden.exit), "{name}: {page}");
}

/// Does the text have all that stands between the dots, in that order, and nothing else if there
/// are none?
fn fits(text: &str, golden: &str) -> bool {
    let mut parts = golden.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut has_dots = false;
    for part in parts {
        has_dots = true;
        let part = part.trim_start_matches('\n');
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    has_dots || rest.is_empty()
}

#[test]
fn the_shop_runs_and_is_torn_down() {
    let folder = Folder::new();
    check(&folder, "run_of_the_shop", None);
    check(&folder, "teardown_of_the_shop", None);
}

#[test]
fn a_run_that_fails() {
    let fail =
        r#"{"code":"execute_failed","message":"backend refused for s3cr3t","detail":"dial tcp"}"#;
    check(&Folder::new(), "run_that_fails", Some(fail));
}

#[test]
fn a_run_as_events() {
    check(&Folder::new(), "run_as_events", None);
}
