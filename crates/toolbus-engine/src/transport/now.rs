//! An end to write to for loops without a runtime: a write takes what fits and never waits.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use toolbus_proto::channel::Outbox;

use super::fd::{self, How};

/// How many pieces one write carries.
const PIECES_MAX: usize = 16;

/// An end to write to.
#[derive(Debug)]
pub struct Output {
    fd: OwnedFd,
    how: How,
}

impl Output {
    /// The writing end of a pipe that only we hold.
    #[cfg(feature = "runtime")]
    pub(crate) fn alone(pipe: OwnedFd) -> io::Result<Output> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Output { fd: pipe, how: How::Alone })
    }

    /// A stream that others may hold as well, and for whom it stays as it is.
    pub(crate) fn shared(fd: BorrowedFd<'_>) -> io::Result<Output> {
        let (fd, how) = fd::open(fd, OFlags::WRONLY)?;
        Ok(Output { fd, how })
    }

    /// Writes as much as fits; [`io::ErrorKind::WouldBlock`] if that is nothing.
    pub(crate) fn write(&self, outbox: &mut Outbox) -> io::Result<()> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let filled = outbox.slices(&mut pieces);
        let count = self.how.write(self.fd.as_fd(), &pieces[..filled])?;
        outbox.advance(count);
        Ok(())
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
