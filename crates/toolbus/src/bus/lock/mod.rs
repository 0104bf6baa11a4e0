//! What of the backs of a config is pinned by `toolbus.lock`, and what becomes of what differs
//! (`docs/lock.md`).
//!
//! The rules are in `toolbus_proto::pin`; here are the file, the program that is started, and the
//! guard that stands before each back (`Guarded`). No wire knows of any of it.

pub mod file;
mod guarded;
mod program;
mod standing;
#[cfg(test)]
mod tests;
mod verdict;

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::limit;
use toolbus_proto::pin::{Definition, Lock, PinKind, Pinned, Visible};
use toolbus_proto::tool::{Deadline, Failure, FailureKind, ToolName};
use toolbus_proto::view::Names;

use super::catalogue::Naming;
use super::observe::{Kept, Observed};
use super::{Bus, Member};
use crate::peer::pins::{Pins, Seen, Survey, Who};
use crate::secrets;

pub use guarded::Differs;
pub(crate) use guarded::{Guarded, Plan};
pub use program::Identity;

/// Why a call is refused whose back is not in the lock.
const NOT_LOCKED: &str = "not_locked";

/// What of a config is pinned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locking {
    /// What becomes of what differs.
    pub rules: Rules,
    /// The config says so: there has to be a file.
    pub is_required: bool,
    /// The file, if there is one.
    pub lock: Option<Arc<Lock>>,
    /// All backs are asked at the start, as without a lock.
    pub is_fresh: bool,
}

/// What becomes of what differs from the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// Of what says something else now.
    pub changed: OnChange,
    /// Of what the lock does not have.
    pub new: OnNew,
    /// Of a program that is another one now.
    pub program: OnProgram,
}

/// What becomes of what says something else than when it was locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnChange {
    /// It is held back.
    #[default]
    Refuse,
    /// It is told.
    Warn,
}

/// What becomes of what the lock does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnNew {
    /// It is not offered.
    #[default]
    Refuse,
    /// It is told.
    Warn,
    /// It is offered without a word.
    Allow,
}

/// What becomes of a program that is another one than when it was locked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnProgram {
    /// It is told.
    #[default]
    Warn,
    /// It is not started.
    Refuse,
    /// Nothing.
    Ignore,
}

/// What one back shows now.
pub struct Surveyed {
    /// Its name.
    pub back: Arc<str>,
    /// What would stand in the lock; or why it could not be asked.
    pub pinned: Result<Pinned, Failure>,
}

impl Bus {
    /// Asks these backs for all that a model can see of them, side by side.
    pub async fn survey(&self, names: &[&str], deadline: Deadline) -> Vec<Surveyed> {
        let until = deadline.total.map(|total| deadline.asked + total);
        let mut asked = tokio::task::JoinSet::new();
        let members = self.members.iter().filter(|member| names.contains(&&*member.name));
        for (index, member) in members.cloned().enumerate() {
            asked.spawn_local(crate::task::boxed(async move {
                let surveyed = match until {
                    None => survey(&member).await,
                    Some(until) => tokio::time::timeout_at(until.into(), survey(&member))
                        .await
                        .unwrap_or_else(|_| Err(deadline.missed())),
                };
                (index, member.name.clone(), surveyed)
            }));
        }
        let mut all = asked.join_all().await;
        all.sort_by_key(|(index, ..)| *index);
        all.into_iter().map(|(_, back, pinned)| Surveyed { back, pinned }).collect()
    }

    /// What the lock says about a tool of this name that is not offered, if it has to do with it.
    pub fn lock_refusal(&self, name: &ToolName) -> Option<Failure> {
        let (member, own) = self.meant(name)?;
        member.guard.as_ref()?.refusal_of(name, own.as_str())
    }

    /// Whose prompt of this name the lock holds back, and what that calls it. It is in no list.
    pub(crate) fn held_prompt(&self, name: &str) -> Option<(usize, String)> {
        let selection = self.selection();
        let names = selection.map(|selection| selection.names()).unwrap_or_default();
        let mut members = self.members.iter().enumerate();
        members.find_map(|(index, member)| {
            let own = match names {
                Names::Plain => name,
                Names::Back | Names::Full => name.strip_prefix(&*member.name)?.strip_prefix('_')?,
            };
            let is_shown = selection.is_none_or(|all| all.shows_prompt(&member.name, own));
            let is_held = is_shown && member.guard.as_ref()?.holds_prompt(own);
            is_held.then(|| (index, own.to_owned()))
        })
    }

    /// Whose tool of this name has come since the lock was written and is let through, though it
    /// was not listed yet.
    pub(super) fn let_through(&self, name: &ToolName) -> Option<(&Member, ToolName)> {
        let (member, own) = self.meant(name)?;
        let is_let_through = member.guard.as_ref()?.lets_through(own.as_str());
        is_let_through.then_some((member, own))
    }

    /// Whose tool is meant by a name that is not offered, and what its back calls it. What no view
    /// shows is not meant.
    fn meant(&self, name: &ToolName) -> Option<(&Member, ToolName)> {
        let naming = self.shown_naming();
        if naming == Naming::Plain && 1 < self.members.len() {
            return None;
        }
        let mut members = self.members.iter().enumerate();
        let (index, member) = members.find(|(index, _)| self.may_own(*index, name))?;
        let called = match self.naming_at(index) {
            Naming::Plain => name.as_str(),
            Naming::Dotted | Naming::Underscored => name.as_str().get(member.name.len() + 1..)?,
        };
        let Some(selection) = self.selection() else { return Some((member, called.into())) };
        let own = selection.own_name(&member.name, called)?;
        let is_shown = selection.shows_tool(&member.name, &own, None, false);
        is_shown.then(|| (&**member, own.as_str().into()))
    }

    /// Tells the observers of a call whose back the lock does not have which back that is.
    pub(super) fn see_refusal(
        &self,
        seen: Option<&Rc<Observed>>,
        name: &ToolName,
        failure: &Failure,
    ) {
        if let Some(seen) = seen
            && limit::reason_of(failure) == Some(NOT_LOCKED)
            && !failure.from_peer
            && let Some((member, own)) = self.meant(name)
        {
            seen.keep(&member.name, &own, Kept::NotLocked);
        }
    }

    /// How each back differs from the lock, as far as is known since it was asked.
    pub fn differences(&self) -> Vec<(Arc<str>, Differs)> {
        let differs =
            |member: &Rc<Member>| Some((member.name.clone(), member.guard.as_ref()?.differs()?));
        self.members.iter().filter_map(differs).collect()
    }
}

async fn survey(member: &Member) -> Result<Pinned, Failure> {
    let bare = &*member.bare;
    let Some(pins) = member.address.kind().pins() else {
        return Ok(described(member, bare.wire().name(), Survey::default(), None));
    };
    // Found out only now, where the address does not say it.
    if member.address.is_bare() {
        bare.tools().await?;
        let wire = bare.wire().name();
        let known =
            crate::peer::Registry::default().find(wire).and_then(crate::peer::PeerKind::pins);
        let survey = match known {
            Some(pins) => pins.survey(bare, Who::All).await?,
            None => Survey::default(),
        };
        return Ok(described(member, wire, survey, known));
    }
    let survey = pins.survey(bare, Who::All).await?;
    Ok(described(member, member.address.kind().name(), survey, Some(pins)))
}

/// A back as the file has it.
fn described(member: &Member, wire: &str, survey: Survey, pins: Option<&dyn Pins>) -> Pinned {
    let wire = if pins.is_none() { member.address.kind().name() } else { wire };
    let mut pinned =
        Pinned { connect: connect_of(&member.address), wire: wire.to_owned(), ..Pinned::default() };
    Identity::of(&member.address, &member.settings).note(&mut pinned.noted);
    pinned.noted.era = survey.era;
    let masked = |text: String| secrets::masked(&text).into_owned();
    pinned.noted.server_name = survey.server_name.map(masked);
    pinned.noted.server_version = survey.server_version.map(masked);
    let resources = survey.has_resources.map(|has| if has { "some" } else { "none" });
    pinned.resources = resources.map(str::to_owned);
    pinned.capabilities = survey.capabilities.map(|json| secrets::masked_json(&json).to_string());
    if let Some(pins) = pins {
        pinned.shown = shown(&survey.seen, pins, member.allow.as_ref());
        let legacy = survey.legacy.map(|seen| shown(&seen, pins, member.allow.as_ref()));
        pinned.legacy = legacy.and_then(|legacy| pinned.shown.legacy_of(legacy));
    }
    pinned
}

/// An address as the file has it: what follows the `?` may be a secret.
pub(crate) fn connect_of(address: &crate::address::Address) -> String {
    let text = address.as_str();
    let is_open = !matches!(address.place(), crate::address::Place::Url(_));
    let shown = match text.split_once('?') {
        Some((before, _)) if !is_open && address.kind().front().is_some() => {
            match address.to_string() == text {
                true => text.to_owned(),
                false => format!("{before}?***"),
            }
        }
        _ => text.to_owned(),
    };
    secrets::masked(&shown).into_owned()
}

/// What is seen of a back, but for what is ours or not allowed, and without secrets.
fn shown(seen: &Seen, pins: &dyn Pins, allow: Option<&HashSet<ToolName>>) -> Visible {
    let instructions = seen.instructions.as_deref();
    let instructions = instructions.map(|text| secrets::masked(text).into_owned());
    let mut shown = Visible { instructions, ..Visible::default() };
    let generic = pins.generic();
    for kind in PinKind::ALL {
        let layouts = pins.layouts();
        for object in seen.of(kind) {
            let read = Definition::read(layouts.of(kind), object.as_str(), &mask);
            let Some(definition) = read else { continue };
            let name = ToolName::new(definition.name.as_str());
            let is_ours = generic.iter().any(|own| own.name == name)
                || definition.name.starts_with("toolbus.");
            let is_allowed = allow.is_none_or(|allow| allow.contains(&name));
            if kind == PinKind::Tool && (is_ours || !is_allowed) {
                continue;
            }
            shown.of_mut(kind).entry(definition.name.clone()).or_insert(definition);
        }
    }
    shown
}

/// A text without the secrets in it, if it has some.
fn mask(text: &str) -> Option<String> {
    match secrets::masked(text) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    }
}

/// A failure that says by a word for programs why the lock has refused something.
fn refused(reason: &str, message: String) -> Failure {
    let detail = toolbus_proto::json::Json::from_trusted(format!("{{\"reason\":\"{reason}\"}}"));
    Failure { detail: Some(detail), ..Failure::new(FailureKind::Unavailable, message) }
}
