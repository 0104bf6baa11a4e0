//! How a bus is put together: of addresses, of a config, of a config that is read again, and of
//! parts of another bus.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::back::Back;
use super::builder::{self, BuildError};
use super::catalogue::Naming;
use super::config::{BackConfig, Config};
use super::idle::Idle;
use super::lock::Guarded;
use super::member::{Known, Member};
use super::observe::Observer;
use super::view::House;
use super::{About, Bus};
use crate::address::Address;
use crate::peer::open::open_one_of;
use crate::peer::settings::Settings;
use crate::peer::{OpenError, open};

impl Bus {
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

    pub(super) fn reloaded_in_scope(&self, config: &Config) -> Result<Bus, OpenError> {
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
    pub(super) fn of_backs(naming: Naming, backs: Vec<(Address, Rc<dyn Back>)>) -> Bus {
        let member = |(address, back): (Address, Rc<dyn Back>)| {
            Rc::new(Member::new(address.peer_name(), address, back, &Settings::default()))
        };
        Bus::new(naming, backs.into_iter().map(member).collect())
    }

    /// The same bus, for a front whose first list waits so long for backs that were never listed.
    #[must_use]
    pub fn listing_within(self, list_timeout: Duration) -> Bus {
        Bus { list_timeout, lenient: Rc::default(), ..self }
    }

    /// The same bus, whose fronts tell their clients that it is this one, and not toolbus.
    #[must_use]
    pub fn introduced_as(self, about: About) -> Bus {
        Bus { about: Some(Rc::new(about)), ..self }
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

/// The name, or with a number behind it if another back has it already.
pub(super) fn unused(name: &str, members: &[Rc<Member>]) -> String {
    let is_free = |name: &String| members.iter().all(|member| *member.name != **name);
    let numbered = (2..).map(|number| format!("{name}{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}
