//! The Model Context Protocol, over pipes and HTTP.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(feature = "bus")]
pub mod back;
#[cfg(feature = "http")]
pub mod back_http;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
mod eras;
#[cfg(feature = "bus")]
pub mod front;
#[cfg(feature = "http")]
pub mod front_http;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod listening;
#[cfg(feature = "http")]
mod opening;
#[cfg(feature = "bus")]
mod processes;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
mod sessions;
#[cfg(feature = "bus")]
pub mod settings;
#[cfg(feature = "bus")]
mod several;

#[cfg(feature = "bus")]
pub use kind::{MCP, McpKind, is_pair};
pub use toolbus_proto::mcp::WIRE;
