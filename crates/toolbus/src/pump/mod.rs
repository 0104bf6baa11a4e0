//! The drivers of a channel: who reads, writes and waits for it.

mod wake;
