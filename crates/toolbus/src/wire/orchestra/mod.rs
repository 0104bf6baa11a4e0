//! Orchestra: a hub, its plugins, and MCP on standard streams in front of a hub.
//!
//! `link` is one connection that we call over, `caller` a peer whose connection is kept and made
//! again, `links` one whose connections are made by who owns them. `back` puts a hub or a plugin
//! behind the bus, `front` is a plugin before it. [`hub`] is what `toolbus orchestrator` does and
//! [`stdio`] what `toolbus transport-stdio` does; [`certificates`] is by what all of them know
//! each other.

#[cfg(feature = "author")]
pub(in crate::wire) mod author;
pub mod back;
pub mod caller;
pub mod certificates;
mod decode;
pub mod front;
mod host_port;
pub mod hub;
pub(crate) mod ids;
mod kind;
pub mod link;
mod links;
mod listening;
pub mod settings;
pub mod stdio;
pub mod tls;

use std::time::SystemTime;

use toolbus_proto::orchestra::Timestamp;

pub use host_port::{HostPort, NoHostPort};
pub use kind::{ORCHESTRA, OrchestraKind};
pub use listening::ID_DEFAULT;
pub use toolbus_proto::orchestra::WIRE;

/// What the calendar shows.
fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 }
}
