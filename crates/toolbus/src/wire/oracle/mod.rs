//! The oracle wire: JSON-RPC over pipes, field elements as data.

pub mod back;
pub mod blocking;
pub mod check;
pub mod front;
