//! Orchard's providers: programs that a host starts, and whose actions it executes.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod front;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
mod pins;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod probe;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod probe;
#[cfg(feature = "bus")]
pub mod settings;

#[cfg(feature = "bus")]
pub use kind::{ORCHARD, OrchardKind, PATIENCE};
pub use toolbus_proto::orchard::WIRE;
