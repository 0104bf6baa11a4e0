//! What views, callers and limits cost: `run` beside this file says how it is called.
//!
//! The program is measured from outside, as its clients see it: a client of MCP before it, a small
//! server of MCP behind it, which is this program as well. Variants take turns within one run.

mod client;
mod measure;
mod server;

use std::env;
use std::path::PathBuf;

/// What is measured, and how long.
pub(crate) struct Plan {
    pub(crate) toolbus: PathBuf,
    /// A program of before there were views.
    pub(crate) before: Option<PathBuf>,
    pub(crate) rounds: usize,
    pub(crate) calls: usize,
    /// How many callers, each with a view of its own.
    pub(crate) callers: usize,
    /// How many tools there are, behind ten backs.
    pub(crate) tools: usize,
    /// Between how many calls instructions are counted.
    pub(crate) counted: usize,
}

fn main() {
    let mut words: Vec<String> = env::args().skip(1).collect();
    if let [first, count] = words.as_slice()
        && first == "server"
    {
        return server::serve(count.parse().expect("a number of tools"));
    }
    assert!(2 <= words.len(), "usage: PROGRAM BEFORE|- [quick] [TABLE…]");
    let tables = words.split_off(2);
    let is_quick = tables.first().is_some_and(|word| word == "quick");
    let before = Some(PathBuf::from(&words[1])).filter(|_| words[1] != "-");
    let toolbus = PathBuf::from(&words[0]);
    let plan = match is_quick {
        true => Plan { toolbus, before, rounds: 3, calls: 2_000, callers: 20, tools: 2_000, counted: 500 },
        false => Plan {
            toolbus,
            before,
            rounds: 21,
            calls: 10_000,
            callers: 100,
            tools: 10_000,
            counted: 4_000,
        },
    };
    let mut tables: Vec<&str> = tables.iter().skip(usize::from(is_quick)).map(String::as_str).collect();
    if tables.is_empty() {
        tables = vec!["calls", "http", "instructions", "lists"];
    }
    for table in tables {
        match table {
            "calls" => measure::calls(&plan),
            "http" => measure::http(&plan),
            "instructions" => measure::instructions(&plan),
            "lists" => measure::lists(&plan),
            other => panic!("there is no table {other}: calls, http, instructions, lists"),
        }
    }
}
