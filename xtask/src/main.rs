//! Chores of this repository that need more than a shell: `cargo xtask help`.

mod assets;
mod deny;
mod dist;
mod ladder;
mod manifest;
mod names;
mod pictures;
mod places;
mod record;
mod rooms;
mod size;
mod soak;
mod surface;
mod tokens;
mod walls;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Chores of this repository

Usage: cargo xtask <CHORE> [NAME]...

Chores:
  walls  Check the rules of the house that source and manifests can show
  size   Count lines of code by crate and folder
  soak   Call over all pairs for 600 or SECONDS seconds, with kills and reloads: soak [SECONDS] [SEED]
  record Record the programs of docs/recordings on a terminal, each as an SVG; or just NAME
  dist   Pack the program in every package: dist [--out DIR] [--program FILE] [--allow-dirty]
  pictures  Take the pictures of docs/page.md anew, with a browser, of a bus that is called
  deny   Check licences, advisories and sources of all dependencies (needs cargo-deny)
  help   Show this
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["walls"] => walls::run(&root()),
        ["record", names @ ..] => record::run(&root(), names),
        ["pictures"] => pictures::run(&root()),
        ["size"] => size::run(&root()),
        ["dist", words @ ..] => dist::run(&root(), words),
        ["deny"] => deny::run(&root()),
        ["soak"] => soak::run(&root(), "600", None),
        ["soak", seconds] => soak::run(&root(), seconds, None),
        ["soak", seconds, seed] => soak::run(&root(), seconds, Some(seed)),
        ["help" | "--help" | "-h"] | [] => {
            print!("{HELP}");
            Ok(())
        }
        words => {
            eprintln!("error: there is no chore `{}`\nhint: `cargo xtask help`", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace, wherever cargo was called.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
