//! The drivers of a channel: who reads, writes and waits for it.

pub mod blocking;
mod budget;
mod buffers;
pub mod calls;
pub mod connection;
pub(crate) mod drive;
#[cfg(feature = "http")]
pub(crate) mod exchange;
pub mod front;
pub(crate) mod local_call;
pub(crate) mod moment;
pub(crate) mod program;
pub(crate) mod wake;

use toolbus_proto::channel::Notice;

pub use budget::BYTES_IN_FLIGHT_MAX;
#[cfg(feature = "http")]
pub(crate) use budget::Share;
pub use drive::{Sink, Source};

/// Writes a line in the log for what a peer did.
pub(crate) fn log(peer: &str, notice: &Notice) {
    match notice {
        Notice::Stray(line) => tracing::warn!(peer, "line that answers nothing: {line}"),
        Notice::Noted(rule) => tracing::info!(peer, "note: {rule}"),
        // Whoever asked is told, and tells it.
        Notice::Broke(what) => tracing::info!(peer, "broke the protocol: {what}"),
        Notice::Ignored(what) => tracing::debug!(peer, "{what}"),
        Notice::Offered(signature) => tracing::debug!(peer, "offers {signature}"),
        Notice::LeftOut { text, why } => tracing::warn!(peer, "left out `{text}`: {why}"),
        Notice::Logged(text) => tracing::info!(peer, "{text}"),
        Notice::ToolsChanged => tracing::debug!(peer, "tools changed"),
    }
}
