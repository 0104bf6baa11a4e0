//! The drivers of a channel: who reads, writes and waits for it.

pub(crate) mod reactor;
pub(crate) mod wake;

pub use reactor::{Sink, Source};
