//! What both ends of a connection agree on besides its protocol: windows, streams, silence.

use std::sync::Arc;
use std::time::Duration;

use quinn::{TransportConfig, VarInt};

/// What the peer may send ahead on one stream, and on all of them together. Taken up only by
/// what has arrived and is not read.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 15 * 1024 * 1024;
/// What we keep until the peer has acknowledged it.
const SEND_WINDOW: u64 = 4 * 1024 * 1024;
/// How many streams the peer may have open at a time. Every one of them has a place from the
/// start, so that more would be paid by idle connections…
const STREAMS_FEW: u32 = 100;
/// … and how many once so many are open that these may not be enough.
pub(super) const STREAMS_MANY: u32 = 1024;
pub(super) const STREAMS_BUSY: usize = STREAMS_FEW as usize / 2;
/// What is thought of the way to a peer before anything is known of it: most are near, and one
/// that is just starting is asked again soon.
const FIRST_RTT: Duration = Duration::from_millis(100);

/// How long a connection may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// After so long without a packet it counts as lost.
    pub timeout: Duration,
    /// So often the peer is asked for one.
    pub keep_alive: Duration,
}

impl Idle {
    /// As servers have it, and hubs towards their plugins.
    pub const PATIENT: Idle =
        Idle { timeout: Duration::from_secs(300), keep_alive: Duration::from_secs(15) };

    /// Lost after `timeout`; the peer is asked four times before.
    pub fn after(timeout: Duration) -> Idle {
        Idle { timeout, keep_alive: timeout / 4 }
    }

    pub(super) fn transport(self) -> Arc<TransportConfig> {
        let mut transport = TransportConfig::default();
        // What does not fit in the varint of milliseconds is as good as for ever.
        let timeout = self.timeout.try_into().ok();
        transport
            .max_idle_timeout(timeout)
            .keep_alive_interval(Some(self.keep_alive))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .send_window(SEND_WINDOW)
            .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_FEW))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .initial_rtt(FIRST_RTT);
        Arc::new(transport)
    }
}
