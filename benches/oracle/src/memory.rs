//! A million calls leave no more behind than a thousand.

use crate::ours::Blocking;
use crate::{Contender, one_felt};

pub(crate) fn measure() {
    let mut client = Blocking::new(&one_felt());
    client.calls(1000);
    let before = resident_kib();
    client.calls(1_000_000);
    let after = resident_kib();
    println!("\nresident memory of the blocking client\n\n| | KiB |\n|---|---|");
    println!("| after 1 000 calls | {before} |\n| after 1 001 000 calls | {after} |");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}
