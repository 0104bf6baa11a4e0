//! A call between its caller and its back, and its answer, which may have to wait until the call is
//! written down.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use toolbus_proto::channel::{Down, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, Outcome, Passage, ToolName, What, Wire};

use super::seen::{Ending, ObservedState, Seen, Waits};
use super::{Kept, Observer, held, kind_of};
use crate::engine::calls::{Answerer, Asker, Pressure, ReplyTo, RunningCall};
use crate::peer::PeerKind;

/// The caller and the back know of one call only.
pub(super) const TICKET: Ticket = Ticket(0);

/// One call under way, between its caller and the back.
pub(crate) struct Observed {
    pub(super) this: Weak<Observed>,
    pub(super) seen: Seen,
    pub(super) down: ReplyTo,
    /// The way to its back, as long as there is something to cancel.
    pub(super) running: RefCell<Option<Rc<RunningCall>>>,
    /// Its answer is here, and waits to be written down.
    pub(super) is_held: Cell<bool>,
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
pub(super) struct Held {
    observed: Rc<Observed>,
    ending: Ending,
    done: Result<Outcome, Failure>,
    /// By which the observer knows it that is next.
    number: u64,
}

impl Held {
    /// Writes what was taken down of it, and of all others that the same observer knows of.
    pub(super) fn write(&self) {
        self.observer().write();
    }

    fn observer(&self) -> &dyn Observer {
        &*self.observed.seen.observers[self.ending.told]
    }

    /// It is written, or cannot be.
    pub(super) fn go_on(self) {
        let outcome = self.observer().outcome(self.number);
        let Held { observed, mut ending, done, .. } = self;
        if let Err(failure) = outcome {
            ending.instead = Some(failure);
        }
        ending.told += 1;
        let _ = observed.answer(ending, done);
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
