//! Our own standard input and output, whatever they are: pipe, socket, terminal, file.
//!
//! They are not ours alone: a shell, a sibling in a pipeline or our own parent may hold the same
//! open file, and would stumble if reads and writes there no longer waited. So O_NONBLOCK is
//! never set on what is shared.
//!
//! The original descriptors stay open. A reader of our output sees its end only when they are
//! closed, with our own end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;

use super::fd::open;
use super::pipe::{Input, Output};

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
