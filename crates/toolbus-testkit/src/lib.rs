//! The sparring partner: what the tests of every other crate are written with.
//!
//! [`transcript`] replays golden conversations. [`plain`] is a wire of our own that uses the
//! whole contract; [`pair`] lets two ends of any wire talk, [`faults`] spoils what they said.

pub mod faults;
pub mod pair;
pub mod plain;
pub mod transcript;
