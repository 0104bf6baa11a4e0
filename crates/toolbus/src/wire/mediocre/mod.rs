//! The mediocre-rpc wire: streaming JSON and raw bytes.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod decode;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod decode;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod front;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod listening;
#[cfg(all(any(feature = "http", feature = "tls"), not(feature = "unstable")))]
pub(crate) mod reach;
#[cfg(all(any(feature = "http", feature = "tls"), feature = "unstable"))]
pub mod reach;
#[cfg(feature = "bus")]
pub mod settings;

#[cfg(feature = "bus")]
pub use kind::{MEDIOCRE, MediocreKind, PATIENCE, address};
pub use toolbus_proto::mediocre::WIRE;
