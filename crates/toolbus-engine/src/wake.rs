//! Wakes one task on the same thread, and lets all others run before it goes on.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A bell: ringing it wakes the one task that listens. A ring that is not heard is kept.
#[derive(Default)]
pub struct Wake {
    rung: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    /// Rings it.
    pub fn ring(&self) {
        self.rouse();
    }

    /// Rings it. Tells whether a task was woken by that, and will be there soon.
    pub(crate) fn rouse(&self) -> bool {
        if self.rung.replace(true) {
            return false;
        }
        let waker = self.waker.borrow_mut().take();
        waker.map(Waker::wake).is_some()
    }

    /// The task that listens is at work: what was rung so far it sees without being woken, and what
    /// is rung meanwhile it will hear when it listens again. Tells whether it was rung.
    pub(crate) fn hush(&self) -> bool {
        self.waker.borrow_mut().take();
        self.rung.take()
    }

    /// Until it is rung.
    pub async fn rung(&self) {
        poll_fn(|context| self.poll_rung(context)).await;
    }

    pub(crate) fn poll_rung(&self, context: &mut Context<'_>) -> Poll<()> {
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

/// Goes on with `future` only when that was woken itself. A runtime asks what it was given to run
/// whenever any of its tasks is woken, for each message that passes, and a command that waits for
/// its end, for signals and for whatever else has much to look at.
pub async fn when_woken<T>(future: impl Future<Output = T>) -> T {
    let own = Arc::new(Own { is_woken: AtomicBool::new(true), outer: Mutex::default() });
    let waker = Waker::from(own.clone());
    let mut future = pin!(future);
    poll_fn(|context| {
        own.set_outer(context.waker());
        match own.is_woken.swap(false, Ordering::AcqRel) {
            true => future.as_mut().poll(&mut Context::from_waker(&waker)),
            false => Poll::Pending,
        }
    })
    .await
}

/// What a future is woken by that shares its task.
struct Own {
    is_woken: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Own {
    fn set_outer(&self, waker: &Waker) {
        let mut outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner);
        if !outer.as_ref().is_some_and(|outer| outer.will_wake(waker)) {
            *outer = Some(waker.clone());
        }
    }
}

impl std::task::Wake for Own {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        let outer = self.outer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        outer.into_iter().for_each(Waker::wake);
    }
}

/// Waits until every task that can run has run. `yield_now` alone would end as soon as anything
/// else wakes the task, perhaps before any other had its turn.
pub async fn turn() {
    let mut turn: Option<Arc<Turn>> = None;
    poll_fn(|context| {
        if let Some(turn) = &turn {
            let has_passed = turn.has_passed.load(Ordering::Relaxed);
            return if has_passed { Poll::Ready(()) } else { Poll::Pending };
        }
        let (has_passed, task) = (AtomicBool::new(false), context.waker().clone());
        let turn = turn.insert(Arc::new(Turn { has_passed, task }));
        let waker = Waker::from(turn.clone());
        // Leaves only the waker behind, with the runtime.
        pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker))
    })
    .await;
}

/// From so much in one read on, standard error counts as a flood.
const STDERR_FLOOD: usize = 16 * 1024;
/// A process that floods its standard error rests so many times as long as that took to handle.
const STDERR_REST_TIMES: u32 = 1;
/// However long it took, standard error is read again after this.
const STDERR_REST_MAX: Duration = Duration::from_millis(5);

/// Lets others have their turn after so many bytes of standard error were handled, `since` then:
/// a process that never stops complaining must not keep all others waiting.
pub(crate) async fn turn_after_stderr(since: Instant, bytes: usize) {
    if bytes < STDERR_FLOOD {
        return tokio::task::yield_now().await;
    }
    let rest = (since.elapsed() * STDERR_REST_TIMES).min(STDERR_REST_MAX);
    tokio::time::sleep(rest).await;
}

struct Turn {
    has_passed: AtomicBool,
    task: Waker,
}

impl std::task::Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.has_passed.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}
