//! Any tool answers any caller, whatever protocol each of them speaks.
//!
//! **Call tools.** A [`Bus`] has backs: programs and servers that speak MCP, mediocre-rpc or the
//! protocol of Cairo's oracles, and what your own program brings. A call is one line:
//!
//! ```
//! # #[cfg(feature = "bus")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use toolbus::{Bus, json};
//!
//! // On a thread of its own, usable from everywhere. `builtin:` could be `mcp+stdio:COMMAND`.
//! let bus = Bus::builder().address("builtin:")?.spawn()?;
//! let sum = bus.blocking().call("add", json!({"a": 1, "b": 2}))?;
//! assert_eq!(sum.read::<i64>()?, 3);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "bus"))]
//! # fn main() {}
//! ```
//!
//! [`BusBuilder`] says which backs there may be and where a bus can live, [`Back`] how to write
//! one, and `docs/embed.md` in the repository tells the whole story.
//!
//! **Write tools.** [`author`] makes a server of functions, in any of the protocols.
//!
//! | feature | | |
//! |---|---|---|
//! | `author` | default | tools as functions, served on standard streams without a runtime |
//! | `bus` | default | the bus, and async tools |
//! | `http`, `tls` | | those transports |
//! | one for each wire | default | that wire, on both sides |

// Where a wire is left out, so is the only use of some of the engine.
#![cfg_attr(
    not(all(feature = "mcp", feature = "mediocre", feature = "oracle", feature = "orchestra")),
    allow(dead_code, unused_imports)
)]

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

// What is hidden from the documentation is open to our own program, its tests and benchmarks,
// and is promised to no other: it changes without notice.
#[cfg(feature = "bus")]
pub mod address;
#[cfg(feature = "author")]
pub mod author;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(any(feature = "author", feature = "bus"))]
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod local;
#[cfg(feature = "bus")]
pub mod peer;
#[cfg(any(feature = "author", feature = "bus"))]
pub mod wire;

#[cfg(any(feature = "author", feature = "bus"))]
#[doc(hidden)]
pub mod chance;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod child;
#[cfg(any(feature = "author", feature = "bus"))]
pub mod secrets;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod task;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod time;
#[cfg(any(feature = "author", feature = "bus"))]
#[doc(hidden)]
pub mod transport;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod units;

#[cfg(feature = "bus")]
mod causes;
#[cfg(any(feature = "author", feature = "bus"))]
mod panics;
#[cfg(feature = "bus")]
#[doc(hidden)]
pub mod wake;

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

#[cfg(any(feature = "author", feature = "bus"))]
use toolbus_proto::did_you_mean;
