//! Calls, as they are seen by those who keep count of them: the journal, metrics, traces.
//!
//! Each call of a tool that reaches a bus is one [`ObservedCall`], whichever front it comes from:
//! it begins once and ends once, whatever ends it. So are those that go past every bus, through a
//! hub or to the providers of a scenario. Lists of tools and what else a wire has to say are no
//! calls. A bus without an observer pays nothing.
//!
//! What is to be written before a caller is answered is written once for all calls that end in the
//! same turn of the thread: `held` keeps their answers for so long.

mod held;
mod observed;
mod observers;
mod seen;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_proto::channel::{Down, Up};
use toolbus_proto::json::Json;
use toolbus_proto::limit;
use toolbus_proto::tool::{Failure, FailureKind, Outcome, Passage, ToolName, Trace, Wire};

use crate::peer::{PeerKind, Registry};

pub(crate) use observed::Observed;
pub use observers::Observers;

/// Is told of every call of a tool that a bus gets, on the thread of the bus.
///
/// It is told in the middle of other work, and must neither wait nor call back.
pub trait Observer {
    /// Whose tool is called is known, and the call is about to leave for it. An error refuses
    /// the call, with that failure.
    fn begins(&self, call: &ObservedCall) -> Result<(), Failure> {
        let _ = call;
        Ok(())
    }

    /// The call has ended, and its caller has not been told yet. An error is what it is told
    /// instead.
    ///
    /// Each call that [begins](Observer::begins) ends, exactly once.
    fn ends(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Result<(), Failure>;

    /// A limit, by its name, has refused a call that is of no tool, for this reason.
    fn limits(&self, limit: &Arc<str>, reason: &'static str) {
        let _ = (limit, reason);
    }

    /// Does it want to see [what was answered](CallEnd::result)? That has to be collected.
    fn wants_results(&self) -> bool {
        false
    }

    /// Is each call to be a part of a trace? Then one begins with every call that is in none.
    fn begins_traces(&self) -> bool {
        false
    }

    /// Does it want to hear what is said while this call runs? Asked when it has begun.
    fn watches(&self, call: &ObservedCall) -> bool {
        let _ = call;
        false
    }

    /// This comes back in a call that some observer [watches](Observer::watches).
    fn hears_down(&self, call: &ObservedCall, down: &Down) {
        let _ = (call, down);
    }

    /// This goes up in such a call.
    fn hears_up(&self, call: &ObservedCall, up: &Up) {
        let _ = (call, up);
    }

    /// Takes down how a call has ended, for one that writes what it is told of many calls at once:
    /// their answers wait until it [has](Observer::write). Gives the number by which it is
    /// [asked](Observer::outcome) what became of that, once. `None` if it is to be told by
    /// [`ends`](Observer::ends).
    fn note(&self, call: &ObservedCall, end: &CallEnd<'_>) -> Option<u64> {
        let _ = (call, end);
        None
    }

    /// Writes all that was taken down.
    fn write(&self) {}

    /// Is it written? An error is what the caller is told instead.
    fn outcome(&self, number: u64) -> Result<(), Failure> {
        let _ = number;
        Ok(())
    }
}

thread_local! {
    /// How many calls were observed on this thread.
    static NUMBERS: Cell<u64> = const { Cell::new(0) };
}

/// What is known of a call while it runs.
#[derive(Debug, Clone)]
pub struct ObservedCall {
    /// The front that it came from; empty where there is none, as in a program that embeds the bus.
    pub front: Arc<str>,
    /// Who called there, where callers are told apart.
    pub caller: Option<Arc<str>>,
    /// Who called at a front on another machine, as that says; it gives no right.
    pub claimed_caller: Option<Arc<str>>,
    /// Which way it took behind a back that many machines answer for.
    pub passage: Option<Arc<Passage>>,
    /// The view in which tools were shown: the front's, the caller's, or both as `front+caller`.
    pub view: Option<Arc<str>>,
    /// The back that it goes to; `None` if there is no such tool, or as long as that is not known.
    pub back: Option<Arc<str>>,
    /// The protocol of that back.
    pub wire: Option<Wire>,
    /// The tool: by its back's own name for it, or as its caller named it if no back has it.
    pub tool: ToolName,
    /// What its back gets; of a call that does not get there, what its caller sent.
    pub arguments: Option<Json>,
    /// The larger piece of work that it is a part of, as its caller said.
    pub trace: Option<Trace>,
    /// The same as its back is told: we are a step of our own. `None` for what passes as it is.
    pub trace_passed_on: Option<Trace>,
    /// Tells it from all other calls that are observed on this thread.
    pub number: u64,
    /// When its caller asked.
    pub asked: Instant,
    /// The bytes of its arguments and its input so far.
    pub bytes_in: u64,
    /// The bytes of its reply so far, progress included.
    pub bytes_out: u64,
    /// The parts of its reply so far.
    pub parts: u64,
    /// Why no back hears of it, although one has the tool.
    pub kept: Option<Kept>,
}

/// Why a call of a tool that is there does not leave for its back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Its caller is not shown the tool.
    Hidden,
    /// A limit is reached, by its name: `front.web`, `caller.ann.limit.git.*`.
    Limited(Arc<str>),
    /// The lock does not have its back.
    NotLocked,
    /// Its caller shows a token that has not the scopes for it.
    NoScope,
    /// It is a search, which no back answers: did it find something?
    Searched(bool),
}

impl ObservedCall {
    /// The call of this tool that is made now, of which nothing else is known.
    pub fn new(tool: ToolName, asked: Instant) -> ObservedCall {
        ObservedCall {
            front: Arc::default(),
            caller: None,
            claimed_caller: None,
            passage: None,
            view: None,
            back: None,
            wire: None,
            tool,
            arguments: None,
            trace: None,
            trace_passed_on: None,
            number: NUMBERS.replace(NUMBERS.get() + 1),
            asked,
            bytes_in: 0,
            bytes_out: 0,
            parts: 0,
            kept: None,
        }
    }

    /// Is it of a tool that its caller is not shown?
    pub fn is_hidden(&self) -> bool {
        self.kept == Some(Kept::Hidden)
    }
}

/// How a call has ended.
#[derive(Debug, Clone, Copy)]
pub struct CallEnd<'a> {
    /// Why it failed, if it did: as its caller will see it, or as a tool says in the words of its
    /// own wire.
    pub failed: Option<FailureKind>,
    /// The same with all that is known, unless it was said in the words of a wire.
    pub failure: Option<&'a Failure>,
    /// How long it took, from when its caller asked.
    pub duration: Duration,
    /// What was answered, its parts collected, for observers that
    /// [want to know](Observer::wants_results); `None` if it failed, or is too large.
    pub result: Option<&'a Outcome>,
}

impl CallEnd<'_> {
    /// `ok`, or the kind of failure.
    pub fn outcome(&self) -> &'static str {
        self.failed.map_or("ok", FailureKind::as_str)
    }

    /// Why it was refused, if a limit or the lock did so, ours or that of a peer: `rate_limited`,
    /// `busy`; `changed`, `program_changed`, `not_locked`, `unverified`.
    pub fn reason(&self) -> Option<&'static str> {
        limit::reason_of(self.failure?)
    }

    /// The same, if it was our own lock.
    pub(crate) fn lock_reason(&self) -> Option<&'static str> {
        let failure = self.failure.filter(|failure| !failure.from_peer)?;
        limit::reason_of(failure).filter(|reason| limit::is_of_lock(reason))
    }
}

/// The call of a tool in the words of a wire.
#[derive(Debug, Clone)]
pub struct NativeCall {
    /// Which tool.
    pub tool: ToolName,
    /// What it is given.
    pub arguments: Option<Json>,
    /// The larger piece of work that the call is a part of.
    pub trace: Option<Trace>,
}

pub(super) fn kind_of(wire: Wire) -> Option<&'static dyn PeerKind> {
    Registry::default().kinds().find(|kind| kind.wire() == wire)
}

#[cfg(test)]
mod tests;
