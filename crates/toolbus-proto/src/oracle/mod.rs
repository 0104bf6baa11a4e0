//! The Cairo `stdio` oracle: JSON-RPC over pipes, field elements as data.

pub(crate) mod wire;

pub use wire::RULES;
