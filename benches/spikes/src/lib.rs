//! What the spikes share: both ends of a connection in one process, on 127.0.0.1.
//!
//! The spikes themselves are the tests, each of which pins one behaviour of quinn or hyper
//! that the design leans on; `docs/decisions.md` says what followed from them. Nobody but
//! these tests uses this crate, so its pieces panic where a product would return an error.

pub mod http;
pub mod quic;
pub mod stream_frames;

use std::time::Duration;

/// How long a test waits for something that must happen. It decides no test that passes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits what must happen, and says what did not when patience is over.
pub async fn must<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, happens).await {
        Ok(outcome) => outcome,
        Err(_) => panic!("waited {PATIENCE:?} in vain: {what}"),
    }
}
