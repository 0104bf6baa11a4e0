//! Calls, as they are seen by those who keep count of them: the journal, metrics, traces.
//!
//! Each call of a tool that reaches a bus is one [`ObservedCall`], whichever front it comes from:
//! it begins once and ends once, whatever ends it. So are those that go past every bus, through a
//! hub or to the providers of a scenario. Lists of tools and what else a wire has to say are no
//! calls. A bus without an observer pays nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::collect::Collector;
use toolbus_proto::json::Json;
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolName, Trace, What, Wire};

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

    /// Does it want to see [what was answered](CallEnd::result)? That has to be collected.
    fn wants_results(&self) -> bool {
        false
    }

    /// Is each call to be a part of a trace? Then one begins with every call that is in none.
    fn begins_traces(&self) -> bool {
        false
    }
}

/// What is known of a call while it runs.
#[derive(Debug, Clone)]
pub struct ObservedCall {
    /// The front that it came from; empty where there is none, as in a program that embeds the bus.
    pub front: Arc<str>,
    /// The back that it goes to; `None` if there is no such tool, or as long as that is not known.
    pub back: Option<Arc<str>>,
    /// The protocol of that back.
    pub wire: Option<Wire>,
    /// The tool: by its back's own name for it, or as its caller named it if no back has it.
    pub tool: ToolName,
    /// What its caller gave it.
    pub arguments: Option<Json>,
    /// The larger piece of work that it is a part of, as its caller said.
    pub trace: Option<Trace>,
    /// The same as its back is told: we are a step of our own. `None` for what passes as it is.
    pub trace_passed_on: Option<Trace>,
    /// When its caller asked.
    pub asked: Instant,
    /// The bytes of its arguments and its input so far.
    pub bytes_in: u64,
    /// The bytes of its reply so far, progress included.
    pub bytes_out: u64,
}

impl ObservedCall {
    /// The call of this tool that is made now, of which nothing else is known.
    pub fn new(tool: ToolName, asked: Instant) -> ObservedCall {
        ObservedCall {
            front: Arc::default(),
            back: None,
            wire: None,
            tool,
            arguments: None,
            trace: None,
            trace_passed_on: None,
            asked,
            bytes_in: 0,
            bytes_out: 0,
        }
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

/// Who observes the calls of a bus, and which front they come from.
#[derive(Clone, Default)]
pub struct Observers {
    front: Option<Arc<str>>,
    all: Rc<[Rc<dyn Observer>]>,
}

impl Observers {
    /// Those of calls that come from this front. Each hears what the others before it made of a
    /// call.
    pub fn new(front: &str, all: impl IntoIterator<Item = Rc<dyn Observer>>) -> Observers {
        Observers { front: Some(front.into()), all: all.into_iter().collect() }
    }

    /// One more. It is told after the others, and hears what they made of a call.
    pub(super) fn with(&self, observer: Rc<dyn Observer>) -> Observers {
        let all = self.all.iter().cloned().chain([observer]).collect();
        Observers { front: self.front.clone(), all }
    }

    /// These in place of all others.
    pub(super) fn replaced(&self, all: Rc<[Rc<dyn Observer>]>) -> Observers {
        Observers { front: self.front.clone(), all }
    }

    /// The same for calls that come from this front.
    pub(super) fn of_front(&self, front: &str) -> Observers {
        Observers { front: Some(front.into()), all: self.all.clone() }
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
        let front = self.front.clone().unwrap_or_default();
        let seen = Seen::new(self, ObservedCall { front, ..call }, None, None);
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
        let observed = Rc::new(Observed { seen, down, running: RefCell::new(None) });
        let running = start(call, ReplyTo::new(observed.clone(), TICKET), Some(&observed));
        // It may have been answered at once, and then there is nothing to cancel.
        if observed.seen.stage.get() == Stage::Ended {
            running.forget();
            return RunningCall::ended();
        }
        observed.running.replace(Some(Rc::new(running)));
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
        let about = ObservedCall {
            front: self.front.clone().unwrap_or_default(),
            arguments,
            trace,
            bytes_in: call.weight() as u64,
            ..ObservedCall::new(tool, call.deadline.asked)
        };
        Some((about, kind))
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
    seen: Seen,
    down: ReplyTo,
    /// The way to its back, as long as there is something to cancel.
    running: RefCell<Option<Rc<RunningCall>>>,
}

/// One call under way, as its observers see it.
struct Seen {
    observers: Rc<[Rc<dyn Observer>]>,
    call: RefCell<ObservedCall>,
    /// What its back speaks: knows a failure in the words of its wire.
    kind: Cell<Option<&'static dyn PeerKind>>,
    /// What was answered so far, if that is to be told.
    result: Option<RefCell<Results>>,
    stage: Cell<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is not known yet whose it is.
    Asked,
    Begun,
    Ended,
}

enum Results {
    Collecting(Box<Collector>),
    TooLarge,
}

impl Observed {
    /// The call leaves for this back now, which speaks `wire` and mostly is of this kind, unless
    /// an observer refuses it.
    pub(crate) fn begin(
        &self,
        back: &Arc<str>,
        wire: Wire,
        own: &'static dyn PeerKind,
        passed_on: &Call,
    ) -> Result<(), Failure> {
        let Seen { kind, call, .. } = &self.seen;
        kind.set(if own.wire() == wire { Some(own) } else { kind_of(wire) });
        {
            let mut call = call.borrow_mut();
            call.back = Some(back.clone());
            call.wire = Some(wire);
            if let What::Tool { name, .. } = &passed_on.what {
                call.tool = name.clone();
                call.trace_passed_on = passed_on.trace.clone();
            }
        }
        self.seen.tell_begin()
    }

    fn running(&self) -> Option<Rc<RunningCall>> {
        self.running.borrow().clone()
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
            stage: Cell::new(Stage::Asked),
        }
    }

    fn tell_begin(&self) -> Result<(), Failure> {
        self.stage.set(Stage::Begun);
        let call = self.call.borrow();
        let told = self.observers.iter().map(|observer| observer.begins(&call));
        // All of them hear of it, whatever the first says.
        told.fold(Ok(()), Result::and)
    }

    /// Tells how it has ended, if that is not known yet; gives what its caller is to be told
    /// instead, if an observer says so.
    fn end(&self, done: &Result<Outcome, Failure>) -> Option<Failure> {
        if self.stage.get() == Stage::Ended {
            return None;
        }
        if self.stage.get() == Stage::Asked {
            // It found no back, or its caller has left before. What is to be refused has ended.
            let _ = self.tell_begin();
        }
        self.stage.set(Stage::Ended);
        let call = self.call.borrow();
        let duration = Instant::now().saturating_duration_since(call.asked);
        let result = self.collected(done);
        let mut instead = None;
        for observer in &*self.observers {
            let failure = instead.as_ref().or(done.as_ref().err());
            let failed = match (failure, done) {
                (Some(failure), _) => Some(failure.kind),
                (None, Ok(Outcome::Native(body))) => self.failed_natively(body),
                (None, _) => None,
            };
            let result = result.as_ref().filter(|_| failure.is_none());
            let end = CallEnd { failed, failure, duration, result };
            if let Err(failure) = observer.ends(&call, &end) {
                instead = Some(failure);
            }
        }
        instead
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
        if self.seen.stage.get() != Stage::Ended {
            self.seen.call.borrow_mut().bytes_out += down.weight() as u64;
        }
        match down {
            Down::Done(done) => {
                let instead = self.seen.end(&done);
                let running = self.running.take();
                if let Some(running) = running.and_then(Rc::into_inner) {
                    running.forget();
                }
                self.down.send(Down::Done(instead.map_or(done, Err)))
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
        self.running().map_or(Pressure::Ready, |running| running.send(up))
    }

    fn resume(&self, _: Ticket) {
        if let Some(running) = self.running() {
            running.resume();
        }
    }
}

fn kind_of(wire: Wire) -> Option<&'static dyn PeerKind> {
    Registry::default().kinds().find(|kind| kind.wire() == wire)
}

#[cfg(test)]
mod tests;
