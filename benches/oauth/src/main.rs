//! What tokens in front cost: `run` beside this file says how it is called.

mod calls;
mod tokens;

use std::env;
use std::time::Duration;

/// How long is measured.
pub(crate) struct Plan {
    pub(crate) toolbus: String,
    /// How often contenders take turns.
    pub(crate) rounds: usize,
    /// How much each does in its turn.
    pub(crate) count: usize,
}

fn main() {
    let mut words = env::args().skip(1);
    let toolbus = words.next().expect("usage: PROGRAM [quick] [TABLE…]");
    let mut tables: Vec<String> = words.collect();
    let is_quick = tables.first().is_some_and(|word| word == "quick");
    if is_quick {
        tables.remove(0);
    }
    if tables.is_empty() {
        tables = vec!["calls".to_owned(), "tokens".to_owned()];
    }
    let (rounds, count) = if is_quick { (3, 500) } else { (21, 5_000) };
    let plan = Plan { toolbus, rounds, count };
    for table in tables {
        match table.as_str() {
            "calls" => calls::measure(&plan),
            "tokens" => tokens::measure(&plan),
            other => panic!("there is no table {other}: calls, tokens"),
        }
    }
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
