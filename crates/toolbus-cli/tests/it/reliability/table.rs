//! `docs/reliability.md`: what is said in it, and its table.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::run::{Rate, Seen};
use super::{Case, Fault, Side, cases};

const ABOUT: &str = include_str!("about.md");
const HEADER: &str = "| who | fault | calls a second, before | during | ratio | p99, before | during | its own calls end as | most memory |\n|---|---|---|---|---|---|---|---|---|\n";

fn file() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs/reliability.md"].iter().collect()
}

/// Measures the cases in whose names that is, one after the other, and writes what was seen. The rows
/// of the others stay.
pub(super) fn write(what: &str, measure: impl Fn(&Case) -> Seen) {
    let before = fs::read_to_string(file()).expect("the documentation is there");
    let mut text = format!("{ABOUT}\n{HEADER}");
    let mut broken = Vec::new();
    for case in cases() {
        let name = format!("| {} |", case.name());
        let known = before.lines().find(|line| line.starts_with(&name));
        if let Some(row) = known.filter(|_| !name.contains(what)) {
            text.push_str(&format!("{row}\n"));
            continue;
        }
        let seen = measure(&case);
        let row = row(&case, &seen);
        print!("{row}");
        text.push_str(&row);
        broken.extend(seen.broken.iter().map(|what| format!("{}: {what}", case.name())));
    }
    fs::write(file(), text).expect("the documentation is there");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Looks whether the file tells of all cases.
pub(super) fn check() {
    let text = fs::read_to_string(file()).expect("the documentation is there");
    let again = format!("write it anew with {}=1 set", super::TABLE);
    assert!(text.starts_with(&format!("{ABOUT}\n{HEADER}")), "it says something else: {again}");
    for case in cases() {
        let name = format!("| {} |", case.name());
        assert!(text.contains(&name), "`{name}` is missing: {again}");
    }
}

fn row(case: &Case, seen: &Seen) -> String {
    let mut row = format!("| {} |", case.name());
    match &seen.good {
        Some((before, during)) => {
            let ratio = during.calls_a_second / before.calls_a_second;
            let [first, then] = [before, during].map(|rate| number(rate.calls_a_second));
            let [p99_first, p99_then] = [before, during].map(p99);
            let _ = write!(row, " {first} | {then} | {ratio:.2} | {p99_first} | {p99_then} |");
        }
        None if seen.broken.is_empty() => row.push_str(" no others | | | | |"),
        None => row.push_str(" not answered | | | | |"),
    }
    let ends: Vec<String> = seen.bad.keys().map(|kind| words(kind)).collect();
    let ends = match (case.side, case.fault) {
        _ if case.is_model() => ends.join(", "),
        (Side::Front, Fault::Floods) => "answered".to_owned(),
        (Side::Front, _) => "not read".to_owned(),
        (Side::Back, _) => ends.join(", "),
    };
    let _ = writeln!(row, " {ends} | {} MiB |", seen.memory_peak.div_ceil(1 << 20));
    row
}

fn number(value: f64) -> String {
    format!("{value:.0}")
}

fn p99(rate: &Rate) -> String {
    let Rate { p99, .. } = rate;
    match p99 {
        p99 if *p99 < Duration::from_millis(1) => format!("{} µs", p99.as_micros()),
        p99 => format!("{:.1} ms", p99.as_secs_f64() * 1000.0),
    }
}

/// `TimedOut` as people write it.
fn words(kind: &str) -> String {
    let mut words = String::new();
    for letter in kind.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
