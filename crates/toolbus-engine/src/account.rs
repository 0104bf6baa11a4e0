//! What we keep in memory because of each peer, and how much that may be.
//!
//! Whatever waits is on the account of the peer it waits for: what is to be written to it, what
//! it has sent the half of, what its machine keeps. Over its share a peer is given no more;
//! over the whole, which is the limit of one bus, the peer that holds most is cut off. The
//! other peers wait for neither.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use toolbus_proto::counted::Counted;
use toolbus_proto::tool::{Failure, FailureKind};

use crate::scope::Scope;

/// What may wait for all peers of a bus together, unless its maker says otherwise.
pub const BYTES_IN_FLIGHT_MAX: usize = 256 << 20;
/// What part of that may wait for one of them.
const PEER_PART: usize = 4;

// A limit that people set must be one that can be kept.
const _: () = assert!(crate::units::HELD_BYTES_MAX == BYTES_IN_FLIGHT_MAX / PEER_PART);

/// What is counted at once: a small call should not cost a look at the ledger.
const GRAIN: usize = 1024;

/// The accounts of one bus.
pub(crate) struct Ledger {
    bytes_max: usize,
    bytes: Cell<usize>,
    accounts: RefCell<Counted<u64, Weak<Owner>>>,
    next: Cell<u64>,
    /// How many peers have used up their shares.
    full: Cell<usize>,
    /// How often one of them had room again.
    freed: Cell<u64>,
    /// More waits than may: a peer has to be cut off.
    is_over: Cell<bool>,
    /// Who waits until a peer that had used up its share has room again.
    waiting: RefCell<Vec<Waker>>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(BYTES_IN_FLIGHT_MAX)
    }
}

/// One peer. All clones are the same account.
#[derive(Clone)]
pub struct Account(Rc<Owner>);

struct Owner {
    ledger: Rc<Ledger>,
    number: u64,
    /// What the log and errors call the peer.
    name: Cow<'static, str>,
    /// What waits for the peer to read it.
    unread: Cell<usize>,
    /// What waits for the peer to send the rest.
    half_read: Cell<usize>,
    /// It counts no more until it holds nothing.
    is_cut: Cell<bool>,
    /// What ends when the peer is cut off.
    ends: RefCell<Vec<Weak<dyn CutOff>>>,
}

/// An account, as long as something is on it.
pub(crate) struct KnownAccount(Weak<Owner>);

impl KnownAccount {
    pub(crate) fn account(&self) -> Option<Account> {
        self.0.upgrade().map(Account)
    }
}

/// What can be ended when its peer holds too much.
pub(crate) trait CutOff {
    /// Lets go of what it keeps, and ends its calls with `why`. Called with nothing borrowed.
    fn cut_off(&self, why: &Failure);
}

impl Account {
    /// An account with the bus in whose scope we are.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Account {
        let ledger = Scope::ledger();
        let number = ledger.next.get();
        ledger.next.set(number + 1);
        let owner = Rc::new(Owner {
            number,
            name: name.into(),
            unread: Cell::new(0),
            half_read: Cell::new(0),
            is_cut: Cell::new(false),
            ends: RefCell::default(),
            ledger: ledger.clone(),
        });
        ledger.accounts.borrow_mut().insert(number, Rc::downgrade(&owner));
        Account(owner)
    }

    /// Has any peer of the same bus used up its share?
    pub(crate) fn is_any_full(&self) -> bool {
        self.0.ledger.is_any_full()
    }

    /// What may wait for one peer.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.ledger.peer_bytes_max()
    }

    pub(crate) fn known(&self) -> KnownAccount {
        KnownAccount(Rc::downgrade(&self.0))
    }

    /// `end` is told when the peer is cut off.
    pub(crate) fn on_cut(&self, end: Weak<dyn CutOff>) {
        let mut ends = self.0.ends.borrow_mut();
        if ends.len() == ends.capacity() {
            ends.retain(|end| 0 < end.strong_count());
        }
        ends.push(end);
    }

    /// Has the peer used up its share by not reading?
    pub(crate) fn is_full(&self) -> bool {
        self.bytes_max() <= self.0.unread.get()
    }

    /// Has the peer used up its share by what it sent the half of?
    pub(crate) fn is_half_full(&self) -> bool {
        self.bytes_max() < self.0.half_read.get()
    }

    /// What a call is told that would have to wait for a peer that is full.
    pub(crate) fn refusal(&self) -> Failure {
        let Owner { name, unread, .. } = &*self.0;
        let message = format!(
            "{name} does not read: {} MiB wait for it, and {} MiB may for one peer",
            mib(unread.get()),
            mib(self.bytes_max()),
        );
        Failure::new(FailureKind::Unavailable, message)
    }

    /// What a call is told that would have to wait for a peer which takes no calls yet, behind more
    /// than may wait.
    pub(crate) fn waiting_refusal(&self) -> Failure {
        let Owner { name, unread, .. } = &*self.0;
        let message = format!(
            "{name} is not ready for more calls: {} MiB of them wait for it, and {} MiB may for one \
             peer",
            mib(unread.get()),
            mib(self.bytes_max()),
        );
        Failure::new(FailureKind::Unavailable, message)
    }

    /// What a call is told whose reply cannot be collected beside those of so many others.
    pub(crate) fn collected_refusal(&self, collected: usize) -> Failure {
        let message = format!(
            "replies to {} are collected until they are whole: {} MiB by now, and {} MiB may wait \
             for one peer",
            self.0.name,
            mib(collected),
            mib(self.bytes_max()),
        );
        Failure::new(FailureKind::Unavailable, message)
    }

    /// What is told of a message that there is no room for.
    pub(crate) fn half_refusal(&self) -> Failure {
        let Owner { name, half_read, .. } = &*self.0;
        let message = format!(
            "{name} has begun messages of {} MiB and not ended them, and {} MiB may wait for one \
             peer",
            mib(half_read.get()),
            mib(self.bytes_max()),
        );
        Failure::new(FailureKind::Unavailable, message)
    }
}

impl Owner {
    fn held(&self) -> usize {
        self.unread.get() + self.half_read.get()
    }

    fn set_unread(&self, before: usize, after: usize) {
        let bytes_max = self.ledger.peer_bytes_max();
        let was_full = bytes_max <= self.unread.get();
        self.unread.set(self.unread.get() - before + after);
        let is_full = bytes_max <= self.unread.get();
        if was_full != is_full {
            self.ledger.count_full(is_full);
        }
        self.moved(before, after);
    }

    fn set_half_read(&self, before: usize, after: usize) {
        self.half_read.set(self.half_read.get() - before + after);
        self.moved(before, after);
    }

    fn moved(&self, before: usize, after: usize) {
        if self.is_cut.get() {
            return self.is_cut.set(self.held() != 0);
        }
        let ledger = &self.ledger;
        let bytes = ledger.bytes.get() - before + after;
        ledger.bytes.set(bytes);
        if before < after && ledger.bytes_max < bytes {
            ledger.is_over.set(true);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.ledger.accounts.borrow_mut().remove(&self.number);
    }
}

impl Ledger {
    pub(crate) fn new(bytes_max: usize) -> Ledger {
        Ledger {
            bytes_max,
            bytes: Cell::default(),
            accounts: RefCell::default(),
            next: Cell::default(),
            full: Cell::default(),
            freed: Cell::default(),
            is_over: Cell::default(),
            waiting: RefCell::default(),
        }
    }

    fn peer_bytes_max(&self) -> usize {
        self.bytes_max / PEER_PART
    }

    fn count_full(&self, is_full: bool) {
        if is_full {
            return self.full.set(self.full.get() + 1);
        }
        self.full.set(self.full.get() - 1);
        self.freed.set(self.freed.get() + 1);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Who holds most and can be cut off, if more waits than may. It counts no more.
    fn take_greatest(&self) -> Option<(Rc<Owner>, Failure)> {
        let bytes = self.bytes.get();
        if bytes <= self.bytes_max {
            return None;
        }
        let accounts = self.accounts.borrow();
        let can_be_cut = |owner: &Rc<Owner>| {
            let has_ends = owner.ends.borrow().iter().any(|end| 0 < end.strong_count());
            has_ends && !owner.is_cut.get() && 0 < owner.held()
        };
        let owners = accounts.values().filter_map(Weak::upgrade).filter(can_be_cut);
        let most = owners.max_by_key(|owner| owner.held())?;
        most.is_cut.set(true);
        self.bytes.set(bytes - most.held());
        let message = format!(
            "{} was cut off: {} MiB wait for all peers, {} MiB of them for this one, and {} MiB \
             may in all",
            most.name,
            mib(bytes),
            mib(most.held()),
            mib(self.bytes_max),
        );
        Some((most, Failure::new(FailureKind::Unavailable, message)))
    }

    /// Has any peer used up its share?
    pub(crate) fn is_any_full(&self) -> bool {
        0 < self.full.get()
    }

    /// How often a peer that had used up its share had room again.
    pub(crate) fn times_freed(&self) -> u64 {
        self.freed.get()
    }

    /// Waits until that is more than `seen`.
    pub(crate) async fn freed_since(&self, seen: u64) {
        poll_fn(|context| {
            if self.freed.get() != seen {
                return Poll::Ready(());
            }
            if self.is_any_full() {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Cuts off who holds most, as long as more waits than may. Every loop calls it in its turn,
    /// with nothing borrowed: whatever grows does so in one of them.
    #[inline]
    pub(crate) fn cut_off_who_is_over(&self) {
        if self.is_over.take() {
            self.cut_off();
        }
    }

    fn cut_off(&self) {
        while let Some((owner, why)) = self.take_greatest() {
            tracing::warn!("{}", why.message);
            let ends = owner.ends.borrow().clone();
            ends.iter().filter_map(Weak::upgrade).for_each(|end| end.cut_off(&why));
        }
    }
}

/// What waits for all peers of the bus in whose scope we are, and how much may.
#[cfg(feature = "http")]
pub fn bytes_in_flight() -> (usize, usize) {
    let ledger = Scope::ledger();
    (ledger.bytes.get(), ledger.bytes_max)
}

/// One thing that an account holds; given back when it is dropped.
#[derive(Default)]
pub(crate) struct Charge {
    /// Without one it is not counted.
    account: RefCell<Option<Account>>,
    unread: Cell<usize>,
    half_read: Cell<usize>,
}

impl Charge {
    pub(crate) fn on(account: &Account) -> Charge {
        let charge = Charge::default();
        charge.move_to(account);
        charge
    }

    /// Moves to another account, with all it has. Tells whether it is another.
    pub(crate) fn move_to(&self, account: &Account) -> bool {
        if self.account.borrow().as_ref().is_some_and(|own| Rc::ptr_eq(&own.0, &account.0)) {
            return false;
        }
        let (unread, half_read) = (self.unread.get(), self.half_read.get());
        self.set(0, 0);
        *self.account.borrow_mut() = Some(account.clone());
        self.set(unread, half_read);
        true
    }

    /// So much waits for the peer to read it, and so much for it to send the rest.
    #[inline]
    pub(crate) fn set(&self, unread: usize, half_read: usize) {
        self.set_unread(unread);
        let half_read = half_read & !(GRAIN - 1);
        let before = self.half_read.replace(half_read);
        if before != half_read
            && let Some(account) = &*self.account.borrow()
        {
            account.0.set_half_read(before, half_read);
        }
    }

    #[inline]
    pub(crate) fn set_unread(&self, unread: usize) {
        let unread = unread & !(GRAIN - 1);
        let before = self.unread.replace(unread);
        if before != unread
            && let Some(account) = &*self.account.borrow()
        {
            account.0.set_unread(before, unread);
        }
    }

    /// The same, and a part of what is counted at once counts as a whole: for what there may be
    /// very much of, and little each.
    #[inline]
    pub(crate) fn set_unread_at_least(&self, unread: usize) {
        self.set_unread(unread.next_multiple_of(GRAIN));
    }

    /// So much more waits for the peer to read it.
    #[inline]
    pub(crate) fn add(&self, unread: usize) {
        self.set_unread(self.unread.get() + unread);
    }

    pub(crate) fn account(&self) -> Option<Account> {
        self.account.borrow().clone()
    }

    /// Has its peer used up its share by not reading?
    pub(crate) fn is_full(&self) -> bool {
        self.account.borrow().as_ref().is_some_and(Account::is_full)
    }

    /// Does this hold the half of something, and its peer too much of that?
    pub(crate) fn is_half_full(&self) -> bool {
        0 < self.half_read.get()
            && self.account.borrow().as_ref().is_some_and(Account::is_half_full)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

fn mib(bytes: usize) -> usize {
    bytes >> 20
}
