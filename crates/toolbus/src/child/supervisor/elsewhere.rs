//! Programs that are spoken to elsewhere, over connections: their process is kept alive like any
//! other, and who holds the conversation tells how far it is.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use toolbus_proto::channel::{
    Calling, Channel, Down, Farewell, Fault, Flow, Goodbye, Machine, Notice, Outbox, Readiness,
    Ticket, Up,
};
use toolbus_proto::tool::{Call, Exit, Failure, FailureKind, LastWords};

use super::{RunId, Supervisor};

/// What is known of a conversation that is held elsewhere.
#[derive(Debug)]
pub struct Elsewhere {
    readiness: Readiness,
    /// Its owner is saying goodbye.
    is_parting: bool,
    downs: Vec<(Ticket, Down)>,
}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere { readiness: Readiness::Opening, is_parting: false, downs: Vec::new() }
    }
}

/// A process that is of no use any more, and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Which it was.
    pub run: RunId,
    /// Why it is of no use.
    pub why: Why,
    /// How it ended, if it has, and what it said last.
    pub last_words: LastWords,
    /// Is there another?
    pub next: Next,
}

/// Why a process is of no use any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It cannot be started, or its conversation cannot go on.
    Unfit(Failure),
    /// It has ended.
    Exited(Exit),
    /// It was not ready in time.
    Late,
}

/// Whether another process follows the one that departed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// By itself, after so long.
    In(Duration),
    /// When it is asked for.
    OnDemand,
    /// No more, after so many failed starts in a row.
    GivenUp(u32),
    /// No.
    Never,
}

impl Supervisor<Elsewhere> {
    /// The program is spoken to elsewhere: the null device is its standard input and output.
    /// What its owner has to know comes by [`Supervisor::poll_departure`].
    pub fn elsewhere(mut self) -> Self {
        self.is_elsewhere = true;
        self
    }

    /// The start came a step further: it has the time of a start once more.
    pub fn handle_advance(&mut self, now: Instant, id: RunId) {
        if let Some(at) = self.find(id) {
            self.runs[at].1.advance(now);
        }
    }

    /// The conversation has opened.
    pub fn handle_open(&mut self, now: Instant, id: RunId) {
        let Some(at) = self.find(id) else { return };
        let machine = &mut self.runs[at].1.machine;
        if machine.readiness == Readiness::Opening {
            machine.readiness = Readiness::Open;
        }
        self.settle(now, at);
    }

    /// The conversation cannot go on: the process has to go.
    pub fn handle_broken(&mut self, now: Instant, id: RunId, failure: Failure) {
        let Some(at) = self.find(id) else { return };
        let run = &mut self.runs[at].1;
        run.fault.get_or_insert_with(|| failure.clone());
        run.machine.readiness = Readiness::Broken(Fault { failure, farewell: Farewell::Abrupt });
        self.settle(now, at);
    }

    /// The goodbye was answered, or will not be.
    pub fn handle_goodbye(&mut self, now: Instant) {
        for at in (0..self.runs.len()).rev() {
            self.runs[at].1.machine.is_parting = false;
            self.settle(now, at);
        }
    }
}

impl Machine for Elsewhere {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

/// It has no pipe.
impl Channel for Elsewhere {
    fn handle_bytes(&mut self, _now: Instant, input: &mut BytesMut) -> Flow {
        input.clear();
        Flow::More
    }

    fn handle_eof(&mut self, _now: Instant, _input: &mut BytesMut) -> Flow {
        Flow::Close
    }

    fn poll_transmit(&mut self, _out: &mut Outbox) {}

    fn is_finished(&self) -> bool {
        !self.is_parting
    }
}

/// Calls are not made here, and so never answered.
impl Calling for Elsewhere {
    fn call(&mut self, _now: Instant, ticket: Ticket, _call: Call) {
        let failure = Failure::new(FailureKind::Unavailable, "it is called elsewhere");
        self.downs.push((ticket, Down::Done(Err(failure))));
    }

    fn up(&mut self, _now: Instant, _ticket: Ticket, _up: Up) {}

    /// Who holds the conversation says goodbye there, to one that listens.
    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        self.is_parting = self.readiness == Readiness::Open;
        match self.is_parting {
            true => Goodbye::Asked,
            false => Goodbye::Said,
        }
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        Vec::new()
    }

    fn handle_lost(&mut self, _now: Instant, _why: &Failure) {}
}
