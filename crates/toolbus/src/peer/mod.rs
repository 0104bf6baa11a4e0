//! What all wires have in common: how a kind of peer describes itself, and what it is given.
//!
//! A wire describes itself once, as a [`PeerKind`]: addresses, the config, the command line and
//! the tests of all pairs ask the [`Registry`] and name no wire.

pub mod access;
#[cfg(not(feature = "unstable"))]
pub(crate) mod at;
#[cfg(feature = "unstable")]
pub mod at;
#[cfg(not(feature = "unstable"))]
pub(crate) mod circumstances;
#[cfg(feature = "unstable")]
pub mod circumstances;
pub mod credentials;
pub mod decode;
#[cfg(feature = "tls")]
#[allow(dead_code, reason = "a build may have but one end of it")]
pub(crate) mod forward;
mod front;
pub(crate) mod guests;
mod kind;
pub(crate) mod missing;
pub mod open;
#[cfg(not(feature = "unstable"))]
pub(crate) mod pins;
#[cfg(feature = "unstable")]
pub mod pins;
#[cfg(not(feature = "unstable"))]
pub(crate) mod program;
#[cfg(feature = "unstable")]
pub mod program;
mod registry;
#[cfg(feature = "http")]
pub(crate) mod rooms;
pub mod settings;
#[cfg(all(feature = "tls", not(feature = "unstable")))]
pub(crate) mod shown;
#[cfg(all(feature = "tls", feature = "unstable"))]
pub mod shown;
#[cfg(all(feature = "oauth", not(feature = "unstable")))]
pub(crate) mod signing_in;
#[cfg(all(feature = "oauth", feature = "unstable"))]
pub mod signing_in;
#[cfg(not(feature = "unstable"))]
pub(crate) mod tells_apart;
#[cfg(feature = "unstable")]
pub mod tells_apart;
#[cfg(not(feature = "unstable"))]
pub(crate) mod tls_files;
#[cfg(feature = "unstable")]
pub mod tls_files;

pub use circumstances::Circumstances;
pub use front::{FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce};
pub use kind::{FirstWords, PeerKind};
pub use missing::Missing;
pub use open::{Cause, OpenError, Opened, open};
pub use registry::Registry;
