//! Being an MCP server over HTTP: the tools of the bus for the clients that can reach our port.
//!
//! All clients, of both eras, talk to one [`Endpoint`]. Here is where to listen, and until when.

mod listen;
#[cfg(feature = "tls")]
mod shared;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use thiserror::Error;
use toolbus_proto::caller::{CallerName, Doors};
use toolbus_proto::channel::Notice;
use toolbus_proto::http::{Admission, Bound};
use toolbus_proto::mcp::http::{Endpoint, Entrance, SESSIONS_MAX, Settings};

use super::eras::unguessable;
use super::front::{Backs, offering};
use super::own_states::OwnStates;
use crate::bus::{About, Bus};
use crate::engine::front::Front;
use crate::peer::FrontKind as _;
use crate::peer::access::Access;
use crate::peer::rooms::{Guard, Room, Rooms};
use crate::task::{LocalFuture, boxed};
use crate::transport::http::{Limits, Server};
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;
use crate::transport::{Listener, PassedSocket, Threads, descriptors};

pub use toolbus_proto::mcp::http::is_of_pair;

pub use crate::peer::at::{At, AtError};
pub use listen::{OpenError, listen, listening_on};
#[cfg(feature = "tls")]
pub use shared::Sharing;

/// How long what is under way may still take when we are to stop.
pub const LAST_CALLS: Duration = crate::wire::mcp::PATIENCE.last_calls;
/// How long the last answers may take to be read then.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// How many connections there may be at once, where nothing else is said.
const CONNECTIONS_MAX: usize = 4096;
/// How many exchanges there may be at once on a connection of HTTP/2, and how large the header
/// fields of each.
const STREAMS_MAX: u32 = 128;
#[cfg(feature = "tls")]
const FIELDS_MAX: u32 = 16 * 1024;

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
    /// How many sessions there may be, of each caller where callers are told apart.
    pub sessions_max: usize,
    /// The number of the first caller. Fronts before the same backs must not have callers of
    /// the same number.
    pub first_caller: u64,
    /// Who clients are told we are, if not toolbus.
    pub about: Option<Rc<About>>,
    /// The socket to listen on, if it was opened for us.
    pub passed: Option<PassedSocket>,
    /// Threads that may have connections, besides this one.
    pub threads: Threads,
    /// By what we show ourselves; HTTP in clear without it.
    #[cfg(feature = "tls")]
    pub tls: Option<ServerTls>,
    /// Sessions are shared with other machines.
    #[cfg(feature = "tls")]
    pub sharing: Option<Rc<Sharing>>,
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
                connections_max: CONNECTIONS_MAX,
                drain_bytes_max: usize::MAX,
                drain_timeout: Duration::from_secs(1),
                drains_streams: true,
                streams_max: STREAMS_MAX,
                http2_fields_max: None,
                ..Limits::default()
            },
            sessions_max: SESSIONS_MAX,
            first_caller: 1,
            about: None,
            passed: None,
            threads: Threads::default(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            sharing: None,
        }
    }
}

/// Serves the clients that come to `listener`, which [`listen`] has opened, until `stop`. What is under
/// way then may end, but not for long; what is left, or under way when this is dropped, is
/// cancelled. Must be called inside a `LocalSet`.
pub fn serve<'a>(
    backs: &'a Backs,
    options: Options,
    listener: Listener,
    stop: impl Future<Output = ()> + 'a,
) -> LocalFuture<'a, Result<(), ServeError>> {
    let stop = boxed(async {
        stop.await;
        LAST_CALLS
    });
    serve_until(backs.clone(), options, listener, stop)
}

/// The same until `stop`, which says how long what is under way then may take to end. In boxes:
/// so it is compiled here, and not once more by who calls it, for size perhaps.
fn serve_until(
    backs: Backs,
    options: Options,
    listener: Listener,
    stop: LocalFuture<'_, Duration>,
) -> LocalFuture<'_, Result<(), ServeError>> {
    boxed(async move {
        let rooms =
            rooms(&options, &listener, None, Guard::default(), move |_| (backs.clone(), || {}))?;
        serve_rooms(&rooms, &options, listener, stop).await;
        Ok(())
    })
}

/// Those who come to the tools of one front, each to its own where callers are told apart.
pub(super) struct Led {
    bus: RefCell<Bus>,
    rooms: RefCell<Weak<Rooms<Endpoint>>>,
}

impl Led {
    /// To the tools of this bus.
    pub(super) fn to(bus: Bus) -> Led {
        Led { bus: RefCell::new(bus), rooms: RefCell::default() }
    }

    /// To those of this bus from now on; who may not come there is cut off.
    pub(super) fn lead_to(&self, bus: Bus) {
        self.bus.replace(bus.clone());
        let rooms = self.rooms.borrow().upgrade();
        if let Some(rooms) = rooms {
            rooms.follow(&bus);
        }
    }

    fn bus_of(&self, caller: Option<&CallerName>) -> Rc<Bus> {
        let bus = self.bus.borrow();
        let bus = caller.map_or_else(|| bus.clone(), |caller| bus.as_caller(caller));
        Rc::new(super::MCP.name_tools(bus))
    }

    /// Serves them until `stop`, which says how long what is under way then may take to end.
    pub(super) async fn serve(
        self: Rc<Led>,
        options: Options,
        listener: Listener,
        stop: impl Future<Output = Duration>,
    ) -> Result<(), ServeError> {
        let doors = self.bus.borrow().doors();
        let url = listening_on(&listener, &options).map_err(ServeError::Address)?;
        let url = url.strip_prefix("listening on ").unwrap_or(&url);
        let guard = Guard::of(Some(&*self.bus.borrow()), url, &options.path);
        let led = self.clone();
        let rooms = rooms(&options, &listener, doors, guard, move |caller| {
            let backs = Backs::of(led.bus_of(caller));
            let (led, caller, renewed) = (led.clone(), caller.cloned(), backs.clone());
            (backs, move || renewed.lead_to(led.bus_of(caller.as_ref())))
        })?;
        self.rooms.replace(Rc::downgrade(&rooms));
        serve_rooms(&rooms, &options, listener, stop).await;
        Ok(())
    }
}

/// The rooms of all who may come in. `backs` makes the way of one caller, or of all who have no
/// name, and how it is renewed.
fn rooms<R: Fn() + 'static>(
    options: &Options,
    listener: &Listener,
    doors: Option<Doors>,
    guard: Guard,
    backs: impl Fn(Option<&CallerName>) -> (Backs, R) + 'static,
) -> Result<Rc<Rooms<Endpoint>>, ServeError> {
    let admission = options.access.admission(listener).map_err(ServeError::Address)?;
    let (options, first) = (options.clone(), Cell::new(Some(options.first_caller)));
    let make = move |admission, caller: Option<&CallerName>| {
        let (backs, renew) = backs(caller);
        let first = first.take().unwrap_or_else(first_caller);
        room(&options, admission, first, backs, caller, renew)
    };
    Ok(Rc::new(Rooms::new(Admission { doors, ..admission }, guard, make)))
}

/// What clients of both eras talk to, before these backs.
fn room(
    options: &Options,
    admission: Admission,
    first_caller: u64,
    backs: Backs,
    caller: Option<&CallerName>,
    renew: impl Fn() + 'static,
) -> Room<Endpoint> {
    let Options { about, timeout, sessions_max, .. } = options;
    let entrance = entrance(options, admission.clone());
    let about = about.as_deref();
    let version = about.map_or(env!("CARGO_PKG_VERSION"), |about| &about.version).to_owned();
    let settings = Settings { version, behind: backs.behind, entrance, first_caller };
    let mut endpoint =
        Endpoint::new(settings, unguessable).listing_first().with_room_for(*sessions_max);
    if let Some(about) = about {
        endpoint = endpoint.introduced_as(&about.name, about.instructions.as_deref());
    }
    #[cfg(feature = "oauth")]
    if admission.judges {
        let bus = backs.bus.clone();
        endpoint = endpoint.judging_calls(move |name, args, visit| {
            if let Some(bus) = &*bus.borrow() {
                bus.judge_call(name, args, visit);
            }
        });
    }
    #[cfg(feature = "tls")]
    if let Some(sharing) = options.sharing.clone() {
        let caller = caller.cloned();
        endpoint = endpoint.naming_sessions(move || shared::new_id(&sharing, caller.as_ref()));
    }
    let route = match admission.bound {
        Bound::Loopback => offering(backs.told_route()),
        Bound::Elsewhere => backs.told_route(),
    };
    // A call that is held for one caller, or for the holder of a token, is no other's.
    let route = match caller.is_some() || admission.judges {
        true => Rc::new(OwnStates::new(route)),
        false => route,
    };
    let front = Front::over_many(endpoint, route, *timeout);
    let told = front.clone();
    let telling = async move {
        loop {
            backs.changed.rung().await;
            if !backs.have_changed().await {
                continue;
            }
            told.tell(&Notice::ToolsChanged);
            backs.tools_changed();
        }
    };
    Room::new(front, renew).with(telling)
}

/// What a request must look like.
fn entrance(options: &Options, admission: Admission) -> Entrance {
    let Options { path, sse, body_bytes_max, .. } = options;
    Entrance { admission, path: path.clone(), sse: *sse, body_bytes_max: *body_bytes_max }
}

async fn serve_rooms(
    rooms: &Rc<Rooms<Endpoint>>,
    options: &Options,
    listener: Listener,
    stop: impl Future<Output = Duration>,
) {
    let welcomed = rooms.clone();
    // More than there are descriptors for would not be closed, but never be let in.
    let connections_max = options.limits.connections_max.min(descriptors::for_connections());
    let limits = Limits { connections_max, ..options.limits };
    // In clear it is HTTP/1.1 alone; which it is inside of TLS is agreed on there.
    #[cfg(feature = "tls")]
    let limits = match &options.tls {
        Some(_) => Limits { http2_fields_max: Some(FIELDS_MAX), ..limits },
        None => limits,
    };
    #[cfg(feature = "tls")]
    let shared = options.sharing.clone().map(|sharing| {
        shared::SharedSessions::new(sharing, entrance(options, rooms.admission()), rooms)
    });
    let server = Server::start_on(&options.threads, listener, limits, move |exchange| {
        #[cfg(feature = "tls")]
        if let Some(shared) = &shared {
            return shared.welcome(exchange);
        }
        welcomed.welcome(exchange);
    });
    let patience = stop.await;
    tokio::join!(server.shutdown(patience + LAST_BYTES), rooms.finish(patience));
}

/// Callers of one room are never as many.
pub(super) const CALLERS_MAX: u64 = 1 << 40;

/// The number of the first caller of one more room. It is far behind those that fronts are given.
fn first_caller() -> u64 {
    thread_local! {
        static ROOMS: Cell<u64> = const { Cell::new(1 << 22) };
    }
    let room = ROOMS.get();
    ROOMS.set(room + 1);
    room * CALLERS_MAX
}

/// Why no client can be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It is not known who can reach us.
    #[error("cannot tell where we listen")]
    Address(#[source] io::Error),
}
