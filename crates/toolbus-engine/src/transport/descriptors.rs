//! How many files we may have open: as many as we may ask for, whatever we were started with.
//!
//! Programs that we start get what we were started with: some take a large number for something
//! to be gone through one by one.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where the system names no limit.
const MOST: u64 = 1 << 20;

/// What is left for all but connections, at least.
const OTHERS_MIN: u64 = 64;
/// However few there may be, so many connections are let in: one that finds no descriptor waits.
const CONNECTIONS_MIN: u64 = 32;

/// What we were started with, if we have more now.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit as far as it may be.
pub fn raise() {
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(MOST);
    let raised = Rlimit { current: Some(most), maximum: before.maximum };
    if before.current.is_some_and(|current| current < most)
        && setrlimit(Resource::Nofile, raised).is_ok()
    {
        let _ = BEFORE.set(before);
    }
}

/// How many connections there may be, besides what else we have open.
pub fn for_connections() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(MOST);
    let others = (most / 4).max(OTHERS_MIN);
    usize::try_from(most.saturating_sub(others).max(CONNECTIONS_MIN)).unwrap_or(usize::MAX)
}

/// What a program gets that we start; `None` for what we have.
pub(crate) fn of_children() -> Option<Rlimit> {
    BEFORE.get().cloned()
}
