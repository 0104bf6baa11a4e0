//! What all wires have in common: how a kind of peer describes itself, and what it is given.
//!
//! A wire describes itself once, as a [`PeerKind`]: addresses, the config, the command line and
//! the tests of all pairs ask the [`Registry`] and name no wire.

pub mod access;
pub mod at;
pub mod credentials;
pub mod decode;
mod front;
mod kind;
pub(crate) mod missing;
pub mod open;
pub mod program;
mod registry;
pub mod settings;

pub(crate) use front::swappable;
pub use front::{FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce};
pub use kind::{FirstWords, PeerKind};
pub use missing::Missing;
pub use open::{Cause, OpenError, Opened, open};
pub use registry::Registry;
