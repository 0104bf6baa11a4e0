//! Any tool answers any caller, whatever wire each of them speaks: the hands of toolbus.
//!
//! What may be said on a wire is decided in `toolbus-proto`; here it is read, written, started
//! and stopped. A call comes in by a [`front`], is routed by the [`bus`], hangs on a [`link`],
//! and is answered by a [`back`]; a [`pump`] moves the bytes of each.

// Where a wire is left out, so is the only use of some of the engine.
#![cfg_attr(
    not(all(feature = "mcp", feature = "mediocre", feature = "oracle")),
    allow(dead_code, unused_imports)
)]

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

pub mod address;
#[cfg(feature = "author")]
pub mod author;
pub mod bus;
pub mod engine;
pub mod local;
pub mod wire;

pub mod chance;
pub mod child;
pub mod transport;
pub mod units;

mod did_you_mean;
mod panics;
