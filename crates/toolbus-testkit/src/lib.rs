//! The sparring partner: what the tests of every other crate are written with.
//!
//! Machines: [`transcript`] replays golden conversations; [`plain`] is a wire of our own that
//! uses the whole contract; [`pair`] lets two ends of any wire talk, [`faults`] spoils what
//! they said. Processes: [`page`] runs a program and shows all it did; [`process`] and
//! [`patience`] help with it.

pub mod faults;
pub mod page;
pub mod pair;
pub mod patience;
pub mod plain;
pub mod process;
pub mod transcript;
