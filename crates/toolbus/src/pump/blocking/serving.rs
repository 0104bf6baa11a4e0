//! Answers calls in place: read, handle, one write. What tools on standard streams stand on.
//!
//! Requests that arrive together are answered together. While an answer does not fit, reading
//! goes on, or two full pipes would wait for each other for ever.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Down, Ended, Flow, Outbox, Serving};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};

use crate::pump;
use crate::transport::now::Output;
use crate::transport::pipe::read_now;
use crate::transport::ready;

/// Answers are written at the latest when so much of them waits.
const ANSWERS_BYTES_MAX: usize = 256 * 1024;
/// What is read ahead while answers cannot be written.
const AHEAD_BYTES_MAX: usize = 256 * 1024;

/// Serves on our standard input and output until the conversation is over.
///
/// `handle` answers one call after the other on this thread. Should it panic, that call fails
/// and the next is served.
pub fn serve(
    machine: impl Serving,
    handle: impl FnMut(Call) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    serve_on(machine, io::stdin().as_fd(), io::stdout().as_fd(), handle)
}

/// Like [`serve`], on streams of one's own choice. They may be shared with others and stay as
/// they are.
pub fn serve_on(
    machine: impl Serving,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    handle: impl FnMut(Call) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    Server {
        machine,
        handle,
        input,
        output: Output::shared(output)?,
        read: BytesMut::new(),
        outbox: Outbox::new(),
        is_eof: false,
    }
    .run()
}

struct Server<'a, M, H> {
    machine: M,
    handle: H,
    input: BorrowedFd<'a>,
    output: Output,
    /// What was read and not yet taken.
    read: BytesMut,
    outbox: Outbox,
    is_eof: bool,
}

impl<M, H> Server<'_, M, H>
where
    M: Serving,
    H: FnMut(Call) -> Result<Outcome, Failure>,
{
    fn run(mut self) -> io::Result<Ended> {
        let mut flow = Flow::More;
        loop {
            self.machine.poll_transmit(&mut self.outbox);
            // Whoever does not read any more has ended the conversation as well.
            let is_heard = self.write();
            if flow == Flow::Close || !is_heard {
                return Ok(self.machine.ended().cloned().unwrap_or(Ended::Well));
            }
            // There is nobody to pause for: all that was asked is answered.
            self.read()?;
            flow = self.answer();
        }
    }

    /// Answers all that was read, up to the point where answers should be written.
    fn answer(&mut self) -> Flow {
        loop {
            let now = Instant::now();
            let flow = match self.is_eof {
                false => self.machine.handle_bytes(now, &mut self.read),
                true => self.machine.handle_eof(now, &mut self.read),
            };
            let mut was_asked = false;
            while let Some((ticket, asked)) = self.machine.poll_up() {
                // What follows a call can only be for one that is over already.
                let Asked::Call(call) = asked else { continue };
                let outcome = self.outcome(call);
                self.machine.down(Instant::now(), ticket, Down::Done(outcome));
                was_asked = true;
            }
            while let Some(notice) = self.machine.poll_notice() {
                pump::log("caller", &notice);
            }
            if !was_asked {
                return if self.is_eof { Flow::Close } else { flow };
            }
            self.machine.poll_transmit(&mut self.outbox);
            if ANSWERS_BYTES_MAX <= self.outbox.len() && !self.write() {
                return Flow::Close;
            }
        }
    }

    fn outcome(&mut self, call: Call) -> Result<Outcome, Failure> {
        // Whatever the call left half-done is the tool's own affair.
        let handled = catch_unwind(AssertUnwindSafe(|| (self.handle)(call)));
        handled.unwrap_or_else(|panic| {
            let message = format!("the tool panicked: {}", words_of(&*panic));
            Err(Failure::new(FailureKind::Failed, message))
        })
    }

    fn read(&mut self) -> io::Result<()> {
        while !self.is_eof {
            match read_now(self.input, &mut self.read) {
                Ok(count) => {
                    self.is_eof = count == 0;
                    return Ok(());
                }
                // Somebody who shares our input has made it so.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready::has_input(self.input, None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all that waits; false if nobody reads it any more.
    fn write(&mut self) -> bool {
        while !self.outbox.is_empty() {
            match self.output.write(&mut self.outbox) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.make_room(),
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits until there is room to write, and reads ahead meanwhile.
    fn make_room(&mut self) {
        let can_read = !self.is_eof && self.read.len() < AHEAD_BYTES_MAX;
        let wanted =
            [ready::room(Some(self.output.as_fd())), ready::input(can_read.then_some(self.input))];
        if let [[_, true]] = ready::wait(&[wanted], None)[..] {
            // An input that breaks is told by the next read.
            self.is_eof = matches!(read_now(self.input, &mut self.read), Ok(0));
        }
    }
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}
