//! Scenarios from outside: expressions, plans and runs. One program, for linking takes longer
//! than most of its tests.

// The lint knows tests, but not the functions they share.
#![allow(clippy::unwrap_used)]

mod evaluator;
mod plan;
mod run;
