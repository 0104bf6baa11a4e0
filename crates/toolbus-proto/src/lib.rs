//! The rules of six tool protocols: bytes and instants in, frames and events out.
//!
//! Nothing in this crate reads, writes, waits or looks at a clock. What a wire says is here;
//! what carries it is in `toolbus`. Start with [`channel`], the contract every wire fulfils,
//! then [`tool`], the types that cross from one wire to another.

pub mod capture;
pub mod chance;
pub mod channel;
pub mod collect;
pub mod frame;
pub mod json;
pub mod jsonrpc;
pub mod listing;
pub mod mcp;
pub mod mediocre;
pub mod oracle;
pub mod outstanding;
pub mod printable;
pub mod tool;
pub mod trace;
