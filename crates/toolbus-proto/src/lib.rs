//! The rules of seven tool protocols: bytes and instants in, frames and events out.
//!
//! Nothing in this crate reads, writes, waits or looks at a clock. What a wire says is here;
//! what carries it is in `toolbus`. Start with [`channel`], the contract every wire fulfils,
//! then [`tool`], the types that cross from one wire to another.

// Where a room is left out, so is the only use of some of what all share.
#![cfg_attr(not(all(feature = "mcp", feature = "mediocre", feature = "oracle")), allow(dead_code))]

pub mod caller;
pub mod capture;
pub mod chance;
pub mod channel;
pub mod collect;
pub mod counted;
pub mod did_you_mean;
pub mod edit;
pub mod frame;
pub mod http;
pub mod json;
pub mod jsonrpc;
pub mod judge;
pub mod limit;
pub mod listing;
pub mod notify;
pub mod outstanding;
pub mod page;
pub mod pattern;
pub mod pin;
pub mod printable;
pub mod registry;
pub mod run;
#[cfg(feature = "sealed")]
pub mod sealed;
pub mod search;
pub mod time;
pub mod tool;
pub mod trace;
pub mod units;
pub mod view;
pub mod x509;

#[cfg(feature = "godex")]
pub mod godex;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mediocre")]
pub mod mediocre;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "oauth")]
pub mod oauth;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "orchard")]
pub mod orchard;
#[cfg(feature = "orchestra")]
pub mod orchestra;
