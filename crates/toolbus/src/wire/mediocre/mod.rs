//! The mediocre-rpc wire: streaming JSON and raw bytes.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(feature = "bus")]
pub mod back;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod decode;
#[cfg(feature = "bus")]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod listening;
#[cfg(any(feature = "http", feature = "tls"))]
pub mod reach;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod settings;

#[cfg(feature = "bus")]
pub use kind::{MEDIOCRE, MediocreKind, address};
pub use toolbus_proto::mediocre::WIRE;
