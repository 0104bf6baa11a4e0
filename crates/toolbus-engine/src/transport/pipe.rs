//! Pipes, and whatever else stands at a standard stream, as ends of bytes on the reactor.
//!
//! Nothing is lost when a read or write is dropped half-way: either it has happened and is
//! ready, or it has not. No end holds a buffer while it waits.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::BytesMut;
use rustix::event::PollFlags;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use super::fd::{How, is, read_now, retry};

/// An end to read from.
#[derive(Debug)]
pub struct Input(End);

/// An end to write to.
#[derive(Debug)]
pub struct Output(End);

impl Input {
    /// The reading end of a pipe that only we hold, a child's standard output for one.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O, as everything that makes an end does.
    pub fn from_pipe(fd: OwnedFd) -> io::Result<Input> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Input::new(fd, How::Alone)
    }

    pub(super) fn new(fd: OwnedFd, how: How) -> io::Result<Input> {
        End::new(fd, how, Interest::READABLE).map(Input)
    }

    /// Waits until there is something to read and appends it; 0 is the end of the stream.
    pub async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        let (fd, how) = match &self.0 {
            End::Reactor { fd, how } => (fd, *how),
            End::Blocking(fd) => {
                // A file is always ready, and others want their turn.
                tokio::task::consume_budget().await;
                return read_now(fd.as_fd(), into);
            }
        };
        loop {
            // The one who reads waits by its task alone: no list is kept of it.
            let mut ready = poll_fn(|context| fd.poll_read_ready(context)).await?;
            let read = ready.try_io(|fd| how.read(fd.as_fd(), into));
            let Ok(read) = read else { continue };
            // A pipe that gave less than it was asked for is empty: the next read would only
            // find out by asking the kernel in vain. It is different with a socket of messages.
            if how == How::Alone && read.as_ref().is_ok_and(|read| read.count < read.room) {
                ready.clear_ready();
            }
            return read.map(|read| read.count);
        }
    }

    /// Waits until the writer has gone, whatever is left to be read. All of a file is there
    /// already.
    ///
    /// Elsewhere than on Linux it is a read that finds out, and not this.
    pub async fn ended(&self) {
        let End::Reactor { fd, .. } = &self.0 else { return };
        #[cfg(target_os = "linux")]
        // There is no urgent data on a pipe: what is left of this interest is the end. Fails
        // only if the runtime ends, and us with it.
        drop(fd.ready(Interest::PRIORITY).await);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = fd;
            std::future::pending().await
        }
    }
}

impl Output {
    /// The writing end of a pipe that only we hold, a child's standard input for one.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    pub fn from_pipe(fd: OwnedFd) -> io::Result<Output> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Output::new(fd, How::Alone)
    }

    pub(super) fn new(fd: OwnedFd, how: How) -> io::Result<Output> {
        End::new(fd, how, WATCH_WRITING).map(Output)
    }

    /// Waits until something can be written and writes as much as fits; says how much.
    ///
    /// A reader that has gone is [`io::ErrorKind::BrokenPipe`]. (It would be death by SIGPIPE, if
    /// Rust programs did not ignore that; a host in another language has to ignore it itself.)
    pub async fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // More are not taken at once by any system; the caller comes back with the rest.
        let pieces = &pieces[..pieces.len().min(1024)];
        match &self.0 {
            End::Reactor { fd, how } => {
                fd.async_io(Interest::WRITABLE, |fd| how.write(fd.as_fd(), pieces)).await
            }
            End::Blocking(fd) => {
                tokio::task::consume_budget().await;
                retry(|| rustix::io::writev(fd, pieces))
            }
        }
    }

    /// Waits until the reader has gone. For ever, where there is no reader that could go: a file, `/dev/null`.
    ///
    /// Elsewhere than on Linux it may be the next write that finds out, and not this.
    pub async fn closed(&self) {
        let End::Reactor { fd, .. } = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            // Fails only if the runtime ends, and us with it.
            let Ok(mut ready) = fd.ready(WATCH_CLOSING).await else {
                return;
            };
            if !is(fd.as_fd(), PollFlags::empty(), PollFlags::ERR | PollFlags::HUP) {
                ready.clear_ready();
                continue;
            }
            return;
        }
    }
}

/// Waits for a descriptor that has nothing to read, only a moment to wait for: the
/// [exit of a child](crate::child::Process::exit_fd).
#[derive(Debug)]
pub struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Watches a copy, so that the descriptor may be closed meanwhile.
    ///
    /// # Panics
    ///
    /// Outside of a runtime with I/O.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Watch> {
        let copy = fd.try_clone_to_owned()?;
        register(copy, Interest::READABLE).map(Watch).map_err(|(_, error)| error)
    }

    /// Waits for the moment, which stays: once ready, always ready.
    pub async fn ready(&self) {
        // Fails only if the runtime ends, and us with it.
        let _ = self.0.readable().await;
    }
}

/// With the interest in urgent data, which there never is on a pipe, the reactor also reports a
/// socket that was hung up, and stays silent about everything else.
#[cfg(target_os = "linux")]
const WATCH_WRITING: Interest = Interest::WRITABLE.add(Interest::PRIORITY);
#[cfg(target_os = "linux")]
const WATCH_CLOSING: Interest = Interest::ERROR.add(Interest::PRIORITY);
#[cfg(not(target_os = "linux"))]
const WATCH_WRITING: Interest = Interest::WRITABLE;
#[cfg(not(target_os = "linux"))]
const WATCH_CLOSING: Interest = Interest::ERROR;

#[derive(Debug)]
enum End {
    Reactor {
        fd: AsyncFd<OwnedFd>,
        how: How,
    },
    /// A file, or a device that is always ready, like `/dev/null`.
    Blocking(OwnedFd),
}

impl End {
    fn new(fd: OwnedFd, how: How, interest: Interest) -> io::Result<End> {
        match register(fd, interest) {
            Ok(fd) => Ok(End::Reactor { fd, how }),
            // The kernel's way to say that one never has to wait for it.
            Err((fd, error)) if error.raw_os_error() == Some(libc::EPERM) => Ok(End::Blocking(fd)),
            Err((_, error)) => Err(error),
        }
    }
}

fn register(fd: OwnedFd, interest: Interest) -> Result<AsyncFd<OwnedFd>, (OwnedFd, io::Error)> {
    // SAFETY: an `OwnedFd` is the same open descriptor as long as it lives.
    #[allow(unsafe_code)]
    let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
    registered.map_err(AsyncFdRegisterError::into_parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::fd::SHARED_WRITE_BYTES;

    #[tokio::test]
    async fn a_long_message_comes_through_in_one_piece_with_what_is_around_it() {
        let (read, write) = io::pipe().unwrap();
        let mut input = Input::from_pipe(read.into()).unwrap();
        let output = Output::from_pipe(write.into()).unwrap();
        let sent: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
        let writing = async {
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let count = output.write(&[IoSlice::new(rest)]).await.unwrap();
                rest = &rest[count..];
            }
            drop(output);
        };
        let reading = async {
            let mut received = BytesMut::new();
            let mut taken = Vec::new();
            while input.read(&mut received).await.unwrap() != 0 {
                // What was cut off shares the buffer, and must not change when more is read.
                if taken.is_empty() {
                    taken.push(received.split_to(1000).freeze());
                } else if taken.len() == 1 && 300_000 < received.len() {
                    taken.push(received.split_to(250_000).freeze());
                }
            }
            taken.push(received.freeze());
            taken
        };
        let ((), taken) = tokio::join!(writing, reading);
        assert_eq!(taken.len(), 3);
        assert!(taken.concat() == sent, "other bytes than were sent");
    }

    /// What is left where a pipe cannot be opened anew: another user's, or not on Linux.
    #[tokio::test]
    async fn a_pipe_that_blocks_can_be_shared_without_waiting() {
        let (read, write) = io::pipe().unwrap();
        let mut input = Input::new(read.into(), How::Shared).unwrap();
        let output = Output::new(write.into(), How::Shared).unwrap();

        let mut received = BytesMut::new();
        let mut sent = 0;
        let pieces = [IoSlice::new(&[]), IoSlice::new(&[7; 10_000])];
        // Until it is full, which must not stop us. A reader that waited would stop us too.
        loop {
            tokio::select! {
                biased;
                written = output.write(&pieces) => {
                    sent += written.unwrap();
                }
                () = tokio::task::yield_now() => break,
            }
        }
        assert!(SHARED_WRITE_BYTES <= sent);
        while received.len() < sent {
            input.read(&mut received).await.unwrap();
        }
        tokio::select! {
            biased;
            read = input.read(&mut received) => panic!("read {read:?}"),
            () = tokio::task::yield_now() => {}
        }
        // There is room again, and the end is seen.
        sent += output.write(&pieces).await.unwrap();
        drop(output);
        while input.read(&mut received).await.unwrap() != 0 {}
        assert_eq!(received.len(), sent);
    }
}
