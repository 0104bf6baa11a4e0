//! Which kinds of peers there are: one line each.

use crate::local::builtin::BUILTIN;
use crate::peer::{PeerKind, Registry};

/// All that are compiled in, in the order in which they are listed.
static COMPILED_IN: &[&dyn PeerKind] = &[
    &BUILTIN,
    #[cfg(feature = "oracle")]
    &super::oracle::ORACLE,
    #[cfg(feature = "orchard")]
    &super::orchard::ORCHARD,
    #[cfg(feature = "mcp")]
    &super::mcp::MCP,
    #[cfg(feature = "mediocre")]
    &super::mediocre::MEDIOCRE,
    #[cfg(feature = "godex")]
    &super::godex::GODEX,
    #[cfg(feature = "orchestra")]
    &super::orchestra::ORCHESTRA,
    #[cfg(feature = "nats")]
    &super::nats::NATS,
    #[cfg(feature = "oracle")]
    &super::oracle::SHELL,
    &super::found::DETECTED,
];

/// The wires that this build leaves out, by the name that is their feature and begins their
/// schemes.
static LEFT_OUT: &[&str] = &[
    #[cfg(not(feature = "oracle"))]
    "oracle",
    #[cfg(not(feature = "orchard"))]
    "orchard",
    #[cfg(not(feature = "mcp"))]
    "mcp",
    #[cfg(not(feature = "mediocre"))]
    "mediocre",
    #[cfg(not(feature = "godex"))]
    "godex",
    #[cfg(not(feature = "orchestra"))]
    "orchestra",
    #[cfg(not(feature = "nats"))]
    "nats",
];

impl Default for Registry {
    /// All that are compiled in.
    fn default() -> Registry {
        Registry::compiled_in(COMPILED_IN, LEFT_OUT)
    }
}
