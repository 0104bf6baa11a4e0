//! Orchard's providers: programs that a host starts, and whose actions it executes.

#[cfg(feature = "author")]
pub(super) mod author;
#[cfg(feature = "bus")]
pub mod back;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
pub mod probe;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod settings;

#[cfg(feature = "bus")]
pub use kind::{ORCHARD, OrchardKind};
pub use toolbus_proto::orchard::WIRE;
