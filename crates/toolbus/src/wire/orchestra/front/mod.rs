//! Being a plugin of a hub: the tools of the bus for whoever connects
//! (`docs/protocols/orchestra.md` 11).

mod flags;
mod plugin;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use toolbus_proto::orchestra::{Role, Server, ServerSettings};
use toolbus_proto::tool::CallerId;

use crate::bus::Route;
use crate::engine::front::Front;
use crate::transport::quic::Connection;

pub use flags::{FlagError, PluginFlags};
pub use plugin::{Plugin, PluginEnded, PluginError, PluginOptions, Registration};

/// How long the peer may take to hear our last answer.
const LINGER: Duration = Duration::from_millis(250);

/// How a connection that we answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// The peer has gone.
    Disconnected,
    /// The peer asked us to end, and was answered.
    ShutDown,
    /// We were told to stop.
    Stopped,
}

thread_local! {
    static CONNECTIONS: Cell<u64> = const { Cell::new(0) };
}

/// Answers on one connection, as a plugin does, until it is over or `stopped`: calls under way
/// have a while to end then. What runs when this is dropped is cancelled.
pub(crate) async fn serve(
    connection: &Connection,
    route: Rc<dyn Route>,
    call_timeout: Duration,
    stopped: impl Future<Output = ()>,
) -> Served {
    let number = CONNECTIONS.get() + 1;
    CONNECTIONS.set(number);
    let settings =
        ServerSettings { call_timeout, ..ServerSettings::new(Role::Plugin, CallerId(number)) };
    let front = Front::over_many(Server::new(settings), route, None);
    let accepting = async {
        while let Some((reader, writer)) = connection.accept().await {
            front.welcome((), reader, writer);
        }
    };
    let stopping = async {
        stopped.await;
        front.finish(crate::wire::orchestra::PATIENCE.last_calls).await;
    };
    let served = tokio::select! {
        () = accepting => Served::Disconnected,
        _ = front.ended() => Served::ShutDown,
        () = front.run() => Served::Disconnected,
        () = stopping => Served::Stopped,
    };
    if served != Served::Disconnected {
        let _ = tokio::time::timeout(LINGER, connection.closed()).await;
    }
    front.disconnected();
    served
}
