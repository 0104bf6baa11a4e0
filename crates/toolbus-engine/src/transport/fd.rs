//! Bare descriptors: how to open, read and write them without waiting, with a runtime and
//! without.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

use bytes::{Bytes, BytesMut};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, OFlags};
use rustix::net::{SendAncillaryBuffer, SendFlags};

/// A second hold of a stream that others may hold as well, and for whom it stays as it is.
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

/// How to read and write without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The description is ours alone, and does not block.
    Alone,
    /// A socket, which can be asked not to wait each time anew.
    Socket,
    /// Others share the description, so it may block and must go on doing so. Looked at before
    /// each use; if another reader takes what we saw, we wait with it.
    Shared,
}

/// What is read at once, of a long message more.
const READ_BYTES: usize = 64 * 1024;

/// Once so much of a message is there, the rest is read to where it is kept, without a copy.
const STRAIGHT_FROM: usize = READ_BYTES / 2;

/// What one read gave.
pub(super) struct Read {
    pub(super) count: usize,
    /// How much it could have been.
    #[cfg(feature = "runtime")]
    pub(super) room: usize,
}

impl Read {
    fn new(count: usize, room: usize) -> Read {
        #[cfg(not(feature = "runtime"))]
        let _ = room;
        Read {
            count,
            #[cfg(feature = "runtime")]
            room,
        }
    }
}

/// A pipe that says it is writable has room for at least so much.
pub(super) const SHARED_WRITE_BYTES: usize = 4096;

impl How {
    #[cfg(feature = "runtime")]
    pub(super) fn read(self, fd: BorrowedFd<'_>, into: &mut BytesMut) -> io::Result<Read> {
        match self {
            How::Alone => read_once(fd, into),
            How::Socket => append(into, |buffer| {
                rustix::net::recv(fd, buffer, rustix::net::RecvFlags::DONTWAIT).map(|(n, _)| n)
            }),
            How::Shared if is(fd, PollFlags::IN, PollFlags::all()) => read_once(fd, into),
            How::Shared => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(super) fn write(self, fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            How::Alone if pieces.len() == 1 => retry(|| rustix::io::write(fd, &pieces[0])),
            How::Alone => retry(|| rustix::io::writev(fd, pieces)),
            How::Socket => retry(|| {
                let mut nothing = SendAncillaryBuffer::default();
                rustix::net::sendmsg(fd, pieces, &mut nothing, SendFlags::DONTWAIT)
            }),
            How::Shared if is(fd, PollFlags::OUT, PollFlags::all()) => {
                let piece = pieces.iter().find(|piece| !piece.is_empty());
                let piece = piece.map_or(&[][..], |piece| piece);
                let fits = &piece[..piece.len().min(SHARED_WRITE_BYTES)];
                retry(|| rustix::io::write(fd, fits))
            }
            How::Shared => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Reads once and appends what came; 0 is the end of the stream. Waits if the descriptor does.
pub(crate) fn read_now(fd: BorrowedFd<'_>, into: &mut BytesMut) -> io::Result<usize> {
    read_once(fd, into).map(|read| read.count)
}

fn read_once(fd: BorrowedFd<'_>, into: &mut BytesMut) -> io::Result<Read> {
    if into.len() < STRAIGHT_FROM {
        return append(into, |buffer| rustix::io::read(fd, buffer));
    }
    // A vector can be read to without being filled with zeros first, and becomes what it was
    // without a copy.
    let mut bytes = Vec::from(std::mem::take(into));
    bytes.reserve(READ_BYTES);
    let room = bytes.capacity() - bytes.len();
    let count = retry(|| rustix::io::read(fd, spare_capacity(&mut bytes)));
    *into = BytesMut::from(Bytes::from(bytes));
    count.map(|count| Read::new(count, room))
}

/// Reads by way of one buffer for the whole thread, so that an idle end holds none and a busy one
/// grows by what came and not by what might have come.
fn append(
    into: &mut BytesMut,
    mut read: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Read> {
    thread_local!(static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]));
    BUFFER.with_borrow_mut(|buffer| {
        let count = retry(|| read(buffer))?;
        into.extend_from_slice(&buffer[..count]);
        Ok(Read::new(count, READ_BYTES))
    })
}

pub(super) fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Whether a descriptor is, at this moment, any of what is looked for.
pub(super) fn is(fd: BorrowedFd<'_>, ask: PollFlags, look_for: PollFlags) -> bool {
    let mut asked = [PollFd::new(&fd, ask)];
    let now = Timespec::default();
    rustix::event::poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().intersects(look_for)
}
