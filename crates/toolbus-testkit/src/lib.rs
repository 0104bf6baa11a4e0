//! The sparring partner: what the tests of every other crate are written with.
//!
//! Machines: [`transcript`] replays golden conversations; [`plain`] is a wire of our own that
//! uses the whole contract, [`many`] the same over many streams; [`pair`] lets two ends of any
//! wire talk, [`in_memory`] gives one end many streams; [`orchestra`] is how its conversations are
//! written; [`faults`] spoils what they said;
//! [`fuzz`] throws bytes at them. Processes: [`page`] runs a program and shows all it did;
//! [`peer`] is a program that plays good and bad peers, [`responses`] a server of models;
//! [`certificates`] are for those who speak TLS, [`tokens`] for those who show
//! them, [`lossy`] is a bad network; [`terminal`],
//! [`process`], [`port`], [`scratch`], [`patience`] and [`side_by_side`] help with both;
//! [`browser`] drives a browser. [`form`]
//! says how long a form of a test is wanted and what randomness begins with, [`skipped`] that a
//! test cannot look. Async code, with the feature `runtime`: `runtime` is where it runs.

pub mod broker;
pub mod browser;
pub mod certificates;
pub mod faults;
pub mod form;
pub mod fuzz;
pub mod in_memory;
pub mod lossy;
pub mod many;
pub mod orchestra;
pub mod page;
pub mod pair;
pub mod patience;
pub mod peer;
pub mod plain;
pub mod port;
pub mod process;
pub mod responses;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod scratch;
pub mod side_by_side;
pub mod skipped;
pub mod terminal;
pub mod tokens;
pub mod transcript;
