//! The one engine: what drives machines, whatever wire they speak and whatever carries it.
//!
//! `drive` is the loop for one stream. `front` joins a serving machine to the bus, `client`
//! a calling one, over one stream or many; `calls` is how a call hangs between the two.

#[cfg(feature = "runtime")]
pub mod alarm;
pub mod blocking;
#[cfg(feature = "runtime")]
pub mod calls;
#[cfg(feature = "runtime")]
pub mod client;
#[cfg(feature = "runtime")]
pub mod drive;
#[cfg(feature = "runtime")]
pub mod front;
#[cfg(feature = "runtime")]
mod joint;
#[cfg(feature = "runtime")]
mod lane;
#[cfg(feature = "runtime")]
pub mod local_call;
#[cfg(feature = "runtime")]
pub(crate) mod moment;
#[cfg(feature = "runtime")]
mod pace;
#[cfg(feature = "runtime")]
pub mod pool;
#[cfg(feature = "runtime")]
pub mod program;
#[cfg(feature = "runtime")]
pub mod relay;
#[cfg(feature = "runtime")]
mod route;
#[cfg(feature = "runtime")]
pub mod waiting;

use std::time::Duration;

use toolbus_proto::channel::Notice;

#[cfg(feature = "runtime")]
pub use route::Route;

/// How long a client that will ask nothing more may read nothing of what it is owed.
pub(crate) const UNREAD_MAX: Duration = Duration::from_secs(15);

/// The target of events that tell what of a peer is waited for, and `is_over` when it no longer is.
pub const WAITING: &str = "toolbus::waiting";

/// Tells those who look what of a peer is waited for; `None` when it no longer is.
pub fn tell_wait(peer: &str, what: Option<&str>) {
    match what {
        Some(what) => tracing::info!(target: WAITING, peer, "waiting for {what}"),
        None => tracing::info!(target: WAITING, peer, is_over = true, "not waiting any more"),
    }
}

/// Writes a line in the log for what a peer did.
pub(crate) fn log(peer: &str, notice: &Notice) {
    match notice {
        Notice::Stray(line) => tracing::warn!(peer, "line that answers nothing: {line}"),
        Notice::Noted(rule) => tracing::info!(peer, "note: {rule}"),
        // The caller is told, and tells it.
        Notice::Broke(what) => tracing::info!(peer, "broke the protocol: {what}"),
        Notice::Refused(why) => tracing::info!(peer, "refused: {why}"),
        Notice::Ignored(what) => tracing::debug!(peer, "{what}"),
        Notice::PassedOver(what) => tracing::info!(peer, "{what}"),
        Notice::Offered(signature) => tracing::debug!(peer, "offers {signature}"),
        Notice::LeftOut { text, why } => tracing::warn!(peer, "left out `{text}`: {why}"),
        Notice::Unfit { tool, why } => tracing::warn!(peer, "tool `{tool}` is left out: {why}"),
        Notice::Logged { level, data, .. } => {
            let text: Option<String> = serde_json::from_str(data).ok();
            tracing::info!(peer, "[{level}] {}", text.as_ref().unwrap_or(data));
        }
        Notice::Hangs => tracing::warn!(
            peer,
            "hangs: calls in a row timed out, and it answered nothing else; it is replaced"
        ),
        Notice::ToolsChanged => tracing::debug!(peer, "tools changed"),
        // The sentence names the peer.
        Notice::Warning(what) => tracing::warn!("{what}"),
        Notice::Described(how) => tracing::debug!(peer, "describes itself as {how}"),
        Notice::Stderr(line) => tracing::info!(peer, "{line}"),
        Notice::Waiting(what) => tell_wait(peer, what.as_deref()),
        // A front over HTTP alone makes room, and counts how often.
        Notice::MadeRoom => {}
    }
}
