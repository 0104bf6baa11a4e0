//! The answering end: says that it is ready, hands calls out and writes what is said to them.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use toolbus_proto::frame::lines::Lines;
use toolbus_proto::printable::printable;
use toolbus_proto::tool::{Failure, FailureKind};

use super::wire::{self, DownLine, SaysDown, SaysUp, UpLine};
use super::{Limits, NO_CALL, SHOWN_CHARS_MAX};

/// The answering end of a plain wire.
#[derive(Debug)]
pub struct Server {
    limits: Limits,
    state: ServerState,
    lines: Lines,
    /// The calls that run, by the number the other side gave them.
    tickets: HashMap<u64, Ticket>,
    /// The other way round.
    ids: HashMap<Ticket, u64>,
    /// A number may come again, a ticket does not: a late reply must not meet the next call.
    next_ticket: u64,
    out: Outbox,
    ups: VecDeque<(Ticket, Asked)>,
    notices: VecDeque<Notice>,
}

#[derive(Debug)]
enum ServerState {
    /// Calls may come.
    Open,
    /// The other side said goodbye: no call will come, but more of those that run.
    Finishing,
    /// Nothing will come, but answers are owed.
    Deaf,
    Ended(Ended),
}

impl Server {
    /// Says that it is ready.
    pub fn new(limits: Limits) -> Server {
        let mut out = Outbox::new();
        wire::write(&mut out, &DownLine(NO_CALL, SaysDown::Ready(1)));
        Server {
            limits,
            state: ServerState::Open,
            lines: Lines::new(limits.line_bytes_max),
            tickets: HashMap::new(),
            ids: HashMap::new(),
            next_ticket: 0,
            out,
            ups: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    fn handle_line(&mut self, now: Instant, line: &Bytes) {
        let Some(UpLine(id, says)) = wire::read(line) else {
            return self.refuse(NO_CALL, FailureKind::BrokeProtocol, "not a line of this wire");
        };
        if let SaysUp::Bye = says {
            return self.finish(ServerState::Finishing);
        }
        match (self.tickets.get(&id), says.into_asked(now)) {
            (_, None) => self.refuse(NO_CALL, FailureKind::BrokeProtocol, "a value that is none"),
            (None, Some(Asked::Call(_))) if self.limits.calls_max <= self.tickets.len() => {
                let why = format!("more than {} calls at a time", self.limits.calls_max);
                self.refuse(id, FailureKind::Unavailable, &why);
            }
            (None, Some(asked @ Asked::Call(_))) if id != NO_CALL && self.is_open() => {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.tickets.insert(id, ticket);
                self.ids.insert(ticket, id);
                self.ups.push_back((ticket, asked));
            }
            (_, Some(Asked::Call(_))) => {
                // A number twice, none at all, or behind a goodbye: whose answer would be
                // whose? There is no way to go on.
                let why = format!("call {id} cannot be asked now");
                self.state = ServerState::Ended(Ended::Broke(why));
            }
            // No fault: what is said about a call may cross its answer on the way.
            (None, Some(Asked::Up(_))) => {
                self.notices.push_back(Notice::Stray(printable(line, SHOWN_CHARS_MAX)));
            }
            (Some(&ticket), Some(asked @ Asked::Up(_))) => {
                if let Asked::Up(Up::Cancel(_)) = asked {
                    self.forget(ticket);
                }
                self.ups.push_back((ticket, asked));
            }
        }
    }

    fn refuse(&mut self, id: u64, kind: FailureKind, why: &str) {
        let says = SaysDown::failed(&Failure::new(kind, why));
        wire::write(&mut self.out, &DownLine(id, says));
    }

    /// The call is over: nothing that is said to it is written any more.
    fn forget(&mut self, ticket: Ticket) {
        if let Some(id) = self.ids.remove(&ticket) {
            self.tickets.remove(&id);
        }
        if !self.is_open() {
            self.finish(ServerState::Finishing);
        }
    }

    /// No call will come: the end, as soon as no answer is owed.
    fn finish(&mut self, until_then: ServerState) {
        self.state = match (&self.state, until_then) {
            (ServerState::Ended(_), _) => return,
            _ if self.ids.is_empty() => ServerState::Ended(Ended::Well),
            (ServerState::Deaf, _) => ServerState::Deaf,
            (_, until_then) => until_then,
        };
    }

    fn is_open(&self) -> bool {
        matches!(self.state, ServerState::Open)
    }

    fn flow(&self) -> Flow {
        match self.state {
            ServerState::Ended(_) => Flow::Close,
            ServerState::Deaf => Flow::Pause,
            _ if self.limits.queue_max <= self.ups.len() => Flow::Pause,
            ServerState::Open | ServerState::Finishing => Flow::More,
        }
    }
}

impl Machine for Server {
    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl Channel for Server {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        while self.flow() == Flow::More {
            match self.lines.next(input) {
                Some(Ok(line)) => self.handle_line(now, &line),
                Some(Err(too_long)) => {
                    self.refuse(NO_CALL, FailureKind::TooLarge, &too_long.to_string());
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
        self.finish(ServerState::Deaf);
        self.flow()
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        out.append(&mut self.out);
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, _now: Instant, ticket: Ticket, down: Down) -> Flow {
        if let Some(&id) = self.ids.get(&ticket) {
            wire::write(&mut self.out, &DownLine(id, SaysDown::of(&down)));
            if let Down::Done(_) = down {
                self.forget(ticket);
            }
        }
        self.flow()
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.state {
            ServerState::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}
