//! Where a test of async code runs: on one thread, as a bus does, and within [`PATIENCE`].

use std::future::Future;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::patience::PATIENCE;

/// Runs a test on real time.
#[track_caller]
pub fn run<T>(test: impl Future<Output = T>) -> T {
    run_on(false, test)
}

/// Runs a test on a clock that stands still while a task has something to do, and jumps to
/// the next timer when all of them wait: a long time-out ends at once, and a short one never
/// comes too early on a slow machine.
#[track_caller]
pub fn run_and_let_time_fly<T>(test: impl Future<Output = T>) -> T {
    run_on(true, test)
}

#[track_caller]
fn run_on<T>(start_paused: bool, test: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(start_paused).build();
    let runtime = runtime.expect("a runtime needs a few descriptors");
    // Where time flies the longest time-out under test, 49 days, must still be shorter.
    let patience = if start_paused { PATIENCE * 100_000 } else { PATIENCE };
    let test = async { timeout(patience, test).await };
    LocalSet::new().block_on(&runtime, test).expect("the test hangs")
}
