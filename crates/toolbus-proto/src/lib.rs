//! The rules of six tool protocols: bytes and instants in, frames and events out.
//!
//! Nothing in this crate reads, writes, waits or looks at a clock. What a wire says is here;
//! what carries it is in `toolbus`. Start with [`channel`], the contract every wire fulfils,
//! then [`tool`], the types that cross from one wire to another.

// Where a room is left out, so is the only use of some of what all share.
#![cfg_attr(not(all(feature = "mcp", feature = "mediocre", feature = "oracle")), allow(dead_code))]

pub mod capture;
pub mod chance;
pub mod channel;
pub mod collect;
pub mod counted;
pub mod did_you_mean;
pub mod frame;
pub mod http;
pub mod json;
pub mod jsonrpc;
pub mod judge;
pub mod listing;
pub mod outstanding;
pub mod pattern;
pub mod printable;
pub mod tool;
pub mod trace;

#[cfg(feature = "godex")]
pub mod godex;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mediocre")]
pub mod mediocre;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "orchard")]
pub mod orchard;
#[cfg(feature = "orchestra")]
pub mod orchestra;
