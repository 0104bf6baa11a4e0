//! Chores of this repository that need more than a shell: `cargo xtask help`.

mod deny;
mod ladder;
mod manifest;
mod names;
mod record;
mod soak;
mod tokens;
mod walls;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Chores of this repository

Usage: cargo xtask <CHORE> [NAME]...

Chores:
  walls  Check the rules of the house that source and manifests can show
  soak   Call over all pairs for 600 or SECONDS seconds, with kills and reloads: soak [SECONDS] [SEED]
  record Record the programs of docs/recordings on a terminal, each as an SVG; or just NAME
  deny   Check licences, advisories and sources of all dependencies (needs cargo-deny)
  help   Show this
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["walls"] => walls::run(&root()),
        ["record", names @ ..] => record::run(&root(), names),
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
