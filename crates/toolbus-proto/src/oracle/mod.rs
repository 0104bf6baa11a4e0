//! The oracle room: the protocol by which a Cairo program asks the world outside its proof.
//!
//! Data travels as felts, numbers of some 252 bits. A signature says what they mean, the
//! codec turns them into JSON and back, and `translate` joins them to the tools of the bus.

pub(crate) mod wire;

mod calling;
mod functions;
mod serving;

pub mod cairo;
pub mod codec;
pub mod decode;
pub mod felt;
pub mod felts;
pub mod known;
pub mod pin;
pub mod schema;
pub mod shell;
pub mod signature;
pub mod translate;

mod hex;
mod infer;
mod wide;

use crate::tool::Wire;

pub use calling::{Client, Settings};
pub use functions::Functions;
pub use serving::{Behind, Served, Server};
pub use wire::RULES;

/// The wire of this room.
pub const WIRE: Wire = Wire::new("oracle");
