//! Calls a program and waits for its answer: the hands of a supervisor on the caller's
//! own thread.
//!
//! While all goes well a call is one write and one read. Whatever else may happen is looked
//! at with `poll`: a start, a deadline, a pipe that is full, an end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bytes::BytesMut;
use toolbus_proto::channel::{Calling, Channel, Down, Outbox, Ticket, Up};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome};

use super::watcher::Watcher;
use crate::child::supervisor::{Conversations, Event, Order, RunId};
use crate::child::{Patience, Process, Program, Signal};
use crate::engine;
use crate::transport::fd::read_now;
use crate::transport::now::Output;
use crate::transport::ready::{self, Wanted};

/// A program that is called from one thread at a time.
///
/// Dropping it kills what processes are left.
pub struct Caller<C> {
    name: String,
    program: Program,
    patience: Patience,
    conversations: Conversations<C>,
    /// The processes that have not been forgotten yet: one, unless another is on its way out.
    hands: Vec<ChildHandle>,
    next_ticket: u64,
}

/// What we hold of one process. The watcher is dropped first: it must not signal the session of
/// a process that was reaped.
struct ChildHandle {
    run: RunId,
    watcher: Watcher,
    stdin: Option<Output>,
    /// Blocks; `None` once it has ended.
    stdout: Option<OwnedFd>,
    input: BytesMut,
    outbox: Outbox,
    /// Close its input once the outbox is empty.
    closing: bool,
    /// Something was written to it, ever.
    is_written_to: bool,
    /// A part of what waits in the outbox was written.
    has_begun: bool,
    exit_told: bool,
    stderr_end_told: bool,
    process: Process,
}

impl<C: Calling + Channel> Caller<C> {
    /// Starts nothing yet: the first call does.
    pub fn new(
        name: String,
        program: Program,
        patience: Patience,
        conversations: Conversations<C>,
    ) -> Caller<C> {
        Caller { name, program, patience, conversations, hands: Vec::new(), next_ticket: 0 }
    }

    /// Calls and waits for the outcome. `ask` may be asked a second time for the same call.
    pub fn call(&mut self, ask: impl Fn(Instant) -> Call) -> Result<Outcome, Failure> {
        // A process that has ended since the last call is not asked any more.
        self.look();
        let mut ticket = self.ask(&ask);
        let mut asked_again = false;
        loop {
            self.carry_out();
            if self.send() == Sent::NothingHeard && !asked_again {
                // It went before a byte of the call was written, so another may have it.
                self.conversations.up(Instant::now(), ticket, &Up::Cancel(None));
                ticket = self.ask(&ask);
                asked_again = true;
                continue;
            }
            if let Some(outcome) = self.outcome(ticket) {
                return outcome;
            }
            self.wait();
            if let Some(outcome) = self.outcome(ticket) {
                return outcome;
            }
        }
    }

    /// How the call ended, if it has.
    fn outcome(&mut self, ticket: Ticket) -> Option<Result<Outcome, Failure>> {
        while let Some((answered, down)) = self.conversations.poll_down() {
            if let Down::Done(outcome) = down
                && answered == ticket
            {
                self.leave();
                return Some(outcome);
            }
        }
        None
    }

    /// Does no process run?
    pub fn is_idle(&self) -> bool {
        self.conversations.supervisor().is_idle()
    }

    /// Says goodbye and waits until no process is left.
    pub fn shutdown(&mut self) {
        let now = Instant::now();
        self.conversations.act(now, |supervisor| supervisor.stop(now));
        loop {
            self.carry_out();
            if self.conversations.supervisor().is_idle() {
                return;
            }
            self.send();
            self.wait();
        }
    }

    fn handle(&mut self, run: RunId, event: Event<'_>) {
        self.conversations.handle(Instant::now(), run, event);
    }

    fn ask(&mut self, ask: &impl Fn(Instant) -> Call) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let now = Instant::now();
        self.conversations.call(now, ticket, ask(now));
        ticket
    }

    fn carry_out(&mut self) {
        while let Some(notice) = self.conversations.poll_notice() {
            engine::log(&self.name, &notice);
        }
        while let Some((run, order)) = self.conversations.poll_order() {
            let hand = self.hands.iter_mut().find(|hand| hand.run == run);
            match (order, hand) {
                (Order::Spawn, _) => self.spawn(run),
                (Order::CloseStdin, Some(hand)) => hand.closing = true,
                (Order::Terminate, Some(hand)) => hand.signal(Signal::Term),
                (Order::Kill, Some(hand)) => hand.signal(Signal::Kill),
                (Order::LookAtSession, Some(hand)) => {
                    let is_left = hand.process.session_left();
                    self.handle(run, Event::Session { is_left });
                }
                // Dropped: its session is killed and its leader reaped.
                (Order::Forget, _) => self.hands.retain(|hand| hand.run != run),
                _ => {}
            }
        }
    }

    fn spawn(&mut self, run: RunId) {
        let started = Process::spawn(&self.program).map_err(|error| error.to_failure());
        let hand = started.and_then(|process| {
            ChildHandle::new(run, &self.name, self.patience, process).map_err(|error| {
                let message = format!("cannot watch `{}`: {error}", self.name);
                Failure::new(FailureKind::Unavailable, message)
            })
        });
        match hand {
            Ok(hand) => self.hands.push(hand),
            Err(failure) => {
                self.handle(run, Event::SpawnFailed(&failure));
            }
        }
    }

    /// Writes what is ready, as far as it fits.
    fn send(&mut self) -> Sent {
        let mut sent = Sent::Well;
        for hand in &mut self.hands {
            self.conversations.poll_transmit(hand.run, &mut hand.outbox);
            if hand.write().is_err() {
                if hand.is_written_to && !hand.has_begun {
                    sent = Sent::NothingHeard;
                }
                hand.close_stdin();
                self.conversations.handle(Instant::now(), hand.run, Event::Deaf);
            }
        }
        sent
    }

    /// Waits until something happens, and tells the supervisor.
    fn wait(&mut self) {
        let timeout = self.conversations.poll_timeout();
        match &mut self.hands[..] {
            [hand] if hand.only_reads() => {
                // The watcher wakes a reader, so that nothing else has to be waited for.
                if timeout.is_none() || hand.has_output(timeout) {
                    hand.read(&mut self.conversations);
                }
                self.look();
                self.handle_time(timeout);
            }
            _ => self.wait_for_any(timeout),
        }
    }

    fn wait_for_any(&mut self, timeout: Option<Instant>) {
        let wanted: Vec<_> = self.hands.iter().map(ChildHandle::wanted).collect();
        let is_ready = ready::wait(&wanted, timeout);
        for (hand, is_ready) in self.hands.iter_mut().zip(is_ready) {
            hand.handle(&mut self.conversations, is_ready);
        }
        self.handle_time(timeout);
    }

    fn handle_time(&mut self, timeout: Option<Instant>) {
        let Some(timeout) = timeout else { return };
        let now = Instant::now();
        if timeout <= now {
            // It may be the end of a process, whose last words are told with it.
            for hand in &self.hands {
                hand.tell_lines(&mut self.conversations);
            }
            self.conversations.handle_timeout(now);
        }
    }

    /// Tells the supervisor who has ended meanwhile.
    fn look(&mut self) {
        for hand in &mut self.hands {
            if hand.watcher.has_news() {
                hand.handle_news(&mut self.conversations);
            }
        }
    }

    /// No call will look at the processes for a while: those that have to end do so all the same.
    fn leave(&mut self) {
        self.carry_out();
        if let Some(instant) = self.conversations.poll_timeout() {
            let current = self.conversations.supervisor().current();
            for hand in self.hands.iter().filter(|hand| Some(hand.run) != current) {
                hand.watcher.kill_at(instant);
            }
        }
    }
}

/// How writing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Well,
    /// A process that had listened before does not any more, and of what was last to be
    /// written it has got nothing.
    NothingHeard,
}

impl ChildHandle {
    fn new(
        run: RunId,
        name: &str,
        patience: Patience,
        mut process: Process,
    ) -> io::Result<ChildHandle> {
        let missing = || io::Error::other("a pipe was taken already");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let watcher = Watcher::new(name, &mut process, &stdout, patience.signal)?;
        Ok(ChildHandle {
            run,
            watcher,
            stdin: Some(Output::alone(stdin)?),
            stdout: Some(stdout),
            input: BytesMut::new(),
            outbox: Outbox::new(),
            closing: false,
            is_written_to: false,
            has_begun: false,
            exit_told: false,
            stderr_end_told: false,
            process,
        })
    }

    /// Writes what waits, as far as it fits.
    fn write(&mut self) -> io::Result<()> {
        if !self.outbox.is_empty()
            && let Some(stdin) = &self.stdin
        {
            match stdin.write(&mut self.outbox) {
                Ok(_) => {
                    self.is_written_to = true;
                    self.has_begun = !self.outbox.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if self.closing && self.outbox.is_empty() {
            self.stdin = None;
        }
        Ok(())
    }

    /// Only its output can wake us: there is nothing to write, and no exit or standard error pending.
    fn only_reads(&self) -> bool {
        self.outbox.is_empty()
            && self.stdout.is_some()
            && self.watcher.wakes_reads
            && !self.watcher.has_news()
    }

    /// Waits until it says something, but not for ever.
    fn has_output(&self, until: Option<Instant>) -> bool {
        self.stdout.as_ref().is_some_and(|stdout| ready::has_input(stdout.as_fd(), until))
    }

    /// Reads once, and waits if there is nothing to read.
    fn read<C: Calling + Channel>(&mut self, conversations: &mut Conversations<C>) {
        let Some(stdout) = &self.stdout else { return };
        // A stream that breaks has ended: what came before is all there is.
        let before = self.input.len();
        let count = read_now(stdout.as_fd(), &mut self.input).unwrap_or(0);
        if self.watcher.is_wake_up(&self.input[before..]) {
            self.input.truncate(before);
            return;
        }
        let now = Instant::now();
        if count > 0 {
            conversations.handle_output(self.run, &self.input[before..]);
            conversations.handle_bytes(now, self.run, &mut self.input);
            return;
        }
        self.stdout = None;
        conversations.handle_eof(now, self.run, Some(&mut self.input));
        self.close_stdin();
    }

    /// What can happen to the process: output, room for input, the exit, no more last words.
    fn wanted(&self) -> [Wanted<'_>; 4] {
        let is_writing = !self.outbox.is_empty();
        let stderr_closed = self.watcher.stderr_closed.as_fd();
        [
            ready::input(self.stdout.as_ref().map(AsFd::as_fd)),
            ready::room(self.stdin.as_ref().map(AsFd::as_fd).filter(|_| is_writing)),
            ready::input((!self.exit_told).then(|| self.process.exit_fd())),
            ready::input((!self.stderr_end_told).then_some(stderr_closed)),
        ]
    }

    fn handle<C: Calling + Channel>(
        &mut self,
        conversations: &mut Conversations<C>,
        [can_read, _, exited, stderr_ended]: [bool; 4],
    ) {
        if can_read {
            self.read(conversations);
        }
        if exited {
            self.handle_exit(conversations);
        }
        if stderr_ended {
            self.stderr_end_told = true;
            self.tell_lines(conversations);
            let now = Instant::now();
            conversations.act(now, |it| it.handle_stderr_closed(now, self.run, |_| {}));
        }
    }

    /// The watcher has seen it end, or close its output.
    fn handle_news<C: Calling + Channel>(&mut self, conversations: &mut Conversations<C>) {
        while self.stdout.as_ref().is_some_and(|stdout| ready::has_hung_up(stdout.as_fd())) {
            self.read(conversations);
        }
        if !self.exit_told {
            self.handle_exit(conversations);
        }
    }

    fn handle_exit<C: Calling + Channel>(&mut self, conversations: &mut Conversations<C>) {
        let Some(exit) = self.process.exit_seen() else { return };
        self.exit_told = true;
        self.tell_lines(conversations);
        let session_left = self.process.session_left();
        let event = Event::Exited(exit, session_left);
        conversations.handle(Instant::now(), self.run, event);
    }

    /// Passes on what it wrote to its standard error; the log has it already.
    fn tell_lines<C: Calling + Channel>(&self, conversations: &mut Conversations<C>) {
        for line in self.watcher.take_lines() {
            let (now, line) = (Instant::now(), line + "\n");
            conversations.act(now, |it| it.handle_stderr(now, self.run, line.as_bytes(), |_| {}));
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.close_stdin();
        self.process.signal_session(signal);
    }

    /// Whatever still waits to be written is thrown away.
    fn close_stdin(&mut self) {
        self.stdin = None;
        self.outbox = Outbox::new();
    }
}
