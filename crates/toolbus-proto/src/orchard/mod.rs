//! The Orchard room: a host starts providers, learns what actions they have, and executes them.
//!
//! Types are those of HCL; `schema` is how a provider describes itself, `translate` joins its
//! actions to the tools of the bus.

pub(crate) mod wire;

mod calling;
mod log_line;
mod number;
mod serving;

pub mod decode;
pub mod pin;
pub mod probe;
pub mod schema;
pub mod translate;
pub mod types;
pub mod value;

use crate::tool::Wire;

/// This wire.
pub const WIRE: Wire = Wire::new("orchard");

pub use calling::{Client, Settings};
pub use log_line::LogLine;
pub use serving::{Server, ServerSettings};
