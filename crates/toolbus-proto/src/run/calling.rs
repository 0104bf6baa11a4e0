//! The command's end: it asks a `toolbus serve`, whose greeting it has read.
//!
//! Requests run side by side under the numbers of their tickets. What the server says of one that is
//! over is passed over: it may have been on its way when its caller changed its mind.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::translate::{read_down, write_up};
use super::wire::{Frame, Frames, Head};
use super::{WIRE, gone};
use crate::channel::{
    Calling, Channel, Down, Flow, Goodbye, Machine, Notice, Outbox, Readiness, Ticket, Up,
};
use crate::counted::CountedSet;
use crate::tool::{Call, Failure, FailureKind, What};

/// Our end of one conversation with a `toolbus serve`.
#[derive(Debug)]
pub struct Client {
    /// The process of the server.
    pid: u32,
    frames: Frames,
    readiness: Readiness,
    waiting: CountedSet<u64>,
    downs: VecDeque<(Ticket, Down)>,
    out: Outbox,
}

impl Client {
    /// Asks the server of this process.
    pub fn new(pid: u32) -> Client {
        Client {
            pid,
            frames: Frames::new(),
            readiness: Readiness::Open,
            waiting: CountedSet::default(),
            downs: VecDeque::new(),
            out: Outbox::new(),
        }
    }

    fn handle_frame(&mut self, frame: Frame) -> Result<(), String> {
        let (id, say) = (frame.head.id, frame.head.say.clone());
        let down = read_down(frame).ok_or_else(|| format!("`{say}` cannot be read"))?;
        let is_done = matches!(down, Down::Done(_));
        let is_waiting =
            if is_done { self.waiting.remove(&id) } else { self.waiting.contains(&id) };
        if is_waiting {
            self.downs.push_back((Ticket(id), down));
        }
        Ok(())
    }
}

impl Machine for Client {
    fn handle_timeout(&mut self, _now: Instant) {}

    /// The server looks at the clock for the backs, and the command for itself.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }
}

impl Channel for Client {
    fn handle_bytes(&mut self, _now: Instant, input: &mut BytesMut) -> Flow {
        while self.readiness == Readiness::Open {
            match self.frames.next(input) {
                None => return Flow::More,
                Some(frame) => {
                    if let Err(why) = frame.and_then(|frame| self.handle_frame(frame)) {
                        let message = format!("toolbus serve (pid {}): {why}", self.pid);
                        let failure = Failure::new(FailureKind::BrokeProtocol, message);
                        self.readiness = Readiness::outlawed(failure);
                    }
                }
            }
        }
        Flow::Close
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.handle_bytes(now, input);
        if self.readiness == Readiness::Open {
            self.readiness = Readiness::outlawed(gone(self.pid));
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Calling for Client {
    fn call(&mut self, _now: Instant, ticket: Ticket, call: Call) {
        let (method, body) = match call.what {
            What::Native { wire, method, body } if wire == WIRE => (method, body),
            _ => {
                let message = "only what the two ends agree on can be asked";
                let failure = Failure::new(FailureKind::Unavailable, message);
                return self.downs.push_back((ticket, Down::Done(Err(failure))));
            }
        };
        let head = Head::new(ticket.0, &String::from_utf8_lossy(&method));
        Frame::of(head, Some(body).filter(|body: &Bytes| !body.is_empty())).write(&mut self.out);
        self.waiting.insert(ticket.0);
    }

    fn up(&mut self, _now: Instant, ticket: Ticket, up: Up) {
        let is_over = match up {
            Up::Cancel(_) => !self.waiting.remove(&ticket.0),
            _ => !self.waiting.contains(&ticket.0),
        };
        if !is_over {
            write_up(ticket.0, up).write(&mut self.out);
        }
    }

    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// What is asked may be written at once, so nothing can be taken back.
    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        Vec::new()
    }

    fn handle_lost(&mut self, _now: Instant, _why: &Failure) {
        let failure = match &self.readiness {
            Readiness::Broken(fault) => fault.failure.clone(),
            // However it was noticed: to those who wait it is the same.
            _ => gone(self.pid),
        };
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable();
        let ended = |id| (Ticket(id), Down::Done(Err(failure.clone())));
        self.downs.extend(waiting.into_iter().map(ended));
    }
}
