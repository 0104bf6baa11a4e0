//! The executor: our end when we call an oracle (`docs/protocols/oracle.md` 4 to 6).
//!
//! It lives as long as one process of the oracle. It says when that process has broken its
//! word and how to part from it; the supervisor starts, signals and replaces processes.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use memchr::memchr;

use super::felt::Leniency;
use super::functions::{Functions, Prepared, Reading};
use super::wire;
use crate::channel::{
    Calling, Channel, Down, Farewell, Flow, Goodbye, Machine, Notice, Outbox, Readiness, Ticket, Up,
};
use crate::frame::lines::{Lines, TooLong};
use crate::json::Kind;
use crate::jsonrpc::{self, Id, Message, kind};
use crate::outstanding::{Desk, Waiting};
use crate::printable::printable;
use crate::tool::{Call, Deadline, Failure, FailureKind, Outcome, What, too_many_tools};

/// Lines that belong to nothing, between one answer and the next.
const STRAYS_MAX: u32 = 1000;
/// Calls that wait for their turn.
const WAITING_MAX: usize = 1024;
/// How much of a line is shown.
const LINE_SHOWN_MAX: usize = 200;
/// A wrong first byte: how long, and how far, its line is awaited in order to show it.
const FIRST_LINE_PATIENCE: Duration = Duration::from_millis(500);
const FIRST_LINE_SHOWN_MAX: usize = 4096;

/// What can be set about the oracle wire.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The longest line, without its newline.
    pub line_bytes_max: usize,
    /// What becomes of felts that are not below the prime.
    pub leniency: Leniency,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { line_bytes_max: 64 << 20, leniency: Leniency::Strict }
    }
}

/// Our end of one conversation with an oracle.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    functions: Functions,
    lines: Lines,
    desk: Desk,
    wrong_start: Option<WrongStart>,
    in_flight: Option<InFlight>,
    next_id: u64,
    strays: u32,
    out: Outbox,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    /// `None` once cancelled: the answer is awaited all the same, and dropped.
    ticket: Option<Ticket>,
    deadline: Deadline,
    reading: Reading,
}

/// The first byte was wrong (C5); a little more of its line is awaited, in order to show it.
#[derive(Debug)]
struct WrongStart {
    line: BytesMut,
    until: Instant,
}

impl Client {
    /// A conversation that has not begun. `functions` come from the config, if from anywhere.
    pub fn new(settings: Settings, functions: Functions) -> Client {
        Client {
            lines: Lines::new(settings.line_bytes_max),
            settings,
            functions,
            desk: Desk::new(WAITING_MAX, "this oracle"),
            wrong_start: None,
            in_flight: None,
            next_id: 0,
            strays: 0,
            out: Outbox::new(),
        }
    }

    /// The functions that are known by now.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        match &self.desk.readiness {
            Readiness::Opening => self.handle_first_line(now, line),
            Readiness::Open => match line {
                Ok(line) => self.handle_answer(&line),
                Err(too_long) => self.handle_too_long(too_long),
            },
            Readiness::Broken(_) => {}
        }
    }

    /// The first line must be `ready` (C6).
    fn handle_first_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        let line = match line {
            Ok(line) => line,
            Err(too_long) => {
                return self.break_off(
                    Farewell::Abrupt,
                    FailureKind::Unavailable,
                    too_long.to_string(),
                );
            }
        };
        let (id, method, params) = match wire::RULES.read(&line) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            Ok(Message::Notification { .. }) => {
                return self.refuse_first_line(&line, "that is a notification");
            }
            Ok(Message::Response { .. }) => {
                return self.refuse_first_line(&line, "that is a response");
            }
            Err(invalid) => return self.refuse_first_line(&line, &invalid.to_string()),
        };
        let refusal = if method != "ready" {
            Some((-32601, "expected ready request from oracle"))
        } else if !matches!(params.map(kind), None | Some(Kind::Null | Kind::Object)) {
            Some((-32602, "invalid ready request params, expected null or object"))
        } else {
            None
        };
        if let Some((code, message)) = refusal {
            jsonrpc::write_error(&mut self.out, &id, code, message, None);
            let shown = printable(&line, FIRST_LINE_SHOWN_MAX);
            let message = format!("{message}, but its first line is: {shown}");
            return self.break_off(Farewell::Patient, FailureKind::Unavailable, message);
        }
        let offered = wire::offered(params);
        let bytes = offered.iter().map(String::len).sum();
        let mut too_many = too_many_tools(offered.len(), bytes);
        for text in offered {
            // A text may hold many functions.
            too_many = too_many.or_else(|| too_many_tools(self.functions.len(), 0));
            if let Some(Failure { kind, message, .. }) = too_many {
                jsonrpc::write_error(&mut self.out, &id, -32602, &message, None);
                return self.break_off(Farewell::Patient, kind, message);
            }
            self.desk.notices.extend(self.functions.offer(&text));
        }
        wire::write_ack(&mut self.out, &id);
        self.desk.open(now, |call| call.deadline);
    }

    fn refuse_first_line(&mut self, line: &[u8], why: &str) {
        let shown = printable(line, FIRST_LINE_SHOWN_MAX);
        let message = format!("expected a ready request as first line ({why}), got: {shown}");
        self.break_off(Farewell::Abrupt, FailureKind::Unavailable, message);
    }

    /// Whatever comes behind the handshake: the answer to the call in flight, or stray.
    fn handle_answer(&mut self, line: &Bytes) {
        let Ok(Message::Response { id, result, error }) = wire::RULES.read(line) else {
            return self.stray(line);
        };
        let Some(in_flight) = &self.in_flight else {
            return self.stray(line);
        };
        let error = error.filter(|raw| kind(raw) != Kind::Null);
        // An oracle that could not read our id can only say so under the id null (I5).
        let is_ours = id.as_number() == Some(in_flight.id) || id == Id::NULL && error.is_some();
        if !is_ours {
            return self.stray(line);
        }
        let outcome = match error {
            Some(error) => Err(wire::failure(line, error)),
            None => in_flight.reading.outcome(line, result, self.settings.leniency),
        };
        self.end_in_flight(outcome);
    }

    fn handle_too_long(&mut self, too_long: TooLong) {
        if self.in_flight.is_none() {
            return self.stray(too_long.to_string().as_bytes());
        }
        let failure = Failure::new(FailureKind::TooLarge, format!("the oracle wrote a {too_long}"));
        self.end_in_flight(Err(failure));
    }

    fn end_in_flight(&mut self, outcome: Result<Outcome, Failure>) {
        self.strays = 0;
        if let Some(InFlight { ticket: Some(ticket), .. }) = self.in_flight.take() {
            self.desk.done(ticket, outcome);
        }
    }

    fn stray(&mut self, line: &[u8]) {
        if self.strays == STRAYS_MAX {
            let message = format!("more than {STRAYS_MAX} lines that answer nothing");
            return self.break_off(Farewell::Abrupt, FailureKind::BrokeProtocol, message);
        }
        self.strays += 1;
        self.desk.notice(Notice::Stray(printable(line, LINE_SHOWN_MAX)));
    }

    fn break_off(&mut self, farewell: Farewell, kind: FailureKind, message: impl Into<String>) {
        self.desk.break_off(farewell, Failure::new(kind, message));
    }

    /// One call at a time: the next goes out when the one before it is answered. Only when
    /// it is really about to be written: until then another process could still take it (I7).
    fn send_next(&mut self) {
        while self.desk.is_open() && self.in_flight.is_none() {
            let Some(Waiting { ticket, call, .. }) = self.desk.queue.pop() else { return };
            if call.what == What::Tools {
                let tools = self.functions.tools();
                self.desk.done(ticket, Ok(Outcome::Tools(tools)));
                continue;
            }
            match self.functions.prepare(&call.what) {
                Ok(Prepared { selector, calldata, reading }) => {
                    let id = self.next_id;
                    self.next_id += 1;
                    wire::write_invoke(&mut self.out, id, &selector, &calldata);
                    let ticket = Some(ticket);
                    let deadline = call.deadline;
                    self.in_flight = Some(InFlight { id, ticket, deadline, reading });
                }
                Err(failure) => self.desk.done(ticket, Err(failure)),
            }
        }
    }

    /// Keeps the beginning of a wrong first line until it can be shown.
    fn handle_wrong_start(&mut self, input: &mut BytesMut) {
        let Some(wrong) = &mut self.wrong_start else {
            return;
        };
        wrong.line.extend_from_slice(&input.split());
        let end = memchr(b'\n', &wrong.line);
        if end.is_some() || FIRST_LINE_SHOWN_MAX <= wrong.line.len() {
            self.refuse_wrong_start();
        }
    }

    fn refuse_wrong_start(&mut self) {
        let Some(wrong) = self.wrong_start.take() else {
            return;
        };
        let end = memchr(b'\n', &wrong.line).unwrap_or(wrong.line.len());
        let line = &wrong.line[..end];
        self.refuse_first_line(line, "its first byte must be `{`");
    }
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        if self.wrong_start.as_ref().is_some_and(|wrong| wrong.until <= now) {
            self.refuse_wrong_start();
        }
        self.desk.expire(now);
        let is_over = |call: &mut InFlight| {
            self.desk.give_up(&call.deadline).is_some_and(|give_up| give_up <= now)
        };
        let Some(InFlight { ticket, deadline, .. }) = self.in_flight.take_if(is_over) else {
            return;
        };
        if let Some(ticket) = ticket {
            self.desk.done(ticket, Err(deadline.missed()));
        }
        // Its late answer could be taken for the next call's: this process has to go (I9).
        let message = "stopped because a call got no answer in time";
        self.break_off(Farewell::Abrupt, FailureKind::Gone, message);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let wrong_start = self.wrong_start.as_ref().map(|wrong| wrong.until);
        let in_flight = self.in_flight.as_ref();
        let in_flight = in_flight.and_then(|call| self.desk.give_up(&call.deadline));
        [wrong_start, in_flight, self.desk.queue.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.desk.queue.weight() + self.out.len()
    }
}

impl Channel for Client {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if self.desk.readiness == Readiness::Opening && self.wrong_start.is_none() {
            match input.first() {
                None => return Flow::More,
                Some(b'{') => {}
                Some(_) => {
                    let until = now + FIRST_LINE_PATIENCE;
                    self.wrong_start = Some(WrongStart { line: BytesMut::new(), until });
                }
            }
        }
        if self.wrong_start.is_some() {
            self.handle_wrong_start(input);
        }
        while !self.desk.is_broken() {
            let Some(line) = self.lines.next(input) else {
                return Flow::More;
            };
            self.handle_line(now, line);
        }
        // What it says now is read and thrown away, so that it does not block on its way out.
        input.clear();
        Flow::More
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.refuse_wrong_start();
        if let Some(line) = self.lines.last(input) {
            self.handle_line(now, line);
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.send_next();
        out.append(&mut self.out);
    }
}

impl Calling for Client {
    fn call(&mut self, _now: Instant, ticket: Ticket, call: Call) {
        let limits = call.deadline;
        self.desk.wait(ticket, call, &limits);
    }

    fn up(&mut self, _now: Instant, ticket: Ticket, up: Up) {
        // The wire has no parts and no questions; a call is one message.
        let Up::Cancel(_) = up else { return };
        let in_flight = self.in_flight.as_mut().filter(|call| call.ticket == Some(ticket));
        match (self.desk.queue.remove(ticket), in_flight) {
            (Some(_), _) => {}
            (None, Some(in_flight)) => in_flight.ticket = None,
            (None, None) => return,
        }
        self.desk.done(ticket, Err(Failure::cancelled()));
    }

    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        if let Some(in_flight) = &mut self.in_flight
            && let Some(ticket) = in_flight.ticket.take()
        {
            self.desk.done(ticket, Err(Failure::cancelled()));
        }
        self.desk.lost(&Failure::cancelled());
        if self.desk.is_open() {
            wire::write_shutdown(&mut self.out);
        }
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.desk.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.desk.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        self.desk.take_unsent()
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        if let Some(ticket) = self.in_flight.take().and_then(|in_flight| in_flight.ticket) {
            self.desk.done(ticket, Err(why.clone()));
        }
        self.desk.lost(why);
    }
}
