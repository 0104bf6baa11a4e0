//! Orchestra: a hub, its plugins, and MCP on standard streams in front of a hub.
//!
//! [`certificates`] is by what they know each other, `links.rs` how one calls another over as
//! many connections as that takes, [`hub`] what `toolbus orchestrator` does and [`stdio`] what
//! `toolbus transport-stdio` does.

pub mod certificates;
mod host_port;
pub mod hub;
mod links;
pub mod stdio;

use std::time::SystemTime;

use toolbus_proto::orchestra::{Ids, Timestamp};

use crate::chance;

pub use host_port::{HostPort, NoHostPort};

/// What both sides of a connection say they speak.
pub const ALPN: &[u8] = b"orchestra-plugin";

/// A UUID of version 4.
pub(crate) fn uuid() -> String {
    let mut bytes: [u8; 16] = chance::bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

/// UUIDs, one after the other.
pub(crate) fn uuids() -> Ids {
    Ids::new(uuid)
}

/// What the calendar shows.
pub(crate) fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 }
}
