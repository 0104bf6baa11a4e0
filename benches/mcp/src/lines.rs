//! Whole lines out of a pipe, for both ends.

use std::io;
use std::os::fd::AsFd;

use memchr::memchr;

/// So much is read at once, at least.
const READ_BYTES: usize = 64 * 1024;

/// A buffer that hands out whole lines and looks at no byte twice.
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Before this, all was handed out.
    from: usize,
    /// Before this, no newline is left.
    searched: usize,
    filled: usize,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { buffer: vec![0; READ_BYTES], from: 0, searched: 0, filled: 0 }
    }

    /// Reads once; 0 is the end of the stream.
    pub(crate) fn read(&mut self, pipe: impl AsFd) -> io::Result<usize> {
        if self.from == self.filled {
            (self.from, self.searched, self.filled) = (0, 0, 0);
        }
        if self.buffer.len() - self.filled < READ_BYTES / 4 {
            if self.from == 0 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            } else {
                self.buffer.copy_within(self.from..self.filled, 0);
                self.searched -= self.from;
                self.filled -= self.from;
                self.from = 0;
            }
        }
        let count = rustix::io::retry_on_intr(|| {
            rustix::io::read(pipe.as_fd(), &mut self.buffer[self.filled..])
        })?;
        self.filled += count;
        Ok(count)
    }

    /// The next whole line, without its newline.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let Some(at) = memchr(b'\n', &self.buffer[self.searched..self.filled]) else {
            self.searched = self.filled;
            return None;
        };
        let (from, end) = (self.from, self.searched + at);
        self.from = end + 1;
        self.searched = end + 1;
        Some(&self.buffer[from..end])
    }
}
