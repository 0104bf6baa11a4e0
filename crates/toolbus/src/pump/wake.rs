//! Wakes one task on the same thread.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A bell: whoever rings it wakes the one task that listens. A ring that nobody hears is kept.
#[derive(Default)]
pub(crate) struct Wake {
    rung: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    pub(crate) fn ring(&self) {
        if !self.rung.replace(true)
            && let Some(waker) = self.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }

    pub(crate) async fn rung(&self) {
        poll_fn(|context| self.poll_rung(context)).await;
    }

    fn poll_rung(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.rung.take() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}
