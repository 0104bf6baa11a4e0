//! The calls in the hands of one back: which ticket's reply goes where, and who is slow.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use toolbus_proto::channel::{Down, Notice, Ticket, Up};
use toolbus_proto::tool::{Failure, FailureKind};

use super::{ByTicket, Pressure, ReplyTo, Sharing, Slow};
use crate::account::Ledger;
use crate::engine;
use crate::engine::drive::Forwarded;
use crate::engine::lane::Lane;
use crate::scope::Scope;

/// The calls in the hands of one back.
pub(crate) struct Calls {
    /// What the log calls the back.
    name: String,
    sharing: Sharing,
    by_ticket: RefCell<ByTicket<ReplyTo>>,
    next: Cell<u64>,
    /// Callers who were given all that they can take for now.
    slow: Slow,
    /// Called when the peer says that its tools have changed.
    watchers: RefCell<Vec<Rc<dyn Fn()>>>,
    /// Called with all that the peer tells besides answers.
    listeners: RefCell<Vec<Listener>>,
    are_warnings_kept: Cell<bool>,
    ledger: Rc<Ledger>,
}

type Listener = Rc<dyn Fn(&Notice)>;

/// Who answers them: a machine, or those of many processes one after the other.
pub(crate) trait Answers {
    fn poll_down(&self) -> Option<(Ticket, Down)>;
    fn poll_notice(&self) -> Option<Notice>;
    /// More of a call, or its cancellation.
    fn up(&self, ticket: Ticket, up: Up);
    /// A call has ended.
    fn call_ended(&self) {}
    /// The caller takes no more for now, or takes more again.
    fn hold(&self, _ticket: Ticket, _is_held: bool) {}
    /// A call whose peer takes more again.
    fn poll_room(&self) -> Option<Ticket> {
        None
    }
}

impl Calls {
    pub(crate) fn new(name: String, sharing: Sharing) -> Calls {
        Calls {
            name,
            sharing,
            by_ticket: RefCell::default(),
            next: Cell::new(0),
            slow: Slow::default(),
            watchers: RefCell::default(),
            listeners: RefCell::default(),
            are_warnings_kept: Cell::new(false),
            ledger: Scope::ledger(),
        }
    }

    /// Warnings are told to those who listen, who show them to people, and not to the log.
    pub(crate) fn keep_warnings(&self) {
        self.are_warnings_kept.set(true);
    }

    /// Calls this whenever the peer says that its tools have changed.
    pub(crate) fn watch(&self, changed: Rc<dyn Fn()>) {
        self.watchers.borrow_mut().push(changed);
    }

    /// Calls this with all that the peer tells besides answers.
    pub(crate) fn listen(&self, hear: Rc<dyn Fn(&Notice)>) {
        self.listeners.borrow_mut().push(hear);
    }

    /// The peer told something besides answers.
    pub(crate) fn hear(&self, notice: &Notice) {
        let listeners = self.listeners.borrow().clone();
        listeners.iter().for_each(|hear| hear(notice));
    }

    /// Gives a new call its ticket.
    pub(crate) fn insert(&self, reply_to: ReplyTo) -> Ticket {
        let ticket = Ticket(self.next.get());
        self.next.set(ticket.0 + 1);
        self.by_ticket.borrow_mut().insert(ticket, reply_to);
        ticket
    }

    /// Hands out what came back, on `lane` if it came on one: that is not read until the caller that
    /// was filled by it goes on. Nothing stays borrowed meanwhile: who receives something may
    /// call right back.
    pub(crate) fn deliver(&self, from: &impl Answers, lane: Option<&Rc<Lane>>) -> Forwarded {
        let mut passed = Forwarded::Nothing;
        let forget = |ticket| lane.into_iter().for_each(|lane| lane.backlog.forget(ticket));
        while let Some(notice) = from.poll_notice() {
            lane.filter(|_| notice.is_noise()).into_iter().for_each(|lane| lane.heard_noise());
            if !self.are_warnings_kept.get() || !matches!(notice, Notice::Warning(_)) {
                engine::log(&self.name, &notice);
            }
            self.hear(&notice);
            if notice == Notice::ToolsChanged {
                let watchers = self.watchers.borrow().clone();
                watchers.iter().for_each(|changed| changed());
            }
        }
        loop {
            if lane.is_some_and(|lane| lane.needs_turn()) {
                return Forwarded::EnoughForNow;
            }
            if lane.is_some() && self.are_all_full() {
                return passed;
            }
            let Some((ticket, down)) = from.poll_down() else { return passed };
            passed = Forwarded::Something;
            lane.into_iter().for_each(|lane| lane.noise.set(0));
            match &down {
                Down::Done(_) => {
                    from.call_ended();
                    forget(ticket);
                    self.end(ticket, down);
                    continue;
                }
                // The caller keeps only the latest: there is always room for that.
                Down::Progress(_) => {}
                _ if self.sharing == Sharing::Shared && self.slow.contains(ticket) => {
                    let message = "the reply was not read in time, and others wait behind it";
                    let failure = Failure::new(FailureKind::TooLarge, message);
                    forget(ticket);
                    self.end(ticket, Down::Done(Err(failure)));
                    from.up(ticket, Up::Cancel(None));
                    continue;
                }
                _ => {}
            }
            let reply_to = self.by_ticket.borrow().get(&ticket).cloned();
            if reply_to.is_some_and(|reply_to| reply_to.send(down) == Pressure::Full)
                // It may have been given up meanwhile.
                && self.by_ticket.borrow().contains_key(&ticket)
            {
                let waits = lane.filter(|_| self.sharing == Sharing::Alone);
                if self.slow.insert(ticket, waits)
                    && let Some(lane) = lane
                {
                    lane.need_turn();
                }
                if self.sharing == Sharing::Credited {
                    from.hold(ticket, true);
                }
            }
        }
    }

    /// Tells the callers whose peers take more again.
    pub(crate) fn make_room(&self, from: &impl Answers) {
        if self.sharing != Sharing::Credited {
            return;
        }
        while let Some(ticket) = from.poll_room() {
            let reply_to = self.by_ticket.borrow().get(&ticket).cloned();
            if let Some(reply_to) = reply_to {
                reply_to.resume();
            }
        }
    }

    /// Has each call credit of its own?
    pub(crate) fn are_credited(&self) -> bool {
        self.sharing == Sharing::Credited
    }

    /// Has every caller that waits used up its share of memory? Then nothing is read for them:
    /// no other caller waits behind them.
    pub(crate) fn are_all_full(&self) -> bool {
        if !self.ledger.is_any_full() {
            return false;
        }
        let by_ticket = self.by_ticket.borrow();
        !by_ticket.is_empty() && by_ticket.values().all(ReplyTo::is_full)
    }

    /// Ends whatever calls are left.
    pub(crate) fn end_all(&self, failure: &Failure) {
        let mut tickets: Vec<_> = self.by_ticket.borrow().keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            self.end(ticket, Down::Done(Err(failure.clone())));
        }
    }

    fn end(&self, ticket: Ticket, done: Down) {
        self.slow.forget(ticket);
        let reply_to = self.by_ticket.borrow_mut().remove(&ticket);
        if let Some(reply_to) = reply_to {
            let _ = reply_to.send(done);
        }
    }

    /// The call goes on elsewhere: where its reply goes.
    pub(crate) fn remove(&self, ticket: Ticket) -> Option<ReplyTo> {
        self.slow.forget(ticket);
        self.by_ticket.borrow_mut().remove(&ticket)
    }

    /// The caller has read what it was given: what waited for it goes on.
    pub(crate) fn go_on(&self, ticket: Ticket) {
        self.slow.go_on(ticket);
    }

    /// The caller wants no more.
    pub(crate) fn cancelled(&self, ticket: Ticket) {
        self.slow.forget(ticket);
    }

    /// A caller sent something of this weight, which waits to be written on `lane`.
    pub(crate) fn sent(&self, ticket: Ticket, weight: usize, lane: &Lane) -> Pressure {
        match self.by_ticket.borrow().contains_key(&ticket) {
            true => lane.backlog.add(ticket, weight),
            false => Pressure::Ready,
        }
    }

    /// So many bytes wait to be written on `lane`.
    pub(crate) fn report_unwritten(&self, lane: &Lane, bytes: usize) {
        for ticket in lane.backlog.set(bytes) {
            let reply_to = self.by_ticket.borrow().get(&ticket).cloned();
            if let Some(reply_to) = reply_to {
                reply_to.resume();
            }
        }
    }
}
