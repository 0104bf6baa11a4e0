//! `godex exec`: a model's answer as JSON lines, with the tools of a bus; and such programs as
//! tools themselves.

#[cfg(feature = "bus")]
pub mod back;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub mod child;
#[cfg(feature = "http")]
pub mod exec;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
#[cfg(feature = "bus")]
pub use kind::{Captured, GODEX, GodexKind};
pub use toolbus_proto::godex::WIRE;
