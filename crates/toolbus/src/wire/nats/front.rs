//! A node: the tools of the bus as a micro service, kept up over lost connections.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use toolbus_proto::channel::{Ended, Notice, Serving};
use toolbus_proto::nats::{
    About, NodeIdentity, NodeMemory, Server, ServerSettings, Trusted, random_id, subject,
};
use toolbus_proto::tool::{Failure, FailureKind, ToolSpec};

use super::WIRE;
use super::back::{AGAIN, AGAIN_MAX, LEAVING as MOVING, after, jittered, new_inbox, wires};
use super::kind::NatsKind;
use super::numbers::{CONNECTED, RECONNECTS, WINDOWS, reading};
use super::reach::{Connected, Reach};
use super::sessions::{Carrier, WithSessions};
use super::settings::{self, FRONT_KEYS, NatsSettings, Unfit};
use super::trusted::TrustedCallers;
use crate::address::{Address, Place};
use crate::bus::back::LocalFuture;
use crate::bus::config::{Key, Values};
use crate::bus::lenient::LenientBus;
use crate::bus::meters::{self, Meter, MeterReading};
use crate::bus::{Bus, Route, SwappableRoute, TIMEOUT};
use crate::chance::OsRandom;
use crate::engine::calls::Sharing;
use crate::engine::front::Front;
use crate::peer::forward::{self, ForwardSession};
use crate::peer::settings::WireSettings;
use crate::peer::{
    Circumstances, FrontError, FrontKind, FrontPlan, Listening, RunningFront, ServedOnce,
};
use crate::task::{boxed, spawn_local};
use crate::time::rfc3339;
use crate::wake::Wake;

/// How long calls under way have once we are to stop.
const LAST_CALLS: Duration = Duration::from_secs(5);
/// How long the server may take to send no more calls.
const LEAVING: Duration = Duration::from_secs(2);

/// The nodes of this process, which it does not call itself.
static OWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Is this a node of this process?
pub(super) fn is_own(id: &str) -> bool {
    OWN.lock().is_ok_and(|own| own.contains(id))
}

impl FrontKind for NatsKind {
    fn keys(&self) -> &'static [Key] {
        FRONT_KEYS
    }

    fn settings(&self, values: &Values) -> WireSettings {
        WireSettings::of(NatsSettings::read(values))
    }

    fn can_listen(&self, address: &Address) -> bool {
        matches!(address.place(), Place::Url(_))
    }

    fn callers(&self) -> &'static str {
        "NATS clients"
    }

    fn takes_its_address(&self) -> bool {
        false
    }

    fn carries_sessions(&self) -> Option<&'static str> {
        Some("NATS")
    }

    fn plan(
        &self,
        address: &Address,
        settings: &WireSettings,
        circumstances: Circumstances,
    ) -> Result<FrontPlan, FrontError> {
        if circumstances.is_closed {
            let error = FrontError::usage("NATS does not tell who calls").by_key("callers");
            let hint = "let the NATS server decide who may publish to which subject";
            return Err(error.hint(Some(hint.to_owned())));
        }
        let own: NatsSettings = settings.get();
        let options = NodeOptions::of(address, &own)?;
        Ok(Box::new(move |bus, _| Box::pin(open(options, bus))))
    }

    fn serve_stdio(&self, _bus: Bus, _words: &[String], _say: fn(&str)) -> ServedOnce {
        Box::pin(async { Err(io::Error::other("NATS has no callers on standard streams")) })
    }
}

/// What a node has to know.
pub struct NodeOptions {
    name: String,
    prefix: String,
    shown: String,
    reach: Reach,
    /// Serve the tools of NATS backs as well.
    transit: bool,
    /// Believe which caller a message is from.
    trust_callers: bool,
    /// Go on trying if no server answers at the start.
    waits: bool,
}

impl NodeOptions {
    /// What an address and its settings say.
    pub fn of(address: &Address, own: &NatsSettings) -> Result<NodeOptions, FrontError> {
        let wrong = |unfit: Unfit| FrontError::usage(unfit.message).hint(unfit.hint);
        let Place::Url(url) = address.place() else {
            return Err(FrontError::usage(format!("cannot listen on `{address}`")));
        };
        let name = settings::name(url).map_err(wrong)?;
        let Some(name) = name.map(str::to_owned) else {
            let hint = "the name of the service stands behind the host: `nats://HOST:PORT/NAME`";
            let error = FrontError::usage(format!("`{address}` names no service"));
            return Err(error.hint(Some(hint.to_owned())));
        };
        let prefix = own.prefix.clone().unwrap_or_else(|| name.clone());
        if !subject::is_prefix(&prefix) {
            let message = format!("`{prefix}` cannot begin our subjects");
            let hint = "letters, digits, `_` and `-` with single dots between them, 64 at most";
            let error = FrontError::usage(message).by_key("prefix");
            return Err(error.hint(Some(hint.to_owned())));
        }
        let servers = own.servers(url, Some(&name)).map_err(wrong)?;
        let shown = name.clone();
        let reach = Reach::new(servers, None);
        let NatsSettings { transit, trust_callers, .. } = *own;
        Ok(NodeOptions { name, prefix, shown, reach, transit, trust_callers, waits: true })
    }

    /// For a program that serves nothing else: what cannot be reached at the start is an error, and
    /// all tools are served.
    #[must_use]
    pub fn alone(self) -> NodeOptions {
        NodeOptions { transit: true, waits: false, ..self }
    }
}

/// How the first connection went.
enum First {
    /// It is ready, and says so in its line.
    Ready,
    /// No server answers.
    Nobody(String),
    /// A server would not have us.
    Refused(String),
}

/// What those who opened a node are told, each once.
struct Tellers {
    first: Option<oneshot::Sender<First>>,
    /// The line that says where it listens.
    line: Option<oneshot::Sender<String>>,
}

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has no connection, or has not subscribed to all that it serves.
    Away,
    /// It may not subscribe to all that it serves.
    Hampered,
    Ready,
    /// It is about to stop.
    Leaving,
}

/// A node that is served.
struct ServedNode {
    identity: NodeIdentity,
    options: NodeOptions,
    route: Rc<dyn Route>,
    bus: RefCell<Bus>,
    changed: Rc<Wake>,
    stop: watch::Sender<Option<Duration>>,
    memory: RefCell<NodeMemory>,
    /// What our subjects for answers begin with: a connection beside one that is being left has
    /// others.
    inbox: RefCell<String>,
    /// The connection that takes the place of the one that serves.
    next: RefCell<Option<Connected>>,
    /// Connections that are being left.
    moving: RefCell<JoinSet<()>>,
    was_lost: Cell<bool>,
    /// The ways of callers that messages name.
    trusted: Rc<TrustedCallers>,
    /// The way to sessions that other nodes have.
    _carrier: Rc<dyn ForwardSession>,
    standing: Cell<Standing>,
    /// What callers may send, on each connection.
    windows: RefCell<Vec<Weak<Cell<u64>>>>,
    /// How many calls are under way, on all of them.
    in_flight: Rc<Cell<usize>>,
    reconnects: Cell<u64>,
}

impl Meter for ServedNode {
    fn read(&self) -> Vec<MeterReading> {
        let bus = self.bus.borrow();
        let front = [("front", bus.front_name())];
        let is_connected = matches!(self.standing.get(), Standing::Ready | Standing::Leaving);
        let windows = self.windows.borrow();
        let windows = windows.iter().filter_map(Weak::upgrade).map(|window| window.get()).sum();
        vec![
            reading(&CONNECTED, &front, u64::from(is_connected)),
            reading(&RECONNECTS, &[], self.reconnects.get()),
            reading(&WINDOWS, &front, windows),
        ]
    }

    fn outage(&self) -> Option<(String, String)> {
        let at = self.options.reach.shown();
        let why = match self.standing.get() {
            Standing::Away => format!("is not connected to NATS at {at}"),
            Standing::Hampered => format!("may not subscribe to all that it serves at {at}"),
            Standing::Ready | Standing::Leaving => return None,
        };
        Some((self.bus.borrow().front_name().to_owned(), why))
    }
}

impl Drop for ServedNode {
    fn drop(&mut self) {
        if let Ok(mut own) = OWN.lock() {
            own.remove(&self.identity.id);
        }
    }
}

/// How one connection of a node came to its end.
enum Served {
    Stopped,
    /// Another takes its place.
    Moved,
    /// The server would not have us.
    Refused(String),
    Lost,
}

/// Ends a task whose owner is gone.
struct Owned(JoinHandle<Result<(), FrontError>>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a node: it is ready, or goes on trying.
pub async fn open(options: NodeOptions, bus: Bus) -> Result<Listening, FrontError> {
    let way = |bus: Bus| -> Rc<dyn Route> { Rc::new(LenientBus::new(Rc::new(bus))) };
    let route = Rc::new(SwappableRoute::new(way(bus.clone())));
    let swapped = route.clone();
    let id = random_id(&mut OsRandom::new());
    if let Ok(mut own) = OWN.lock() {
        own.insert(id.clone());
    }
    let identity = NodeIdentity {
        name: options.name.clone(),
        id,
        prefix: options.prefix.clone(),
        started: started(SystemTime::now()),
    };
    let carrier: Rc<dyn ForwardSession> = Rc::new(Carrier {
        id: identity.id.clone(),
        name: identity.name.clone(),
        prefix: identity.prefix.clone(),
        reach: options.reach.another(),
        nodes: OnceCell::new(),
    });
    forward::carries(bus.front_name(), &carrier);
    let trusted = Rc::new(TrustedCallers::new(bus.clone(), route));
    let route: Rc<dyn Route> = trusted.clone();
    let route = Rc::new(WithSessions { front: bus.front_name().to_owned(), route });
    let waits = options.waits;
    let inbox = new_inbox(&options.reach);
    let node = Rc::new(ServedNode {
        identity,
        options,
        route,
        bus: RefCell::new(bus.clone()),
        changed: Rc::default(),
        stop: watch::Sender::new(None),
        memory: RefCell::default(),
        inbox: RefCell::new(inbox),
        next: RefCell::default(),
        moving: RefCell::default(),
        was_lost: Cell::new(false),
        trusted: trusted.clone(),
        _carrier: carrier,
        standing: Cell::new(Standing::Away),
        windows: RefCell::default(),
        in_flight: Rc::default(),
        reconnects: Cell::new(0),
    });
    let meter: Rc<dyn Meter> = node.clone();
    meters::watch(&meter);
    drop(meter);
    watch_tools(&bus, &node);
    let ((first, came), (line, said)) = (oneshot::channel(), oneshot::channel());
    let tellers = Tellers { first: Some(first), line: Some(line) };
    let serving = Owned(spawn_local(boxed(node.clone().serve(tellers))));
    let ended = || FrontError::failed("the node ended before it was ready");
    let (line, later) = match came.await {
        Ok(First::Ready) => (Some(said.await.map_err(|_| ended())?), None),
        Ok(First::Nobody(why)) if waits => {
            tracing::warn!("{why}; it is tried again until one does");
            (None, Some(said))
        }
        Ok(First::Nobody(why) | First::Refused(why)) => return Err(FrontError::failed(why)),
        Err(_) => return Err(ended()),
    };
    let (led, stopped) = (node.clone(), node);
    let front = RunningFront::new(
        move |bus| {
            watch_tools(&bus, &led);
            led.bus.replace(bus.clone());
            led.trusted.lead_to(bus.clone());
            swapped.set(way(bus));
            led.changed.ring();
        },
        move |patience| {
            let _ = stopped.stop.send_replace(Some(patience.unwrap_or(LAST_CALLS)));
        },
    );
    let serving = Box::pin(async move {
        let mut serving = serving;
        match (&mut serving.0).await {
            Ok(ended) => ended,
            Err(_) => Ok(()),
        }
    });
    Ok(Listening { line, later, front, tls: None, serving })
}

/// A time with microseconds, as the services API has it.
fn started(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}{:03}Z", rfc3339(now).trim_end_matches('Z'), since.subsec_micros() % 1000)
}

/// Tells a node when the tools of a bus change.
fn watch_tools(bus: &Bus, node: &Rc<ServedNode>) {
    let node: Weak<ServedNode> = Rc::downgrade(node);
    let ring: Rc<dyn Fn()> = Rc::new(move || {
        if let Some(node) = node.upgrade() {
            node.changed.ring();
        }
    });
    bus.watch(&ring);
}

impl ServedNode {
    async fn serve(self: Rc<Self>, mut tellers: Tellers) -> Result<(), FrontError> {
        let mut again = Duration::ZERO;
        let mut complained = String::new();
        loop {
            let next = self.next.take();
            let connected = tokio::select! {
                connected = self.connect(next) => connected,
                _ = self.stopped() => return Ok(()),
            };
            match connected {
                Ok(connected) => {
                    let begun = Instant::now();
                    let served = self.clone().serve_on(connected, &mut tellers).await;
                    match served {
                        Served::Stopped => {
                            let moving = self.moving.take();
                            let _ = tokio::time::timeout(LAST_CALLS, moving.join_all()).await;
                            return Ok(());
                        }
                        Served::Moved => {
                            tracing::info!("NATS at {} is left", self.options.reach.shown());
                            continue;
                        }
                        Served::Refused(why) => match tellers.first.take() {
                            Some(first) => {
                                let _ = first.send(First::Refused(why));
                                return Ok(());
                            }
                            None => complain(&mut complained, why),
                        },
                        Served::Lost => {
                            self.was_lost.set(true);
                            let at = self.options.reach.shown();
                            tracing::warn!("lost the connection to NATS at {at}");
                        }
                    }
                    again = after(begun, again);
                }
                Err(failure) => {
                    let is_nobody = failure.kind == FailureKind::Unavailable
                        && failure.message.starts_with("no NATS server");
                    if let Some(first) = tellers.first.take() {
                        let _ = first.send(match is_nobody {
                            true => First::Nobody(failure.message),
                            false => First::Refused(failure.message),
                        });
                    } else if !is_nobody {
                        complain(&mut complained, failure.message);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(jittered(again)) => {}
                _ = self.stopped() => return Ok(()),
            }
            again = (2 * again).clamp(AGAIN, AGAIN_MAX);
        }
    }

    async fn connect(&self, next: Option<Connected>) -> Result<Connected, Failure> {
        match next {
            Some(connected) => Ok(connected),
            None => self.options.reach.connect().await,
        }
    }

    /// Connects to a server that is not about to stop.
    async fn connect_elsewhere(self: Rc<Self>) -> Connected {
        loop {
            match self.options.reach.connect().await {
                Ok(connected) if !connected.info.ldm => return connected,
                _ => tokio::time::sleep(jittered(AGAIN)).await,
            }
        }
    }

    async fn serve_on(self: Rc<Self>, connected: Connected, tellers: &mut Tellers) -> Served {
        let Connected { source, sink, rest, at, info, taken } = connected;
        let (bus, transit) = (self.bus.borrow().clone(), self.options.transit);
        let windows = Rc::new(Cell::new(0));
        self.windows.borrow_mut().retain(|known| known.strong_count() != 0);
        self.windows.borrow_mut().push(Rc::downgrade(&windows));
        let settings = ServerSettings {
            identity: self.identity.clone(),
            at: at.clone(),
            info,
            inbox: self.inbox.borrow().clone(),
            wires: wires(),
            windows,
            in_flight: self.in_flight.clone(),
            trusted: self.options.trust_callers.then(|| {
                let trusted = self.trusted.clone();
                let number: Trusted = Box::new(move |name| trusted.number(name));
                number
            }),
            about: Box::new(move |spec| about(&bus, spec, transit)),
        };
        let machine = Server::new(Instant::now(), settings).with_memory(self.memory.take());
        let front =
            Front::with_sharing(machine, self.route.clone(), Some(TIMEOUT), Sharing::Credited);
        // It asks for its own tools before the server says anything: that rings its bell, or it
        // would wait for the server's first word, which may be half a minute away.
        front.tell_machine(|_, _| {});
        let served = front.clone();
        let mut serving: LocalFuture<'static, Ended> =
            Box::pin(async move { served.serve(source, sink).await });
        let mut give_up_at: Option<tokio::time::Instant> = None;
        let mut leave_by: Option<tokio::time::Instant> = None;
        let mut has_given_up = false;
        let mut elsewhere: Option<LocalFuture<'static, Connected>> = None;
        let ended = loop {
            let is_ready = front.ask(Server::is_ready);
            self.standing.set(match is_ready {
                _ if give_up_at.is_some() => Standing::Leaving,
                true => Standing::Ready,
                false if front.ask(Server::is_hampered) => Standing::Hampered,
                // What takes its place is about to be ready.
                false if self.next.borrow().is_some() => Standing::Ready,
                false => Standing::Away,
            });
            if is_ready {
                self.tell_ready(&at, tellers);
            }
            let is_over = give_up_at.is_some()
                && front.ask(|node| node.has_left() && node.is_idle())
                && front.is_idle();
            if is_over && !std::mem::replace(&mut has_given_up, true) {
                front.tell_machine(Serving::give_up);
            }
            if front.ask(Server::has_moved) {
                front.tell_machine(|node, _| drop(self.memory.replace(node.take_memory())));
                self.inbox.replace(new_inbox(&self.options.reach));
                let left = boxed(async move {
                    until_idle(&front, &mut serving, &taken).await;
                    rest.close().await;
                });
                self.moving.borrow_mut().spawn_local(left);
                return Served::Moved;
            }
            let is_leaving = front.ask(|node| node.info().ldm);
            if is_leaving && is_ready && elsewhere.is_none() && give_up_at.is_none() {
                front.ask(|node| self.options.reach.remember(node.info()));
                elsewhere = Some(Box::pin(self.clone().connect_elsewhere()));
            }
            tokio::select! {
                ended = &mut serving => break ended,
                () = taken.notified() => {}
                () = self.changed.rung() => front.tell(&Notice::ToolsChanged),
                connected = some(&mut elsewhere), if self.next.borrow().is_none() => {
                    self.next.replace(Some(connected));
                    front.tell_machine(Server::move_away);
                }
                patience = self.stopped(), if give_up_at.is_none() => {
                    let now = tokio::time::Instant::now();
                    (give_up_at, leave_by) = (Some(now + patience), Some(now + patience + LEAVING));
                    front.tell_machine(Serving::close);
                }
                () = front.idle(), if give_up_at.is_some() && !front.is_idle() => {}
                () = until(give_up_at), if give_up_at.is_some() && !has_given_up => {
                    has_given_up = true;
                    front.tell_machine(Serving::give_up);
                }
                // A server that takes nothing any more is not waited for.
                () = until(leave_by), if leave_by.is_some() => break Ended::Well,
            }
        };
        self.standing.set(Standing::Away);
        let info = front.ask(|node| node.info().clone());
        self.options.reach.remember(&info);
        front.tell_machine(|node, _| drop(self.memory.replace(node.take_memory())));
        drop(serving);
        rest.close().await;
        match ended {
            _ if give_up_at.is_some() => Served::Stopped,
            Ended::Refused(why) => Served::Refused(why),
            _ => Served::Lost,
        }
    }

    /// Tells that it is ready at this server, to those who have not been told.
    fn tell_ready(&self, at: &str, tellers: &mut Tellers) {
        if let Some(line) = tellers.line.take() {
            let NodeOptions { reach, shown, .. } = &self.options;
            let _ = line.send(format!("listening on {}{at}/{shown}", reach.scheme()));
        }
        if let Some(first) = tellers.first.take() {
            let _ = first.send(First::Ready);
        }
        if self.was_lost.take() {
            self.reconnects.set(self.reconnects.get() + 1);
            tracing::info!("connected to NATS at {at} again");
        }
    }

    /// Waits until it is to stop, and gives how long calls under way have.
    async fn stopped(&self) -> Duration {
        let mut stop = self.stop.subscribe();
        // Cannot fail: the sender is ours.
        let asked = stop.wait_for(Option::is_some).await;
        asked.ok().and_then(|asked| *asked).unwrap_or(LAST_CALLS)
    }
}

/// Warns of what is tried again and again, once.
fn complain(complained: &mut String, why: String) {
    if *complained != why {
        tracing::warn!("{why}");
        *complained = why;
    }
}

/// Serves what is under way to its end on a connection whose place another has taken.
async fn until_idle(
    front: &Front<Server>,
    serving: &mut LocalFuture<'static, Ended>,
    taken: &Notify,
) {
    let until = tokio::time::Instant::now() + MOVING;
    while !(front.ask(Server::is_idle) && front.is_idle()) {
        tokio::select! {
            _ = &mut *serving => return,
            () = taken.notified() => {}
            () = front.idle(), if !front.is_idle() => {}
            () = tokio::time::sleep_until(until) => break,
        }
    }
    front.tell_machine(Serving::give_up);
    let _ = tokio::time::timeout(LEAVING, serving).await;
}

async fn some<T>(future: &mut Option<LocalFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// What is known of a tool besides its description; nothing of one that is not served.
fn about(bus: &Bus, spec: &ToolSpec, transit: bool) -> Option<About> {
    match bus.owner_of(&spec.name) {
        Some((_, wire, _)) if wire == WIRE && !transit => None,
        Some((back, _, pinned)) => Some(About { back: back.to_string(), pinned }),
        None => Some(About::default()),
    }
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
