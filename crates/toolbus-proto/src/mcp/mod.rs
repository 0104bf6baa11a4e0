//! The MCP room: the Model Context Protocol, by which editors and agents use tools.
//!
//! Two eras are spoken on both sides. Between two ends of one era everything passes as it
//! is, as native calls of the contract; other wires are met through the hub, by `translate`.
//! Where the eras differ, the calling end translates: it knows what its server speaks, and it is
//! where the calls of all clients meet (`calling/crossing.rs`).

pub mod decode;
mod revision;
pub mod wire;

pub mod conversation;
mod serving;

pub mod calling;
pub mod several;

pub mod http;
pub mod native;
pub mod pin;
pub mod translate;
pub mod view;

#[cfg(test)]
mod tests;

use crate::tool::Wire;

pub use calling::{Client, Memory};
pub use conversation::Behind;
pub use serving::Server;
pub use wire::RULES;

/// The wire of this room.
pub const WIRE: Wire = Wire::new("mcp");
