//! The wires, a folder each, and how an address becomes a back.

pub mod check;
pub mod mcp;
pub mod mediocre;
mod open;
pub mod oracle;
pub mod settings;

#[cfg(feature = "tls")]
pub(crate) use open::client_tls;
#[cfg(feature = "http")]
pub(crate) use open::origin;
pub use open::{OpenError, open};
