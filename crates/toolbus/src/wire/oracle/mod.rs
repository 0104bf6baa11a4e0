//! The oracle wire: JSON-RPC over pipes, field elements as data.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(feature = "bus")]
pub mod back;
#[cfg(feature = "bus")]
pub mod blocking;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod settings;
#[cfg(feature = "bus")]
pub mod shell;

#[cfg(feature = "bus")]
pub use kind::{ORACLE, OracleKind, connection};
#[cfg(feature = "bus")]
pub use shell::SHELL;
pub use toolbus_proto::oracle::WIRE;
