//! The page as an observer of calls.

use std::cell::Cell;
use std::rc::Rc;

use toolbus_proto::channel::{Down, Up};
use toolbus_proto::page::{CallBegun, CallEnded, HeardOf, Takes};
use toolbus_proto::tool::{Failure, Outcome, Wire};

use super::Page;
use crate::bus::observe::{CallEnd, Kept, ObservedCall, Observer};
use toolbus_engine::account;

/// The page, as the bus tells it of calls that come by fronts.
pub struct OfPage(pub Rc<Page>);

/// The page, as it is told of a call that it makes itself.
pub(super) struct OfOwnCall {
    pub(super) page: Rc<Page>,
    /// The number of the call, once it has begun.
    pub(super) n: Cell<u64>,
}

fn begun(call: &ObservedCall) -> CallBegun<'_> {
    CallBegun {
        asked: call.asked,
        front: &call.front,
        caller: call.caller.as_ref(),
        view: call.view.as_ref(),
        back: call.back.as_ref(),
        wire: call.wire.map(Wire::name),
        tool: &call.tool,
        trace: call.trace.as_ref().map(toolbus_proto::tool::Trace::id),
        is_hidden: call.is_hidden(),
        arguments: call.arguments.as_ref(),
        bytes_in: call.bytes_in,
        bytes_out: call.bytes_out,
        parts: call.parts,
    }
}

fn bytes_in_flight() -> u64 {
    account::bytes_in_flight().0 as u64
}

impl Page {
    /// What is taken of the values of calls that begin now.
    fn takes(&self) -> Takes {
        if !self.allows_values() {
            return Takes::default();
        }
        if self.is_watched() {
            return Takes::ALL;
        }
        let facts = self.facts.borrow();
        let journal = facts.journal.as_ref();
        Takes {
            arguments: journal.is_some_and(|journal| journal.arguments),
            results: journal.is_some_and(|journal| journal.results),
            events: false,
        }
    }

    fn begins(&self, call: &ObservedCall, takes: Takes) -> u64 {
        let is_listed = || {
            let healths = self.healths.borrow();
            let health = call.back.as_ref().and_then(|back| healths.get(back));
            health.is_some_and(|health| health.has(call.tool.as_str()))
        };
        // A search is no call of a tool.
        let is_search = matches!(call.kept, Some(Kept::Searched(_)));
        let is_listed: Option<&dyn Fn() -> bool> = if is_search { None } else { Some(&is_listed) };
        let now = self.now();
        let mut store = self.store.borrow_mut();
        let n = store.begins(now, call.number, &begun(call), takes, is_listed, bytes_in_flight());
        drop(store);
        self.stir();
        n
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) {
        let ended = CallEnded {
            outcome: end.outcome(),
            reason: end.reason(),
            duration: end.duration,
            result: end.result,
            failure: end.failure,
        };
        let now = self.now();
        self.store.borrow_mut().ends(now, call.number, &begun(call), &ended, bytes_in_flight());
        self.stir();
    }

    fn hears(&self, call: &ObservedCall, heard: HeardOf<'_>) {
        let now = self.now();
        self.store.borrow_mut().hears(now, call.number, &begun(call), heard);
        self.stir();
    }

    fn hears_down(&self, call: &ObservedCall, down: &Down) {
        let heard = match down {
            Down::Begin { head, .. } => HeardOf::Begin(head.as_ref()),
            Down::Part(part) => HeardOf::Part(part),
            Down::Progress(json) => HeardOf::Progress(json),
            Down::Log(json) => HeardOf::Log(json),
            Down::Ask(_, json) => HeardOf::Ask(json),
            // What is said in the words of a wire is told as its result.
            Down::Done(Ok(Outcome::Native(_) | Outcome::Tools(_))) => return,
            Down::Done(Ok(outcome)) => HeardOf::End(outcome),
            Down::Done(Err(_)) => HeardOf::Fail,
        };
        self.hears(call, heard);
    }

    fn hears_up(&self, call: &ObservedCall, up: &Up) {
        if let Up::Answer(_, json) = up {
            self.hears(call, HeardOf::Answer(json));
        }
    }
}

impl Observer for OfPage {
    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        self.0.begins(call, self.0.takes());
        Ok(())
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        self.0.ends(call, end);
        Ok(())
    }

    fn wants_results(&self) -> bool {
        self.0.takes().results
    }

    fn watches(&self, _: &ObservedCall) -> bool {
        self.0.takes().events
    }

    fn hears_down(&self, call: &ObservedCall, down: &Down) {
        self.0.hears_down(call, down);
    }

    fn hears_up(&self, call: &ObservedCall, up: &Up) {
        self.0.hears_up(call, up);
    }
}

impl Observer for OfOwnCall {
    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        let takes = if self.page.allows_values() { Takes::ALL } else { Takes::default() };
        self.n.set(self.page.begins(call, takes));
        Ok(())
    }

    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure> {
        self.page.ends(call, end);
        Ok(())
    }

    fn wants_results(&self) -> bool {
        self.page.allows_values()
    }

    fn watches(&self, _: &ObservedCall) -> bool {
        self.page.allows_values()
    }

    fn hears_down(&self, call: &ObservedCall, down: &Down) {
        self.page.hears_down(call, down);
    }

    fn hears_up(&self, call: &ObservedCall, up: &Up) {
        self.page.hears_up(call, up);
    }
}
