//! How many calls are under way somewhere, and a wait for the end of the last.

use std::cell::Cell;
use std::rc::Rc;

use crate::wake::Wake;

/// Counts the calls of one back.
#[derive(Default)]
pub struct InFlight {
    count: Cell<usize>,
    /// Rung when the last of them is over.
    over: Wake,
}

impl InFlight {
    /// One more, until what is given is dropped.
    pub(crate) fn enter(self: &Rc<InFlight>) -> Counted {
        self.count.set(self.count.get() + 1);
        Counted(self.clone())
    }

    /// Waits until no call is under way. One task may wait.
    pub async fn none(&self) {
        while self.count.get() != 0 {
            self.over.rung().await;
        }
    }
}

/// A call that is counted.
pub struct Counted(Rc<InFlight>);

impl Drop for Counted {
    fn drop(&mut self) {
        let InFlight { count, over } = &*self.0;
        count.set(count.get() - 1);
        if count.get() == 0 {
            over.ring();
        }
    }
}
