//! The command line of an author's program.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use toolbus_proto::channel::Ended;

use super::{Protocol, Tools};

/// Wrong usage; nothing was served.
const USAGE: u8 = 2;
/// The caller broke the protocol, or would not have us.
const BROKE: u8 = 3;

pub(super) fn run(tools: Tools, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    match &*words {
        [] => {
            eprint!("{}", help(&tools));
            ExitCode::from(USAGE)
        }
        [word] => match &**word {
            "--help" | "-h" => print(&help(&tools)),
            "--version" | "-V" => print(&format!("{} {}\n", tools.name, tools.version)),
            word => match Protocol::ALL.into_iter().find(|protocol| protocol.flag() == word) {
                Some(protocol) => serve(tools, protocol),
                None => misused(&tools, word),
            },
        },
        [_, second, ..] => misused(&tools, second),
    }
}

impl Protocol {
    fn flag(self) -> &'static str {
        match self {
            Protocol::Mcp => "--mcp",
            Protocol::Oracle => "--oracle",
            Protocol::Mediocre => "--mediocre",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Protocol::Mcp => "Be an MCP server, for editors and agents",
            Protocol::Oracle => "Be an oracle, for Cairo programs",
            Protocol::Mediocre => "Be a mediocre-rpc server",
        }
    }
}

fn serve(tools: Tools, protocol: Protocol) -> ExitCode {
    match tools.serve(protocol) {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Refused(why)) => {
            eprintln!("error: the caller would not have us: {why}");
            ExitCode::from(BROKE)
        }
        Ok(Ended::Broke(why)) => {
            eprintln!("error: the caller broke the protocol: {why}");
            ExitCode::from(BROKE)
        }
        // Whoever closed our output knows that it did.
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
    let flags = Protocol::ALL.map(Protocol::flag).join(" | ");
    // A string takes whatever it is given.
    let _ = write!(help, "Usage: {} {flags}\n\nServes on standard input and output:\n", tools.name);
    for protocol in Protocol::ALL {
        let _ = writeln!(help, "  {:<10}  {}", protocol.flag(), protocol.help());
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
