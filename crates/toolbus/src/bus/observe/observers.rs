//! Who observes the calls of a bus, and how a call comes to be seen by them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use toolbus_proto::limit;
use toolbus_proto::tool::{Call, Failure, Outcome, Trace, What};

use super::observed::{Observed, TICKET};
use super::seen::{ObservedState, Results, Seen};
use super::{NativeCall, ObservedCall, Observer, kind_of};
use crate::chance;
use crate::engine::calls::{ReplyTo, RunningCall};
use crate::peer::PeerKind;

/// Who observes the calls of a bus, and where they come from.
#[derive(Clone, Default)]
pub struct Observers {
    pub(super) front: Option<Arc<str>>,
    pub(super) caller: Option<Arc<str>>,
    pub(super) view: Option<Arc<str>>,
    pub(super) all: Rc<[Rc<dyn Observer>]>,
}

impl Observers {
    /// Those of calls that come from this front. Each hears what the others before it made of a
    /// call.
    pub fn new(front: &str, all: impl IntoIterator<Item = Rc<dyn Observer>>) -> Observers {
        let all = all.into_iter().collect();
        Observers { front: Some(front.into()), all, ..Observers::default() }
    }

    /// One more. It is told after the others, and hears what they made of a call.
    pub(in crate::bus) fn with(&self, observer: Rc<dyn Observer>) -> Observers {
        let all = self.all.iter().cloned().chain([observer]).collect();
        Observers { all, ..self.clone() }
    }

    /// These in place of all others.
    pub(in crate::bus) fn replaced(&self, all: Rc<[Rc<dyn Observer>]>) -> Observers {
        Observers { all, ..self.clone() }
    }

    /// The same for calls that come from this front.
    pub(in crate::bus) fn of_front(&self, front: &str) -> Observers {
        Observers { front: Some(front.into()), ..self.clone() }
    }

    /// The same for calls of this caller, if there is one, in this view, if there is one.
    pub(in crate::bus) fn of_caller(
        &self,
        caller: Option<Arc<str>>,
        view: Option<Arc<str>>,
    ) -> Observers {
        Observers { caller, view, ..self.clone() }
    }

    /// Whose calls they are, where callers are told apart.
    pub(in crate::bus) fn caller(&self) -> Option<&Arc<str>> {
        self.caller.as_ref()
    }

    /// The front that calls come from; empty where there is none.
    #[allow(dead_code, reason = "a build may have no front that asks")]
    pub(in crate::bus) fn front_name(&self) -> &str {
        self.front.as_deref().unwrap_or_default()
    }

    /// A call that is of no tool was refused by the limit of this name.
    pub(in crate::bus) fn tell_limit(&self, limit: &Arc<str>, failure: &Failure) {
        if let Some(reason) = limit::reason_of(failure) {
            self.all.iter().for_each(|observer| observer.limits(limit, reason));
        }
    }

    /// Is no call observed?
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Makes a call that goes past every bus, seen by all of them from its beginning until `make`
    /// has ended or is dropped. `told` is how many bytes it gave, or why it failed. An error is
    /// what an observer wants its caller to be told instead.
    pub async fn see<T>(
        &self,
        call: ObservedCall,
        make: impl Future<Output = T>,
        told: impl FnOnce(&T) -> Result<u64, Failure>,
    ) -> Result<T, Failure> {
        if self.is_empty() {
            return Ok(make.await);
        }
        let seen = Seen::new(self, self.seen_from_here(call), None, None);
        if let Err(failure) = seen.tell_begin() {
            let instead = seen.end(&Err(failure.clone()));
            return Err(instead.unwrap_or(failure));
        }
        let made = make.await;
        let told = told(&made);
        seen.call.borrow_mut().bytes_out = *told.as_ref().unwrap_or(&0);
        match seen.end(&told.map(|_| Outcome::End(None))) {
            Some(failure) => Err(failure),
            None => Ok(made),
        }
    }

    /// Makes a call by `start`, seen by all of them.
    #[inline]
    pub(crate) fn start(
        &self,
        call: Call,
        down: ReplyTo,
        start: impl FnOnce(Call, ReplyTo, Option<&Rc<Observed>>) -> RunningCall,
    ) -> RunningCall {
        match self.all.is_empty() {
            true => start(call, down, None),
            false => self.start_seen(call, down, start),
        }
    }

    fn start_seen(
        &self,
        mut call: Call,
        down: ReplyTo,
        start: impl FnOnce(Call, ReplyTo, Option<&Rc<Observed>>) -> RunningCall,
    ) -> RunningCall {
        let Some((about, kind)) = self.about(&call) else { return start(call, down, None) };
        if let (What::Tool { .. }, None) = (&call.what, &call.trace)
            && self.all.iter().any(|observer| observer.begins_traces())
        {
            call.trace = Some(Trace::begin(chance::bytes(), chance::bytes()));
        }
        let seen = Seen::new(self, about, kind, self.collector());
        let observed = Rc::new_cyclic(|this| Observed {
            this: this.clone(),
            seen,
            down,
            running: RefCell::new(None),
            is_held: Cell::new(false),
        });
        let running = start(call, ReplyTo::new(observed.clone(), TICKET), Some(&observed));
        // It may have been answered at once, and then there is nothing to cancel.
        if observed.seen.stage.get() == ObservedState::Ended {
            running.forget();
            if !observed.is_held.get() {
                return RunningCall::ended();
            }
        } else {
            observed.running.replace(Some(Rc::new(running)));
        }
        RunningCall::new(observed, TICKET)
    }

    /// What can be said of a call before it is known whose it is, and in the words of which wire
    /// it is made, if it is; `None` if it is of no tool.
    fn about(&self, call: &Call) -> Option<(ObservedCall, Option<&'static dyn PeerKind>)> {
        let (tool, arguments, trace, kind) = match &call.what {
            What::Tools => return None,
            What::Tool { name, args } => (name.clone(), args.clone(), call.trace.clone(), None),
            What::Native { wire, method, body } => {
                let kind = kind_of(*wire)?;
                let NativeCall { tool, arguments, trace } = kind.native_call(method, body)?;
                (tool, arguments, trace, Some(kind))
            }
        };
        let claimed = call.provenance.as_ref().and_then(|known| known.caller.clone());
        let about = ObservedCall {
            arguments,
            trace,
            claimed_caller: claimed,
            bytes_in: call.weight() as u64,
            ..ObservedCall::new(tool, call.deadline.asked)
        };
        Some((self.seen_from_here(about), kind))
    }

    fn seen_from_here(&self, call: ObservedCall) -> ObservedCall {
        ObservedCall {
            front: self.front.clone().unwrap_or_default(),
            caller: self.caller.clone(),
            view: self.view.clone(),
            ..call
        }
    }

    fn collector(&self) -> Option<RefCell<Results>> {
        let is_wanted = self.all.iter().any(|observer| observer.wants_results());
        is_wanted.then(|| RefCell::new(Results::Collecting(Box::default())))
    }
}
