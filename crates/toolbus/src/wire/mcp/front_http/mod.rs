//! Being an MCP server over HTTP: the tools of the bus for the clients that can reach our port.
//!
//! All clients, of both eras, talk to one [`Endpoint`]. Here is where to listen, and until when.

mod listen;

use std::io;
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;
use toolbus_proto::channel::Notice;
use toolbus_proto::mcp::http::{Endpoint, Entrance, Settings};

use super::eras::unguessable;
use super::front::Backs;
use crate::bus::About;
use crate::child::Patience;
use crate::engine::front::Front;
use crate::peer::access::Access;
use crate::transport::Listener;
use crate::transport::http::{Limits, Server, garbled};

pub use toolbus_proto::mcp::http::is_of_pair;

pub use crate::peer::at::{At, AtError};
pub use listen::{OpenError, listen, listening_on};

/// How long what is under way may still take when we are to stop.
pub const LAST_CALLS: Duration = Patience::MCP.last_calls;
/// How long the last answers may take to be read then.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// What can be set about an MCP server of ours over HTTP.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where streamable HTTP is spoken.
    pub path: String,
    /// Serve the old pair of HTTP+SSE as well, at `/sse` and `/messages`.
    pub sse: bool,
    /// Who may come in.
    pub access: Access,
    /// The longest body of a request.
    pub body_bytes_max: usize,
    /// How long a call may be quiet; else as its back says.
    pub timeout: Option<Duration>,
    /// What is borne of connections.
    pub limits: Limits,
    /// The number of the first caller. Fronts before the same backs must not have callers of
    /// the same number.
    pub first_caller: u64,
    /// Who clients are told we are, if not toolbus.
    pub about: Option<Rc<About>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            path: "/mcp".to_owned(),
            sse: false,
            access: Access::default(),
            body_bytes_max: 16 << 20,
            timeout: None,
            // The rest of a body that is refused is read for a second, however much that is.
            limits: Limits {
                drain_bytes_max: usize::MAX,
                drain_timeout: Duration::from_secs(1),
                ..Limits::default()
            },
            first_caller: 1,
            about: None,
        }
    }
}

/// Serves the clients that come to `listener`, which [`listen`] has opened, until `stop`. What is under
/// way then may end, but not for long; what is left, or under way when this is dropped, is
/// cancelled. Must be called inside a `LocalSet`.
pub async fn serve(
    backs: &Backs,
    options: Options,
    listener: Listener,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let stop = async {
        stop.await;
        LAST_CALLS
    };
    serve_until(backs, options, listener, stop).await
}

/// The same until `stop`, which says how long what is under way then may take to end.
pub async fn serve_until(
    backs: &Backs,
    options: Options,
    listener: Listener,
    stop: impl Future<Output = Duration>,
) -> Result<(), ServeError> {
    let entrance = Entrance {
        admission: options.access.admission(&listener).map_err(ServeError::Address)?,
        path: options.path,
        sse: options.sse,
        body_bytes_max: options.body_bytes_max,
    };
    let about = options.about.as_deref();
    let version = about.map_or(env!("CARGO_PKG_VERSION"), |about| &about.version).to_owned();
    let settings =
        Settings { version, behind: backs.behind, entrance, first_caller: options.first_caller };
    let mut endpoint = Endpoint::new(settings, unguessable).listing_first();
    if let Some(about) = about {
        endpoint = endpoint.introduced_as(&about.name, about.instructions.as_deref());
    }
    let front = Front::over_many(endpoint, backs.told_route(), options.timeout);
    let welcomed = front.clone();
    let server = Server::start(listener, options.limits, move |exchange| {
        let (head, body, writer) = exchange.into_stream(garbled);
        welcomed.welcome(head, body, writer);
    });
    let stopping = async {
        let patience = stop.await;
        tokio::join!(server.shutdown(patience + LAST_BYTES), front.finish(patience));
    };
    let telling = async {
        loop {
            backs.changed.rung().await;
            front.tell(&Notice::ToolsChanged);
            backs.tools_changed();
        }
    };
    tokio::select! {
        () = stopping => {}
        () = front.run() => {}
        () = telling => {}
    }
    Ok(())
}

/// Why no client can be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It is not known who can reach us.
    #[error("cannot tell where we listen")]
    Address(#[source] io::Error),
}
