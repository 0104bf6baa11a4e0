//! The drivers of a channel: who reads, writes and waits for it.

mod budget;
pub(crate) mod reactor;
pub(crate) mod wake;

pub use budget::BYTES_IN_FLIGHT_MAX;
pub use reactor::{Sink, Source};
