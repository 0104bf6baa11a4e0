//! What a fuzzer throws bytes at: functions that panic if a machine breaks its word.
//!
//! The targets in `fuzz/` call them, and so do plain tests, over the seeds in `fuzz/seeds` and
//! over bytes by chance. They stay fast and have no state.

pub mod mediocre;
pub mod oracle;
