//! Whose a name is: what tools are called on this bus, which back has a tool, and what is said of a
//! name that none has.

use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::limit;
use toolbus_proto::tool::{Failure, FailureKind, ToolName, Wire};
use toolbus_proto::view::Rule;

use super::back::{Back, unknown_tool};
use super::catalogue::Naming;
use super::member::{Known, Member};
use super::{Bus, observe};
use crate::did_you_mean::nearest;

impl Bus {
    /// Whose a tool is: the back's name, its wire, and whether it keeps state between calls.
    #[allow(dead_code, reason = "a build may have no front that tells it")]
    pub(crate) fn owner_of(&self, name: &ToolName) -> Option<(Arc<str>, Wire, bool)> {
        let (member, ..) = self.look_up(name)?;
        let Member { address, settings, back, .. } = member;
        let kind = observe::kind_of(back.wire()).unwrap_or(address.kind());
        let is_pinned = settings.pin.unwrap_or_else(|| kind.keeps_state(settings));
        Some((member.name.clone(), back.wire(), is_pinned))
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

    pub(super) fn naming_at(&self, index: usize) -> Naming {
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
    pub(super) fn look_up(&self, name: &ToolName) -> Option<(&Member, ToolName, Option<Rc<Rule>>)> {
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

    pub(super) fn route(&self, name: &ToolName) -> Option<(&Member, ToolName)> {
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
    pub(super) fn plain_owner(&self, name: &ToolName) -> Option<(usize, ToolName)> {
        if self.plain == 0 {
            return None;
        }
        let catalogue = self.catalogue.borrow();
        let (back, tool) = catalogue.find(name)?;
        (back < self.plain).then(|| (back, tool.clone()))
    }

    /// Whose it would be, among the backs that could not be listed of late and never were, by the
    /// name alone. Of several the longest name fits best.
    pub(super) fn away_by_prefix(&self, name: &ToolName) -> Option<(usize, ToolName)> {
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
    pub(super) fn may_own(&self, index: usize, name: &ToolName) -> bool {
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
    pub(super) fn outage(&self, name: &ToolName) -> Option<Failure> {
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

    pub(super) fn unknown(&self, name: &ToolName) -> Failure {
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
}
