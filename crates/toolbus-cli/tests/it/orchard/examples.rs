//! The providers in `examples/orchard`, each in another language.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolbus_testkit::scratch::Scratch;
use toolbus_testkit::skipped::is_there;

use crate::page::Page;

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/orchard").join(file)
}

/// It is short, keeps all rules and gives its text back.
fn good(file: &str, command: &str) {
    let lines = fs::read_to_string(example(file)).unwrap().lines().count();
    assert!(lines < 60, "{file} has {lines} lines");
    let page = Page::of(&["check", "orchard", command]).run();
    let is_ok = |line: &str| line.starts_with("ok ");
    assert!(page.stdout.lines().all(is_ok) && page.status.code() == Some(0), "{file}: {page}");
    let address = format!("orchard+stdio:{command}");
    let page = Page::of(&["call", &address, "echo", "text=hi", "times=2"]).run();
    assert_eq!(page.stdout, "{\"text\":\"hi hi\",\"times\":2}\n", "{file}: {page}");
}

#[test]
fn in_python() {
    if is_there(&["python3", "--version"]) {
        good("provider.py", &format!("python3 {}", example("provider.py").display()));
    }
}

#[test]
fn in_node() {
    if is_there(&["node", "--version"]) {
        good("provider.mjs", &format!("node {}", example("provider.mjs").display()));
    }
}

#[test]
fn in_go() {
    if is_there(&["go", "version"]) {
        let scratch = Scratch::new();
        let program = scratch.path().join("provider");
        let mut build = Command::new("go");
        build.arg("build").arg("-o").arg(&program).arg(example("provider.go"));
        let built = build.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        good("provider.go", &program.display().to_string());
    }
}
