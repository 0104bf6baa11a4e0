//! Waits for several descriptors at once, for loops without a runtime.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};

/// A descriptor to wait for, and what for. An end or a failure is always waited for as well.
pub(crate) type Wanted<'a> = Option<PollFd<'a>>;

/// Something to read.
pub(crate) fn input(fd: Option<BorrowedFd<'_>>) -> Wanted<'_> {
    fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
}

/// Room to write.
pub(crate) fn room(fd: Option<BorrowedFd<'_>>) -> Wanted<'_> {
    fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT))
}

/// That the other end is closed, and nothing else.
#[cfg(feature = "runtime")]
pub(crate) fn end(fd: Option<BorrowedFd<'_>>) -> Wanted<'_> {
    fd.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()))
}

/// Waits until one of them is ready, or until then, and says which are; none may be.
pub(crate) fn wait<const N: usize>(
    wanted: &[[Wanted<'_>; N]],
    until: Option<Instant>,
) -> Vec<[bool; N]> {
    let mut fds: Vec<_> = wanted.iter().flatten().flatten().cloned().collect();
    poll(&mut fds, until);
    let mut fds = fds.iter();
    let mut is_ready = |wanted: &Wanted<'_>| {
        let waited = wanted.as_ref().and_then(|_| fds.next());
        waited.is_some_and(|fd| !fd.revents().is_empty())
    };
    wanted.iter().map(|wanted| wanted.each_ref().map(&mut is_ready)).collect()
}

/// Waits until there is something to read, or until then.
pub(crate) fn has_input(fd: BorrowedFd<'_>, until: Option<Instant>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, until);
    !fds[0].revents().is_empty()
}

/// Whether the other end of this pipe is closed.
#[cfg(feature = "runtime")]
pub(crate) fn has_hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
    poll(&mut fds, Some(Instant::now()));
    !fds[0].revents().is_empty()
}

fn poll(fds: &mut [PollFd<'_>], until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    // An interrupted poll found nothing, and the caller polls again.
    let _ = rustix::event::poll(fds, left.as_ref());
}
