//! `godex exec`: a model's answer as JSON lines, with the tools of a bus; and such programs as
//! tools themselves.

#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod back;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod back;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod child;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod child;
#[cfg(all(feature = "http", not(feature = "unstable")))]
pub(crate) mod exec;
#[cfg(all(feature = "http", feature = "unstable"))]
pub mod exec;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
pub use kind::{Captured, GODEX, GodexKind};
pub use toolbus_proto::godex::WIRE;
