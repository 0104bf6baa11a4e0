//! Terminals for tests: neither end gets into a process that another test starts at that moment,
//! which would keep the terminal open for as long as it lives.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{self, OpenptFlags};

/// A terminal: our end, whose closing hangs it up, and that of the program on it.
#[track_caller]
pub fn open() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    #[cfg(target_os = "linux")]
    let flags = flags | OpenptFlags::CLOEXEC;
    let ours = pty::openpt(flags).expect("terminals can be made");
    // Elsewhere it cannot be asked for with the opening.
    #[cfg(not(target_os = "linux"))]
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC).expect("it is open");
    pty::grantpt(&ours).expect("it is ours");
    pty::unlockpt(&ours).expect("it is ours");
    let name = pty::ptsname(&ours, Vec::new()).expect("it has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(&name, flags, Mode::empty()).expect("it is unlocked");
    (ours, theirs)
}
