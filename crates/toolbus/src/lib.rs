//! Any tool answers any caller, whatever wire each of them speaks: the hands of toolbus.
//!
//! What may be said on a wire is decided in `toolbus-proto`; here it is read, written, started
//! and stopped. A call comes in by a [`front`], is routed by the [`bus`], hangs on a [`link`],
//! and is answered by a [`back`]; a [`pump`] moves the bytes of each.

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

#[cfg(feature = "bus")]
pub mod address;
#[cfg(feature = "author")]
pub mod author;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(any(feature = "author", feature = "bus"))]
pub mod engine;
#[cfg(feature = "bus")]
pub mod local;
#[cfg(feature = "bus")]
pub mod wire;

#[cfg(any(feature = "author", feature = "bus"))]
pub mod chance;
#[cfg(feature = "bus")]
pub mod child;
#[cfg(any(feature = "author", feature = "bus"))]
pub mod transport;
#[cfg(feature = "bus")]
pub mod units;

#[cfg(any(feature = "author", feature = "bus"))]
mod did_you_mean;
#[cfg(any(feature = "author", feature = "bus"))]
mod panics;

#[cfg(feature = "bus")]
pub use address::{Address, AddressError};
#[cfg(feature = "bus")]
pub use bus::back::{Back, LocalFuture};
#[cfg(feature = "bus")]
pub use bus::{
    BlockingBus, BuildError, Bus, BusBuilder, BusHandle, Event, LocalReplyStream, Reply,
    ReplyStream, Request, answer,
};
#[cfg(feature = "bus")]
pub use engine::calls::{Inbox, Pressure, ReplyTo, RunningCall};
pub use serde_json::json;
pub use toolbus_proto::channel::{Down, Up};
pub use toolbus_proto::json::{Json, JsonError};
pub use toolbus_proto::tool::{
    Call, CallOptions, CallerId, Code, Deadline, Exit, Failure, FailureKind, Hints, LastWords,
    Outcome, Part, Piece, ToolName, ToolSpec, Trace, What, Wire,
};
