//! All pairs at once, for a while, with processes killed and configs read again at random: every
//! call ends once and with its own answer, in the journal too, no process is left, nothing grows.
//!
//! One `toolbus serve` has all its fronts before six backs, one of each wire; the fronts that are
//! programs of their own have the same config. It takes a few seconds in `cargo test`, a minute in
//! the long form of `.ci/run`; longer by
//!
//! ```text
//! cargo xtask soak 600
//! ```

mod callers;
mod chaos;
mod journal;
mod stage;

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, LocalSet};
use toolbus_testkit::form;
use toolbus_testkit::process::Vitals;

use self::callers::{Callers, Counts};
use self::stage::Stage;

/// How many seconds it takes; else as below.
const SECONDS: &str = "TOOLBUS_SOAK";
const SHORT: u64 = 5;
const LONG: u64 = 60;
/// How many callers there are at a time.
const CALLERS: u64 = 6;
/// What a process may have more of at the end than when it was warm.
const MEMORY_GROWTH_MAX: usize = 24 << 20;
const FILES_GROWTH_MAX: usize = 24;

/// Set where this is the process that calls.
const ALONE: &str = "TOOLBUS_SOAK_ALONE";

/// In a process of its own: it looks at what the callers hold, and other tests hold something, too.
#[test]
fn every_call_ends_once_and_nothing_is_left() {
    if env::var_os(ALONE).is_some() {
        return alone();
    }
    let name = concat!(module_path!(), "::every_call_ends_once_and_nothing_is_left");
    let (_, name) = name.split_once("::").expect("a module is in a crate");
    let mut again = Command::new(env::current_exe().expect("a program knows its path"));
    again.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let ran = again.output().expect("it can be run again");
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    assert!(ran.status.success(), "{}", ran.status);
    assert!(said.contains("journal: "), "it did not run");
}

fn alone() {
    let seconds = env::var(SECONDS).map(|text| text.parse().expect("TOOLBUS_SOAK: seconds"));
    let seconds = seconds.unwrap_or_else(|_| form::short_or_long(SHORT, LONG));
    let (length, seed) = (Duration::from_secs(seconds), form::seed());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = Stage::set();
    let (report, counts) = LocalSet::new().block_on(&runtime, soak(&stage, length, seed));
    println!("{report}");
    let journal = stage.end();
    journal.check(&counts);
    println!("journal: {} lines", journal.len());
}

async fn soak(stage: &Stage, length: Duration, seed: u64) -> (String, Counts) {
    let callers = Callers::of(stage);
    let begun = Instant::now();
    // Everything was used once and is warm after a fifth of the time.
    let (warm, after) = (length / 5, length - length / 5);
    let mut counts = round(stage, &callers, warm, seed).await;
    let before = vitals(stage);
    counts.add(&round(stage, &callers, after, seed.wrapping_add(1)).await);
    let at_end = vitals(stage);
    callers.part().await;
    for ((who, before), (_, after)) in before.iter().zip(&at_end) {
        let grown = (
            after.memory.saturating_sub(before.memory),
            after.open_files.saturating_sub(before.open_files),
        );
        let most = (MEMORY_GROWTH_MAX, FILES_GROWTH_MAX);
        assert!(grown.0 <= most.0 && grown.1 <= most.1, "{who}: {before:?} became {after:?}");
    }
    let (reloads, kills) = stage.disturbed();
    let told = |(who, vitals): &(&str, Vitals)| {
        format!("{who} {} KiB, {} files", vitals.memory >> 10, vitals.open_files)
    };
    let told = |all: &[(&str, Vitals)]| all.iter().map(told).collect::<Vec<_>>().join("; ");
    let report = format!(
        "{:.0?}: {counts}; {kills} kills, {reloads} reloads\nwarm: {}\nend: {}",
        begun.elapsed(),
        told(&before),
        told(&at_end)
    );
    (report, counts)
}

/// Calls, kills and reloads for so long, until the last call has ended.
async fn round(stage: &Stage, callers: &Callers, length: Duration, seed: u64) -> Counts {
    let until = Instant::now() + length;
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        calling.spawn_local(callers.clone().call_until(until, seed.wrapping_add(caller << 32)));
    }
    let counting = async {
        let mut counts = Counts::default();
        calling.join_all().await.iter().for_each(|counted| counts.add(counted));
        counts
    };
    let (counts, ()) = tokio::join!(counting, chaos::reign(stage, until, !seed));
    counts
}

/// What the bus and its callers, which are we, hold when no call is under way.
fn vitals(stage: &Stage) -> Vec<(&'static str, Vitals)> {
    vec![("serve", Vitals::of(stage.bus())), ("callers", Vitals::of(std::process::id()))]
}

/// Numbers by a seed: the same again, if that is wanted.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Chance {
        // Zero would stay zero.
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Less than this.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
