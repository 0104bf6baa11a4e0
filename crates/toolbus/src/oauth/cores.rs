//! Tokens must not end in a core file: a process that holds one is not written out when it crashes.
//!
//! Linux can be told so of one process, and neither the limit of its children nor a handler of cores
//! matters then. A program that embeds toolbus decides by itself: nothing is done unless it is asked
//! for.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// As soon as this process holds a token of a sign-in, or is shown one, it leaves no core behind.
pub fn leave_no_core_with_tokens() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// There will be tokens in our memory from now on.
pub(super) fn hold_tokens() {
    // Once is enough, and what follows is a system call.
    if IS_WANTED.swap(false, Ordering::Relaxed) {
        become_undumpable();
    }
}

#[cfg(target_os = "linux")]
fn become_undumpable() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!("a crash may leave tokens behind: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn become_undumpable() {}
