//! Orchestra: a hub, its plugins, and MCP on standard streams in front of a hub.
//!
//! `link` is one connection that we call over, `caller` a peer whose connection is kept and made
//! again. `back` puts a hub or a plugin behind the bus, `front` is a plugin before it. `hub` is what `toolbus orchestrator` does and
//! `stdio` what `toolbus transport-stdio` does; `certificates` is by what all of them know
//! each other.

#[cfg(feature = "author")]
pub(in crate::wire) mod author;
#[cfg(not(feature = "unstable"))]
pub(crate) mod back;
#[cfg(feature = "unstable")]
pub mod back;
#[cfg(not(feature = "unstable"))]
pub(crate) mod caller;
#[cfg(feature = "unstable")]
pub mod caller;
#[cfg(not(feature = "unstable"))]
pub(crate) mod certificates;
#[cfg(feature = "unstable")]
pub mod certificates;
mod decode;
#[cfg(not(feature = "unstable"))]
pub(crate) mod front;
#[cfg(feature = "unstable")]
pub mod front;
mod host_port;
#[cfg(not(feature = "unstable"))]
pub(crate) mod hub;
#[cfg(feature = "unstable")]
pub mod hub;
pub(crate) mod ids;
mod kind;
#[cfg(not(feature = "unstable"))]
pub(crate) mod link;
#[cfg(feature = "unstable")]
pub mod link;
mod listening;
pub mod settings;
#[cfg(not(feature = "unstable"))]
pub(crate) mod stdio;
#[cfg(feature = "unstable")]
pub mod stdio;
#[cfg(not(feature = "unstable"))]
pub(crate) mod tls;
#[cfg(feature = "unstable")]
pub mod tls;

use std::time::SystemTime;

use toolbus_proto::orchestra::Timestamp;

pub use host_port::{HostPort, NoHostPort};
pub use kind::{COMEBACK, ORCHESTRA, OrchestraKind, PATIENCE};
pub use listening::ID_DEFAULT;
pub use toolbus_proto::orchestra::WIRE;

/// What the calendar shows.
fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() as i32 }
}
