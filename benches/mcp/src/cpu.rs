//! How long processes have had a core: what a machine with other work to do cannot stretch.

use std::fs;
use std::time::Duration;

/// The time of a process and of all that it started, as far as they still run.
pub(crate) fn of_tree(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten().map(|thread| thread.path());
    threads
        .map(|thread| {
            let own = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
            let own = own.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
            let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|child| child.parse().ok());
            Duration::from_nanos(own) + children.map(of_tree).sum::<Duration>()
        })
        .sum()
}

/// The time of this thread.
pub(crate) fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}
