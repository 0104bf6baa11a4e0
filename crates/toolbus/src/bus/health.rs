//! Whether a back answers, as far as that is known: from its last list, or its last call.
//!
//! It is noted wherever a back is asked anyway, and costs no question of its own. `/readyz` and
//! the metrics look at it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::limit;
use toolbus_proto::tool::{Failure, FailureKind, ToolSpec};

use super::{Bus, Member};
use crate::child::supervisor::is_too_soon;
use crate::secrets;
use crate::task::spawn_local;

impl Bus {
    /// The backs that cannot be called for now, or have not answered yet, and why.
    pub(crate) fn outages(&self) -> Vec<(Arc<str>, String)> {
        // One that the lock answers for is opened by its first call, and ready until then.
        let is_unasked =
            |member: &Rc<Member>| member.is_answered_for() && member.health.is_unheard();
        let outage = |member: &Rc<Member>| match is_unasked(member) {
            true => None,
            false => Some((member.name.clone(), member.health.outage()?)),
        };
        self.members.iter().filter_map(outage).collect()
    }

    /// How often the process of each back was started again; `None` for one that has none.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = (&Arc<str>, Option<u64>)> {
        self.members.iter().map(|member| (&member.name, member.back.restarts()))
    }

    /// How often each was told goodbye because nothing was asked of it; of those that may be.
    pub(crate) fn rests(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.members.iter().filter_map(|member| Some((&member.name, member.bare.rests()?)))
    }

    /// How many tools, prompts and templates of each back are held back by the lock.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let held = |member: &'_ Rc<Member>| member.guard.as_ref().map(|guard| guard.held_back());
        self.members.iter().filter_map(move |member| Some((&member.name, held(member)?)))
    }

    /// What is known of each back, by name.
    pub(crate) fn healths(&self) -> impl Iterator<Item = (&Arc<str>, &Rc<Health>)> {
        // Nothing is known of one that the lock answers for, until it is asked.
        let is_known =
            |member: &&Rc<Member>| !member.is_answered_for() || !member.health.is_unheard();
        self.members.iter().filter(is_known).map(|member| (&member.name, &member.health))
    }

    /// Asks the backs that are or may be down whether they answer, without waiting for them.
    pub(crate) fn ask_who_is_down(&self) {
        for member in self.members.iter().filter(|member| member.health.must_be_asked()) {
            let member = member.clone();
            spawn_local(async move {
                let _ = member.health.heard(member.bare.tools().await);
                member.health.is_asked.set(false);
            });
        }
    }
}

/// What is known of a back. Kept over a reload that leaves the back as it is.
#[derive(Default)]
pub(crate) struct Health {
    last: RefCell<Last>,
    /// Its tools as it listed them last.
    tools: RefCell<Option<Arc<[ToolSpec]>>>,
    /// Why it could not be reached or started when that was tried last.
    failure: RefCell<Option<Failure>>,
    /// It is being asked whether it answers again.
    is_asked: Cell<bool>,
}

/// Why a back cannot be called.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) why: String,
    /// Until the user has signed in there.
    pub(crate) needs_sign_in: bool,
}

/// What came of the last question.
#[derive(Default)]
enum Last {
    /// There is no answer yet.
    #[default]
    Unknown,
    Answered,
    /// A call could not be made. Why that is will be known when it is asked for its tools.
    Doubted,
    /// It could not be reached, or not be started.
    Down(Outage),
}

impl Health {
    /// It was asked for its tools. A list that is as it was before is given back as that one: all
    /// callers, each of whom keeps what it was shown, keep the same.
    pub(crate) fn heard(
        &self,
        tools: Result<Arc<[ToolSpec]>, Failure>,
    ) -> Result<Arc<[ToolSpec]>, Failure> {
        tools.map(|tools| self.listed(tools)).inspect_err(|failure| self.is_away(failure))
    }

    /// It has these tools.
    pub(crate) fn listed(&self, tools: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
        self.last.replace(Last::Answered);
        self.failure.replace(None);
        let mut last = self.tools.borrow_mut();
        match &*last {
            Some(last) if *last == tools => last.clone(),
            _ => last.insert(tools).clone(),
        }
    }

    /// It could not say which tools it has.
    pub(crate) fn is_away(&self, failure: &Failure) {
        if !is_too_soon(failure) {
            self.failure.replace(Some(failure.clone()));
        }
        let login = limit::login_of(failure);
        let why = match &login {
            Some(login) => format!("needs a sign-in: run `{login}`"),
            None => failure.message.clone(),
        };
        self.last.replace(Last::Down(Outage {
            why: secrets::masked(&why).into_owned(),
            needs_sign_in: login.is_some(),
        }));
    }

    /// A call to it has ended, with this failure if it failed. What could not be made may be for
    /// other reasons than the back; and a tool may well say that something behind it is away.
    pub(crate) fn called(&self, failure: Option<&Failure>) {
        let last = match (failure, &*self.last.borrow()) {
            (None, Last::Answered) => return,
            (None, _) => Last::Answered,
            (Some(failure), Last::Answered)
                if failure.kind == FailureKind::Unavailable && !failure.from_peer =>
            {
                Last::Doubted
            }
            (Some(_), _) => return,
        };
        self.last.replace(last);
    }

    /// What is wrong with it, in place of a failure that says only that it is too soon to try again.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match is_too_soon(&failure) {
            true => self.failure.borrow().clone().unwrap_or(failure),
            false => failure,
        }
    }

    /// Why it cannot be called, if it cannot.
    pub(crate) fn outage(&self) -> Option<String> {
        match &*self.last.borrow() {
            Last::Unknown => Some("has not answered yet".to_owned()),
            Last::Answered | Last::Doubted => None,
            Last::Down(outage) => Some(outage.why.clone()),
        }
    }

    /// Why it did not answer when it was asked last, if it did not.
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn down(&self) -> Option<Outage> {
        match &*self.last.borrow() {
            Last::Down(outage) => Some(outage.clone()),
            _ => None,
        }
    }

    /// Has it never answered, nor failed to?
    #[allow(dead_code, reason = "a build may have no page")]
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(*self.last.borrow(), Last::Unknown)
    }

    /// Was it never listed, and has not failed?
    pub(crate) fn is_unheard(&self) -> bool {
        let has_failed = matches!(*self.last.borrow(), Last::Down(_) | Last::Doubted);
        self.tools.borrow().is_none() && !has_failed
    }

    /// Its tools as it listed them last, all of them.
    pub(crate) fn last_tools(&self) -> Option<Arc<[ToolSpec]>> {
        self.tools.borrow().clone()
    }

    /// Did it list a tool of this name? What callers make up is not listed.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let tools = self.tools.borrow();
        tools.as_ref().is_some_and(|tools| tools.iter().any(|known| known.name.as_str() == tool))
    }

    /// Is it to be asked now whether it answers again? Not if it was and has not answered.
    pub(crate) fn must_be_asked(&self) -> bool {
        matches!(*self.last.borrow(), Last::Down(_) | Last::Doubted) && !self.is_asked.replace(true)
    }
}

#[cfg(test)]
mod tests {
    use toolbus_proto::json::Json;

    use super::*;

    #[test]
    fn a_list_that_is_as_before_is_kept_once() {
        let health = Health::default();
        let list = |description: &str| -> Arc<[ToolSpec]> {
            let input = Json::from_trusted(r#"{"type":"object"}"#);
            let spec = ToolSpec::new("add", input);
            Arc::new([ToolSpec { description: Some(description.to_owned()), ..spec }])
        };
        let first = health.heard(Ok(list("Add"))).unwrap();
        let again = health.heard(Ok(list("Add"))).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let failure = Failure::new(FailureKind::Unavailable, "it is away");
        health.heard(Err(failure)).unwrap_err();
        assert!(Arc::ptr_eq(&first, &health.heard(Ok(list("Add"))).unwrap()));
        let other = health.heard(Ok(list("Add two numbers"))).unwrap();
        assert_eq!(other[0].description.as_deref(), Some("Add two numbers"));
        assert!(Arc::ptr_eq(&other, &health.last_tools().unwrap()));
    }
}
