//! A queue from one thread to another.
//!
//! What was sent meanwhile is taken at once, and the thread that takes is woken only if it waits.
//! How much may be in it is for those to say who use it: they send no more before they hear that
//! what they sent was taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// So many items may wait for one that is urgent.
const LEFT_MAX: usize = 64;

/// The end to send by. Dropped, it closes the queue.
pub(crate) struct Post<T>(Arc<Queue<T>>);

/// The end to take from. Dropped, it closes the queue, and throws away what waits.
pub(crate) struct Mailbox<T>(Arc<Queue<T>>);

struct Queue<T>(Mutex<Mail<T>>);

struct Mail<T> {
    items: Vec<T>,
    /// The task that waits for the first of them.
    taker: Option<Waker>,
    is_closed: bool,
}

/// The two ends of a queue.
pub(crate) fn mailbox<T>() -> (Post<T>, Mailbox<T>) {
    let waiting = Mail { items: Vec::new(), taker: None, is_closed: false };
    let queue = Arc::new(Queue(Mutex::new(waiting)));
    (Post(queue.clone()), Mailbox(queue))
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        let taker = waiting.taker.take();
        drop(waiting);
        taker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Post<T> {
    /// Sends all of these, in their order. If the other end is gone, they are thrown away.
    pub(crate) fn send(&self, items: &mut Vec<T>) {
        let taker = self.append(items, true);
        taker.into_iter().for_each(Waker::wake);
    }

    /// The same of what there is no hurry with: it is found when something else is sent, or when it
    /// has become much.
    pub(crate) fn leave(&self, items: &mut Vec<T>) {
        let taker = self.append(items, false);
        taker.into_iter().for_each(Waker::wake);
    }

    fn append(&self, items: &mut Vec<T>, is_urgent: bool) -> Option<Waker> {
        let mut waiting = self.0.lock();
        if waiting.is_closed {
            drop(waiting);
            // With nothing locked: what is dropped may have something to say.
            items.clear();
            return None;
        }
        match waiting.items.is_empty() {
            true => std::mem::swap(&mut waiting.items, items),
            false => waiting.items.append(items),
        }
        let wakes = is_urgent || LEFT_MAX <= waiting.items.len();
        waiting.taker.take_if(|_| wakes)
    }

    /// Nothing more is sent; what was sent is still taken.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl<T> Drop for Post<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Mailbox<T> {
    /// Puts all that waits into `batch`, which has to be empty. `false`: nothing will ever come.
    pub(crate) fn poll_take(&mut self, context: &Context<'_>, batch: &mut Vec<T>) -> Poll<bool> {
        let mut waiting = self.0.lock();
        if !waiting.items.is_empty() {
            std::mem::swap(&mut waiting.items, batch);
            return Poll::Ready(true);
        }
        if waiting.is_closed {
            return Poll::Ready(false);
        }
        if !waiting.taker.as_ref().is_some_and(|taker| taker.will_wake(context.waker())) {
            waiting.taker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        let items = std::mem::take(&mut waiting.items);
        drop(waiting);
        drop(items);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread;

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_does_not_wait_is_not_woken() {
        let (post, mut mailbox) = mailbox();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let context = Context::from_waker(&waker);
        let times = || woken.0.load(Ordering::SeqCst);
        let mut batch = Vec::new();
        post.send(&mut vec![1]);
        assert!(mailbox.poll_take(&context, &mut batch).is_ready());
        batch.clear();
        assert!(mailbox.poll_take(&context, &mut batch).is_pending());
        post.leave(&mut vec![2]);
        assert_eq!(times(), 0);
        for item in 3..6 {
            post.send(&mut vec![item]);
        }
        assert_eq!(times(), 1);
        assert!(mailbox.poll_take(&context, &mut batch).is_ready());
        assert_eq!(batch, [2, 3, 4, 5]);
        batch.clear();
        assert!(mailbox.poll_take(&context, &mut batch).is_pending());
        for item in 0..LEFT_MAX {
            assert_eq!(times(), 1);
            post.leave(&mut vec![item]);
        }
        assert_eq!(times(), 2);
    }

    #[test]
    fn all_that_was_sent_arrives_in_its_order_and_then_the_end() {
        let (post, mut mailbox) = mailbox();
        let sending = thread::spawn(move || {
            for item in 0..10_000 {
                post.send(&mut vec![item]);
            }
        });
        let (mut came, mut batch) = (Vec::new(), Vec::new());
        let waker = Waker::from(Arc::new(Parked(thread::current())));
        loop {
            match mailbox.poll_take(&Context::from_waker(&waker), &mut batch) {
                Poll::Ready(true) => came.append(&mut batch),
                Poll::Ready(false) => break,
                Poll::Pending => thread::park(),
            }
        }
        sending.join().unwrap();
        assert!(came.into_iter().eq(0..10_000));
    }

    struct Parked(thread::Thread);

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    #[test]
    fn what_nobody_will_take_is_dropped() {
        let (post, mailbox) = mailbox();
        let kept = Arc::new(());
        post.send(&mut vec![kept.clone()]);
        drop(mailbox);
        assert_eq!(Arc::strong_count(&kept), 1);
        post.send(&mut vec![kept.clone()]);
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
