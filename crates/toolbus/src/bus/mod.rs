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
#[cfg(not(feature = "unstable"))]
pub(crate) mod lock;
#[cfg(feature = "unstable")]
pub mod lock;
pub(crate) mod meters;
pub mod observe;
#[cfg(all(feature = "otel", not(feature = "unstable")))]
pub(crate) mod otel;
#[cfg(all(feature = "otel", feature = "unstable"))]
pub mod otel;
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
mod swappable;
#[cfg(not(feature = "unstable"))]
pub(crate) mod view;
#[cfg(feature = "unstable")]
pub mod view;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;
use tokio::task::JoinSet;
use toolbus_proto::channel::Down;
use toolbus_proto::json::Json;
use toolbus_proto::limit;
use toolbus_proto::tool::{
    Call, Deadline, Failure, FailureKind, Outcome, ToolName, ToolSpec, What, Wire,
};
use toolbus_proto::view::Rule;

use crate::address::{Address, Place};
use crate::bus::back::{Back, unknown_tool};
use crate::chance;
use crate::did_you_mean::nearest;
use crate::engine::calls::{InFlight, ReplyTo, RunningCall};
use crate::peer::open::{file_name, open_one_of};
use crate::peer::settings::Settings;
use crate::peer::{OpenError, Registry, open};
use crate::scope::Scope;
use crate::task::boxed;

use self::catalogue::{Catalogue, NameTaken, Naming, Offer};
use self::config::{BackConfig, Config};
use self::health::Health;
use self::idle::Idle;
use self::lenient::LenientBus;
use self::lock::{Guarded, Plan};
use self::observe::{Observed, Observer, Observers};
use self::run::Lent;
use self::searching::{SearchAnswer, SearchWish, Searching, Sought};
use self::view::{Gate, House, Limiter};

pub use crate::engine::Route;
pub use allow::AllowedInVain;
pub use answer::answer;
pub use builder::{BuildError, BusBuilder};
pub use handle::{BlockingBus, BusHandle, ReplyStream};
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

/// One back as the bus knows it.
struct Member {
    name: Arc<str>,
    /// What the log calls it, which is what it calls its process.
    log_name: Arc<str>,
    address: Address,
    back: Rc<dyn Back>,
    /// The same without its guard.
    bare: Rc<dyn Back>,
    /// What stands before it, if the config has a lock.
    guard: Option<Rc<Guarded>>,
    /// How many calls it may be given, if that is limited.
    limiter: Option<Rc<Limiter>>,
    /// Its calls that are under way, by whatever bus has it.
    in_flight: Rc<InFlight>,
    settings: Settings,
    /// Its tools that may be called, by their own names; `None` for all.
    allow: Option<HashSet<ToolName>>,
    /// The list that was last looked through for them, and those of it.
    last_allowed: RefCell<Option<[Arc<[ToolSpec]>; 2]>>,
    /// It was said what of that it does not have.
    is_warned_of_allow: Cell<bool>,
    /// Whether it answers, as far as that is known.
    health: Rc<Health>,
}

/// What is known of a back.
#[derive(Clone, Default)]
struct Known {
    /// Its tools as they were last listed.
    tools: Option<Arc<[ToolSpec]>>,
    /// Why it could not be listed of late.
    failure: Option<Failure>,
}

/// What one back said when it was asked for its tools.
pub struct Listed {
    /// Its name.
    pub back: Arc<str>,
    /// Where it is.
    pub address: Address,
    /// Its tools by their own names, sorted as it gave them; or why there are none.
    pub tools: Result<Arc<[ToolSpec]>, Failure>,
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

    /// Takes in one more back, whose tools are named as those of the others are.
    pub fn join(&mut self, name: &str, back: impl Back + 'static) -> Result<(), BuildError> {
        builder::check_name(name, self.members.iter().map(|member| &*member.name))?;
        let member = Member::foreign(name, Rc::new(back));
        let members = self.members.iter().cloned().chain([Rc::new(member)]);
        let (observers, list_timeout) = (self.observers.clone(), self.list_timeout);
        let (wanted, searching) = (self.wanted.clone(), self.searching.clone());
        let scope = self.scope.clone();
        let bus = Bus::new(self.naming, members.collect());
        *self = Bus { observers, list_timeout, wanted, searching, scope, ..bus };
        Ok(())
    }

    /// The same bus; `observer` is told of each call that is made by this handle and its clones.
    #[must_use]
    pub fn observed_by(self, observer: Rc<dyn Observer>) -> Bus {
        let observers = self.observers.with(observer);
        Bus { observers, lenient: Rc::default(), ..self }
    }

    /// The same bus, observed by these and by no other.
    #[must_use]
    pub fn observed_only_by(self, all: impl IntoIterator<Item = Rc<dyn Observer>>) -> Bus {
        let observers = self.observers.replaced(all.into_iter().collect());
        Bus { observers, lenient: Rc::default(), ..self }
    }

    /// The same bus, for calls that come from the front of this name: its observers are told so.
    #[must_use]
    pub fn for_front(self, front: &str) -> Bus {
        let observers = self.observers.of_front(front);
        Bus { observers, lenient: Rc::default(), ..self }
    }

    /// Whose a tool is: the back's name, its wire, and whether it keeps state between calls.
    #[allow(dead_code, reason = "a build may have no front that tells it")]
    pub(crate) fn owner_of(&self, name: &ToolName) -> Option<(Arc<str>, Wire, bool)> {
        let (member, ..) = self.look_up(name)?;
        let Member { address, settings, back, .. } = member;
        let kind = observe::kind_of(back.wire()).unwrap_or(address.kind());
        let is_pinned = settings.pin.unwrap_or_else(|| kind.keeps_state(settings));
        Some((member.name.clone(), back.wire(), is_pinned))
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

    /// A bus of the backs at these addresses; their tools keep their plain names.
    pub fn of_addresses(addresses: &[Address], settings: &Settings) -> Result<Bus, OpenError> {
        let mut members: Vec<Rc<Member>> = Vec::new();
        for address in addresses {
            let name = unused(&address.peer_name(), &members);
            let mut settings = settings.clone();
            // Of several each must be known by a name of its own, in its process's lines, too.
            if 1 < addresses.len() {
                settings.name.get_or_insert_with(|| name.clone());
            }
            let back = open(address, &settings)?;
            members.push(Rc::new(Member::new(name, address.clone(), back, &settings)));
        }
        Ok(Bus::new(Naming::Plain, members))
    }

    /// A bus of the backs in a config; their tools are `<back>.<tool>`.
    pub fn of_config(config: &Config) -> Result<Bus, OpenError> {
        Bus::new(Naming::Dotted, Vec::new()).reloaded(config)
    }

    /// The bus of a config that is read again: a back that is set up as before is the one of
    /// before, with its process and what is under way there. Calls that were begun stay observed as
    /// they were; who is to observe those of the new bus is [said](Bus::observed_by) anew.
    pub fn reloaded(&self, config: &Config) -> Result<Bus, OpenError> {
        self.scope.enter(|| self.reloaded_in_scope(config))
    }

    fn reloaded_in_scope(&self, config: &Config) -> Result<Bus, OpenError> {
        let before = self.known.borrow();
        let house = House::of(config, self.house.as_deref());
        let members = config.backs.iter().map(|back| {
            let same = self.members.iter().position(|member| member.is_set_up_as(back));
            let (name, address) = (back.name.clone(), back.address.clone());
            let (mut member, known) = match same {
                Some(same) => {
                    let Member { bare: opened, in_flight, .. } = &*self.members[same];
                    let member = Member::new(name, address, opened.clone(), &back.settings);
                    let in_flight = in_flight.clone();
                    (Member { in_flight, ..member }, before[same].clone())
                }
                None => {
                    let opened = open_idle(back)?;
                    (Member::new(name, address, opened, &back.settings), Known::default())
                }
            };
            if let Some(same) = same {
                member.health = self.members[same].health.clone();
            }
            member.limiter = house.as_ref().and_then(|house| house.limiter_of_back(&back.name));
            member.allow = back.allow.as_ref().map(|allow| allow.iter().cloned().collect());
            let before = same.and_then(|same| self.members[same].guard.clone());
            if let Some(plan) = member.plan(config, back) {
                let is_shut = plan.is_shut();
                let guard = match before.filter(|before| before.plan().is_as(&plan)) {
                    Some(guard) => guard,
                    None => Guarded::new(member.bare.clone(), plan),
                };
                if is_shut {
                    tracing::warn!(
                        "back.{name} is not in `toolbus.lock` and is not served; `toolbus lock approve {name}` takes it in",
                        name = member.name
                    );
                }
                // One that runs is compared at once with what is pinned now.
                if same.is_some() && guard.runs() {
                    guard.compare_again();
                }
                member.back = guard.clone();
                member.guard = Some(guard);
            }
            Ok((Rc::new(member), known))
        });
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let was_locked = self.members.iter().any(|member| member.guard.is_some());
        if was_locked && config.locking.lock.is_none() {
            tracing::warn!("`toolbus.lock` is gone: tools are no longer pinned");
        }
        let (members, known): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        // Who has no gate of its own must still ask the limits of its backs.
        let is_limited = |member: &Rc<Member>| member.limiter.is_some();
        let is_limited = members.iter().any(is_limited);
        let gate = house.as_ref().filter(|_| is_limited).map(|house| Rc::new(house.gate()));
        let known = Rc::new(RefCell::new(known));
        Ok(Bus { known, house, gate, ..Bus::new(Naming::Dotted, members) })
    }

    /// A bus of those of our backs that `other` does not have.
    pub fn without(&self, other: &Bus) -> Bus {
        let is_theirs = |member: &Rc<Member>| {
            other.members.iter().any(|theirs| Rc::ptr_eq(&theirs.bare, &member.bare))
        };
        let members = self.members.iter().filter(|member| !is_theirs(member)).cloned();
        Bus { scope: self.scope.clone(), ..Bus::new(self.naming, members.collect()) }
    }

    /// The same bus with the backs of another before its own: whatever its own tools are called,
    /// those of the others keep their plain names.
    #[must_use]
    pub fn beside(self, others: &Bus) -> Bus {
        let members = others.members.iter().chain(&self.members).cloned().collect();
        let (naming, plain) = (self.naming, others.members.len());
        let Bus { observers, about, list_timeout, wanted, searching, house, gate, scope, .. } =
            self;
        let bus = Bus::new(naming, members);
        // What the views show is of these backs and no others.
        Bus { plain, observers, about, list_timeout, wanted, searching, house, gate, scope, ..bus }
    }

    /// Has it no backs?
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The same bus with names that have no dots of ours: plain for one back, else
    /// `<back>_<tool>`.
    pub fn named_without_dots(self) -> Bus {
        let naming = if self.members.len() == 1 { Naming::Plain } else { Naming::Underscored };
        let Bus {
            known,
            observers,
            about,
            list_timeout,
            wanted,
            searching,
            house,
            gate,
            scope,
            ..
        } = self;
        let selection = gate.as_ref().and_then(|gate| gate.selection.as_deref());
        let catalogue = house.as_ref().and_then(|house| house.catalogue(naming, selection));
        let bus = Bus { house, gate, scope, ..Bus::new(naming, self.members) };
        let catalogue = catalogue.unwrap_or_else(|| bus.catalogue.clone());
        Bus { known, observers, about, list_timeout, wanted, searching, catalogue, ..bus }
    }

    /// A bus of backs that were opened elsewhere, by name.
    #[cfg(test)]
    fn of_backs(naming: Naming, backs: Vec<(Address, Rc<dyn Back>)>) -> Bus {
        let member = |(address, back): (Address, Rc<dyn Back>)| {
            Rc::new(Member::new(address.peer_name(), address, back, &Settings::default()))
        };
        Bus::new(naming, backs.into_iter().map(member).collect())
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

    /// The same bus, for a front whose first list waits so long for backs that were never listed.
    #[must_use]
    pub fn listing_within(self, list_timeout: Duration) -> Bus {
        Bus { list_timeout, lenient: Rc::default(), ..self }
    }

    pub(crate) fn list_timeout(&self) -> Duration {
        self.list_timeout
    }

    /// The same bus, whose fronts tell their clients that it is this one, and not toolbus.
    #[must_use]
    pub fn introduced_as(self, about: About) -> Bus {
        Bus { about: Some(Rc::new(about)), ..self }
    }

    /// Whose tools they are, as clients are told; else those of toolbus.
    pub fn about(&self) -> Option<&Rc<About>> {
        self.about.as_ref()
    }

    /// Asks every back for its tools, all at the same time; what one cannot say does not keep
    /// the others from being listed.
    pub async fn list(&self) -> Vec<Listed> {
        self.list_by(Deadline::never(Instant::now())).await
    }

    /// The same, but a back that has not answered when the total of `deadline` is over is not
    /// waited for.
    pub async fn list_by(&self, deadline: Deadline) -> Vec<Listed> {
        self.scope.clone().enter_while(self.list_in_scope(deadline)).await
    }

    async fn list_in_scope(&self, deadline: Deadline) -> Vec<Listed> {
        let until = deadline.total.map(|total| deadline.asked + total);
        let mut asked = JoinSet::new();
        for (index, member) in self.members.iter().enumerate() {
            let member = member.clone();
            let is_shown = self.may_show_tools(index);
            asked.spawn_local(boxed(async move {
                // What shows nothing of a back does not even start it.
                if !is_shown {
                    return (index, Ok(Arc::default()));
                }
                let Some(until) = until else { return (index, member.tools().await) };
                let tools = tokio::time::timeout_at(until.into(), member.tools()).await;
                (index, tools.unwrap_or_else(|_| Err(deadline.missed())))
            }));
        }
        let mut answers: Vec<_> = asked.join_all().await;
        answers.sort_by_key(|(index, _)| *index);
        let listed = |(index, tools): (usize, Result<Arc<[ToolSpec]>, Failure>)| {
            let member = &self.members[index];
            Listed {
                back: member.name.clone(),
                address: member.address.clone(),
                tools: tools.map(|tools| member.allowed(tools)),
            }
        };
        answers.into_iter().map(listed).collect()
    }

    /// Asks every back for its tools and offers them from now on. A front does this before it
    /// serves.
    pub async fn open(&self) -> Result<(), BusError> {
        let listed = self.list().await;
        for Listed { address, tools, .. } in &listed {
            if let Err(failure) = tools {
                let (address, failure) = (address.clone(), Box::new(failure.clone()));
                return Err(BusError::Unreachable { address, failure });
            }
        }
        self.warn_of_allowed_in_vain();
        Ok(self.offer(&listed)?)
    }

    /// Offers from now on what need not be asked for: the tools inside toolbus itself. Who
    /// calls one of those waits for no other back.
    pub fn offer_own(&self) {
        let listed = self.members.iter().map(|member| {
            let is_known = member.back.wire() == Wire::INSIDE || member.is_answered_for();
            let own = is_known.then(|| {
                let mut tools = self.scope.enter(|| member.back.tools());
                tools.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            });
            let tools = match own {
                Some(Poll::Ready(tools)) => tools.map(|tools| member.allowed(tools)),
                _ => Err(Failure::new(FailureKind::Unavailable, "nobody has asked yet")),
            };
            Listed { back: member.name.clone(), address: member.address.clone(), tools }
        });
        // Names that fall together are told when all backs have been asked.
        let _ = self.offer(&listed.collect::<Vec<_>>());
        // That they were not asked is no fault of theirs.
        self.known.borrow_mut().iter_mut().for_each(|known| known.failure = None);
    }

    /// Offers from now on what [`Bus::list`] has found.
    ///
    /// What a back had that cannot be listed now is still known to be its: a call of that is not
    /// unknown, but goes there and fails as it must. Of two tools whose names are spelled alike
    /// the first is offered, with a warning; a name that two backs offer is an error.
    pub fn offer(&self, listed: &[Listed]) -> Result<(), NameTaken> {
        self.offer_by(listed, Catalogue::strictly)
    }

    /// The same for a front on which the views of its callers decide: of two tools that one of
    /// them calls alike the second is left out, with a warning.
    pub(crate) fn offer_as_seen(&self, listed: &[Listed]) -> Result<(), NameTaken> {
        match self.selection() {
            Some(_) => self.offer_by(listed, Ok),
            None => self.offer(listed),
        }
    }

    /// No back could be listed: what each of them said is known from now on, and what is offered stays.
    fn note_failures(&self, listed: &[Listed]) {
        let mut known = self.known.borrow_mut();
        for (known, listed) in known.iter_mut().zip(listed) {
            known.failure = listed.tools.as_ref().err().cloned().or(known.failure.take());
        }
    }

    /// Is nothing called so that a view shows, as far as is known?
    fn is_hidden(&self, name: &ToolName) -> bool {
        self.selection().is_some() && self.look_up(name).is_none()
    }

    /// The same for a front that is there: whatever the names, it serves what it can.
    pub(crate) fn offer_leniently(&self, listed: &[Listed]) {
        // It cannot fail.
        let _ = self.offer_by(listed, Ok);
    }

    fn offer_by(
        &self,
        listed: &[Listed],
        accept: impl FnOnce(Catalogue) -> Result<Catalogue, NameTaken>,
    ) -> Result<(), NameTaken> {
        let (mut offers, mut away) = (Vec::new(), Vec::new());
        let mut known = self.known.borrow().clone();
        for (index, Listed { back, address, tools }) in listed.iter().enumerate() {
            let offer = |tools: &Arc<[ToolSpec]>| {
                let (back, address, tools) = (back.clone(), address.clone(), tools.clone());
                let (naming, is_seen) = (self.naming_at(index), self.plain <= index);
                (index, Offer { back, naming, is_seen, address, tools })
            };
            match tools {
                // It was not asked.
                Ok(_) if !self.may_show_tools(index) => {}
                Ok(tools) => {
                    offers.push(offer(tools));
                    known[index] = Known { tools: Some(tools.clone()), failure: None };
                }
                Err(failure) => {
                    away.extend(known[index].tools.as_ref().map(offer));
                    known[index].failure = Some(failure.clone());
                }
            }
        }
        let selection = self.selection().map(|selection| &**selection);
        let is_as_before = (selection.is_some() || self.may_search()) && {
            let before = self.catalogue.borrow();
            before.is_of(&offers) && before.left_out().is_empty() && away.is_empty()
        };
        if !is_as_before {
            let catalogue = accept(Catalogue::seen_in(selection, &offers))?;
            let catalogue = catalogue.with_away_seen_in(selection, &away);
            for taken in catalogue.left_out() {
                if self.catalogue.borrow().left_out().contains(taken) {
                    continue;
                }
                match taken {
                    NameTaken::Seen { .. } => view::warn_of_same_name(&taken.to_string()),
                    _ => tracing::warn!("the second is left out: {taken}"),
                }
            }
            self.catalogue.replace(Rc::new(catalogue));
        }
        self.known.replace(known);
        Ok(())
    }

    /// Is a tool of this name offered, as far as that must be known in order to call it?
    fn is_offered(&self, name: &ToolName) -> bool {
        if self.selection().is_some() {
            return self.catalogue.borrow().offers(name);
        }
        match (self.naming, self.members.as_slice()) {
            (Naming::Plain, [_]) | (Naming::Dotted, _) => self.route(name).is_some(),
            (Naming::Plain | Naming::Underscored, _) => self.catalogue.borrow().offers(name),
        }
    }

    /// The tools of a back as they were last listed.
    fn last_tools(&self, index: usize) -> Option<Arc<[ToolSpec]>> {
        self.known.borrow()[index].tools.clone()
    }

    /// The tools that are offered since the backs were last asked, under the names they are
    /// called by, sorted.
    pub fn offered(&self) -> Vec<ToolSpec> {
        let mut tools: Vec<_> = self.catalogue.borrow().tools().collect();
        // Those of the first backs are a list of their own.
        tools.sort_by_key(|(back, _)| self.plain <= *back);
        self.listed_of(tools.into_iter().map(|(_, tool)| tool).collect())
    }

    /// Calls this whenever a back says that its tools have changed. It is called in the middle
    /// of other work and must not call back.
    pub fn watch(&self, changed: &Rc<dyn Fn()>) {
        self.members.iter().for_each(|member| member.back.watch(changed.clone()));
    }

    /// What a tool of this back is called here.
    pub fn name_of(&self, back: &str, tool: &ToolName) -> ToolName {
        let rule = self.selection().and_then(|selection| selection.rule(back, tool.as_str()));
        let renamed = rule.and_then(|rule| rule.rename).map(ToolName::from);
        self.shown_naming().name(back, renamed.as_ref().unwrap_or(tool))
    }

    /// What a tool of the back at this place of [`Bus::list`] is called here.
    pub fn name_at(&self, index: usize, tool: &ToolName) -> ToolName {
        let name = &self.members[index].name;
        match index < self.plain {
            true => tool.clone(),
            false => self.name_of(name, tool),
        }
    }

    fn naming_at(&self, index: usize) -> Naming {
        if index < self.plain { Naming::Plain } else { self.shown_naming() }
    }

    /// Whose tool it is, and what its owner calls it.
    ///
    /// Where a name alone says whose it is, no back has to be asked before: the owner knows
    /// best what it has.
    pub fn resolve(&self, name: &ToolName) -> Option<(Rc<dyn Back>, ToolName)> {
        let (member, tool, _) = self.look_up(name)?;
        Some((member.back.clone(), tool))
    }

    /// The same, with what a view changes about it.
    fn look_up(&self, name: &ToolName) -> Option<(&Member, ToolName, Option<Rc<Rule>>)> {
        let Some(selection) = self.selection() else {
            return self.route(name).map(|(member, own)| (member, own, None));
        };
        let found = self
            .catalogue
            .borrow()
            .look_up(name)
            .map(|found| (&*self.members[found.back], found.own.clone(), found.rule.cloned()));
        let (member, own, rule) = found.or_else(|| {
            let (back, own) = self.shown_away(selection, name)?;
            let member = &*self.members[back];
            let rule = selection.rule(&member.name, own.as_str()).map(Rc::new);
            Some((member, own, rule))
        })?;
        member.allows(&own).then_some((member, own, rule))
    }

    fn route(&self, name: &ToolName) -> Option<(&Member, ToolName)> {
        let (member, tool) = match (self.naming, self.members.as_slice()) {
            (Naming::Plain, [only]) => (&**only, name.clone()),
            (Naming::Plain | Naming::Underscored, members) => {
                let catalogue = self.catalogue.borrow();
                match catalogue.find(name) {
                    Some((back, tool)) => (&*members[back], tool.clone()),
                    None => match self.away_by_prefix(name) {
                        Some((back, tool)) => (&*members[back], tool),
                        None => self.let_through(name)?,
                    },
                }
            }
            (Naming::Dotted, members) => match self.plain_owner(name) {
                Some((back, tool)) => (&*members[back], tool),
                None => {
                    let (back, tool) = name.as_str().split_once('.')?;
                    let mut dotted = members.iter().skip(self.plain);
                    (&**dotted.find(|member| *member.name == *back)?, ToolName::new(tool))
                }
            },
        };
        member.allows(&tool).then_some((member, tool))
    }

    /// Whose it is among the first backs, where those have names of their own.
    fn plain_owner(&self, name: &ToolName) -> Option<(usize, ToolName)> {
        if self.plain == 0 {
            return None;
        }
        let catalogue = self.catalogue.borrow();
        let (back, tool) = catalogue.find(name)?;
        (back < self.plain).then(|| (back, tool.clone()))
    }

    /// Whose it would be, among the backs that could not be listed of late and never were, by the
    /// name alone. Of several the longest name fits best.
    fn away_by_prefix(&self, name: &ToolName) -> Option<(usize, ToolName)> {
        if let Some(selection) = self.selection() {
            return self.shown_away(selection, name);
        }
        if self.naming != Naming::Underscored {
            return None;
        }
        let known = self.known.borrow();
        let away = self.members.iter().enumerate().filter(|(index, _)| {
            let Known { tools, failure } = &known[*index];
            tools.is_none() && failure.is_some()
        });
        let fits = away.filter_map(|(index, member)| {
            let tool = name.as_str().strip_prefix(&*member.name)?.strip_prefix('_')?;
            (!tool.is_empty()).then(|| (index, ToolName::new(tool)))
        });
        fits.max_by_key(|(index, _)| self.members[*index].name.len())
    }

    /// May this back have a tool of this name, as far as that can be known without asking?
    fn may_own(&self, index: usize, name: &ToolName) -> bool {
        if !self.may_show_tools(index) {
            return false;
        }
        let (before, name) = (&*self.members[index].name, name.as_str());
        let behind = match self.naming_at(index) {
            Naming::Plain => return true,
            Naming::Dotted => name.strip_prefix(before).and_then(|rest| rest.strip_prefix('.')),
            Naming::Underscored => {
                name.strip_prefix(before).and_then(|rest| rest.strip_prefix('_'))
            }
        };
        behind.is_some_and(|tool| !tool.is_empty())
    }

    /// Which back it belongs to, as far as the list or its name tells.
    pub(crate) fn owner(&self, name: &ToolName) -> Option<usize> {
        let listed = self.catalogue.borrow().find(name).map(|(back, _)| back);
        listed.or_else(|| self.away_by_prefix(name).map(|(back, _)| back))
    }

    /// Why a tool cannot be called whose owner, known or supposed, could not be listed of late.
    fn outage(&self, name: &ToolName) -> Option<Failure> {
        let naming = self.shown_naming();
        if naming == Naming::Dotted || self.members.len() < 2 {
            return None;
        }
        let owner = self.owner(name);
        let known = self.known.borrow();
        let failed = |index: usize| {
            let failure = known[index].failure.as_ref()?;
            Some((&*self.members[index].name, failure))
        };
        let (back, failure) = match (owner, naming) {
            (Some(owner), _) => failed(owner)?,
            // What no view shows is not there, whoever is away.
            (None, _) if self.selection().is_some() => return None,
            // Any of them may have a tool of this name.
            (None, Naming::Plain) => (0..known.len()).find_map(failed)?,
            (None, _) => return None,
        };
        if limit::login_of(failure).is_some() {
            // It says itself what is to be done about it.
            return Some(failure.clone());
        }
        let message = format!("`{back}` cannot be reached: {}", failure.message);
        let mut told = Failure::new(FailureKind::Unavailable, message);
        told.last_words.clone_from(&failure.last_words);
        Some(told)
    }

    /// Calls a tool, at once. What comes back goes to `down`; dropping the
    /// [`RunningCall`] cancels.
    pub fn start(&self, call: Call, down: ReplyTo) -> RunningCall {
        self.scope.enter(|| match self.answered_here(call, &down) {
            Ok(call) => match self.lent() {
                Some(lent) => self.start_elsewhere(lent, call, down),
                None => self
                    .observers
                    .start(call, down, |call, down, seen| self.start_seen(call, down, seen)),
            },
            Err((call, outcome)) => self.answer_here(call, down, outcome),
        })
    }

    /// A call that some bus has to answer; or one that is answered already.
    #[expect(clippy::result_large_err, reason = "the call has to go somewhere")]
    fn answered_here(&self, call: Call, _down: &ReplyTo) -> Result<Call, (Call, SearchAnswer)> {
        if !self.may_search() {
            return Ok(call);
        }
        let asked = call.clone();
        match self.sought(call) {
            Sought::Call(call) => Ok(call),
            Sought::Answer(answered) => Err((asked, answered)),
        }
    }

    fn answer_here(&self, call: Call, down: ReplyTo, answered: SearchAnswer) -> RunningCall {
        let SearchAnswer { outcome, found } = answered;
        self.observers.start(call, down, |_, down, seen| {
            if let (Some(seen), Some(found)) = (seen, found) {
                seen.searched(found);
            }
            let _ = down.send(Down::Done(outcome));
            RunningCall::ended()
        })
    }

    /// The same for a call that is observed already, if it is.
    fn start_seen(
        &self,
        mut call: Call,
        down: ReplyTo,
        seen: Option<&Rc<Observed>>,
    ) -> RunningCall {
        if let Some(gate) = &self.gate {
            return self.start_behind(gate, call, down, seen);
        }
        let found = match &mut call.what {
            What::Tool { name, .. } => match self.route(name) {
                Some((member, own)) => {
                    *name = own;
                    Ok(member)
                }
                None => {
                    let failure = self.outage(name).unwrap_or_else(|| self.unknown(name));
                    self.see_refusal(seen, name, &failure);
                    Err(Err(failure))
                }
            },
            What::Native { wire, .. } => self.only(*wire).map_err(Err),
            What::Tools => Err(Ok(Outcome::Tools(self.offered().into()))),
        };
        match found {
            Ok(member) => hand_to(member, self.observers.caller(), call, down, seen),
            Err(done) => {
                let _ = down.send(Down::Done(done));
                RunningCall::ended()
            }
        }
    }

    /// Calls this back, at once, whatever it is that is asked.
    pub(crate) fn start_at(&self, back: usize, call: Call, down: ReplyTo) -> RunningCall {
        match self.members.get(back) {
            Some(member) => self
                .observers
                .start(call, down, |call, down, seen| self.hand_natively(member, call, down, seen)),
            None => {
                let failure = Failure::new(FailureKind::Unavailable, "there is no such back");
                let _ = down.send(Down::Done(Err(failure)));
                RunningCall::ended()
            }
        }
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

    /// Who gets what is said in `wire` itself: there must be no doubt.
    fn only(&self, wire: Wire) -> Result<&Member, Failure> {
        match self.members.first() {
            Some(only) if self.native_wire() == Some(wire) => Ok(only),
            _ => {
                let message = "a native call needs exactly one back, of the same wire";
                Err(Failure::new(FailureKind::Unavailable, message))
            }
        }
    }

    fn unknown(&self, name: &ToolName) -> Failure {
        if let Some(refusal) = self.lock_refusal(name) {
            return refusal;
        }
        let catalogue = self.catalogue.borrow().clone();
        let (back, tool) = name.as_str().split_once('.').unwrap_or((name.as_str(), ""));
        let known = self.known.borrow();
        let mut guesses = Vec::new();
        for (member, known) in self.members.iter().zip(known.iter()).skip(self.plain) {
            // One that was never asked for its tools may have it, if it is its name that is wrong.
            let may_be_meant = self.selection().is_none()
                && self.naming == Naming::Dotted
                && known.tools.is_none()
                && member.allows(&tool.into())
                && nearest(back, [&*member.name]).is_some();
            if may_be_meant {
                guesses.push(format!("{}.{tool}", member.name));
            }
        }
        let names = catalogue.names().map(ToolName::as_str);
        unknown_tool(name, names.chain(guesses.iter().map(String::as_str)))
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

/// Opens a back of a config, to be stopped when nothing is asked of it if the config says so.
fn open_idle(back: &BackConfig) -> Result<Rc<dyn Back>, OpenError> {
    let opened = open_one_of(&back.address, &back.settings)?;
    Ok(match back.settings.idle_stop {
        None => opened,
        Some(after) => {
            let pins = back.address.kind().pins();
            Idle::new(opened, back.name.as_str().into(), after, pins)
        }
    })
}

/// Makes a call of a back that is known; it is observed already, if it is.
fn hand_to(
    member: &Member,
    caller: Option<&Arc<str>>,
    mut call: Call,
    down: ReplyTo,
    seen: Option<&Rc<Observed>>,
) -> RunningCall {
    // Set here, kept by the back that makes the call: the bus itself never looks at a clock.
    let own = member.settings.timeout;
    call.deadline.quiet = match (call.deadline.quiet, call.deadline.total) {
        (Some(quiet), _) => Some(own.map_or(quiet, |own| own.min(quiet))),
        (None, Some(_)) => None,
        (None, None) => Some(own.unwrap_or(TIMEOUT)),
    };
    if let Some(caller) = caller {
        call.provenance.get_or_insert_default().caller = Some(caller.clone());
    }
    // What is said in a wire of its own is passed on as it is.
    if let (What::Tool { .. }, Some(trace)) = (&call.what, &mut call.trace) {
        *trace = trace.passed_on(chance::bytes());
    }
    let wire = member.back.wire();
    let kind = member.address.kind();
    if let Some(Err(failure)) = seen.map(|seen| seen.begin(&member.name, wire, kind, &mut call)) {
        let _ = down.send(Down::Done(Err(failure)));
        return RunningCall::ended();
    }
    let down = call_log::logged(&call, caller, wire, &member.log_name, down);
    member.back.start(call, down).counted_by(&member.in_flight)
}

/// The name, or with a number behind it if another back has it already.
fn unused(name: &str, members: &[Rc<Member>]) -> String {
    let is_free = |name: &String| members.iter().all(|member| *member.name != **name);
    let numbered = (2..).map(|number| format!("{name}{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

impl Member {
    fn new(name: String, address: Address, back: Rc<dyn Back>, settings: &Settings) -> Member {
        let (name, settings): (Arc<str>, _) = (name.into(), settings.clone());
        let log_name: Arc<str> = match (&settings.name, address.place()) {
            (Some(given), _) => given.as_str().into(),
            (None, Place::Command(words)) => file_name(words).into(),
            (None, _) => name.clone(),
        };
        let (in_flight, health) = (Rc::default(), Rc::default());
        Member {
            name,
            log_name,
            address,
            bare: back.clone(),
            back,
            guard: None,
            limiter: None,
            in_flight,
            settings,
            allow: None,
            last_allowed: RefCell::default(),
            is_warned_of_allow: Cell::default(),
            health,
        }
    }

    /// One that was made by others.
    fn foreign(name: &str, back: Rc<dyn Back>) -> Member {
        Member::new(name.to_owned(), Address::inside(name), back, &Settings::default())
    }

    /// Would opening it again make no difference?
    fn is_set_up_as(&self, config: &BackConfig) -> bool {
        *self.name == *config.name
            && self.address == config.address
            && self.settings == config.settings
    }

    /// Asks it for its tools, all of them.
    async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.heard(self.back.tools().await)
    }

    /// It has said what tools it has. What the lock says of it tells nothing of whether it is there.
    fn heard(&self, tools: Result<Arc<[ToolSpec]>, Failure>) -> Result<Arc<[ToolSpec]>, Failure> {
        if self.is_answered_for() { tools } else { self.health.heard(tools) }
    }

    /// Does the lock answer for it, whether it is there or not?
    fn is_answered_for(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_answered_for())
    }

    /// What stands before it by this config, if that has a lock for it.
    fn plan(&self, config: &Config, back: &BackConfig) -> Option<Plan> {
        let lock = config.locking.lock.as_ref().filter(|_| back.lock)?;
        let pinned = lock.backs.get(&back.name).cloned().map(Arc::new);
        let kind = match &pinned {
            Some(pinned) if self.address.is_bare() => Registry::default().find(&pinned.wire),
            _ => Some(self.address.kind()),
        };
        Some(Plan {
            name: self.name.clone(),
            address: self.address.clone(),
            settings: self.settings.clone(),
            allow: self.allow.clone(),
            rules: config.locking.rules,
            pinned,
            pins: kind.and_then(crate::peer::PeerKind::pins),
            is_fresh: config.locking.is_fresh,
            health: self.health.clone(),
        })
    }

    fn allows(&self, tool: &ToolName) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool))
    }

    /// Its tools that may be called: of the same list the same ones each time.
    fn allowed(&self, tools: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        if self.allow.is_none() {
            return tools;
        }
        let mut last = self.last_allowed.borrow_mut();
        if let Some([of, allowed]) = &*last
            && Arc::ptr_eq(of, &tools)
        {
            return allowed.clone();
        }
        let allowed = tools.iter().filter(|tool| self.allows(&tool.name)).cloned().collect();
        last.insert([tools, allowed])[1].clone()
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
