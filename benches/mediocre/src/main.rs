//! What mediocre-rpc costs: blobs against a bare socket pair, small elements, calls against tonic.
//!
//! `benches/mediocre/run` builds all contenders and prints all tables; `run quick` is the same
//! with fewer rounds. The other ends of the sockets are this program too, started with a role.

mod bare;
mod blobs;
mod calls;
mod elements;
mod memory;
mod ours;
mod table;
mod tonic;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        None => measure(rounds()),
        Some("quick") => measure(5),
        Some("only") => only(&words.next().unwrap_or_default()),
        Some("role-drop") => {
            bare::drop_all(words.next().and_then(|word| word.parse().ok()).expect("a size"));
        }
        // For a profiler, which wants the same work each time.
        Some("streams") => {
            calls::streams(words.next().and_then(|word| word.parse().ok()).expect("a count"));
        }
        Some("role-serve") => ours::serve(&words.next().expect("a path for the socket")),
        Some(other) => {
            eprintln!(
                "error: there is no `{other}`; say nothing, `quick`, `only TABLE`, or `streams COUNT`"
            );
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
    blobs::through_sockets(rounds);
    blobs::from_an_adversary(rounds);
    blobs::decoded(rounds);
    elements::measure(rounds);
    calls::measure(rounds);
    memory::measure();
}

/// One table, for whoever works on what it shows.
fn only(name: &str) {
    pin();
    match name {
        "blobs" => blobs::through_sockets(5),
        "adversary" => blobs::from_an_adversary(5),
        "decoder" => blobs::decoded(5),
        "elements" => elements::measure(5),
        "calls" => calls::measure(5),
        "memory" => memory::measure(),
        _ => eprintln!("error: the tables are blobs, adversary, decoder, elements, calls, memory"),
    }
}

/// Both ends on one core: what is measured is the work of both, and not where the scheduler
/// happened to wake whom.
fn pin() {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).expect("there is a first core");
}

/// Bytes that look like chance, by SplitMix64.
fn random(len: usize) -> Vec<u8> {
    let mut state = 0u64;
    let next = std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    });
    next.flat_map(u64::to_le_bytes).take(len).collect()
}
