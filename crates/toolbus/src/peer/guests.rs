//! Who has come in by a front: each connection belongs to one caller, where callers are told
//! apart, and is led to the tools of that one.
//!
//! What is shown is judged when it comes, and anew when the config was read again: who is no
//! caller of the front any more is cut off, and all others go on.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

use toolbus_proto::caller::{CallerName, Digest, Doors, Reading, Shown, Stranger};
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use crate::bus::lenient::LenientBus;
use crate::bus::{Bus, Route, SwappableRoute};
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::transport::PeerIdentity;
use crate::wake::Wake;

/// How what is shown is read.
pub(crate) const READING: Reading = Reading { sha256, subject: toolbus_proto::x509::subject };

fn sha256(bytes: &[u8]) -> Digest {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// All who have come in by one front, and the ways to their tools.
pub(crate) struct Guests {
    /// `None`: there is one way for all, and it stays.
    bus: RefCell<Option<Bus>>,
    /// By whose they are; that of `None` is for all where callers are not told apart.
    ways: RefCell<HashMap<Option<CallerName>, Rc<dyn Route>>>,
    inside: RefCell<Vec<Weak<Guest>>>,
    /// Told at once when others may come in, or are led elsewhere.
    following: RefCell<Vec<Following>>,
}

type Following = Box<dyn Fn(&Bus)>;

/// One connection.
pub(crate) struct Guest {
    identity: PeerIdentity,
    caller: RefCell<Option<CallerName>>,
    way: Rc<SwappableRoute>,
    /// Why it may not stay.
    cut_off: Cell<Option<&'static str>>,
    cut: Wake,
}

impl Guests {
    /// Those who come to the tools of this bus. Backs that cannot be reached are left out.
    pub(crate) fn of(bus: Bus) -> Guests {
        Guests::with(Some(bus), HashMap::new())
    }

    /// Those who are all led the same way.
    pub(crate) fn by(route: Rc<dyn Route>) -> Guests {
        Guests::with(None, HashMap::from([(None, route)]))
    }

    fn with(bus: Option<Bus>, ways: HashMap<Option<CallerName>, Rc<dyn Route>>) -> Guests {
        let (bus, ways) = (RefCell::new(bus), RefCell::new(ways));
        Guests { bus, ways, inside: RefCell::default(), following: RefCell::default() }
    }

    /// A connection has come that shows this.
    pub(crate) fn welcome(&self, identity: PeerIdentity) -> Result<Rc<Guest>, Stranger> {
        let caller = match self.doors() {
            None => None,
            Some(doors) => Some(doors.judge(&shown(&identity))?),
        };
        let way = Rc::new(SwappableRoute::new(self.way_of(caller.as_ref())));
        let caller = RefCell::new(caller);
        let (cut_off, cut) = (Cell::default(), Wake::default());
        let guest = Rc::new(Guest { identity, caller, way, cut_off, cut });
        let mut inside = self.inside.borrow_mut();
        inside.retain(|guest| 0 < guest.strong_count());
        inside.push(Rc::downgrade(&guest));
        Ok(guest)
    }

    /// A connection has come that shows this; `peer` is what the log calls it.
    pub(crate) fn enter(&self, identity: PeerIdentity, peer: &str) -> Entry {
        match self.welcome(identity) {
            Ok(guest) => Entry::Guest(guest),
            Err(stranger) => {
                tracing::info!(peer, "refused: {stranger}");
                Entry::Stranger(Rc::new(TurnAway { stranger, told: Wake::default() }))
            }
        }
    }

    /// Who may come in, where callers are told apart.
    pub(crate) fn doors(&self) -> Option<Doors> {
        self.bus.borrow().as_ref().and_then(Bus::doors)
    }

    /// Looks at the bus, where there is one.
    #[cfg(feature = "http")]
    pub(crate) fn with_bus<T>(&self, look: impl FnOnce(Option<&Bus>) -> T) -> T {
        look(self.bus.borrow().as_ref())
    }

    /// Calls this when others may come in, or are led elsewhere.
    pub(crate) fn at_change(&self, follow: impl Fn(&Bus) + 'static) {
        self.following.borrow_mut().push(Box::new(follow));
    }

    /// Lets other users come by this socket file if one of them is a caller, now and after each
    /// change: the kernel says who it is.
    pub(crate) fn share_file(&self, file: PathBuf) {
        set_mode(&file, self.doors().as_ref());
        self.at_change(move |bus| set_mode(&file, bus.doors().as_ref()));
    }

    /// The way to the tools of this caller; of none, where they are not told apart.
    pub(crate) fn way_of(&self, caller: Option<&CallerName>) -> Rc<dyn Route> {
        if let Some(way) = self.ways.borrow().get(&caller.cloned()) {
            return way.clone();
        }
        let bus = self.bus.borrow().clone();
        let bus = bus.expect("there is a bus, or one way for all");
        let bus = caller.map_or_else(|| bus.clone(), |caller| bus.as_caller(caller));
        let way: Rc<dyn Route> = Rc::new(LenientBus::new(Rc::new(bus)));
        self.ways.borrow_mut().insert(caller.cloned(), way.clone());
        way
    }

    /// Calls go to the backs of `bus` from now on, by those who may come in there. Calls that are
    /// under way stay where they are, unless their caller may not.
    pub(crate) fn lead_to(&self, bus: Bus) {
        self.bus.replace(Some(bus.clone()));
        self.ways.borrow_mut().clear();
        let inside: Vec<_> = self.inside.borrow().iter().filter_map(Weak::upgrade).collect();
        let doors = self.doors();
        for guest in inside {
            let was = guest.caller.borrow().clone();
            let is = match (&doors, was) {
                (None, None) => Ok(None),
                // What was let in without a name has none to go on with.
                (Some(_), None) => Err("unauthorized"),
                (None, Some(_)) => Err("forbidden"),
                (Some(doors), Some(_)) => {
                    let judged = doors.judge(&shown(&guest.identity));
                    judged.map(Some).map_err(|stranger| stranger.reason())
                }
            };
            match is {
                Ok(caller) => {
                    guest.way.set(self.way_of(caller.as_ref()));
                    guest.caller.replace(caller);
                }
                Err(why) => {
                    guest.cut_off.set(Some(why));
                    guest.cut.ring();
                }
            }
        }
        self.following.borrow().iter().for_each(|follow| follow(&bus));
    }
}

fn set_mode(file: &Path, doors: Option<&Doors>) {
    let ours = rustix::process::geteuid().as_raw();
    let is_for_others = doors.is_some_and(|doors| doors.uids().any(|uid| uid != ours));
    let mode = if is_for_others { 0o666 } else { 0o600 };
    if let Err(error) = fs::set_permissions(file, fs::Permissions::from_mode(mode)) {
        tracing::warn!("cannot set who may connect to `{}`: {error}", file.display());
    }
}

fn shown(identity: &PeerIdentity) -> Shown<'_> {
    Shown { token: None, certificate: identity.certificate.as_deref(), uid: identity.uid }
}

/// What became of a connection that has come.
pub(crate) enum Entry {
    Guest(Rc<Guest>),
    Stranger(Rc<TurnAway>),
}

impl Entry {
    /// Where its calls go.
    pub(crate) fn route(&self) -> Rc<dyn Route> {
        match self {
            Entry::Guest(guest) => guest.route(),
            Entry::Stranger(away) => away.clone(),
        }
    }

    /// Waits until it may not stay any longer; who was never welcome is told so by then, which is
    /// on its way once the front is `idle`. One task may wait.
    pub(crate) async fn over(&self, idle: impl Future<Output = ()>) {
        match self {
            Entry::Guest(guest) => drop(guest.cut().await),
            Entry::Stranger(away) => {
                away.told.rung().await;
                idle.await;
            }
        }
    }
}

impl Guest {
    /// The way to its tools.
    pub(crate) fn route(&self) -> Rc<dyn Route> {
        self.way.clone()
    }

    /// Waits until it may not stay any longer, and tells why. One task may wait.
    pub(crate) async fn cut(&self) -> &'static str {
        loop {
            if let Some(why) = self.cut_off.get() {
                return why;
            }
            self.cut.rung().await;
        }
    }
}

/// Answers who is no caller of a front: the first call is told so, and then it is to go.
pub(crate) struct TurnAway {
    stranger: Stranger,
    told: Wake,
}

impl Route for TurnAway {
    fn start(&self, _call: Call, down: ReplyTo) -> RunningCall {
        let mut failure = Failure::new(FailureKind::Unavailable, self.stranger.to_string());
        let reason = self.stranger.reason();
        failure.detail = Some(Json::from_trusted(format!("{{\"reason\":\"{reason}\"}}")));
        let _ = down.send(Down::Done(Err(failure)));
        self.told.ring();
        RunningCall::ended()
    }
}
