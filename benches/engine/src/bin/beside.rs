//! One good oracle beside one that floods, one that is stopped and one that trickles, all over
//! real pipes and on one thread of ours: how many calls a second has the good one, of those that
//! it has alone? On all cores, then on one.
//!
//! `beside [ROUNDS]`. Contenders take turns within a round; a ratio is the median of the rounds.

use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use toolbus::bus::back::Back;
use toolbus_engine::child::supervisor::Restart;
use toolbus_engine::child::{Patience, Program};
use toolbus_engine::calls::Inbox;
use toolbus::wire::oracle::back::{Options, Oracle};
use toolbus_bench_engine::{oracle, run};
use toolbus_proto::oracle::WIRE;
use toolbus_proto::oracle::{Functions, Settings};
use toolbus_proto::tool::{Call, Failure, Outcome, What};
use toolbus_testkit::peer::faulty_tool;

/// How long a turn is.
const TURN: Duration = Duration::from_millis(500);
/// How long a bad oracle has for a call; then the next one is tried.
const QUIET: Duration = Duration::from_secs(2);
/// Answers that nobody asked for.
const STRAY: &str = r#"{"jsonrpc":"2.0","id":4242,"result":["0x1"]}"#;

const BAD: [(&str, &[&str]); 3] = [
    ("a flooding one", &["ready", "read", "forever", "{", "flood", "1000", STRAY, "}"]),
    ("a stopped one", &["ready", "read", "stop"]),
    ("a trickling one", &["ready", "read", "forever", "{", "raw", " ", "pause", "1", "}"]),
];

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("oracle") => oracle(),
        Some("pinned") => rounds(args.next().and_then(|count| count.parse().ok()).unwrap_or(9)),
        count => {
            let count = count.and_then(|count| count.parse().ok()).unwrap_or(9);
            println!("on all cores:");
            rounds(count);
            println!("on one core:");
            let this = std::env::current_exe().expect("has a path");
            let mut again = Command::new("taskset");
            again.args(["-c", "0"]).arg(this).args(["pinned", &count.to_string()]);
            assert!(again.status().expect("`taskset` can be run").success());
        }
    }
}

/// What the good one has beside each of the bad ones, and beside all of them.
fn rounds(count: usize) {
    run(async move {
        let this = std::env::current_exe().expect("has a path").display().to_string();
        let good = open("good", vec![this, "oracle".to_owned()]);
        invoke(&good, Duration::from_secs(60)).await.expect("it answers");
        let together = ("all three", &[][..]);
        let contenders: Vec<_> = BAD.into_iter().chain([together]).collect();
        let mut seen = vec![Vec::new(); contenders.len()];
        for _ in 0..count {
            for (at, (name, _)) in contenders.iter().enumerate() {
                let alone = calls_a_second(&good).await;
                let bad = BAD.into_iter().filter(|(bad, _)| bad == name || *name == together.0);
                let mut callers = JoinSet::new();
                for (name, steps) in bad {
                    callers.spawn_local(call_for_ever(name, steps));
                }
                // Until all of them have been called, and are as bad as they get.
                tokio::time::sleep(TURN / 2).await;
                let beside = calls_a_second(&good).await;
                callers.shutdown().await;
                seen[at].push((beside / alone, beside, alone));
            }
        }
        for ((name, _), mut rounds) in contenders.into_iter().zip(seen) {
            rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
            let (ratio, beside, alone) = rounds[rounds.len() / 2];
            let (least, most) = (rounds[0].0, rounds[rounds.len() - 1].0);
            println!(
                "  beside {name:<16} {ratio:.2} ({least:.2} to {most:.2}), {beside:.0} of {alone:.0} calls a second"
            );
        }
        good.shutdown().await;
    });
}

/// Dropped with its process when the turn is over.
async fn call_for_ever(name: &'static str, steps: &'static [&'static str]) {
    let tool = faulty_tool().display().to_string();
    let words = [tool].into_iter().chain(steps.iter().map(|step| (*step).to_owned()));
    let bad = open(name, words.collect());
    loop {
        if invoke(&bad, QUIET).await.is_ok() {
            println!("{name} answers");
        }
    }
}

async fn calls_a_second(good: &Oracle) -> f64 {
    let begun = Instant::now();
    let mut calls = 0.0;
    while begun.elapsed() < TURN {
        invoke(good, Duration::from_secs(60)).await.expect("it answers");
        calls += 1.0;
    }
    calls / begun.elapsed().as_secs_f64()
}

fn open(name: &str, words: Vec<String>) -> Oracle {
    let quick = Duration::from_millis(10);
    Oracle::new(Options {
        name: name.to_owned(),
        program: Program::new(words),
        patience: Patience { stop: quick, signal: quick, ..toolbus::wire::oracle::PATIENCE },
        restart: Restart::OnDemand,
        settings: Settings::default(),
        functions: Functions::default(),
    })
}

async fn invoke(oracle: &Oracle, quiet: Duration) -> Result<Outcome, Failure> {
    let method = Bytes::from_static(b"f");
    let body = Bytes::from_static(b"[\"0x1\"]");
    let (inbox, slot) = Inbox::new();
    let mut call = Call::of(Instant::now(), What::Native { wire: WIRE, method, body });
    call.deadline.quiet = Some(quiet);
    inbox.whole(oracle.start(call, slot)).await
}
