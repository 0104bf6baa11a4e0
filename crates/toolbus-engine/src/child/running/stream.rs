//! One of the streams that a program writes: what was read of it, as bytes or line by line.

use std::future::pending;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::BytesMut;

use crate::child::stderr::Tail;
use crate::transport::fd::read_now;
use crate::transport::pipe::Input;

/// What a program writes to its standard output or standard error.
#[derive(Debug)]
pub struct Stream<I> {
    /// `None` once it has ended.
    pub(super) input: Option<I>,
    /// What was read and not taken yet.
    pub bytes: BytesMut,
    tail: Tail,
}

impl<I> Stream<I> {
    pub(super) fn new(input: Option<I>) -> Stream<I> {
        Stream { input, bytes: BytesMut::new(), tail: Tail::new() }
    }

    /// May there be more of it?
    pub fn is_open(&self) -> bool {
        self.input.is_some()
    }

    /// No more of it is read.
    pub fn end(&mut self) {
        self.input = None;
    }

    /// Takes what was read as lines, and keeps the last ones. One that has not ended counts at
    /// the end of the stream.
    pub fn take_lines(&mut self, mut log: impl FnMut(&str)) {
        self.tail.push(&self.bytes.split(), &mut log);
        if !self.is_open() {
            self.tail.finish(log);
        }
    }

    /// The last of the lines that were taken.
    pub fn last_lines(&self) -> Vec<String> {
        self.tail.lines().map(str::to_owned).collect()
    }

    /// A stream that breaks has ended: what came before is all there is.
    fn handle_read(&mut self, read: io::Result<usize>) -> usize {
        let count = read.unwrap_or(0);
        if count == 0 {
            self.end();
        }
        count
    }
}

impl Stream<Input> {
    /// Waits for more of it and says how much; 0 is its end, and after that it waits for ever.
    pub async fn read(&mut self) -> usize {
        let Some(input) = &mut self.input else { return pending().await };
        let read = input.read(&mut self.bytes).await;
        self.handle_read(read)
    }
}

impl Stream<OwnedFd> {
    /// What to wait for, as long as there may be more of it.
    pub(in crate::child) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(AsFd::as_fd)
    }

    /// Reads once, and waits if there is nothing to read.
    pub(in crate::child) fn read_now(&mut self) {
        if let Some(fd) = &self.input {
            let read = read_now(fd.as_fd(), &mut self.bytes);
            self.handle_read(read);
        }
    }
}
