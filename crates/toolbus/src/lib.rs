//! Any tool answers any caller, whatever wire each of them speaks.

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

pub mod back;
pub mod child;
pub mod transport;
