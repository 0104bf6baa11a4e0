//! How long a test waits for an outcome: long enough for the slowest machine, so that the
//! only thing it decides is that a test which would hang fails instead.

use std::thread;
use std::time::{Duration, Instant};

/// The one patience of all tests: only a test that fails waits for so long.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until `is_so`. Panics after [`PATIENCE`] with `what` never came to be.
///
/// For what can only be looked at, such as files and processes. It blocks the thread: on a
/// runtime, await what is awaitable with `PATIENCE` as its time-out.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    awaited(what, || is_so().then_some(()));
}

/// Waits until `look` gives something, and gives that. Otherwise as [`eventually`].
#[track_caller]
pub fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not so after {PATIENCE:?}: {what}");
        // Not a guess how long it takes, only how often to look.
        thread::park_timeout(Duration::from_millis(5));
    }
}
