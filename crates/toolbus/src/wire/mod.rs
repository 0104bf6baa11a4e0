//! The wires, a folder each, and the registry in which each of them has one line.
//!
//! A wire describes itself once, as a [`PeerKind`]: addresses, the config, the command line and
//! the tests of all pairs ask the [`Registry`] and name no wire.

pub mod check;
pub mod decode;
pub mod fixture;
mod front;
mod kind;
mod open;
mod planned;
pub mod program;
mod registry;
pub mod settings;

#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mediocre")]
pub mod mediocre;
#[cfg(feature = "oracle")]
pub mod oracle;

pub use front::{FrontError, FrontKind, FrontPlan, Listening, RunningFront};
pub use kind::PeerKind;
pub use open::{Cause, OpenError, open};
pub use registry::Registry;

#[cfg(feature = "author")]
pub(crate) use registry::AUTHORS;
