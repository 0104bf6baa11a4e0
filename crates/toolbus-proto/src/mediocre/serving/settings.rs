//! What can be set about a server, and what holds if it is not.

use std::time::Duration;

use crate::mediocre::Reading;

/// What can be set about a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings {
    /// How calls are read.
    pub reading: Reading,
    /// What may be read ahead while a call is answered.
    pub ahead_bytes_max: usize,
    /// What is read of a call that is answered already, before the connection is closed.
    pub drain_bytes_max: u64,
    /// How long that may take.
    pub drain_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// How long a call may be quiet.
    pub call_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            reading: Reading::default(),
            ahead_bytes_max: 256 * 1024,
            drain_bytes_max: 1 << 20,
            drain_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(300),
            call_timeout: Duration::from_secs(60),
        }
    }
}
