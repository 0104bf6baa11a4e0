//! What joins the pure machines of `toolbus-proto` to pipes, sockets, processes and timers.
//!
//! `toolbus` and its wires stand on this, and so do programs that bring a wire of their own. It
//! knows no wire and no bus: from the ground up there are [`transport`], [`child`] and the engine
//! itself, whose modules are at the root. Without the feature `runtime` it drives a machine on
//! standard streams alone, and needs no runtime.
//!
//! It changes with `toolbus`; what `toolbus` itself shows of it is what is promised.

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

mod engine;

pub use engine::*;

#[cfg(feature = "runtime")]
pub mod child;
pub mod transport;

#[cfg(feature = "runtime")]
pub mod account;
#[cfg(feature = "runtime")]
pub mod causes;
pub mod chance;
pub mod panics;
#[cfg(feature = "runtime")]
pub mod scope;
#[cfg(feature = "runtime")]
pub mod secrets;
#[cfg(feature = "runtime")]
pub mod task;
#[cfg(feature = "runtime")]
pub mod wake;

#[cfg(feature = "runtime")]
pub use toolbus_proto::{time, units};
