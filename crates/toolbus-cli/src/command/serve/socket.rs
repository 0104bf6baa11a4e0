//! The run socket of `toolbus serve`: opened where it can be.

use toolbus::bus::Bus;
use toolbus::bus::run::{RunSocket, Stamp};

use crate::runtime;

/// Lets commands with the same config in. Without it all goes on: they start their own.
pub(super) async fn open(stamp: Stamp, bus: &Bus) -> Option<RunSocket> {
    let folder = runtime::sockets()?;
    match RunSocket::open(&folder, stamp, bus.clone()).await {
        Ok(socket) => {
            tracing::debug!("run socket: `{}`", socket.path().display());
            Some(socket)
        }
        Err(why) if why.is_usual() => {
            tracing::info!("no run socket: {why}");
            None
        }
        Err(why) => {
            tracing::warn!("no run socket: {why}");
            None
        }
    }
}
