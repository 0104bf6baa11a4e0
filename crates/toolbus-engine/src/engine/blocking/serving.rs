//! Answers calls in place: read, handle, one write. What tools on standard streams stand on.
//!
//! Requests that arrive together are answered together. While an answer does not fit, reading
//! goes on, or two full pipes would wait for each other for ever.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{Asked, Channel, Down, Ended, Flow, Outbox, Serving, Ticket, Up};
use toolbus_proto::collect::InputCollector;
use toolbus_proto::tool::{Call, Failure, Outcome, What};

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
    serve_talking(machine, input, output, None, |call, _caller| handle(call))
}

/// Like [`serve_on`], for a tool that talks to its [`Caller`] before it answers.
///
/// A caller that has stopped reading has ended the conversation well, unless there is a
/// `patience`: then it is [`Ended::PeerStoppedReading`], and who reads nothing for so long has
/// stopped, too.
pub fn serve_talking(
    machine: impl Serving + Channel,
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    patience: Option<Duration>,
    handle: impl FnMut(Call, &mut dyn Caller) -> Result<Outcome, Failure>,
) -> io::Result<Ended> {
    let server = Server {
        keeps_time: machine.poll_timeout().is_some(),
        machine,
        patience,
        input,
        output: Output::shared(output)?,
        read: BytesMut::new(),
        arriving: Vec::new(),
        waiting: VecDeque::new(),
        in_hand: None,
        outbox: Outbox::new(),
        has_read_ahead: false,
        is_eof: false,
        is_heard: true,
    };
    server.run(handle)
}

/// The client that waits for the call that is being answered.
pub trait Caller {
    /// Tells it more, now. Waits while it does not read.
    fn tell(&mut self, down: Down);

    /// Has it changed its mind? Looks at what has arrived meanwhile.
    fn is_gone(&mut self) -> bool;
}

struct Server<'a, M> {
    machine: M,
    /// The machine waits for times to come even when nothing happens.
    keeps_time: bool,
    /// How long the caller may take to read something.
    patience: Option<Duration>,
    input: BorrowedFd<'a>,
    output: Output,
    /// What was read and not yet taken.
    read: BytesMut,
    /// Calls whose input is not complete.
    arriving: Vec<Arriving>,
    /// Calls that were taken and not yet answered.
    waiting: VecDeque<(Ticket, Call)>,
    /// The call that is being answered, unless its caller has changed its mind.
    in_hand: Option<Ticket>,
    outbox: Outbox,
    /// Something was read that the machine has not looked at.
    has_read_ahead: bool,
    is_eof: bool,
    /// A client that reads no more has ended the conversation as well.
    is_heard: bool,
}

/// A call whose input comes in parts.
struct Arriving {
    ticket: Ticket,
    call: Call,
    input: InputCollector,
    /// When the last part came.
    heard: Instant,
}

impl Arriving {
    fn new(now: Instant, ticket: Ticket, mut call: Call) -> Arriving {
        let args = match &mut call.what {
            What::Tool { args, .. } => args.take(),
            What::Tools | What::Native { .. } => None,
        };
        Arriving { ticket, call, input: InputCollector::new(args), heard: now }
    }

    /// When the caller has taken too long to go on.
    fn overdue(&self) -> Option<Instant> {
        self.call.deadline.instant(self.heard)
    }
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
                let has_left = !self.is_heard && !self.is_eof && self.patience.is_some();
                let unsaid = if has_left { Ended::PeerStoppedReading } else { Ended::Well };
                return Ok(self.machine.ended().cloned().unwrap_or(unsaid));
            }
            // What came while answers were written may be all that the caller has to say.
            if !std::mem::take(&mut self.has_read_ahead) {
                // There is no reason to pause: all that was asked is answered.
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
            let is_much = ANSWERS_BYTES_MAX <= self.outbox.len();
            if is_much {
                self.write();
            }
            let Some((ticket, call)) = self.waiting.pop_front() else {
                if flow == Flow::Pause && self.is_heard && (is_much || !self.outbox.is_empty()) {
                    // It may be that nothing more was taken before this is written.
                    self.write();
                    continue;
                }
                return if self.is_eof { Flow::Close } else { flow };
            };
            if !self.is_heard {
                return Flow::Close;
            }
            self.in_hand = Some(ticket);
            let outcome = caught(|| handle(call, self));
            // All that was read together was asked at one time. Who waits for a time to come
            // has to know how long the tool took.
            if self.keeps_time || self.machine.poll_timeout().is_some() {
                now = Instant::now();
            }
            self.machine.down(now, ticket, Down::Done(outcome));
        }
    }

    /// Takes what was read, as far as the machine wants to. Calls that were cancelled before
    /// their turn are not made.
    fn take(&mut self, now: Instant) -> Flow {
        let mut flow = self.handle_input(now);
        if self.machine.poll_timeout().is_some_and(|until| until <= now) {
            self.machine.handle_timeout(now);
            flow = self.handle_input(now);
        }
        // Parts that were taken make room for more.
        while self.take_ups(now) && flow == Flow::Pause {
            flow = self.handle_input(now);
        }
        self.give_up_overdue(now);
        while let Some(notice) = self.machine.poll_notice() {
            engine::log("caller", &notice);
        }
        flow
    }

    fn handle_input(&mut self, now: Instant) -> Flow {
        match self.is_eof {
            false => self.machine.handle_bytes(now, &mut self.read),
            true => self.machine.handle_eof(now, &mut self.read),
        }
    }

    /// Takes what the machine hands out. Tells whether there was input of a call among it.
    fn take_ups(&mut self, now: Instant) -> bool {
        let mut had_input = false;
        while let Some(up) = self.machine.poll_up() {
            match up {
                (ticket, Asked::Call(call)) if call.options.sends_parts => {
                    self.arriving.push(Arriving::new(now, ticket, call));
                }
                (ticket, Asked::Call(call)) => self.waiting.push_back((ticket, call)),
                (ticket, Asked::Up(Up::Cancel(_))) => {
                    self.arriving.retain(|arriving| arriving.ticket != ticket);
                    self.waiting.retain(|(waiting, _)| *waiting != ticket);
                    self.in_hand.take_if(|in_hand| *in_hand == ticket);
                }
                (ticket, Asked::Up(up)) => {
                    self.take_input(now, ticket, up);
                    had_input = true;
                }
            }
        }
        had_input
    }

    /// More of a call whose input comes in parts. It is made once that is complete.
    fn take_input(&mut self, now: Instant, ticket: Ticket, up: Up) {
        let mut arriving = self.arriving.iter_mut();
        let Some(at) = arriving.position(|arriving| arriving.ticket == ticket) else { return };
        self.arriving[at].heard = now;
        let Some(args) = self.arriving[at].input.take(up) else { return };
        let mut call = self.arriving.swap_remove(at).call;
        match args {
            Ok(whole) => {
                if let What::Tool { args, .. } = &mut call.what {
                    *args = whole;
                }
                self.waiting.push_back((ticket, call));
            }
            Err(failure) => {
                self.machine.down(now, ticket, Down::Done(Err(failure)));
            }
        }
    }

    fn give_up_overdue(&mut self, now: Instant) {
        let is_overdue = |arriving: &mut Arriving| arriving.overdue().is_some_and(|at| at <= now);
        for late in self.arriving.extract_if(.., is_overdue) {
            self.machine.down(now, late.ticket, Down::Done(Err(late.call.deadline.missed())));
        }
    }

    /// When something has to be done even if nothing comes.
    fn poll_timeout(&self) -> Option<Instant> {
        let overdue = self.arriving.iter().filter_map(Arriving::overdue);
        overdue.chain(self.machine.poll_timeout()).min()
    }

    fn read(&mut self) -> io::Result<()> {
        let timeout = self.poll_timeout();
        if timeout.is_some() && !ready::has_input(self.input, timeout) {
            return Ok(());
        }
        while !self.is_eof {
            match read_now(self.input, &mut self.read) {
                Ok(count) => {
                    self.is_eof = count == 0;
                    return Ok(());
                }
                // Another process that shares our input has made it so.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready::has_input(self.input, None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all that waits, as long as the caller reads it.
    fn write(&mut self) {
        // Since when nothing could be written.
        let mut stuck = None;
        let has_something = !self.outbox.is_empty();
        while self.is_heard && !self.outbox.is_empty() {
            match self.output.write(&mut self.outbox) {
                Ok(_) => stuck = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let was_eof = self.is_eof;
                    let since = *stuck.get_or_insert_with(Instant::now);
                    let patience = self.patience.or(was_eof.then_some(engine::UNREAD_MAX));
                    self.make_room(patience.map(|patience| since + patience));
                    if was_eof != self.is_eof {
                        stuck = None;
                    }
                }
                Err(_) => self.is_heard = false,
            }
        }
        if has_something && self.is_heard {
            self.machine.handle_sent(Instant::now());
        }
    }

    /// Waits until there is room to write, and reads ahead meanwhile.
    fn make_room(&mut self, until: Option<Instant>) {
        if until.is_some_and(|until| until <= Instant::now()) {
            self.is_heard = false;
            return;
        }
        let can_read = self.may_read_ahead();
        let wanted =
            [ready::room(Some(self.output.as_fd())), ready::input(can_read.then_some(self.input))];
        if let [[_, true]] = ready::wait(&[wanted], until)[..] {
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
