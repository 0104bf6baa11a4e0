//! The pure part of streamable HTTP (`docs/protocols/mcp.md` 1.5, 1.6, 2.8, 2.9), and of the pair
//! that was before it, HTTP+SSE (2.14).
//!
//! Requests come in as heads and bodies, answers go out as statuses, headers and events.
//! Who reads and writes them is elsewhere. [`Entrance`] judges heads, [`Endpoint`] is the
//! serving end with its sessions and streams, [`Mirror`] compares headers with bodies,
//! [`HttpClient`] is the calling end.

mod client;
mod endpoint;
mod entrance;
mod headers;
mod inputs;

pub use client::{ClientSettings, HttpClient};
pub use endpoint::{Endpoint, SESSIONS_MAX, Settings};
pub use entrance::{Answer, Entrance, is_of_pair};
pub use headers::{BadMirror, Mirror, Mirrored, decode_value, encode_value, mirror_of, mirrored};
