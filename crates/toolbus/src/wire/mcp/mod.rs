//! The Model Context Protocol, over pipes and HTTP.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "http", not(feature = "unstable")))]
pub(crate) mod back_http;
#[cfg(all(feature = "http", feature = "unstable"))]
pub mod back_http;
#[cfg(feature = "bus")]
mod eras;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod front;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod front;
#[cfg(all(feature = "http", not(feature = "unstable")))]
pub(crate) mod front_http;
#[cfg(all(feature = "http", feature = "unstable"))]
pub mod front_http;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod listening;
#[cfg(feature = "oauth")]
mod offers;
#[cfg(feature = "http")]
mod opening;
#[cfg(feature = "http")]
mod own_states;
#[cfg(feature = "bus")]
mod pins;
#[cfg(feature = "bus")]
mod processes;
#[cfg(feature = "bus")]
mod sessions;
#[cfg(feature = "bus")]
pub mod settings;
#[cfg(feature = "bus")]
mod several;

#[cfg(feature = "bus")]
pub use kind::{MCP, McpKind, PATIENCE, is_pair};
pub use toolbus_proto::mcp::WIRE;
