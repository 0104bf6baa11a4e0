//! What a process between an MCP client and its server costs: `toolbus mcp` against `cat`.
//!
//! `between [quick] --program TOOLBUS…` prints all tables. `between calls COUNT SIZE IN_FLIGHT
//! --program TOOLBUS` only makes so many calls, for those who count instructions or system calls
//! of the program. The server is this program too, started with a role.

mod client;
mod cpu;
mod lines;
mod server;
mod table;

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use client::Client;
use table::Table;

/// The word that starts this program as the server.
const SERVER: &str = "role-server";

/// How long a text is sent, and how the table calls that.
const SIZES: [(usize, &str); 3] = [(64, "64 B"), (4096, "4 KiB"), (256 * 1024, "256 KiB")];

fn main() -> ExitCode {
    let mut words: Vec<String> = Vec::new();
    let mut programs: Vec<PathBuf> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--program" => programs.extend(args.next().map(PathBuf::from)),
            _ => words.push(word),
        }
    }
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [SERVER] => server::serve(),
        [] => measure(&programs, rounds()),
        ["quick"] => measure(&programs, 5),
        ["calls", count, size, in_flight] => {
            let number = |word: &str| word.parse::<usize>().expect("a number");
            let mut client = match programs.first() {
                Some(program) => through_toolbus(program),
                None => through_cat(),
            };
            client.calls(number(count) as u64, number(size), number(in_flight));
        }
        _ => {
            eprintln!("usage: between [quick | calls COUNT SIZE IN_FLIGHT] [--program TOOLBUS]…");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// How often the contenders take turns, by the variable `ROUNDS`.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(9)
}

fn measure(programs: &[PathBuf], rounds: usize) {
    pin();
    let mut table = Table::new(rounds);
    table.add("`cat`, server, `cat`".to_owned(), through_cat());
    for program in programs {
        // One needs no further name; where there are several it is their folders that differ.
        let name = match programs.len() {
            1 => "`toolbus mcp`".to_owned(),
            _ => format!("`{} mcp`", program.display()),
        };
        table.add(name, through_toolbus(program));
    }
    for in_flight in [1, 16] {
        for (size, shown) in SIZES {
            table.measure(size, shown, in_flight);
        }
    }
}

/// All of them on one core: what is measured is the work of all, and not where the scheduler
/// happened to wake whom.
fn pin() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).expect("there is a first core");
}

fn through_cat() -> Client {
    let mut into = piped(&mut Command::new("cat"));
    let mut server = Command::new(std::env::current_exe().expect("we have a path"));
    let mut server = start(server.arg(SERVER).stdin(into.stdout.take().expect("piped")));
    let mut out = Command::new("cat");
    let out = start(out.stdin(server.stdout.take().expect("piped")));
    Client::open(into.stdin.take().expect("piped"), vec![out, server, into])
}

fn through_toolbus(program: &PathBuf) -> Client {
    let server = std::env::current_exe().expect("we have a path");
    let mut toolbus = Command::new(program);
    toolbus.arg("mcp").arg(format!("mcp+stdio:'{}' {SERVER}", server.display()));
    let mut toolbus = piped(&mut toolbus);
    Client::open(toolbus.stdin.take().expect("piped"), vec![toolbus])
}

fn piped(command: &mut Command) -> Child {
    start(command.stdin(Stdio::piped()))
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
}
