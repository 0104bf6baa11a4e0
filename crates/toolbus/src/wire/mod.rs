//! The wires, a folder each, and the lists in which each of them has one line.

#[cfg(feature = "author")]
mod authors;
#[cfg(feature = "bus")]
mod compiled_in;
#[cfg(all(feature = "bus", not(feature = "unstable")))]
pub(crate) mod found;
#[cfg(all(feature = "bus", feature = "unstable"))]
pub mod found;

#[cfg(feature = "godex")]
pub mod godex;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "mediocre")]
pub mod mediocre;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "oracle")]
pub mod oracle;
#[cfg(feature = "orchard")]
pub mod orchard;
#[cfg(feature = "orchestra")]
pub mod orchestra;
