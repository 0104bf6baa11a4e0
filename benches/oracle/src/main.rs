//! What a call to an oracle costs, against two bare processes that exchange the same lines.
//!
//! `cargo run --release` prints all tables; `-- quick` is the same with fewer rounds. The
//! other ends of the pipes are this program too, started with a role.

mod bare;
mod large;
mod memory;
mod ours;
mod table;

use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};

use table::{Contender, Table};
use toolbus_proto::oracle::felt::Felt;

fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        None => measure(rounds()),
        Some("quick") => measure(5),
        Some("profile") => ours::Blocking::new(&one_felt()).calls_for_ever(),
        Some("role-peer") => bare::peer(),
        Some("role-lines") => bare::lines(),
        Some("role-serve") => ours::serve(),
        Some("role-mirror") => ours::mirror(),
        Some(other) => {
            eprintln!("error: there is no `{other}`; say nothing, or `quick`");
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
    let foreign = std::env::var("CAIRO_ORACLE").ok();
    for (title, felts) in [("a line of 64 B to 100 B", one_felt()), ("a line of 4 KiB", page())] {
        let mut table = Table::new(title);
        table.add("two bare processes", bare::Driver::new("role-peer", &felts));
        table.add("blocking client, bare oracle", ours::Blocking::new(&felts));
        table.add("blocking client with a deadline", ours::Blocking::with_deadline(&felts));
        table.add("bus on the reactor, bare oracle", ours::Reactor::new(&felts));
        table.add("bare executor, our serving loop", bare::Driver::new("role-serve", &felts));
        if let Some(program) = foreign.as_ref().filter(|_| felts.len() == 1) {
            let driver = bare::Driver::start(Command::new(program), &felts);
            table.add("bare executor, cairo-oracle-server", driver);
        }
        table.measure(rounds);
    }
    let mut table = Table::new("lines of 64 B echoed, no protocol");
    table.add("two bare processes", bare::Lines::new("role-lines"));
    table.add("bare caller, our serving pump", bare::Lines::new("role-mirror"));
    table.measure(rounds);
    large::measure(rounds);
    memory::measure();
}

/// Both ends on one core: what is measured is the work of both, and not where the scheduler
/// happened to wake whom.
fn pin() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).expect("there is a first core");
}

/// This program in another role, with pipes at both ends and its standard error thrown away.
fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("we have a path"));
    command.arg(name);
    command
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().expect("the other end starts");
    // As wide as ours, which are asked for the same.
    let ends = [child.stdin.as_ref().map(AsFd::as_fd), child.stdout.as_ref().map(AsFd::as_fd)];
    for end in ends.into_iter().flatten() {
        rustix::pipe::fcntl_setpipe_size(end, 1 << 20).expect("there is room for it");
    }
    child
}

fn connection(name: &str) -> String {
    let program = std::env::current_exe().expect("we have a path");
    format!("stdio:'{}' {name}", program.display())
}

fn one_felt() -> Vec<Felt> {
    vec![Felt::from(0x2a)]
}

/// As many large felts as fit 4 KiB, as an `Array<felt252>`: their number comes first.
fn page() -> Vec<Felt> {
    let large = Felt::from_bytes([7; 32]).expect("it is below the prime");
    let count = 60;
    let mut felts = vec![Felt::from(count)];
    felts.extend((0..count).map(|_| large));
    felts
}
