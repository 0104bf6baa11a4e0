//! Our own standard input and output, whatever they are: pipe, socket, terminal, file.
//!
//! They are not ours alone: a shell, a sibling in a pipeline or our own parent may hold the same
//! open file, and would stumble if reads and writes there no longer waited. So O_NONBLOCK is
//! never set on what is shared.
//!
//! The original descriptors stay open. A reader of our output sees its end only when they are
//! closed, with our own end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};

use super::pipe::{How, Input, Output};

/// Our standard input, to be read on the reactor.
///
/// # Panics
///
/// Outside of a runtime with I/O.
pub fn stdin() -> io::Result<Input> {
    input(io::stdin().as_fd())
}

/// Our standard output, to be written on the reactor.
///
/// # Panics
///
/// Outside of a runtime with I/O.
pub fn stdout() -> io::Result<Output> {
    output(io::stdout().as_fd())
}

/// Like [`stdin`], for a stream that was inherited elsewhere.
pub fn input(fd: BorrowedFd<'_>) -> io::Result<Input> {
    let (fd, how) = open(fd, OFlags::RDONLY)?;
    Input::new(fd, how)
}

/// Like [`stdout`], for a stream that was inherited elsewhere.
pub fn output(fd: BorrowedFd<'_>) -> io::Result<Output> {
    let (fd, how) = open(fd, OFlags::WRONLY)?;
    Output::new(fd, how)
}

pub(super) fn open(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<(OwnedFd, How)> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        // Refused if the pipe belongs to another user, or if its reader has already gone, which
        // the first write will find out.
        FileType::Fifo => match reopen(fd, access) {
            Ok(alone) => Ok((alone, How::Alone)),
            Err(_) => Ok((fd.try_clone_to_owned()?, How::Shared)),
        },
        FileType::Socket => Ok((fd.try_clone_to_owned()?, How::Socket)),
        // A terminal; a file will be refused by the reactor and is then read directly.
        _ => Ok((fd.try_clone_to_owned()?, How::Shared)),
    }
}

/// Opens the same pipe a second time, as an open file of our own.
#[cfg(target_os = "linux")]
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> rustix::io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty())
}

/// Elsewhere `/dev/fd` gives a copy that shares the open file.
#[cfg(not(target_os = "linux"))]
fn reopen(_: BorrowedFd<'_>, _: OFlags) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::OPNOTSUPP)
}
