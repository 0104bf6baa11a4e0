//! Tests whose `main` has to be ours, for what they start is this program again: as guard, as a
//! host of children that is killed, as a peer of a wire that no other program knows.
//!
//! They are run as cargo's own are: some at a time, those whose name contains one of the words,
//! with `--exact` those whose name is one, and `--list` shows them.

// Without a harness it does not count as a test, but a panic is the report here too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

// Looks into /proc.
#[cfg(target_os = "linux")]
mod guard;
#[cfg(all(feature = "mcp", feature = "mediocre", feature = "oracle"))]
mod seventh;

use std::collections::VecDeque;
use std::process::exit;
use std::sync::Mutex;
use std::time::Instant;
use std::{env, thread};

type Test = Box<dyn FnOnce() + Send>;

fn main() {
    #[cfg(target_os = "linux")]
    guard::be_guard_or_host();
    #[cfg(not(target_os = "linux"))]
    toolbus_engine::child::guard::run_if_asked();
    let args: Vec<String> = env::args().skip(1).collect();
    #[cfg(all(feature = "mcp", feature = "mediocre", feature = "oracle"))]
    if seventh::was_peer(&args) {
        return;
    }
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let words: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let is_meant = |word: &str, name: &str| match has("--exact") {
        true => name == word,
        false => name.contains(word),
    };
    let asked: VecDeque<(String, Test)> = all()
        .into_iter()
        .filter(|(name, _)| words.is_empty() || words.iter().any(|word| is_meant(word, name)))
        .collect();
    if has("--list") {
        asked.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let failed = run(asked);
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        exit(101);
    }
}

fn all() -> Vec<(String, Test)> {
    let mut all: Vec<(String, Test)> = Vec::new();
    // The longest first.
    #[cfg(all(feature = "mcp", feature = "mediocre", feature = "oracle"))]
    all.extend(seventh::tests());
    #[cfg(target_os = "linux")]
    all.extend(guard::tests());
    all
}

/// Runs them, as many at a time as there are cores: the names of those that failed.
fn run(tests: VecDeque<(String, Test)>) -> Vec<String> {
    let (left, failed) = (Mutex::new(tests), Mutex::new(Vec::new()));
    let next = || left.lock().expect("no test runs under this lock").pop_front();
    let work = || {
        while let Some((name, test)) = next() {
            let since = Instant::now();
            // On a thread of its name, by which a panic is told.
            let thread = thread::Builder::new().name(name.clone()).spawn(test);
            let outcome = thread.expect("a thread can be started").join();
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            println!("test {name} ... {word} ({:.1} s)", since.elapsed().as_secs_f32());
            if outcome.is_err() {
                failed.lock().expect("no test runs under this lock").push(name);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    failed.into_inner().expect("no test runs under this lock")
}
