//! No peer can stop the bus: each kind of bad peer, as a caller and as a tool, over every wire
//! and what carries it, beside a good caller and a good tool.
//!
//! Here only outcomes are judged, never timings: the good calls are all answered, the bad ones
//! end with an error, memory stays under its bound, and a signal ends it all. With the variable
//! [`TABLE`] set the same is measured and written to `docs/reliability.md`:
//!
//! ```text
//! TOOLBUS_RELIABILITY=1 cargo test --profile dist -p toolbus-cli --test it -- --exact reliability::the_table
//! ```
//!
//! Anything else than `1` stands for the rows in whose names it is: `godex` for those of a wire.

mod alone;
mod bad_callers;
mod bad_models;
mod bad_tools;
mod run;
mod stage;
mod table;

use std::time::Duration;

use toolbus_testkit::form;

use self::run::Length;

/// Whether to measure, and write the table.
const TABLE: &str = "TOOLBUS_RELIABILITY";

/// The most memory that the toolbus process may have had: what may be in flight, which is 256 MiB,
/// and what it needs besides.
const MEMORY_MAX: usize = 320 << 20;

/// What is wrong with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Floods,
    FloodsStderr,
    DoesNotRead,
    Trickles,
}

/// On which side of the bus it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Front,
    Back,
}

/// What carries the bytes of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carriage {
    Stdio,
    Tcp,
    Http,
}

/// One bad peer.
#[derive(Debug, Clone, Copy)]
struct Case {
    fault: Fault,
    side: Side,
    wire: &'static str,
    carriage: Carriage,
}

/// Which wires are spoken over what.
const CARRIED: [(&str, Carriage); 6] = [
    ("oracle", Carriage::Stdio),
    ("mcp", Carriage::Stdio),
    ("mcp", Carriage::Http),
    ("mediocre", Carriage::Stdio),
    ("mediocre", Carriage::Tcp),
    ("mediocre", Carriage::Http),
];

/// Those of godex: the server of the model in front of its tool loop, and a program that is asked.
const GODEX: [(Side, &str, Carriage); 2] =
    [(Side::Front, "godex", Carriage::Http), (Side::Back, "godex", Carriage::Stdio)];

fn cases() -> impl Iterator<Item = Case> {
    let faults = [Fault::Floods, Fault::FloodsStderr, Fault::DoesNotRead, Fault::Trickles];
    let sides = [Side::Front, Side::Back];
    let peers = sides
        .into_iter()
        .flat_map(|side| CARRIED.into_iter().map(move |(wire, carriage)| (side, wire, carriage)));
    let all = peers.chain(GODEX).flat_map(move |(side, wire, carriage)| {
        faults.into_iter().map(move |fault| Case { fault, side, wire, carriage })
    });
    // Only a process that we started has a standard error which we read.
    all.filter(|case| {
        case.fault != Fault::FloodsStderr
            || (case.side == Side::Back && case.carriage == Carriage::Stdio)
    })
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Floods => "floods",
            Fault::FloodsStderr => "floods standard error",
            Fault::DoesNotRead => "does not read",
            Fault::Trickles => "trickles",
        }
    }
}

impl Carriage {
    fn name(self) -> &'static str {
        match self {
            Carriage::Stdio => "stdio",
            Carriage::Tcp => "tcp",
            Carriage::Http => "http",
        }
    }
}

impl Case {
    /// It does not call: it is asked, and says what to call.
    fn is_model(&self) -> bool {
        self.wire == "godex" && self.side == Side::Front
    }

    /// Who it is, as in the table.
    fn name(&self) -> String {
        let who = match self.side {
            Side::Front if self.is_model() => "model",
            Side::Front => "caller",
            Side::Back => "tool",
        };
        let (wire, carriage, fault) = (self.wire, self.carriage.name(), self.fault.name());
        format!("{wire} {who} over {carriage} | {fault}")
    }
}

/// All faults of one peer; so that tests run beside each other and tell by name who is to blame.
#[track_caller]
fn check(side: Side, wire: &str, carriage: Carriage) {
    let mut broken = Vec::new();
    for case in cases() {
        if case.side == side && case.wire == wire && case.carriage == carriage {
            let seen = run::run(&case, Length::Calls(form::short_or_long(8, 20)));
            broken.extend(seen.broken.iter().map(|what| format!("{}: {what}", case.name())));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn an_oracle_caller_on_pipes() {
    check(Side::Front, "oracle", Carriage::Stdio);
}

#[test]
fn an_mcp_caller_on_pipes() {
    check(Side::Front, "mcp", Carriage::Stdio);
}

#[test]
fn an_mcp_caller_over_http() {
    check(Side::Front, "mcp", Carriage::Http);
}

#[test]
fn a_mediocre_caller_on_pipes() {
    check(Side::Front, "mediocre", Carriage::Stdio);
}

#[test]
fn a_mediocre_caller_over_tcp() {
    check(Side::Front, "mediocre", Carriage::Tcp);
}

#[test]
fn a_mediocre_caller_over_http() {
    check(Side::Front, "mediocre", Carriage::Http);
}

#[test]
fn an_oracle() {
    check(Side::Back, "oracle", Carriage::Stdio);
}

#[test]
fn an_mcp_server_on_pipes() {
    check(Side::Back, "mcp", Carriage::Stdio);
}

#[test]
fn an_mcp_server_over_http() {
    check(Side::Back, "mcp", Carriage::Http);
}

#[test]
fn a_mediocre_server_on_pipes() {
    check(Side::Back, "mediocre", Carriage::Stdio);
}

#[test]
fn a_mediocre_server_over_tcp() {
    check(Side::Back, "mediocre", Carriage::Tcp);
}

#[test]
fn a_mediocre_server_over_http() {
    check(Side::Back, "mediocre", Carriage::Http);
}

#[test]
fn a_model_before_its_tool_loop() {
    check(Side::Front, "godex", Carriage::Http);
}

#[test]
fn a_program_that_asks_a_model() {
    check(Side::Back, "godex", Carriage::Stdio);
}

/// Has a row for each case; measured anew only where that is asked for.
#[test]
fn the_table() {
    match std::env::var_os(TABLE) {
        Some(rows) => {
            let measure = |case: &Case| run::run(case, Length::Time(Duration::from_secs(3)));
            table::write(rows.to_str().filter(|rows| *rows != "1").unwrap_or_default(), measure);
        }
        None => table::check(),
    }
}
