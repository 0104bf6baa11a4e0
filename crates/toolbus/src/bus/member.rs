//! One back as the bus knows it, with what the config says of it and what is known of it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::tool::{Failure, ToolName, ToolSpec};

use super::back::Back;
use super::config::{BackConfig, Config};
use super::health::Health;
use super::lock::{Guarded, Plan};
use super::view::Limiter;
use crate::address::{Address, Place};
use crate::engine::calls::InFlight;
use crate::peer::Registry;
use crate::peer::open::file_name;
use crate::peer::settings::Settings;

/// One back as the bus knows it.
pub(super) struct Member {
    pub(super) name: Arc<str>,
    /// What the log calls it, which is what it calls its process.
    pub(super) log_name: Arc<str>,
    pub(super) address: Address,
    pub(super) back: Rc<dyn Back>,
    /// The same without its guard.
    pub(super) bare: Rc<dyn Back>,
    /// What stands before it, if the config has a lock.
    pub(super) guard: Option<Rc<Guarded>>,
    /// How many calls it may be given, if that is limited.
    pub(super) limiter: Option<Rc<Limiter>>,
    /// Its calls that are under way, by whatever bus has it.
    pub(super) in_flight: Rc<InFlight>,
    pub(super) settings: Settings,
    /// Its tools that may be called, by their own names; `None` for all.
    pub(super) allow: Option<HashSet<ToolName>>,
    /// The list that was last looked through for them, and those of it.
    pub(super) last_allowed: RefCell<Option<[Arc<[ToolSpec]>; 2]>>,
    /// It was said what of that it does not have.
    pub(super) is_warned_of_allow: Cell<bool>,
    /// Whether it answers, as far as that is known.
    pub(super) health: Rc<Health>,
}

/// What is known of a back.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Its tools as they were last listed.
    pub(super) tools: Option<Arc<[ToolSpec]>>,
    /// Why it could not be listed of late.
    pub(super) failure: Option<Failure>,
}

impl Member {
    pub(super) fn new(
        name: String,
        address: Address,
        back: Rc<dyn Back>,
        settings: &Settings,
    ) -> Member {
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
    pub(super) fn foreign(name: &str, back: Rc<dyn Back>) -> Member {
        Member::new(name.to_owned(), Address::inside(name), back, &Settings::default())
    }

    /// Would opening it again make no difference?
    pub(super) fn is_set_up_as(&self, config: &BackConfig) -> bool {
        *self.name == *config.name
            && self.address == config.address
            && self.settings == config.settings
    }

    /// Asks it for its tools, all of them.
    pub(super) async fn tools(&self) -> Result<Arc<[ToolSpec]>, Failure> {
        self.heard(self.back.tools().await)
    }

    /// It has said what tools it has. What the lock says of it tells nothing of whether it is there.
    pub(super) fn heard(
        &self,
        tools: Result<Arc<[ToolSpec]>, Failure>,
    ) -> Result<Arc<[ToolSpec]>, Failure> {
        if self.is_answered_for() { tools } else { self.health.heard(tools) }
    }

    /// Does the lock answer for it, whether it is there or not?
    pub(super) fn is_answered_for(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.is_answered_for())
    }

    /// What stands before it by this config, if that has a lock for it.
    pub(super) fn plan(&self, config: &Config, back: &BackConfig) -> Option<Plan> {
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

    pub(super) fn allows(&self, tool: &ToolName) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool))
    }

    /// Its tools that may be called: of the same list the same ones each time.
    pub(super) fn allowed(&self, tools: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
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
