//! Whether a back answers, as far as that is known: from its last list, or its last call.
//!
//! It is noted wherever a back is asked anyway, and costs no question of its own. `/readyz` and
//! the metrics look at it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::tool::{Failure, FailureKind, ToolSpec};

use super::{Bus, Member};
use crate::secrets;
use crate::task::spawn_local;

impl Bus {
    /// The backs that cannot be called for now, or have not answered yet, and why.
    pub(crate) fn outages(&self) -> Vec<(Arc<str>, String)> {
        let outage = |member: &Rc<Member>| Some((member.name.clone(), member.health.outage()?));
        self.members.iter().filter_map(outage).collect()
    }

    /// How often the process of each back was started again; `None` for one that has none.
    pub(crate) fn restarts(&self) -> impl Iterator<Item = (&Arc<str>, Option<u64>)> {
        self.members.iter().map(|member| (&member.name, member.back.restarts()))
    }

    /// What is known of each back, by name.
    pub(crate) fn healths(&self) -> impl Iterator<Item = (&Arc<str>, &Rc<Health>)> {
        self.members.iter().map(|member| (&member.name, &member.health))
    }

    /// Asks the backs that are or may be down whether they answer, without waiting for them.
    pub(crate) fn ask_who_is_down(&self) {
        for member in self.members.iter().filter(|member| member.health.must_be_asked()) {
            let member = member.clone();
            spawn_local(async move {
                let _ = member.tools().await;
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
    /// It is being asked whether it answers again.
    is_asked: Cell<bool>,
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
    Down(String),
}

impl Health {
    /// It was asked for its tools.
    pub(crate) fn listed(&self, tools: &Result<Arc<[ToolSpec]>, Failure>) {
        match tools {
            Ok(tools) => {
                self.tools.replace(Some(tools.clone()));
                self.last.replace(Last::Answered);
            }
            Err(failure) => {
                self.last.replace(Last::Down(secrets::masked(&failure.message).into_owned()));
            }
        }
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

    /// Why it cannot be called, if it cannot.
    pub(crate) fn outage(&self) -> Option<String> {
        match &*self.last.borrow() {
            Last::Unknown => Some("has not answered yet".to_owned()),
            Last::Answered | Last::Doubted => None,
            Last::Down(why) => Some(why.clone()),
        }
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
