//! What the hands know of one stream beside its bytes: who waits for it, and for whom it waits.

use std::cell::{Cell, RefCell};

use toolbus_proto::channel::{Down, StreamLost, Ticket};
use toolbus_proto::tool::Failure;

use super::calls::{Backlog, ByTicket};
use super::drive::Closing;
use crate::account::{Account, Charge, CutOff};
use crate::wake::Wake;

/// One stream, as its joint sees it.
pub(crate) struct Lane {
    /// Rung when something changed from another side: a call, a reply, room.
    pub(super) wake: Wake,
    /// Rung when the one for whom the stream waited has taken what it was given.
    pub(super) taken: Wake,
    /// What waits to be written, and whose calls wait for that.
    pub(super) backlog: Backlog,
    /// The latest progress of calls, where the peer does not even read the earlier.
    progress: RefCell<ByTicket<Down>>,
    /// How many calls it waits for.
    waits_for: Cell<usize>,
    /// One of them was just filled, and has not had its turn to read.
    needs_turn: Cell<bool>,
    /// Why there will be no more to read, if it did not end well.
    pub(super) cut: RefCell<Option<StreamLost>>,
    /// Whose it is, and what it holds.
    pub(super) charge: Charge,
    /// The machine has said whose it is.
    pub(super) has_owner: Cell<bool>,
    /// There is no room for it.
    refused: RefCell<Option<Refused>>,
    /// What becomes of our writing side, whatever the machine says.
    pub(super) closing: Cell<Closing>,
    /// How many frames in a row served no purpose.
    pub(super) noise: Cell<usize>,
}

/// What a stream is told that there is no room for.
pub(super) enum Refused {
    /// What it sent is not wanted any more; it may be told so.
    Input(Failure),
    /// Its peer is cut off.
    Whole(Failure),
}

impl Lane {
    pub(super) fn new(account: &Account) -> Lane {
        Lane {
            wake: Wake::default(),
            taken: Wake::default(),
            backlog: Backlog::default(),
            progress: RefCell::default(),
            waits_for: Cell::new(0),
            needs_turn: Cell::new(false),
            cut: RefCell::default(),
            charge: Charge::on(account),
            has_owner: Cell::new(false),
            refused: RefCell::default(),
            closing: Cell::new(Closing::No),
            noise: Cell::new(0),
        }
    }

    /// There is no room for the rest of what the peer sends, if it has begun something.
    pub(super) fn refuse_if_over(&self) {
        if self.charge.is_half_full()
            && let Some(account) = self.charge.account()
            && self.refused.borrow().is_none()
        {
            self.refuse(Refused::Input(account.half_refusal()));
        }
    }

    fn refuse(&self, refused: Refused) {
        *self.refused.borrow_mut() = Some(refused);
        self.wake.ring();
    }

    pub(super) fn take_refused(&self) -> Option<Refused> {
        self.refused.take()
    }

    /// It is not read until a call goes on.
    pub(super) fn hold(&self) {
        self.waits_for.set(self.waits_for.get() + 1);
    }

    pub(super) fn release(&self) {
        self.waits_for.set(self.waits_for.get() - 1);
    }

    pub(super) fn is_held(&self) -> bool {
        0 < self.waits_for.get()
    }

    pub(super) fn heard_noise(&self) {
        self.noise.set(self.noise.get() + 1);
    }

    /// Must the rest wait until a call had its turn to take what it was given?
    pub(super) fn needs_turn(&self) -> bool {
        self.needs_turn.get()
    }

    pub(super) fn need_turn(&self) {
        self.needs_turn.set(true);
    }

    /// All had their turn: who is still full is slow.
    pub(super) fn turn_passed(&self) {
        self.needs_turn.set(false);
    }

    /// Keeps the progress of a call until the peer reads on. Only the latest counts, but texts
    /// are joined.
    pub(super) fn put_off(&self, ticket: Ticket, progress: Down) {
        let mut waiting = self.progress.borrow_mut();
        let progress = match (waiting.remove(&ticket), progress) {
            (Some(Down::Progress(earlier)), Down::Progress(later)) => {
                Down::Progress(Down::latest_progress(&earlier, later))
            }
            (_, progress) => progress,
        };
        waiting.insert(ticket, progress);
    }

    /// The call is over: nothing of it waits any more.
    pub(super) fn forget(&self, ticket: Ticket) {
        self.progress.borrow_mut().remove(&ticket);
        self.backlog.forget(ticket);
    }

    pub(super) fn take_progress(&self) -> ByTicket<Down> {
        match self.backlog.is_full() || self.progress.borrow().is_empty() {
            true => ByTicket::default(),
            false => self.progress.take(),
        }
    }
}

/// One of many streams. What carries only one is ended by its owner.
impl CutOff for Lane {
    fn cut_off(&self, why: &Failure) {
        self.refuse(Refused::Whole(why.clone()));
    }
}
