//! What observers are told of a call: that it begins, what is said meanwhile, and once how it ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolbus_proto::channel::{Down, Up};
use toolbus_proto::collect::Collector;
use toolbus_proto::tool::{Failure, FailureKind, Outcome};

use super::{CallEnd, ObservedCall, Observer, Observers};
use crate::peer::PeerKind;

/// One call under way, as its observers see it.
pub(super) struct Seen {
    pub(super) observers: Rc<[Rc<dyn Observer>]>,
    pub(super) call: RefCell<ObservedCall>,
    /// What its back speaks: knows a failure in the words of its wire.
    pub(super) kind: Cell<Option<&'static dyn PeerKind>>,
    /// What was answered so far, if that is to be told.
    pub(super) result: Option<RefCell<Results>>,
    pub(super) stage: Cell<ObservedState>,
    /// An observer wants to hear what is said.
    pub(super) is_watched: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObservedState {
    /// It is not known yet whose it is.
    Asked,
    Begun,
    Ended,
}

pub(super) enum Results {
    Collecting(Box<Collector>),
    TooLarge,
}

/// The end of a call, while its observers are told of it one after the other.
pub(super) struct Ending {
    /// So many of them know.
    pub(super) told: usize,
    pub(super) duration: Duration,
    pub(super) result: Option<Outcome>,
    /// What its caller is told instead of what was answered.
    pub(super) instead: Option<Failure>,
}

/// May the end of a call wait until it is written with those of others?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    ToBeWritten,
    No,
}

impl Seen {
    pub(super) fn new(
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

    pub(super) fn tell_begin(&self) -> Result<(), Failure> {
        self.stage.set(ObservedState::Begun);
        let call = self.call.borrow();
        let told = self.observers.iter().map(|observer| observer.begins(&call));
        // All of them hear of it, whatever the first says.
        let told = told.fold(Ok(()), Result::and);
        self.is_watched.set(self.observers.iter().any(|observer| observer.watches(&call)));
        told
    }

    pub(super) fn tell_down(&self, down: &Down) {
        if self.is_watched.get() && self.stage.get() != ObservedState::Ended {
            let call = self.call.borrow();
            self.observers.iter().for_each(|observer| observer.hears_down(&call, down));
        }
    }

    pub(super) fn tell_up(&self, up: &Up) {
        if self.is_watched.get() && self.stage.get() != ObservedState::Ended {
            let call = self.call.borrow();
            self.observers.iter().for_each(|observer| observer.hears_up(&call, up));
        }
    }

    /// Tells how it has ended, if that is not known yet; gives what its caller is to be told
    /// instead, if an observer says so.
    pub(super) fn end(&self, done: &Result<Outcome, Failure>) -> Option<Failure> {
        let mut ending = self.ending(done)?;
        self.tell_end(&mut ending, done, Waits::No);
        ending.instead
    }

    /// What is to be told of its end; `None` if that was told before.
    pub(super) fn ending(&self, done: &Result<Outcome, Failure>) -> Option<Ending> {
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
    pub(super) fn tell_end(
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

    pub(super) fn failed_natively(&self, result: &Bytes) -> Option<FailureKind> {
        self.kind.get()?.native_failure(result)
    }

    /// What was answered, whole, if that is to be told.
    pub(super) fn collected(&self, done: &Result<Outcome, Failure>) -> Option<Outcome> {
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

    pub(super) fn keep(&self, down: &Down) {
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
