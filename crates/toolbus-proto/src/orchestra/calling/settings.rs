//! What can be set about a client, and what holds if it is not.

use std::time::Duration;

use crate::orchestra::FRAME_BYTES_MAX;

/// What can be set about a client.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Who calls, as the peer is told.
    pub caller_plugin: String,
    /// Which provider's tools are meant, if any.
    pub provider: String,
    /// What one message may weigh.
    pub frame_bytes_max: usize,
    /// How many calls may be under way.
    pub in_flight_max: usize,
    /// With so many requests unanswered it is no wonder that no stream can be opened.
    pub unanswered_max: usize,
    /// How long a stream may take to be opened before its connection counts as starved.
    pub credit_timeout: Duration,
    /// What is read of a stream behind its answer.
    pub drain_bytes_max: usize,
    /// How long that may take.
    pub drain_timeout: Duration,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            caller_plugin: "toolbus".to_owned(),
            provider: String::new(),
            frame_bytes_max: FRAME_BYTES_MAX,
            in_flight_max: 1024,
            unanswered_max: 100,
            credit_timeout: Duration::from_secs(2),
            drain_bytes_max: 64 * 1024,
            drain_timeout: Duration::from_secs(5),
        }
    }
}
