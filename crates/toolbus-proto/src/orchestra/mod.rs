//! The Orchestra room: Protobuf over QUIC, one stream a request, between a hub and its plugins.
//!
//! [`protobuf`] and [`wire`] are the bytes, [`envelope`] what travels unread, [`decode`] what a
//! capture says. [`Client`] asks and [`Server`] answers, each over the many streams of one
//! connection, and [`redial`] says when that is made; [`hub`] decides what a hub does with both,
//! and [`stdio`] is MCP on lines in front of a hub.

pub mod envelope;
pub mod fold;
mod ids;
pub mod protobuf;
mod shape;
pub mod structure;
mod timestamp;
mod waiting;
pub mod wire;

pub mod certificates;

mod calling;
mod serving;

pub mod hub;
pub mod plugin;
pub mod redial;
pub mod stdio;

pub mod decode;
pub mod translate;

pub use calling::{Client, ClientSettings};
pub use ids::Ids;
pub use serving::{Role, Server, ServerSettings};
pub use timestamp::Timestamp;
pub use waiting::{EVENTS_BYTES_MAX, EVENTS_WAITING_MAX};

use crate::tool::Wire;

/// This wire, where a call or a reply is native to it.
pub const WIRE: Wire = Wire::new("orchestra");

/// What one message may weigh.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
