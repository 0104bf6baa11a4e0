//! The mediocre-rpc wire: streaming JSON and raw bytes.

pub mod back;
pub mod check;
pub mod front;
