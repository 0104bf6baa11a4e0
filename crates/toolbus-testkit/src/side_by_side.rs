//! Cases of one test that wait for most of their time, tried beside each other.

use std::sync::Mutex;
use std::thread;

/// How many are tried at a time: each starts processes.
const AT_A_TIME: usize = 8;

/// Tries out each of them, some at a time. Panics if one of them does, once all have ended.
#[track_caller]
pub fn side_by_side<T: Send>(cases: impl IntoIterator<Item = T>, try_out: impl Fn(T) + Sync) {
    let left = Mutex::new(cases.into_iter().collect::<Vec<_>>().into_iter());
    let next = || left.lock().expect("no case is tried under this lock").next();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = next() {
                    try_out(case);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn each_case_is_tried_once() {
        let tried = AtomicU64::new(0);
        side_by_side(0..30, |case| {
            tried.fetch_add(1 << case, Ordering::Relaxed);
        });
        assert_eq!(tried.into_inner(), (1 << 30) - 1);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn one_case_that_fails_fails_the_test() {
        side_by_side(0..30, |case| assert_ne!(case, 29));
    }
}
