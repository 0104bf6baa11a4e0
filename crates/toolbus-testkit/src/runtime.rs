//! Where a test of async code runs: on one thread, as a bus does, and within [`PATIENCE`].

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_blocking};
use tokio::time::timeout;

use crate::patience::PATIENCE;

/// Runs a test on real time.
#[track_caller]
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = built(Builder::new_current_thread().enable_all());
    LocalSet::new()
        .block_on(&runtime, async { timeout(PATIENCE, test).await })
        .expect("the test hangs")
}

/// Runs a test on a clock that stands still while a task has something to do, and jumps to
/// the next timer when all of them wait: a long time-out ends at once, and a short one never
/// comes too early on a slow machine.
///
/// Before it jumps, the test has waited for a moment of real time in which no socket, pipe or
/// process had anything for it. What a test has just written to itself may still be on its way.
#[track_caller]
pub fn run_and_let_time_fly<T>(test: impl Future<Output = T>) -> T {
    let still = Arc::new(Still::default());
    let (parking, parked) = (still.clone(), still.clone());
    let runtime = built(
        Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .on_thread_park(move || parking.parks())
            .on_thread_unpark(move || parked.has_parked()),
    );
    runtime.spawn(hold_the_clock(still));
    // The longest time-out under test, 49 days, must still be shorter.
    let patience = PATIENCE * 100_000;
    LocalSet::new()
        .block_on(&runtime, async { timeout(patience, test).await })
        .expect("the test hangs")
}

fn built(builder: &mut Builder) -> Runtime {
    builder.build().expect("a runtime needs a few descriptors")
}

/// How long nothing must have come before the clock jumps.
const MOMENT: Duration = Duration::from_millis(10);

/// On a busy machine what is on its way takes longer. A thread that should sleep for a moment
/// shows it: as long as it comes back late the clock is held, so many times at most.
const HOLDS_MAX: u32 = 20;

/// Lets the clock jump once after each moment in which nothing has come, and never else: tokio's
/// paused clock stands still while a blocking task runs.
async fn hold_the_clock(still: Arc<Still>) {
    let mut holds = 0;
    loop {
        let since = Instant::now();
        let slept = spawn_blocking(|| {
            let began = Instant::now();
            // Not a guess how long anything takes: it only holds the clock meanwhile.
            std::thread::park_timeout(MOMENT);
            began.elapsed()
        });
        let Ok(slept) = slept.await else { return };
        holds += 1;
        let is_late = MOMENT * 2 < slept && holds < HOLDS_MAX;
        if !is_late && MOMENT / 2 <= still.parked_since(since) {
            still.one_jump().await;
            holds = 0;
        }
    }
}

/// When the thread of the test last had nothing to do, and who waits until the clock has jumped.
#[derive(Default)]
struct Still(Mutex<Parks>);

#[derive(Default)]
struct Parks {
    count: u64,
    began: Option<Instant>,
    /// When the last one began, and how long it took.
    last: Option<(Instant, Duration)>,
    waiting: Option<Jump>,
}

/// What ends the wait for a jump: the clock shows another time, or the thread has parked that often
/// without that, since something came after all.
struct Jump {
    from: tokio::time::Instant,
    parks_max: u64,
    waker: Waker,
}

impl Still {
    fn parks(&self) {
        self.lock().began = Some(Instant::now());
    }

    /// Wakes the task that waits only when its jump is over: tokio lets no clock jump after a wake.
    fn has_parked(&self) {
        let mut parks = self.lock();
        parks.count += 1;
        parks.last = parks.began.take().map(|began| (began, began.elapsed()));
        let count = parks.count;
        if let Some(jump) = parks.waiting.take_if(|jump| jump.is_over(count)) {
            jump.waker.wake();
        }
    }

    /// How long it last had nothing to do, if that began no earlier. A thread that was not let
    /// run has not parked at all.
    fn parked_since(&self, since: Instant) -> Duration {
        let last = self.lock().last.filter(|(began, _)| since <= *began);
        last.map_or(Duration::ZERO, |(_, took)| took)
    }

    async fn one_jump(&self) {
        let from = tokio::time::Instant::now();
        let parks_max = self.lock().count + 5;
        poll_fn(|context| {
            let mut parks = self.lock();
            let jump = Jump { from, parks_max, waker: context.waker().clone() };
            if jump.is_over(parks.count) {
                return Poll::Ready(());
            }
            parks.waiting = Some(jump);
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Parks> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Jump {
    fn is_over(&self, parks: u64) -> bool {
        self.from < tokio::time::Instant::now() || self.parks_max <= parks
    }
}
