//! What an `execute` costs, against two bare processes that exchange the same lines.
//!
//! `cargo run --release` prints all tables; `-- quick` is the same with fewer rounds, `-- plan`
//! and `-- run` only what planning and running scenarios cost. The other ends of the pipes are this program too, started with a
//! role.

mod bare;
mod hands;
mod machines;
mod plan;
mod run;
mod table;

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};

use table::{Contender, Table};

fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        None => {
            measure(rounds());
            plan::measure(5);
            run::measure(5);
        }
        Some("quick") => {
            measure(5);
            plan::measure(2);
            run::measure(2);
        }
        Some("plan") => plan::measure(5),
        Some("run") => run::measure(5),
        Some("role-peer") => bare::peer(),
        Some("role-provider") => machines::provider(),
        Some("role-authored") => hands::authored(),
        Some(other) => {
            eprintln!("error: there is no `{other}`; say nothing, `quick`, `plan` or `run`");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// How often the contenders take turns, by the variable `ROUNDS`.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(9)
}

fn measure(rounds: usize) {
    pin();
    for (size, text_bytes) in [("64 B of text", 64), ("4 KiB of text", 4096)] {
        for in_flight in [1, 16] {
            let mut table = Table::new(format!("{size}, {in_flight} in flight"));
            table.add("two bare processes", bare::Driver::new("role-peer", text_bytes, in_flight));
            let host = machines::Host::new("role-peer", text_bytes, in_flight);
            table.add("our host's rules, bare provider", host);
            let driver = bare::Driver::new("role-provider", text_bytes, in_flight);
            table.add("bare host, our provider's rules", driver);
            let reactor = hands::Reactor::new("role-peer", text_bytes, in_flight);
            table.add("the bus's back, bare provider", reactor);
            let driver = bare::Driver::new("role-authored", text_bytes, in_flight);
            table.add("bare host, a function as a provider", driver);
            table.measure(rounds);
        }
    }
}

/// Both ends on one core: what is measured is the work of both, and not where the scheduler
/// happened to wake whom.
fn pin() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).expect("there is a first core");
}

/// This program in another role, with pipes at both ends and its standard error thrown away.
fn start(role: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("we have a path"));
    command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().expect("the other end starts");
    // As wide as those of toolbus, which are asked for the same.
    let ends = [child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd)];
    for end in ends.into_iter().flatten() {
        rustix::pipe::fcntl_setpipe_size(end, 1 << 20).expect("there is room for it");
    }
    child
}
