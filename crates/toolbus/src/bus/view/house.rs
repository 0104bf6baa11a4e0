//! What a config says of views, callers and limits, put together once for all fronts.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::caller::{CallerName, Callers, Doors};
use toolbus_proto::limit::{Limits, Whose};
use toolbus_proto::view::{Pattern, Selection, View};

use super::held::HeldCalls;
use super::{Gate, Limiter};
use crate::bus::catalogue::{Catalogue, Naming};
use crate::bus::config::Config;
#[cfg(feature = "oauth")]
use crate::oauth::tokens::AskedTokens;
use crate::peer::guests::READING;

/// Views, callers and limits of a config.
pub(in crate::bus) struct House {
    views: Vec<Arc<View>>,
    callers: BTreeMap<CallerName, CallerRules>,
    /// By what each caller is known.
    credentials: Arc<Callers>,
    /// All of them, by name.
    limiters: BTreeMap<String, Rc<Limiter>>,
    /// The held calls with which callers have to go on.
    held: Rc<HeldCalls>,
    /// What fronts ask of tokens of sign-in servers, by their names.
    #[cfg(feature = "oauth")]
    tokens: BTreeMap<String, Rc<AskedTokens>>,
    /// What is shown, by how tools are named and by the views: worked out once for all callers who
    /// are shown the same.
    catalogues: RefCell<HashMap<(Naming, Arc<str>), SharedCatalogue>>,
}

type SharedCatalogue = Rc<RefCell<Rc<Catalogue>>>;

/// What holds for the calls of one caller.
pub(super) struct CallerRules {
    pub(super) view: Option<Arc<View>>,
    pub(super) limiter: Option<Rc<Limiter>>,
    /// Sorted by pattern.
    pub(super) by_pattern: Rc<[(Pattern, Rc<Limiter>)]>,
}

impl House {
    /// That of a config, if it says something of the kind. Limits whose value is as before keep what
    /// they have counted.
    pub(in crate::bus) fn of(config: &Config, before: Option<&House>) -> Option<Rc<House>> {
        let Config { views, callers, fronts, backs, .. } = config;
        let is_limited = fronts.iter().any(|front| !front.limits.is_empty())
            || backs.iter().any(|back| !back.limits.is_empty());
        #[cfg(feature = "oauth")]
        let is_limited = is_limited || fronts.iter().any(|front| front.oauth.is_some());
        if views.is_empty() && callers.is_empty() && !is_limited {
            return None;
        }
        let mut limiters = BTreeMap::new();
        let mut limiter = |name: String, whose, limits: &Limits| {
            let before = before.and_then(|before| before.limiters.get(&name));
            let limiter = Limiter::new(&name, whose, limits, before)?;
            limiters.insert(name, limiter.clone());
            Some(limiter)
        };
        let mut credentials = Callers::new(READING);
        let mut rules = BTreeMap::new();
        for caller in callers {
            let name = &caller.name;
            caller.tokens.iter().for_each(|token| credentials.add_token(*token, name));
            let certificates = caller.certificates.iter();
            certificates.for_each(|sum| credentials.add_certificate(*sum, name));
            let subjects = caller.subjects.iter().cloned();
            subjects.for_each(|subject| credentials.add_subject(subject, name));
            caller.uids.iter().for_each(|uid| credentials.add_uid(*uid, name));
            let by_pattern = caller.limits_by_pattern.iter().filter_map(|(pattern, limits)| {
                let limit = format!("caller.{name}.limit.{pattern}");
                Some((pattern.clone(), limiter(limit, Whose::CallerOfTool, limits)?))
            });
            let by_pattern = by_pattern.collect();
            let own = limiter(format!("caller.{name}"), Whose::Caller, &caller.limits);
            let view = caller.view.as_deref().and_then(|view| find(views, view));
            rules.insert(name.clone(), CallerRules { view, limiter: own, by_pattern });
        }
        for front in fronts {
            limiter(format!("front.{}", front.name), Whose::Front, &front.limits);
        }
        for back in backs {
            limiter(format!("back.{}", back.name), Whose::Back, &back.limits);
        }
        let (views, credentials) = (views.clone(), Arc::new(credentials));
        let catalogues = RefCell::default();
        let held = before.map(|before| before.held.clone()).unwrap_or_default();
        Some(Rc::new(House {
            views,
            callers: rules,
            credentials,
            limiters,
            held,
            #[cfg(feature = "oauth")]
            tokens: asked_tokens(config),
            catalogues,
        }))
    }

    /// What the front of this name asks of tokens of sign-in servers.
    #[cfg(feature = "oauth")]
    pub(super) fn tokens(&self, front: &str) -> Option<Rc<AskedTokens>> {
        self.tokens.get(front).cloned()
    }

    /// The view of this name.
    pub(super) fn view(&self, name: &str) -> Option<Arc<View>> {
        find(&self.views, name)
    }

    /// What holds for this caller.
    pub(super) fn caller(&self, name: &CallerName) -> Option<&CallerRules> {
        self.callers.get(name)
    }

    /// The doors of a front for these callers.
    pub(super) fn doors(&self, allowed: &[CallerName]) -> Doors {
        Doors::new(self.credentials.clone(), allowed.iter().cloned())
    }

    /// What callers without a view, a name or limits of their own have before them.
    pub(in crate::bus) fn gate(&self) -> Gate {
        Gate { held: self.held.clone(), ..Gate::default() }
    }

    pub(super) fn limiter_of_front(&self, name: &str) -> Option<Rc<Limiter>> {
        self.limiters.get(&format!("front.{name}")).cloned()
    }

    pub(in crate::bus) fn limiter_of_back(&self, name: &str) -> Option<Rc<Limiter>> {
        self.limiters.get(&format!("back.{name}")).cloned()
    }

    /// What all who are shown the same have in common; `None` if that is everything.
    pub(in crate::bus) fn catalogue(
        &self,
        naming: Naming,
        selection: Option<&Selection>,
    ) -> Option<SharedCatalogue> {
        let key = (naming, selection?.label());
        Some(self.catalogues.borrow_mut().entry(key).or_default().clone())
    }
}

#[cfg(feature = "oauth")]
fn asked_tokens(config: &Config) -> BTreeMap<String, Rc<AskedTokens>> {
    let known = config.callers.iter();
    let known = known.filter_map(|caller| Some((caller.name.clone(), caller.oauth.clone()?)));
    let known: Vec<_> = known.collect();
    let asked = config.fronts.iter().filter_map(|front| {
        let asked = AskedTokens {
            front: front.name.as_str().into(),
            settings: front.oauth.clone()?,
            callers: known.clone(),
            allowed: front.callers.clone(),
        };
        Some((front.name.clone(), Rc::new(asked)))
    });
    asked.collect()
}

fn find(views: &[Arc<View>], name: &str) -> Option<Arc<View>> {
    views.iter().find(|view| *view.name == *name).cloned()
}
