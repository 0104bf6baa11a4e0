//! The oracle wire: JSON-RPC over pipes, field elements as data.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod blocking;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod blocking;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod front;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod pins;
#[cfg(feature = "bus")]
pub mod settings;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod shell;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod shell;

#[cfg(feature = "bus")]
pub use kind::{ORACLE, OracleKind, PATIENCE, connection};
#[cfg(feature = "bus")]
pub use shell::SHELL;
pub use toolbus_proto::oracle::WIRE;
