//! Any tool answers any caller, whatever wire each of them speaks: the hands of toolbus.
//!
//! What may be said on a wire is decided in `toolbus-proto`; here it is read, written, started
//! and stopped. A call comes in by a [`front`], is routed by the [`bus`], hangs on a [`link`],
//! and is answered by a [`back`]; a [`pump`] moves the bytes of each.

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

pub mod address;
#[cfg(feature = "author")]
pub mod author;
pub mod back;
pub mod blocking;
pub mod bus;
pub mod chance;
pub mod check;
pub mod front;
pub mod link;

pub mod child;
pub mod pump;
pub mod transport;

pub mod units;

mod caught;
mod nearest;
