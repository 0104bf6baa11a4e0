//! The sparring partner: what the tests of every other crate are written with.
//!
//! [`transcript`] replays golden conversations.

pub mod transcript;
