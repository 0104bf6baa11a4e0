//! What the backs of a bus say they have, and what of it is offered from then on.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::task::JoinSet;
use toolbus_proto::tool::{Deadline, Failure, FailureKind, ToolName, ToolSpec, Wire};

use super::catalogue::{Catalogue, NameTaken, Naming, Offer};
use super::member::Known;
use super::{Bus, BusError, view};
use crate::address::Address;
use crate::task::boxed;

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

    pub(super) async fn list_in_scope(&self, deadline: Deadline) -> Vec<Listed> {
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
    pub(super) fn note_failures(&self, listed: &[Listed]) {
        let mut known = self.known.borrow_mut();
        for (known, listed) in known.iter_mut().zip(listed) {
            known.failure = listed.tools.as_ref().err().cloned().or(known.failure.take());
        }
    }

    /// Is nothing called so that a view shows, as far as is known?
    pub(super) fn is_hidden(&self, name: &ToolName) -> bool {
        self.selection().is_some() && self.look_up(name).is_none()
    }

    /// The same for a front that is there: whatever the names, it serves what it can.
    pub(crate) fn offer_leniently(&self, listed: &[Listed]) {
        // It cannot fail.
        let _ = self.offer_by(listed, Ok);
    }

    pub(super) fn offer_by(
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
    pub(super) fn is_offered(&self, name: &ToolName) -> bool {
        if self.selection().is_some() {
            return self.catalogue.borrow().offers(name);
        }
        match (self.naming, self.members.as_slice()) {
            (Naming::Plain, [_]) | (Naming::Dotted, _) => self.route(name).is_some(),
            (Naming::Plain | Naming::Underscored, _) => self.catalogue.borrow().offers(name),
        }
    }

    /// The tools of a back as they were last listed.
    pub(super) fn last_tools(&self, index: usize) -> Option<Arc<[ToolSpec]>> {
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
}
