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

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::collect::Collector;
use toolbus_proto::json::Json;
use toolbus_proto::limit;
use toolbus_proto::tool::{
    Call, Failure, FailureKind, Outcome, Passage, ToolName, Trace, What, Wire,
};

use crate::chance;
use crate::engine::calls::{Answerer, Asker, Pressure, ReplyTo, RunningCall};
use crate::peer::{PeerKind, Registry};

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

/// Who observes the calls of a bus, and where they come from.
#[derive(Clone, Default)]
pub struct Observers {
    front: Option<Arc<str>>,
    caller: Option<Arc<str>>,
    view: Option<Arc<str>>,
    all: Rc<[Rc<dyn Observer>]>,
}

impl Observers {
    /// Those of calls that come from this front. Each hears what the others before it made of a
    /// call.
    pub fn new(front: &str, all: impl IntoIterator<Item = Rc<dyn Observer>>) -> Observers {
        let all = all.into_iter().collect();
        Observers { front: Some(front.into()), all, ..Observers::default() }
    }

    /// One more. It is told after the others, and hears what they made of a call.
    pub(super) fn with(&self, observer: Rc<dyn Observer>) -> Observers {
        let all = self.all.iter().cloned().chain([observer]).collect();
        Observers { all, ..self.clone() }
    }

    /// These in place of all others.
    pub(super) fn replaced(&self, all: Rc<[Rc<dyn Observer>]>) -> Observers {
        Observers { all, ..self.clone() }
    }

    /// The same for calls that come from this front.
    pub(super) fn of_front(&self, front: &str) -> Observers {
        Observers { front: Some(front.into()), ..self.clone() }
    }

    /// The same for calls of this caller, if there is one, in this view, if there is one.
    pub(super) fn of_caller(&self, caller: Option<Arc<str>>, view: Option<Arc<str>>) -> Observers {
        Observers { caller, view, ..self.clone() }
    }

    /// Whose calls they are, where callers are told apart.
    pub(super) fn caller(&self) -> Option<&Arc<str>> {
        self.caller.as_ref()
    }

    /// The front that calls come from; empty where there is none.
    #[allow(dead_code, reason = "a build may have no front that asks")]
    pub(super) fn front_name(&self) -> &str {
        self.front.as_deref().unwrap_or_default()
    }

    /// A call that is of no tool was refused by the limit of this name.
    pub(super) fn tell_limit(&self, limit: &Arc<str>, failure: &Failure) {
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

/// The caller and the back know of one call only.
const TICKET: Ticket = Ticket(0);

/// One call under way, between its caller and the back.
pub(crate) struct Observed {
    this: Weak<Observed>,
    seen: Seen,
    down: ReplyTo,
    /// The way to its back, as long as there is something to cancel.
    running: RefCell<Option<Rc<RunningCall>>>,
    /// Its answer is here, and waits to be written down.
    is_held: Cell<bool>,
}

/// One call under way, as its observers see it.
struct Seen {
    observers: Rc<[Rc<dyn Observer>]>,
    call: RefCell<ObservedCall>,
    /// What its back speaks: knows a failure in the words of its wire.
    kind: Cell<Option<&'static dyn PeerKind>>,
    /// What was answered so far, if that is to be told.
    result: Option<RefCell<Results>>,
    stage: Cell<ObservedState>,
    /// An observer wants to hear what is said.
    is_watched: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObservedState {
    /// It is not known yet whose it is.
    Asked,
    Begun,
    Ended,
}

enum Results {
    Collecting(Box<Collector>),
    TooLarge,
}

/// The end of a call, while its observers are told of it one after the other.
struct Ending {
    /// So many of them know.
    told: usize,
    duration: Duration,
    result: Option<Outcome>,
    /// What its caller is told instead of what was answered.
    instead: Option<Failure>,
}

/// May the end of a call wait until it is written with those of others?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    ToBeWritten,
    No,
}

impl Observed {
    /// The call leaves for this back now, which speaks `wire` and mostly is of this kind, unless
    /// an observer refuses it.
    pub(crate) fn begin(
        &self,
        back: &Arc<str>,
        wire: Wire,
        own: &'static dyn PeerKind,
        passed_on: &mut Call,
    ) -> Result<(), Failure> {
        let Seen { kind, call, .. } = &self.seen;
        kind.set(if own.wire() == wire { Some(own) } else { kind_of(wire) });
        {
            let mut call = call.borrow_mut();
            call.back = Some(back.clone());
            call.wire = Some(wire);
            if own.is_many() {
                let passage: Arc<Passage> = Arc::default();
                call.passage = Some(passage.clone());
                passed_on.provenance.get_or_insert_default().passage = Some(passage);
            }
            if let What::Tool { name, args } = &passed_on.what {
                call.tool = name.clone();
                // Not always what its caller sent.
                call.arguments.clone_from(args);
                call.trace_passed_on = passed_on.trace.clone();
            }
        }
        self.seen.tell_begin()
    }

    /// It is a call of this tool, by its own name; `passed_on` is how its back gets it, in the words
    /// of a wire, if it does.
    pub(crate) fn is_of(&self, tool: &ToolName, passed_on: Option<&Call>) {
        let mut call = self.seen.call.borrow_mut();
        call.tool = tool.clone();
        if let Some(What::Native { wire, method, body }) = passed_on.map(|call| &call.what)
            && let Some(native) = kind_of(*wire).and_then(|kind| kind.native_call(method, body))
        {
            call.arguments = native.arguments;
        }
    }

    /// No back hears of the call. It would have been one of this tool, by its own name.
    pub(crate) fn keep(&self, back: &Arc<str>, tool: &ToolName, why: Kept) {
        let mut call = self.seen.call.borrow_mut();
        call.back = Some(back.clone());
        call.tool = tool.clone();
        call.kept = Some(why);
    }

    /// It is a search, answered in place of a back.
    pub(crate) fn searched(&self, has_found: bool) {
        self.seen.call.borrow_mut().kept = Some(Kept::Searched(has_found));
    }

    fn running(&self) -> Option<Rc<RunningCall>> {
        self.running.borrow().clone()
    }

    /// Answers the caller once all observers know of the end.
    fn answer(&self, mut ending: Ending, done: Result<Outcome, Failure>) -> Pressure {
        match self.seen.tell_end(&mut ending, &done, Waits::ToBeWritten) {
            Some(number) => {
                self.is_held.set(true);
                if let Some(observed) = self.this.upgrade() {
                    held::hold(Held { observed, ending, done, number });
                }
                Pressure::Ready
            }
            None => {
                self.is_held.set(false);
                self.down.send(Down::Done(ending.instead.map_or(done, Err)))
            }
        }
    }
}

/// An answer that is not on its way yet, because its end is to be written first.
struct Held {
    observed: Rc<Observed>,
    ending: Ending,
    done: Result<Outcome, Failure>,
    /// By which the observer knows it that is next.
    number: u64,
}

impl Held {
    /// Writes what was taken down of it, and of all others that the same observer knows of.
    fn write(&self) {
        self.observer().write();
    }

    fn observer(&self) -> &dyn Observer {
        &*self.observed.seen.observers[self.ending.told]
    }

    /// It is written, or cannot be.
    fn go_on(self) {
        let outcome = self.observer().outcome(self.number);
        let Held { observed, mut ending, done, .. } = self;
        if let Err(failure) = outcome {
            ending.instead = Some(failure);
        }
        ending.told += 1;
        let _ = observed.answer(ending, done);
    }
}

impl Seen {
    fn new(
        observers: &Observers,
        call: ObservedCall,
        kind: Option<&'static dyn PeerKind>,
        result: Option<RefCell<Results>>,
    ) -> Seen {
        Seen {
            observers: observers.all.clone(),
            call: RefCell::new(call),
            kind: Cell::new(kind),
            result,
            stage: Cell::new(ObservedState::Asked),
            is_watched: Cell::new(false),
        }
    }

    fn tell_begin(&self) -> Result<(), Failure> {
        self.stage.set(ObservedState::Begun);
        let call = self.call.borrow();
        let told = self.observers.iter().map(|observer| observer.begins(&call));
        // All of them hear of it, whatever the first says.
        let told = told.fold(Ok(()), Result::and);
        self.is_watched.set(self.observers.iter().any(|observer| observer.watches(&call)));
        told
    }

    fn tell_down(&self, down: &Down) {
        if self.is_watched.get() && self.stage.get() != ObservedState::Ended {
            let call = self.call.borrow();
            self.observers.iter().for_each(|observer| observer.hears_down(&call, down));
        }
    }

    fn tell_up(&self, up: &Up) {
        if self.is_watched.get() && self.stage.get() != ObservedState::Ended {
            let call = self.call.borrow();
            self.observers.iter().for_each(|observer| observer.hears_up(&call, up));
        }
    }

    /// Tells how it has ended, if that is not known yet; gives what its caller is to be told
    /// instead, if an observer says so.
    fn end(&self, done: &Result<Outcome, Failure>) -> Option<Failure> {
        let mut ending = self.ending(done)?;
        self.tell_end(&mut ending, done, Waits::No);
        ending.instead
    }

    /// What is to be told of its end; `None` if that was told before.
    fn ending(&self, done: &Result<Outcome, Failure>) -> Option<Ending> {
        if self.stage.get() == ObservedState::Ended {
            return None;
        }
        if self.stage.get() == ObservedState::Asked {
            // It found no back, or its caller has left before. What is to be refused has ended.
            let _ = self.tell_begin();
        }
        self.stage.set(ObservedState::Ended);
        let duration = Instant::now().saturating_duration_since(self.call.borrow().asked);
        Some(Ending { told: 0, duration, result: self.collected(done), instead: None })
    }

    /// Tells those who were not told yet. If it may wait and comes to one who takes it down to
    /// write it later, that one is the next; gives the number of what was taken down.
    fn tell_end(
        &self,
        ending: &mut Ending,
        done: &Result<Outcome, Failure>,
        waits: Waits,
    ) -> Option<u64> {
        let call = self.call.borrow();
        while let Some(observer) = self.observers.get(ending.told) {
            let failure = ending.instead.as_ref().or(done.as_ref().err());
            let failed = match (failure, done) {
                (Some(failure), _) => Some(failure.kind),
                (None, Ok(Outcome::Native(body))) => self.failed_natively(body),
                (None, _) => None,
            };
            let result = ending.result.as_ref().filter(|_| failure.is_none());
            let end = CallEnd { failed, failure, duration: ending.duration, result };
            if waits == Waits::ToBeWritten
                && let Some(number) = observer.note(&call, &end)
            {
                return Some(number);
            }
            if let Err(failure) = observer.ends(&call, &end) {
                ending.instead = Some(failure);
            }
            ending.told += 1;
        }
        None
    }

    fn failed_natively(&self, result: &Bytes) -> Option<FailureKind> {
        self.kind.get()?.native_failure(result)
    }

    /// What was answered, whole, if that is to be told.
    fn collected(&self, done: &Result<Outcome, Failure>) -> Option<Outcome> {
        match (&mut *self.result.as_ref()?.borrow_mut(), done) {
            (Results::TooLarge, _) | (_, Err(_)) => None,
            (Results::Collecting(collector), Ok(Outcome::End(_))) => {
                collector.take(Down::Done(done.clone()))?.ok()
            }
            (Results::Collecting(_), Ok(Outcome::Native(body))) => match self.kind.get() {
                Some(kind) => kind.native_result(body),
                None => Some(Outcome::Native(body.clone())),
            },
            (Results::Collecting(_), Ok(outcome)) => Some(outcome.clone()),
        }
    }

    fn keep(&self, down: &Down) {
        let Some(results) = &self.result else { return };
        let results = &mut *results.borrow_mut();
        if let (Results::Collecting(collector), Down::Begin { .. } | Down::Part(_)) =
            (&mut *results, down)
            && collector.take(down.clone()).is_some()
        {
            *results = Results::TooLarge;
        }
    }
}

impl Drop for Seen {
    /// Who makes it let go of it without a word.
    fn drop(&mut self) {
        let _ = self.end(&Err(Failure::cancelled()));
    }
}

impl Asker for Observed {
    fn receive(&self, _: Ticket, down: Down) -> Pressure {
        if self.seen.stage.get() != ObservedState::Ended {
            let mut call = self.seen.call.borrow_mut();
            call.bytes_out += down.weight() as u64;
            call.parts += u64::from(matches!(down, Down::Part(_)));
        }
        self.seen.tell_down(&down);
        match down {
            Down::Done(done) => {
                let ending = self.seen.ending(&done);
                let running = self.running.take();
                if let Some(running) = running.and_then(Rc::into_inner) {
                    running.forget();
                }
                match ending {
                    Some(ending) => self.answer(ending, done),
                    None => self.down.send(Down::Done(done)),
                }
            }
            down => {
                self.seen.keep(&down);
                self.down.send(down)
            }
        }
    }

    fn resume(&self, _: Ticket) {
        self.down.resume();
    }

    fn is_full(&self, _: Ticket) -> bool {
        self.down.is_full()
    }
}

impl Answerer for Observed {
    fn send(&self, _: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(why) = up {
            // Its caller waits no longer: whatever comes now is no answer.
            let _ = self.seen.end(&Err(Failure::cancelled()));
            if let Some(running) = self.running.take() {
                let _ = running.send(Up::Cancel(why));
                if let Some(running) = Rc::into_inner(running) {
                    running.forget();
                }
            }
            return Pressure::Ready;
        }
        self.seen.call.borrow_mut().bytes_in += up.weight() as u64;
        self.seen.tell_up(&up);
        self.running().map_or(Pressure::Ready, |running| running.send(up))
    }

    fn resume(&self, _: Ticket) {
        if let Some(running) = self.running() {
            running.resume();
        }
    }
}

pub(super) fn kind_of(wire: Wire) -> Option<&'static dyn PeerKind> {
    Registry::default().kinds().find(|kind| kind.wire() == wire)
}

#[cfg(test)]
mod tests;
