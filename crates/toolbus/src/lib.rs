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

pub use address::{Address, AddressError};
pub use bus::back::{Back, LocalFuture};
pub use bus::{
    BlockingBus, BuildError, Bus, BusBuilder, BusHandle, Event, LocalReplyStream, Reply,
    ReplyStream, Request, answer,
};
pub use engine::calls::{Inbox, Pressure, ReplyTo, RunningCall};
pub use serde_json::json;
pub use toolbus_proto::channel::{Down, Up};
pub use toolbus_proto::json::{Json, JsonError};
pub use toolbus_proto::tool::{
    Call, CallOptions, CallerId, Code, Deadline, Exit, Failure, FailureKind, Hints, LastWords,
    Outcome, Part, Piece, ToolName, ToolSpec, Trace, What, Wire,
};
