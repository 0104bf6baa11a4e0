//! The wires, a folder each, and the registry in which each of them has one line.
//!
//! A wire describes itself once, as a [`PeerKind`]: addresses, the config, the command line and
//! the tests of all pairs ask the [`Registry`] and name no wire.

#[cfg(feature = "bus")]
pub mod access;
#[cfg(feature = "bus")]
pub mod at;
#[cfg(feature = "author")]
mod authors;
#[cfg(feature = "bus")]
pub mod clients;
#[cfg(feature = "bus")]
pub mod credentials;
#[cfg(feature = "bus")]
pub mod decode;
#[cfg(feature = "bus")]
pub mod fixture;
#[cfg(feature = "bus")]
pub mod found;
#[cfg(feature = "bus")]
mod front;
#[cfg(feature = "bus")]
mod kind;
#[cfg(feature = "bus")]
pub(crate) mod missing;
#[cfg(feature = "bus")]
pub mod open;
#[cfg(feature = "bus")]
pub mod program;
#[cfg(feature = "bus")]
mod registry;
#[cfg(feature = "bus")]
pub mod settings;

#[cfg(feature = "godex")]
pub mod godex;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mediocre")]
pub mod mediocre;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "orchard")]
pub mod orchard;
#[cfg(feature = "orchestra")]
pub mod orchestra;

#[cfg(feature = "author")]
pub(crate) use authors::{AUTHORS, STARTED};
#[cfg(feature = "bus")]
pub use front::{FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce};
#[cfg(feature = "bus")]
pub use kind::PeerKind;
#[cfg(feature = "bus")]
pub use missing::Missing;
#[cfg(feature = "bus")]
pub use open::{Cause, OpenError, open};
#[cfg(feature = "bus")]
pub use registry::Registry;
