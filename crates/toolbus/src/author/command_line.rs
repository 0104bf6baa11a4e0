//! The command line of an author's program.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use toolbus_proto::channel::Ended;

use super::{AuthorKind, Tools};
use crate::wire::{AUTHORS, STARTED};

/// Wrong usage; nothing was served.
const USAGE: u8 = 2;
/// The caller broke the protocol, or would not have us.
const BROKE: u8 = 3;

pub(super) fn run(tools: Tools, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let mut tools = Some(tools);
    if let Some(exit) = STARTED.iter().find_map(|kind| kind.serve(&mut tools, &words)) {
        return exit;
    }
    let Some(tools) = tools else { return ExitCode::FAILURE };
    match &*words {
        [] => match AUTHORS.iter().find(|author| author.is_without_flag()) {
            Some(author) if !io::stdin().is_terminal() => serve(tools, *author),
            _ => {
                eprint!("{}", help(&tools));
                ExitCode::from(USAGE)
            }
        },
        [word] => match &**word {
            "--help" | "-h" => print(&help(&tools)),
            "--version" | "-V" => print(&format!("{} {}\n", tools.name, tools.version)),
            word => match flags().into_iter().find(|(flag, _)| flag == word) {
                Some((_, author)) => serve(tools, author),
                None => match AUTHORS.iter().find_map(|author| author.printed(word, &tools)) {
                    Some(Ok(text)) => print(&text),
                    Some(Err(error)) => {
                        eprintln!("error: {error}");
                        ExitCode::from(USAGE)
                    }
                    None => misused(&tools, word),
                },
            },
        },
        [_, second, ..] => misused(&tools, second),
    }
}

/// The flag of each wire that tools can be served in.
fn flags() -> Vec<(String, &'static dyn AuthorKind)> {
    AUTHORS.iter().map(|author| (format!("--{}", author.wire().name()), *author)).collect()
}

fn serve(tools: Tools, author: &dyn AuthorKind) -> ExitCode {
    match author.serve(tools) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Refused(why)) => {
            eprintln!("error: the caller would not have us: {why}");
            ExitCode::from(BROKE)
        }
        Ok(Ended::Broke(why)) => {
            eprintln!("error: the caller broke the protocol: {why}");
            ExitCode::from(BROKE)
        }
        // The client that closed our output knows that it did.
        Ok(Ended::PeerStoppedReading) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: cannot serve on standard input and output: {error}");
            ExitCode::FAILURE
        }
    }
}

fn misused(tools: &Tools, word: &str) -> ExitCode {
    eprintln!("error: unexpected argument `{word}`\nhint: `{} --help` tells more", tools.name);
    ExitCode::from(USAGE)
}

/// Prints; a reader that has gone is no reason to panic.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn help(tools: &Tools) -> String {
    let specs = tools.specs();
    let mut help = format!("{} {}\n\n", tools.name, tools.version);
    let known = flags();
    let flags = known.iter().map(|(flag, _)| flag.as_str()).collect::<Vec<_>>().join(" | ");
    // A string takes whatever it is given.
    let _ = write!(help, "Usage: {} {flags}\n\nServes on standard input and output:\n", tools.name);
    for (flag, author) in known {
        let _ = writeln!(help, "  {flag:<10}  {}", author.help());
    }
    help.push_str("\nTools:\n");
    let width = specs.iter().map(|spec| spec.name.as_str().len()).max().unwrap_or(0);
    for spec in &*specs {
        let first_line = spec.description.as_deref().and_then(|text| text.lines().next());
        let line = format!("  {:<width$}  {}", spec.name.as_str(), first_line.unwrap_or(""));
        let _ = writeln!(help, "{}", line.trim_end());
    }
    help
}
