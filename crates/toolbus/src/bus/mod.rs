//! The bus: who answers, and which call goes to whom.
//!
//! A [`Bus`] is made of addresses or of a config. It lists what its backs offer and hands
//! each call to its owner; what comes back goes straight to the caller.

#[cfg(all(feature = "http", not(feature = "unstable")))]
pub(crate) mod admin;
#[cfg(all(feature = "http", feature = "unstable"))]
pub mod admin;
mod allow;
mod answer;
mod assembly;
pub mod back;
mod builder;
mod call_log;
#[cfg(not(feature = "unstable"))]
pub(crate) mod catalogue;
#[cfg(feature = "unstable")]
pub mod catalogue;
pub mod config;
mod handle;
mod health;
mod idle;
#[cfg(not(feature = "unstable"))]
pub(crate) mod journal;
#[cfg(feature = "unstable")]
pub mod journal;
#[cfg(not(feature = "unstable"))]
pub(crate) mod lenient;
#[cfg(feature = "unstable")]
pub mod lenient;
mod lister;
#[cfg(not(feature = "unstable"))]
pub(crate) mod lock;
#[cfg(feature = "unstable")]
pub mod lock;
mod member;
pub(crate) mod meters;
pub mod observe;
#[cfg(all(feature = "otel", not(feature = "unstable")))]
pub(crate) mod otel;
#[cfg(all(feature = "otel", feature = "unstable"))]
pub mod otel;
mod owners;
mod reply;
mod request;
mod route;
#[cfg(not(feature = "unstable"))]
#[allow(dead_code, reason = "only our own programs have a run socket")]
pub(crate) mod run;
#[cfg(feature = "unstable")]
pub mod run;
#[cfg(not(feature = "unstable"))]
pub(crate) mod searching;
#[cfg(feature = "unstable")]
pub mod searching;
mod starting;
mod swappable;
#[cfg(not(feature = "unstable"))]
pub(crate) mod view;
#[cfg(feature = "unstable")]
pub mod view;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tokio::task::JoinSet;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Failure, ToolName, ToolSpec, Wire};

use crate::address::Address;
use crate::scope::Scope;
use crate::task::boxed;

use self::catalogue::{Catalogue, NameTaken, Naming};
use self::lenient::LenientBus;
use self::member::{Known, Member};
use self::observe::Observers;
use self::run::Lent;
use self::searching::{SearchWish, Searching};
use self::starting::hand_to;
use self::view::{Gate, House};

pub use crate::engine::Route;
pub use allow::AllowedInVain;
pub use answer::answer;
pub use builder::{BuildError, BusBuilder};
pub use handle::{BlockingBus, BusHandle, ReplyStream};
pub use lister::Listed;
pub use reply::{Event, Reply};
pub use request::{LocalReplyStream, Request};
pub use swappable::SwappableRoute;

/// How long a call may be quiet unless flag or config says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the first list of a front waits for backs that were never listed, unless flag or
/// config says otherwise.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// Tools of many backs, called by name.
///
/// A bus is made by [`Bus::builder`] and lives on one thread, inside of a tokio [`LocalSet`] or
/// [`LocalRuntime`]: [`BusBuilder::run`] is one, `#[tokio::main(flavor = "local")]` another.
/// Everywhere else [`BusBuilder::spawn`] gives the bus a thread of its own and you a
/// [`BusHandle`].
///
/// ```
/// use toolbus::{Bus, json};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sum: i64 = Bus::builder().address("builtin:")?.run(async |bus| {
///     bus.call("add", json!({"a": 1, "b": 2})).await?.read()
/// })??;
/// assert_eq!(sum, 3);
/// # Ok(())
/// # }
/// ```
///
/// Programs are started by the first call that needs them and kept; one that has died is started
/// again by the next call. [`Bus::shutdown`] says goodbye to them, dropping the bus without that
/// kills them, and the guard kills them however this program ends.
///
/// A clone is the same bus.
///
/// [`LocalSet`]: tokio::task::LocalSet
/// [`LocalRuntime`]: tokio::runtime::LocalRuntime
#[derive(Clone)]
pub struct Bus {
    /// How tools are named, but for those of the first backs.
    naming: Naming,
    /// So many of the backs, from the first on, keep the plain names of their tools.
    plain: usize,
    members: Vec<Rc<Member>>,
    /// As the backs were last heard.
    catalogue: Rc<RefCell<Rc<Catalogue>>>,
    /// What is known of each back, in their order, since it was last asked.
    known: Rc<RefCell<Vec<Known>>>,
    /// The way of [`Bus::call`] and [`Bus::tools`]. Made when it is first needed, of a bus with
    /// the same catalogue that has no such way itself: two that hold each other would never go.
    lenient: Rc<OnceCell<LenientBus>>,
    /// Whose tools they are, as clients are told.
    about: Option<Rc<About>>,
    /// Who is told of its calls.
    observers: Observers,
    /// How long the first list of a front waits for backs that were never listed.
    list_timeout: Duration,
    /// What its front says of searching.
    wanted: SearchWish,
    /// How its tools are searched for, if they are.
    searching: Option<Rc<Searching>>,
    /// What its config says of views, callers and limits, if anything.
    house: Option<Rc<House>>,
    /// What stands between its callers and its backs, if anything does.
    gate: Option<Rc<Gate>>,
    /// Whose process makes its calls, if not this one.
    lent: Option<Rc<Lent>>,
    /// Whatever it does is done in this.
    scope: Scope,
}

/// Whose tools a front offers, as those of its clients are told whose wire has a place for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How its tools are to be used.
    pub instructions: Option<String>,
}

impl Bus {
    /// Puts together which backs there are.
    pub fn builder() -> BusBuilder {
        BusBuilder::new()
    }

    /// Calls a tool: `bus.call("add", json!({"a": 1, "b": 2})).await`.
    ///
    /// The arguments are anything that can be written as JSON, or [`Json`]; `()` is none. What
    /// is returned can be told more before it is awaited, [`Request::timeout`] for one, or give
    /// its parts and progress as they come, by [`Request::stream`]. Nothing is sent before that,
    /// and dropping the future or the stream cancels the call.
    ///
    /// [`Json`]: crate::Json
    pub fn call(&self, tool: impl Into<ToolName>, args: impl Serialize) -> Request<&Bus> {
        Request::new(self, tool.into(), &args)
    }

    /// Asks every back for its tools, and gives them under the names they are called by.
    ///
    /// Who cannot be reached is left out, with a warning in the log; if that is all of them, or
    /// if two offer tools of one name, it is a failure. [`Bus::list`] tells back by back.
    pub async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.scope.clone().enter_while(self.lenient().tools()).await
    }

    /// The front whose calls it answers; empty where there is none.
    #[allow(dead_code, reason = "a build may have no front that asks")]
    pub(crate) fn front_name(&self) -> &str {
        self.observers.front_name()
    }

    fn lenient(&self) -> &LenientBus {
        self.lenient.get_or_init(|| {
            let bus = Bus { lenient: Rc::default(), ..self.clone() };
            LenientBus::patient(Rc::new(bus))
        })
    }

    /// Has it no backs?
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn new(naming: Naming, members: Vec<Rc<Member>>) -> Bus {
        let known = RefCell::new(vec![Known::default(); members.len()]);
        Bus {
            naming,
            plain: 0,
            members,
            catalogue: Rc::default(),
            known: Rc::new(known),
            lenient: Rc::default(),
            about: None,
            observers: Observers::default(),
            list_timeout: LIST_TIMEOUT,
            wanted: SearchWish::default(),
            searching: None,
            house: None,
            gate: None,
            lent: None,
            scope: Scope::current(),
        }
    }

    pub(crate) fn list_timeout(&self) -> Duration {
        self.list_timeout
    }

    /// Whose tools they are, as clients are told; else those of toolbus.
    pub fn about(&self) -> Option<&Rc<About>> {
        self.about.as_ref()
    }

    /// Calls this whenever a back says that its tools have changed. It is called in the middle
    /// of other work and must not call back.
    pub fn watch(&self, changed: &Rc<dyn Fn()>) {
        self.members.iter().for_each(|member| member.back.watch(changed.clone()));
    }

    /// The names of the backs, and the wires that they speak.
    pub fn backs(&self) -> impl Iterator<Item = (Arc<str>, Wire)> {
        self.members.iter().map(|member| (member.name.clone(), member.back.wire()))
    }

    /// The wire in which everything may be said as it is: that of the only back, unless some
    /// of its tools are not to be called.
    pub fn native_wire(&self) -> Option<Wire> {
        self.lone_wire().filter(|_| self.selection().is_none())
    }

    /// What backs say of themselves that the lock answers for, to a legacy and to a modern client
    /// of their own wire.
    pub(crate) fn known_greetings(&self) -> Vec<(usize, [Json; 2])> {
        let known = |(index, member): (usize, &Rc<Member>)| {
            Some((index, member.guard.as_ref()?.greetings()?))
        };
        self.members.iter().enumerate().filter_map(known).collect()
    }

    /// The only back is passed through: its lists are its own, but for what the lock holds back.
    pub(crate) fn pass_through(&self) {
        let guards = self.members.iter().filter_map(|member| member.guard.as_ref());
        guards.for_each(|guard| guard.pass_through());
    }

    /// Waits until no call is under way that a bus with these backs has made. One task may wait.
    pub async fn idle(&self) {
        for member in &self.members {
            member.in_flight.none().await;
        }
    }

    /// How things stand with what its backs have reached, a line each, for people.
    #[cfg(feature = "unstable")]
    pub fn remarks(&self) -> Vec<String> {
        self.members.iter().flat_map(|member| member.bare.remarks()).collect()
    }

    /// How long the most patient of its backs lets a call be quiet.
    pub fn patience(&self) -> Duration {
        let own = self.members.iter().map(|member| member.settings.timeout.unwrap_or(TIMEOUT));
        own.max().unwrap_or(TIMEOUT)
    }

    /// Says goodbye to all backs at the same time and waits until no process is left.
    pub async fn shutdown(&self) {
        self.part_from_lent().await;
        let mut leaving = JoinSet::new();
        for member in &self.members {
            let back = member.back.clone();
            let leave = async move { back.shutdown().await };
            leaving.spawn_local(boxed(self.scope.clone().enter_while(leave)));
        }
        leaving.join_all().await;
    }

    /// The user wants us gone: the goodbye is to be a short one.
    pub fn hurry(&self) {
        self.members.iter().for_each(|member| member.back.hurry());
    }

    /// Cuts the goodbye short: what processes are left are killed.
    pub fn kill(&self) {
        self.members.iter().for_each(|member| member.back.kill());
    }
}

/// Why the tools of a bus cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BusError {
    /// A back did not say what it has.
    #[error("cannot reach `{address}`: {failure}")]
    Unreachable {
        /// Where it should be.
        address: Address,
        /// What went wrong.
        failure: Box<Failure>,
    },
    /// Two backs offer tools of one name.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
}

impl BusError {
    /// What the reader can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            BusError::Unreachable { failure, .. } => failure.last_words.as_ref()?.hint.clone(),
            BusError::NameTaken(taken) => taken.hint(),
        }
    }
}

#[cfg(test)]
mod tests;
