//! The life of a child process.

mod patience;
pub mod supervisor;

pub use patience::Patience;
