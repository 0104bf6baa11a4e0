//! Any tool answers any caller, whatever protocol each of them speaks.
//!
//! **Call tools.** A [`Bus`] has backs: programs and servers that speak MCP, mediocre-rpc, the
//! protocol of Cairo's oracles, Orchard's of providers, Orchestra's of plugins or that of godex,
//! and what your own program brings. A call is one line:
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
//! | `godex` | default | the wire of that name: asks a model, by a program that holds the key |
//! | `mcp` | default | the Model Context Protocol; over HTTP with the feature `http` |
//! | `mediocre` | default | mediocre-rpc; over HTTP and TLS with `http` and `tls` |
//! | `oracle` | default | Cairo's oracles |
//! | `orchard` | default | Orchard's providers |
//! | `orchestra` | | Orchestra's hubs and plugins; brings `quic` and `tls` |
//! | `http`, `quic`, `tls` | | those transports, where a wire may use them |
//! | `oauth` | | signing in to servers, and judging tokens; brings `http` and `tls` |
//! | `page` | | the live page of a bus; brings `http` |
//! | `otel` | | spans of calls, sent to a collector; brings `http` |
//! | `unstable` | | what the `toolbus` program itself uses besides; no promise, it changes with any version |

// Where a wire is left out, so is the only use of some of the engine; and much of what is open to
// our own programs is used by nothing else.
#![cfg_attr(
    not(all(
        feature = "mcp",
        feature = "mediocre",
        feature = "oracle",
        feature = "orchestra",
        feature = "unstable"
    )),
    allow(dead_code, unused_imports)
)]
#![cfg_attr(not(feature = "unstable"), allow(unreachable_pub))]

#[cfg(not(unix))]
compile_error!("toolbus is not supported on this system yet; it runs on Linux and macOS");

#[cfg(feature = "bus")]
pub mod address;
#[cfg(feature = "author")]
pub mod author;
#[cfg(feature = "bus")]
pub mod bus;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod local;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod local;
#[cfg(all(feature = "oauth", not(feature = "unstable")))]
pub(crate) mod oauth;
#[cfg(all(feature = "oauth", feature = "unstable"))]
pub mod oauth;
#[cfg(feature = "bus")]
pub mod peer;
#[cfg(any(feature = "author", feature = "bus"))]
pub mod wire;

#[cfg(any(feature = "author", feature = "bus"))]
use toolbus_engine as engine;
#[cfg(feature = "bus")]
use toolbus_engine::{causes, child, scope, secrets, task, time, units, wake};
#[cfg(any(feature = "author", feature = "bus"))]
use toolbus_engine::{chance, panics, transport};

/// Processes that outlive nothing: a guard ends what a bus has started when the program is gone.
#[cfg(feature = "bus")]
pub mod guard {
    pub use toolbus_engine::child::guard::run_if_asked;
}

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
