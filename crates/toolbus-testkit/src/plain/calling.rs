//! The asking end: numbers its calls, matches what comes back, gives up in time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Calling, Channel, Down, Flow, Goodbye, Machine, Notice, Outbox, Readiness, Ticket, Up,
};
use toolbus_proto::frame::lines::Lines;
use toolbus_proto::outstanding::Outstanding;
use toolbus_proto::printable::printable;
use toolbus_proto::tool::{Call, Failure, FailureKind};

use super::wire::{self, DownLine, SaysDown, SaysUp, UpLine};
use super::{Limits, NO_CALL, SHOWN_CHARS_MAX};

/// The asking end of a plain wire.
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    readiness: Readiness,
    /// We said goodbye: what runs is still answered, but no call follows.
    said_bye: bool,
    lines: Lines,
    outstanding: Outstanding,
    /// Calls that wait for the other side to be ready.
    unsent: VecDeque<Unsent>,
    out: Outbox,
    downs: VecDeque<(Ticket, Down)>,
    notices: VecDeque<Notice>,
}

/// A call of which nothing has been written.
#[derive(Debug)]
struct Unsent {
    id: u64,
    ticket: Ticket,
    call: Call,
    /// What was said behind it meanwhile.
    ups: Vec<Up>,
}

impl Client {
    /// Waits for the other side to be ready.
    pub fn new(limits: Limits) -> Client {
        Client {
            limits,
            readiness: Readiness::Opening,
            said_bye: false,
            lines: Lines::new(limits.line_bytes_max),
            outstanding: Outstanding::new(NO_CALL + 1, limits.calls_max),
            unsent: VecDeque::new(),
            out: Outbox::new(),
            downs: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    fn handle_line(&mut self, now: Instant, line: &Bytes) {
        let stray = || Notice::Stray(printable(line, SHOWN_CHARS_MAX));
        let read = wire::read::<DownLine>(line);
        if self.readiness == Readiness::Opening {
            return self.handle_greeting(read.as_ref(), line);
        }
        let Some(DownLine(id, says)) = read else {
            return self.notices.push_back(stray());
        };
        if let (NO_CALL, SaysDown::Failed(failure)) = (id, &says) {
            return self.notices.push_back(Notice::Ignored(failure.message.clone()));
        }
        // Judged before the ticket is taken out: a broken answer must leave its caller among
        // the waiting, or `handle_lost` could not tell it.
        let (Some(ticket), Some(down)) = (self.outstanding.ticket(id), says.into_down()) else {
            // No fault where the caller no longer waits.
            return self.notices.push_back(stray());
        };
        match down {
            Down::Done(_) => drop(self.outstanding.take(id)),
            _ => self.outstanding.heard(now, id),
        }
        self.downs.push_back((ticket, down));
    }

    fn handle_greeting(&mut self, read: Option<&DownLine>, line: &Bytes) {
        let Some(DownLine(NO_CALL, SaysDown::Ready(1))) = read else {
            let shown = printable(line, SHOWN_CHARS_MAX);
            let message = format!("began with `{shown}` instead of `[0,{{\"ready\":1}}]`");
            return self.break_off(Failure::new(FailureKind::BrokeProtocol, message));
        };
        self.readiness = Readiness::Open;
        for Unsent { id, call, ups, .. } in std::mem::take(&mut self.unsent) {
            let says = SaysUp::of_call(&call).expect("was tried when the call was taken");
            wire::write(&mut self.out, &UpLine(id, says));
            for up in &ups {
                wire::write(&mut self.out, &UpLine(id, SaysUp::of_up(up)));
            }
        }
        if self.said_bye {
            wire::write(&mut self.out, &UpLine(NO_CALL, SaysUp::Bye));
        }
    }

    fn break_off(&mut self, failure: Failure) {
        self.readiness = Readiness::outlawed(failure);
    }

    /// Why no call can be taken, if so.
    fn refusal(&self) -> Option<Failure> {
        let unavailable = |why: String| Some(Failure::new(FailureKind::Unavailable, why));
        match &self.readiness {
            Readiness::Broken(fault) => Some(fault.failure.clone()),
            _ if self.said_bye => unavailable("the conversation was ended".to_owned()),
            _ if self.outstanding.has_room() => None,
            _ => unavailable(format!("more than {} calls at a time", self.limits.calls_max)),
        }
    }

    /// Ends a call that the other side does not end, and tells it so.
    fn give_up(&mut self, id: u64, ticket: Ticket, cancel: &Up, failure: Failure) {
        self.downs.push_back((ticket, Down::Done(Err(failure))));
        match self.unsent.iter().position(|unsent| unsent.id == id) {
            Some(at) => drop(self.unsent.remove(at)),
            None => wire::write(&mut self.out, &UpLine(id, SaysUp::of_up(cancel))),
        }
    }

    fn flow(&self) -> Flow {
        match self.readiness {
            Readiness::Broken(_) => Flow::Close,
            _ if self.limits.queue_max <= self.downs.len() => Flow::Pause,
            _ => Flow::More,
        }
    }
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        for (id, ticket) in self.outstanding.expire(now) {
            let failure = Failure::new(FailureKind::TimedOut, "no answer in time");
            self.give_up(id, ticket, &Up::Cancel(None), failure);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.outstanding.poll_timeout()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl Channel for Client {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.flow() == Flow::More {
            match self.lines.next(input) {
                Some(Ok(line)) => self.handle_line(now, &line),
                Some(Err(too_long)) => {
                    self.notices.push_back(Notice::Ignored(too_long.to_string()));
                }
                None => break,
            }
        }
        self.flow()
    }

    fn handle_eof(&mut self, _now: Instant, input: &mut BytesMut) -> Flow {
        if let Some(Ok(line)) = self.lines.last(input) {
            self.notices.push_back(Notice::Stray(printable(&line, SHOWN_CHARS_MAX)));
        }
        if !matches!(self.readiness, Readiness::Broken(_)) {
            // Callers that still wait are told by `handle_lost`: the hands may know more, such as
            // how the process ended.
            self.break_off(Failure::new(FailureKind::Gone, "closed the conversation"));
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Calling for Client {
    fn call(&mut self, _now: Instant, ticket: Ticket, call: Call) {
        debug_assert_eq!(self.outstanding.id(ticket), None, "a ticket is given out once");
        let says = match self.refusal() {
            Some(refusal) => Err(refusal),
            None => SaysUp::of_call(&call),
        };
        let says = match says {
            Ok(says) => says,
            Err(refusal) => return self.downs.push_back((ticket, Down::Done(Err(refusal)))),
        };
        let id = self.outstanding.ask(ticket, call.deadline);
        if self.readiness == Readiness::Opening {
            let ups = Vec::new();
            return self.unsent.push_back(Unsent { id, ticket, call, ups });
        }
        wire::write(&mut self.out, &UpLine(id, says));
    }

    fn up(&mut self, _now: Instant, ticket: Ticket, up: Up) {
        let Some(id) = self.outstanding.id(ticket) else {
            return;
        };
        if let Up::Cancel(_) = up {
            self.outstanding.take(id);
            let failure = Failure::new(FailureKind::Cancelled, "the caller changed its mind");
            return self.give_up(id, ticket, &up, failure);
        }
        let Some(unsent) = self.unsent.iter_mut().find(|unsent| unsent.id == id) else {
            return wire::write(&mut self.out, &UpLine(id, SaysUp::of_up(&up)));
        };
        unsent.ups.push(up);
        let bytes_max = self.limits.line_bytes_max;
        if bytes_max < unsent.ups.iter().map(Up::weight).sum() {
            self.outstanding.take(id);
            let message = format!("more than {bytes_max} bytes before the other side was ready");
            let failure = Failure::new(FailureKind::TooLarge, message);
            self.give_up(id, ticket, &Up::Cancel(None), failure);
        }
    }

    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        if !std::mem::replace(&mut self.said_bye, true) && self.readiness == Readiness::Open {
            wire::write(&mut self.out, &UpLine(NO_CALL, SaysUp::Bye));
        }
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        // Who has already gone on with its call would have to begin anew: it stays.
        let (alone, followed) = std::mem::take(&mut self.unsent)
            .into_iter()
            .partition::<VecDeque<_>, _>(|unsent| unsent.ups.is_empty());
        self.unsent = followed;
        let mut taken = Vec::with_capacity(alone.len());
        for Unsent { id, ticket, call, .. } in alone {
            self.outstanding.take(id);
            taken.push((ticket, call));
        }
        taken
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        self.unsent.clear();
        for ticket in self.outstanding.take_all() {
            self.downs.push_back((ticket, Down::Done(Err(why.clone()))));
        }
        self.break_off(why.clone());
    }
}
