//! What one body holds in memory: what waits here, and what hyper was given and has not written.
//!
//! A piece that hyper has keeps all of the bytes that it was cut from, so these count as a whole
//! until hyper has let go of the last of them. hyper wants pieces that could go to another
//! thread, and accounts cannot: a piece carries a number, and who is charged stands in a table
//! of the thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use bytes::{Buf, Bytes};
use toolbus_proto::counted::Counted;
use toolbus_proto::tool::Failure;

use super::carried::Watch;
use super::sink::Pipe;
use super::socket::Exit;
use crate::account::{Account, Charge, CutOff};

/// Runs of fewer bytes are not followed: hyper holds a few of them at most.
const FOLLOWED_FROM: usize = 16 * 1024;

thread_local! {
    static GIVEN: Given = Given::default();
}

/// The runs of bytes of which hyper may have a piece.
#[derive(Default)]
struct Given {
    next: Cell<u64>,
    runs: RefCell<Counted<u64, Run>>,
}

struct Run {
    bytes: usize,
    /// How many hold a part of it.
    holders: usize,
    tally: Rc<Tally>,
}

/// What one body holds, and on whose account.
#[derive(Default)]
pub(super) struct Tally {
    charge: Charge,
    waiting: Cell<usize>,
    given: Cell<usize>,
    /// Where the rest of the body waits, as long as there is more.
    pipe: RefCell<Weak<Pipe>>,
    /// How hyper is made to let go of what it has; only a server knows.
    exit: OnceCell<Exit>,
    /// Who tells another thread, where the sender is.
    watch: OnceCell<Watch>,
}

impl Tally {
    /// So much waits and was not given to hyper.
    pub(super) fn set_waiting(&self, bytes: usize) {
        self.waiting.set(bytes);
        self.count();
    }

    fn count(&self) {
        let bytes = self.waiting.get() + self.given.get();
        self.charge.set_unread(bytes);
        if let Some(watch) = self.watch.get() {
            watch.holds(bytes);
        }
    }

    pub(super) fn set_watch(&self, watch: Watch) {
        let _ = self.watch.set(watch);
    }

    pub(super) fn watch(&self) -> Option<&Watch> {
        self.watch.get()
    }

    /// So much more was given to another thread, and so much waits here.
    pub(super) fn given_away(&self, bytes: usize, waiting: usize) {
        self.given.set(self.given.get() + bytes);
        self.set_waiting(waiting);
    }

    /// Of so much the other thread has let go.
    pub(super) fn let_go(&self, bytes: usize) {
        self.given.set(self.given.get().saturating_sub(bytes));
        self.count();
    }

    pub(super) fn set_exit(&self, exit: Exit) {
        let _ = self.exit.set(exit);
    }

    pub(super) fn take_exit(&self) {
        if let Some(exit) = self.exit.get() {
            exit.take();
        }
    }

    /// What is held is on this account from now on.
    pub(super) fn charge_to(self: &Rc<Tally>, account: &Account, pipe: &Rc<Pipe>) {
        if self.charge.move_to(account) {
            *self.pipe.borrow_mut() = Rc::downgrade(pipe);
            let end: Weak<Tally> = Rc::downgrade(self);
            account.on_cut(end);
        }
    }

    /// Follows a run of bytes that hyper is given piece by piece.
    pub(super) fn give(self: &Rc<Tally>, bytes: Bytes) -> Giving {
        let hold = (FOLLOWED_FROM <= bytes.len()).then(|| Hold::new(self, bytes.len()));
        Giving { bytes, hold }
    }
}

/// The client holds too much: what waits for it is thrown away, and what hyper has for it, too.
impl CutOff for Tally {
    fn cut_off(&self, _why: &Failure) {
        let pipe = self.pipe.borrow().upgrade();
        if let Some(pipe) = pipe {
            pipe.cut_off();
        }
        self.take_exit();
    }
}

/// A run of bytes that is being given to hyper.
pub(super) struct Giving {
    bytes: Bytes,
    hold: Option<Hold>,
}

impl Giving {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The next piece of it, of so many bytes at most.
    pub(super) fn next(&mut self, bytes_max: usize) -> Piece {
        let count = bytes_max.min(self.bytes.len());
        Piece { bytes: self.bytes.split_to(count), _hold: self.hold.clone() }
    }

    /// The same as a copy, which does not keep all the rest.
    pub(super) fn next_copied(&mut self, bytes_max: usize) -> Piece {
        if self.bytes.len() <= bytes_max {
            // What is left of much may be little.
            let bytes = Bytes::copy_from_slice(&self.bytes.split_off(0));
            return Piece { bytes, _hold: None };
        }
        Piece { bytes: Bytes::copy_from_slice(&self.bytes.split_to(bytes_max)), _hold: None }
    }
}

/// A part of a body in the hands of hyper's.
pub(super) struct Piece {
    bytes: Bytes,
    _hold: Option<Hold>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// One who holds a part of a run.
struct Hold(u64);

impl Hold {
    fn new(tally: &Rc<Tally>, bytes: usize) -> Hold {
        GIVEN.with(|given| {
            let number = given.next.get();
            given.next.set(number + 1);
            let run = Run { bytes, holders: 1, tally: tally.clone() };
            given.runs.borrow_mut().insert(number, run);
            tally.given.set(tally.given.get() + bytes);
            tally.count();
            Hold(number)
        })
    }
}

impl Clone for Hold {
    fn clone(&self) -> Hold {
        GIVEN.with(|given| {
            if let Some(run) = given.runs.borrow_mut().get_mut(&self.0) {
                run.holders += 1;
            }
        });
        Hold(self.0)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // At the end of a thread the table may be gone before what it speaks of.
        let over = GIVEN.try_with(|given| {
            let mut runs = given.runs.borrow_mut();
            let run = runs.get_mut(&self.0)?;
            run.holders -= 1;
            (run.holders == 0).then(|| runs.remove(&self.0))?
        });
        if let Ok(Some(Run { bytes, tally, .. })) = over {
            tally.given.set(tally.given.get() - bytes);
            tally.count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::bytes_in_flight;

    const RUN: usize = 1 << 20;

    #[test]
    fn a_run_counts_as_a_whole_until_its_last_piece_is_let_go() {
        let (tally, pipe) = (Rc::new(Tally::default()), Rc::new(Pipe::default()));
        tally.charge_to(&Account::new("a client"), &pipe);
        tally.set_waiting(RUN);
        assert_eq!(bytes_in_flight().0, RUN);
        let mut giving = tally.give(vec![7; RUN].into());
        tally.set_waiting(0);
        let (first, rest) = (giving.next(RUN / 4), giving.next(RUN));
        assert_eq!((first.remaining(), rest.remaining(), giving.len()), (RUN / 4, RUN / 4 * 3, 0));
        drop((first, giving));
        assert_eq!(bytes_in_flight().0, RUN);
        drop(rest);
        assert_eq!(bytes_in_flight().0, 0);
    }

    #[test]
    fn a_copy_keeps_nothing_else() {
        let (tally, pipe) = (Rc::new(Tally::default()), Rc::new(Pipe::default()));
        tally.charge_to(&Account::new("a client"), &pipe);
        let mut giving = tally.give(vec![7; RUN].into());
        let copy = giving.next_copied(100);
        assert_eq!((copy.remaining(), giving.len()), (100, RUN - 100));
        drop(giving);
        assert_eq!(bytes_in_flight().0, 0);
    }
}
