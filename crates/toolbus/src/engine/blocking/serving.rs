//! Answers calls in place: read, handle, one write. What tools on standard streams stand on.
//!
//! Requests that arrive together are answered together. While an answer does not fit, reading
//! goes on, or two full pipes would wait for each other for ever.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Channel, Down, Ended, Flow, Outbox, Serving, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, Outcome};

use crate::engine;
use crate::panics::caught;
use crate::transport::fd::read_now;
use crate::transport::now::Output;
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
    machine: impl Serving + Channel,
    handle: impl FnMut(Call) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    serve_on(machine, io::stdin().as_fd(), io::stdout().as_fd(), handle)
}

/// Like [`serve`], on streams of one's own choice. They may be shared with others and stay as
/// they are.
pub fn serve_on(
    machine: impl Serving + Channel,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    mut handle: impl FnMut(Call) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    serve_talking(machine, input, output, |call, _caller| handle(call))
}

/// Like [`serve_on`], for a tool that talks to its [`Caller`] before it answers.
pub fn serve_talking(
    machine: impl Serving + Channel,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    handle: impl FnMut(Call, &mut dyn Caller) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    let server = Server {
        machine,
        input,
        output: Output::shared(output)?,
        read: BytesMut::new(),
        waiting: VecDeque::new(),
        in_hand: None,
        outbox: Outbox::new(),
        has_read_ahead: false,
        is_eof: false,
        is_heard: true,
    };
    server.run(handle)
}

/// Whoever waits for the call that is being answered.
pub trait Caller {
    /// Tells it more, now. Waits while it does not read.
    fn tell(&mut self, down: Down);

    /// Has it changed its mind? Looks at what has arrived meanwhile.
    fn is_gone(&mut self) -> bool;
}

struct Server<'a, M> {
    machine: M,
    input: BorrowedFd<'a>,
    output: Output,
    /// What was read and not yet taken.
    read: BytesMut,
    /// Calls that were taken and not yet answered.
    waiting: VecDeque<(Ticket, Call)>,
    /// The call that is being answered, unless its caller has changed its mind.
    in_hand: Option<Ticket>,
    outbox: Outbox,
    /// Something was read that nobody has looked at.
    has_read_ahead: bool,
    is_eof: bool,
    /// Whoever does not read any more has ended the conversation as well.
    is_heard: bool,
}

impl<M: Serving + Channel> Server<'_, M> {
    fn run(
        mut self,
        mut handle: impl FnMut(Call, &mut dyn Caller) -> Result<Outcome, Failure>,
    ) -> io::Result<Ended> {
        loop {
            let flow = self.answer(&mut handle);
            self.write();
            if flow == Flow::Close || !self.is_heard {
                return Ok(self.machine.ended().cloned().unwrap_or(Ended::Well));
            }
            // What came while answers were written may be all that the caller has to say.
            if !std::mem::take(&mut self.has_read_ahead) {
                // There is nobody to pause for: all that was asked is answered.
                self.read()?;
            }
        }
    }

    /// Answers all that was read. What has to be written may be left for later.
    fn answer(
        &mut self,
        handle: &mut impl FnMut(Call, &mut dyn Caller) -> Result<Outcome, Failure>,
    ) -> Flow {
        let mut now = Instant::now();
        loop {
            let flow = self.take(now);
            self.machine.poll_transmit(&mut self.outbox);
            if ANSWERS_BYTES_MAX <= self.outbox.len() {
                self.write();
            }
            let Some((ticket, call)) = self.waiting.pop_front() else {
                return if self.is_eof { Flow::Close } else { flow };
            };
            if !self.is_heard {
                return Flow::Close;
            }
            self.in_hand = Some(ticket);
            let outcome = caught(|| handle(call, self));
            // All that was read together was asked at one time. Who waits for a time to come
            // has to know how long the tool took.
            if self.machine.poll_timeout().is_some() {
                now = Instant::now();
            }
            self.machine.down(now, ticket, Down::Done(outcome));
        }
    }

    /// Takes what was read, as far as the machine wants to. Calls that were cancelled before
    /// their turn are not made.
    fn take(&mut self, now: Instant) -> Flow {
        let flow = match self.is_eof {
            false => self.machine.handle_bytes(now, &mut self.read),
            true => self.machine.handle_eof(now, &mut self.read),
        };
        if self.machine.poll_timeout().is_some_and(|until| until <= now) {
            self.machine.handle_timeout(now);
        }
        while let Some(up) = self.machine.poll_up() {
            match up {
                (ticket, Asked::Call(call)) => self.waiting.push_back((ticket, call)),
                (ticket, Asked::Up(Up::Cancel(_))) => {
                    self.waiting.retain(|(waiting, _)| *waiting != ticket);
                    self.in_hand.take_if(|in_hand| *in_hand == ticket);
                }
                // Nobody was promised to get more than the call.
                (_, Asked::Up(_)) => {}
            }
        }
        while let Some(notice) = self.machine.poll_notice() {
            engine::log("caller", &notice);
        }
        flow
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

    /// Writes all that waits, as long as somebody reads it.
    fn write(&mut self) {
        while self.is_heard && !self.outbox.is_empty() {
            match self.output.write(&mut self.outbox) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.make_room(),
                Err(_) => self.is_heard = false,
            }
        }
    }

    /// Waits until there is room to write, and reads ahead meanwhile.
    fn make_room(&mut self) {
        let can_read = self.may_read_ahead();
        let wanted =
            [ready::room(Some(self.output.as_fd())), ready::input(can_read.then_some(self.input))];
        if let [[_, true]] = ready::wait(&[wanted], None)[..] {
            self.read_ahead();
        }
    }

    fn may_read_ahead(&self) -> bool {
        !self.is_eof && self.read.len() < AHEAD_BYTES_MAX
    }

    fn read_ahead(&mut self) {
        self.has_read_ahead = true;
        // An input that breaks is told by the next read.
        self.is_eof = matches!(read_now(self.input, &mut self.read), Ok(0));
    }
}

impl<M: Serving + Channel> Caller for Server<'_, M> {
    fn tell(&mut self, down: Down) {
        let Some(ticket) = self.in_hand else { return };
        self.machine.down(Instant::now(), ticket, down);
        self.machine.poll_transmit(&mut self.outbox);
        self.write();
    }

    fn is_gone(&mut self) -> bool {
        let now = Instant::now();
        if self.may_read_ahead() && ready::has_input(self.input, Some(now)) {
            self.read_ahead();
        }
        loop {
            let before = self.waiting.len();
            self.take(now);
            if self.in_hand.is_none() || !self.is_heard {
                return true;
            }
            // A machine may hand out one call at a time.
            if self.waiting.len() == before {
                return false;
            }
        }
    }
}
