//! Orchestra: a hub, its plugins, and MCP on standard streams in front of a hub.
//!
//! `link` is one connection that we call over, `caller` a peer whose connection is kept and made
//! again; `back` puts a hub or a plugin behind the bus, `front` is a plugin before it.

#[cfg(feature = "author")]
pub(in crate::wire) mod author;
pub mod back;
pub(crate) mod caller;
pub mod certificates;
pub mod check;
mod decode;
pub mod front;
mod host_port;
pub(crate) mod ids;
mod kind;
pub mod link;
mod listening;
mod settings;
pub mod tls;

pub use host_port::{HostPort, NoHostPort};
pub use kind::{ORCHESTRA, OrchestraKind};
pub use listening::ID_DEFAULT;
pub use toolbus_proto::orchestra::WIRE;
