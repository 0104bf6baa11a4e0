//! Being an MCP server: the tools of the bus for the editor or agent that started us.
//!
//! In front of exactly one MCP server everything passes as it is. In front of anything else
//! the bus is asked for its tools, as often as the client asks: who cannot be reached is left
//! out of the list, and asked again with the next. What MCP servers among them have besides
//! tools is put together in `several`.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;
#[cfg(feature = "http")]
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use toolbus_proto::channel::{Ended, Notice};
use toolbus_proto::mcp::conversation::Settings;
use toolbus_proto::mcp::{Behind, Server};
use toolbus_proto::tool::CallerId;

use super::several::SeveralBacks;
use crate::bus::{Bus, Route, SwappableRoute};
use crate::engine::front::Front;
use crate::task::{LocalFuture, boxed};
use crate::transport::pipe::{Input, Output};
use crate::wake::Wake;

/// What can be set about an MCP server of ours.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The longest line of the client; else as the wire's spec says.
    pub line_bytes_max: Option<usize>,
    /// How long a call may be quiet; else as its back says.
    pub timeout: Option<Duration>,
}

/// Serves the tools of a bus until the client has had enough. The bus is
/// [named without dots](Bus::named_without_dots); no back is asked before the client is there.
///
/// Must be called inside a `LocalSet`. In a box, and of one kind: so it is compiled here, and not
/// once more by who calls it, for size perhaps.
pub fn serve(
    bus: Rc<Bus>,
    options: Options,
    input: Input,
    output: Output,
) -> LocalFuture<'static, Ended> {
    let backs = Backs::of(bus);
    let (behind, route) = (backs.behind, offering(backs.route.clone()));
    // A pipe has one client.
    let mut settings = Settings::new(env!("CARGO_PKG_VERSION"), CallerId(1), behind);
    if let Some(bytes_max) = options.line_bytes_max {
        settings.line_bytes_max = bytes_max;
    }
    let front = Front::new(Server::new(settings), route, options.timeout);
    // A task, which a back wakes without a look at the reactor between: the future that the
    // runtime was given to run is polled only after one. Dropped with us.
    let mut serving = JoinSet::new();
    let served = front.clone();
    serving.spawn_local(boxed(async move { served.serve(input, output).await }));
    boxed(async move {
        loop {
            tokio::select! {
                ended = serving.join_next() => match ended {
                    Some(Ok(ended)) => return ended,
                    Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                    // It was cancelled, because the runtime ends.
                    Some(Err(_)) | None => return Ended::Well,
                },
                () = backs.changed.rung() => {
                    if backs.have_changed().await {
                        front.tell(&Notice::ToolsChanged);
                        backs.tools_changed();
                    }
                }
            }
        }
    })
}

/// The way of clients on this machine, whose users can be shown a page: a sign-in may be offered to
/// them.
#[cfg(feature = "oauth")]
pub(super) fn offering(route: Rc<dyn Route>) -> Rc<dyn Route> {
    super::offers::SignInOffers::new(route)
}

#[cfg(not(feature = "oauth"))]
pub(super) fn offering(route: Rc<dyn Route>) -> Rc<dyn Route> {
    route
}

/// Whom the clients of an MCP server of ours talk to: one MCP server, or all backs of a bus
/// together. A clone is the same.
#[derive(Clone)]
pub struct Backs {
    pub(super) behind: Behind,
    pub(super) route: Rc<SwappableRoute>,
    /// The bus that they are those of; `None` where it is not known.
    #[cfg(feature = "http")]
    pub(super) bus: Rc<RefCell<Option<Rc<Bus>>>>,
    /// The same, where there are several.
    several: Rc<RefCell<Option<Rc<SeveralBacks>>>>,
    /// Rung when the tools are others than before.
    pub(super) changed: Rc<Wake>,
    /// The name of the server that is passed through.
    #[cfg(feature = "http")]
    server: Option<Arc<str>>,
}

impl Backs {
    /// Those of a bus that is [named without dots](Bus::named_without_dots). No back is asked yet.
    pub fn of(bus: Rc<Bus>) -> Backs {
        let changed = Rc::new(Wake::default());
        #[cfg(feature = "http")]
        let server = bus.backs().next().map(|(name, _)| name);
        #[cfg(feature = "http")]
        let known = Rc::new(RefCell::new(Some(bus.clone())));
        let (behind, several, route) = route(bus, &changed);
        let (route, several) =
            (Rc::new(SwappableRoute::new(route)), Rc::new(RefCell::new(several)));
        #[cfg(feature = "http")]
        let server = server.filter(|_| behind == Behind::Server);
        Backs {
            behind,
            route,
            #[cfg(feature = "http")]
            bus: known,
            several,
            changed,
            #[cfg(feature = "http")]
            server,
        }
    }

    /// The way to them, for a front whose clients are not those who look after it: the log is told,
    /// too, why a server that is passed through cannot be opened.
    #[cfg(feature = "http")]
    pub(super) fn told_route(&self) -> Rc<dyn Route> {
        let route = self.route.clone();
        match self.server.clone() {
            Some(server) => Rc::new(super::opening::ToldRoute { route, server }),
            None => route,
        }
    }

    /// What answers at the end of `route`. [`Behind::Server`] is for one that leads to exactly
    /// one MCP server.
    pub fn new(behind: Behind, route: Rc<dyn Route>) -> Backs {
        let route = Rc::new(SwappableRoute::new(route));
        Backs {
            behind,
            route,
            #[cfg(feature = "http")]
            bus: Rc::default(),
            several: Rc::default(),
            changed: Rc::default(),
            #[cfg(feature = "http")]
            server: None,
        }
    }

    /// Something is another than before: is it for clients, as they see it? Where all is shown,
    /// every change is.
    pub(super) async fn have_changed(&self) -> bool {
        let several = self.several.borrow().clone().filter(|_| self.behind == Behind::Several);
        match several {
            Some(several) => several.have_changed().await,
            None => true,
        }
    }

    /// Tells the clients that listen that the tools are others than before.
    pub(super) fn tools_changed(&self) {
        let several = self.several.borrow().clone();
        if let Some(several) = several {
            several.tools_changed();
        }
    }

    /// From now on they are those of another bus, which has one MCP server if and only if the
    /// one before had. Clients are told that the tools may have changed.
    pub fn lead_to(&self, bus: Rc<Bus>) {
        #[cfg(feature = "http")]
        self.bus.replace(Some(bus.clone()));
        let is_alone = self.behind == Behind::Server;
        let before = self.several.borrow().clone().filter(|_| is_alone && !passes_as_it_is(&bus));
        if let Some(before) = before {
            // Its sessions stay, and see the server otherwise at once.
            if before.lead_to(bus) {
                self.changed.ring();
            }
            return;
        }
        let (behind, several, route) = route(bus, &self.changed);
        debug_assert_eq!(
            behind, self.behind,
            "what passes through cannot begin to be put together"
        );
        self.route.set(route);
        if let (Some(before), Some(after)) = (&*self.several.borrow(), &several) {
            after.follow(before);
        }
        if let Some(before) = self.several.replace(several)
            && !is_alone
        {
            before.close();
        }
        self.changed.ring();
    }
}

type Way = (Behind, Option<Rc<SeveralBacks>>, Rc<dyn Route>);

fn route(bus: Rc<Bus>, changed: &Rc<Wake>) -> Way {
    let is_alone = is_alone(&bus);
    if is_alone {
        bus.pass_through();
    }
    if passes_as_it_is(&bus) {
        return (Behind::Server, None, bus);
    }
    if !is_alone {
        let bell = changed.clone();
        let ring: Rc<dyn Fn()> = Rc::new(move || bell.ring());
        bus.watch(&ring);
    }
    let several = SeveralBacks::new(bus, changed.clone());
    let behind = if is_alone { Behind::Server } else { Behind::Several };
    (behind, Some(several.clone()), several)
}

/// Is there one MCP server, which decides by itself?
fn is_alone(bus: &Bus) -> bool {
    bus.lone_wire() == Some(toolbus_proto::mcp::WIRE)
}

/// Are its clients shown all of it as it is, whoever they are?
fn passes_as_it_is(bus: &Bus) -> bool {
    is_alone(bus) && bus.selection().is_none() && bus.doors().is_none()
}
