//! The caller: our end of a connection on which we call the peer's methods (`docs/protocols/mediocre.md` §5).
//!
//! One call at a time; others wait in line. A response may come before the call's own stream
//! is complete: then that is cut short, and the connection can be used again. Whatever else
//! goes wrong ends the connection.

mod exchange;
mod http;

use std::time::{Duration, Instant};

use bytes::BytesMut;

use self::exchange::Carriage;
use super::decode::{Decoder, Direction, Reading};
use super::encode::{self, Unwritable, Writer};
use super::event::{FramingError, Head, Message, Said, Tail};
use super::frames::Random;
use super::http::AskingHead;
use super::methods::{Methods, Request};
use super::printed;
use super::queue::{Queue, piece};
use super::translate;
use crate::channel::{
    Calling, Channel, Down, Farewell, Flow, Goodbye, Machine, Notice, Outbox, Proof, Readiness,
    Ticket, Up,
};
use crate::json::Json;
use crate::outstanding::{Desk, Waiting};
use crate::printable::printable;
use crate::tool::{
    Call, Code, Deadline, Failure, FailureKind, Outcome, Part, What, too_many_tools,
};

pub use self::http::HttpClient;

/// How long the end of a stream that was cut short may take to be written.
const CUT_PATIENCE: Duration = Duration::from_secs(1);
/// How many calls wait for their turn.
const WAITING_MAX: usize = 1024;
/// How much is shown of what answers nothing.
const SHOWN_CHARS_MAX: usize = 200;

/// Our end of one connection, or of one exchange.
#[derive(Debug)]
pub struct Client<C> {
    decoder: Decoder,
    writer: Writer<C>,
    methods: Methods,
    carriage: Carriage,
    /// The head of the exchange that is to be begun.
    head: Option<Box<AskingHead>>,
    /// There is an exchange.
    was_begun: bool,
    /// The server told its methods.
    has_learned: bool,
    /// The server has answered as one does.
    has_answered: bool,
    desk: Desk<Queue<Down>>,
    stage: CallingState,
    /// The present, as far as was told.
    now: Instant,
    /// So many bytes have arrived.
    received: u64,
    out: Outbox,
}

#[derive(Debug)]
enum CallingState {
    Free,
    Asking(Asking),
    /// The call is over; the end of its stream is being written, or that of its exchange read.
    Cutting {
        until: Instant,
    },
}

#[derive(Debug)]
struct Asking {
    ticket: Ticket,
    deadline: Deadline,
    /// When a byte that means something moved last.
    moved: Instant,
    purpose: Purpose,
    /// The caller wants to see what is said.
    wants_events: bool,
    input: Input,
    /// A failure in the stream of the response; it is told behind the tail.
    failed: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Call,
    /// The answer tells which methods there are.
    List,
}

#[derive(Debug)]
enum Input {
    /// More of the call's stream follows; if it ends without a value it ends with this one.
    Coming {
        tail: Option<Json>,
    },
    Whole,
}

impl<C: Random> Client<C> {
    /// A connection that was just opened.
    pub fn new(now: Instant, reading: Reading, methods: Methods, chance: C) -> Client<C> {
        Client {
            decoder: Decoder::new(Direction::Response, reading),
            writer: Writer::new(chance),
            methods,
            carriage: Carriage::Connection,
            head: None,
            was_begun: false,
            has_learned: false,
            has_answered: false,
            desk: Desk::ready(WAITING_MAX, "this connection"),
            stage: CallingState::Free,
            now,
            received: 0,
            out: Outbox::new(),
        }
    }

    /// Would a call go out at once?
    pub fn is_free(&self) -> bool {
        self.desk.is_open()
            && matches!(self.stage, CallingState::Free)
            && self.desk.queue.is_empty()
    }

    /// What is known of the methods by now, for the next connection.
    pub fn methods(&self) -> &Methods {
        &self.methods
    }

    /// Has the server told its methods since this was last asked?
    fn has_learned(&mut self) -> bool {
        std::mem::take(&mut self.has_learned)
    }

    /// Only when it is really about to be written: until then another connection could still
    /// take the call.
    fn start_next(&mut self) {
        while self.desk.is_open()
            && matches!(self.stage, CallingState::Free)
            && let Some(Waiting { ticket, call, ups, .. }) = self.desk.queue.pop()
        {
            let purpose = if call.what == What::Tools { Purpose::List } else { Purpose::Call };
            let (deadline, trace) = (call.deadline, call.trace.clone());
            let wants_events = call.options.events;
            if let (Purpose::List, Some(tools)) = (purpose, self.methods.tools()) {
                self.desk.done(ticket, Ok(Outcome::Tools(tools)));
                continue;
            }
            let mut request = match self.methods.request(call) {
                Ok(request) => request,
                Err(failure) => {
                    self.desk.done(ticket, Err(failure));
                    continue;
                }
            };
            if request.debug.is_none() {
                request.debug = trace.as_ref().map(translate::debug);
            }
            let input = match request.goes_on {
                true => Input::Coming { tail: request.tail.clone() },
                false => Input::Whole,
            };
            self.stage = CallingState::Asking(Asking {
                ticket,
                deadline,
                moved: self.now,
                purpose,
                wants_events,
                input,
                failed: None,
            });
            match self.write_request(&request) {
                Ok(()) => {
                    self.head_exchange(&request);
                    ups.into_iter().for_each(|up| self.go_on(ticket, up));
                }
                Err(unwritable) => self.drop_connection(ticket, unwritable),
            }
        }
    }

    fn write_request(&mut self, request: &Request) -> Result<(), Unwritable> {
        let Request { method, args, debug, stream, elements, tail, goes_on } = request;
        encode::call(&mut self.out, method, args.as_ref(), debug.as_ref(), *stream);
        for element in elements {
            self.writer.part(&mut self.out, element)?;
        }
        if stream.is_some() && !goes_on {
            self.writer.tail(&mut self.out, tail.as_ref())?;
        }
        Ok(())
    }

    /// More of the call that is being asked.
    fn go_on(&mut self, ticket: Ticket, up: Up) {
        let now = self.now;
        let CallingState::Asking(asking) = &mut self.stage else { return };
        if let Up::Cancel(_) = up {
            return self.give_up(ticket, Failure::cancelled());
        }
        let Input::Coming { tail } = &mut asking.input else { return };
        asking.moved = now;
        let written = match up {
            Up::Part(part) => self.writer.part(&mut self.out, &part),
            Up::End(value) => {
                let value = value.or_else(|| tail.take());
                asking.input = Input::Whole;
                self.writer.tail(&mut self.out, value.as_ref())
            }
            // The wire has no questions.
            Up::Answer(..) | Up::Cancel(_) => Ok(()),
        };
        if let Err(unwritable) = written {
            self.drop_connection(ticket, unwritable);
        }
    }

    /// Not a byte more: the source of the data could have closed the blob, or a length that
    /// was announced cannot be kept.
    fn drop_connection(&mut self, ticket: Ticket, unwritable: Unwritable) {
        let mut failure = Failure::new(FailureKind::Failed, unwritable.to_string());
        if unwritable == Unwritable::FrameCollision {
            failure.code = Some(Code::Word("frame_collision".to_owned()));
        }
        self.give_up(ticket, failure);
    }

    /// Ends the call that is being asked, and with it the connection: a tail would be no
    /// cancel, the handler could act on it.
    fn give_up(&mut self, ticket: Ticket, failure: Failure) {
        self.desk.done(ticket, Err(failure));
        self.stage = CallingState::Free;
        let why = "the connection was closed to give up a call";
        self.break_off(Farewell::Abrupt, Failure::new(FailureKind::Gone, why));
    }

    fn break_off(&mut self, farewell: Farewell, failure: Failure) {
        self.desk.break_off(farewell, failure);
        self.out = Outbox::new();
    }

    /// Takes the next event, if there is one and it can be taken. Tells whether it did.
    fn step(&mut self, input: &mut BytesMut) -> bool {
        if !self.desk.is_open() || self.desk.downs.is_full() {
            return false;
        }
        if !matches!(self.stage, CallingState::Asking(_)) {
            self.handle_stray(input);
            return false;
        }
        match self.decoder.next(input) {
            None => return false,
            Some(Err(error)) => self.handle_broken(&error),
            Some(Ok(event)) => {
                if !event.notes.is_empty() {
                    let notes = event.notes.iter().map(|note| Notice::Noted(note.code()));
                    self.desk.notices.extend(notes);
                }
                self.show(|| printed::event(&event).into_iter().chain(printed::notes(&event)));
                self.handle_said(event.said);
            }
        }
        true
    }

    /// Between calls only blanks may come.
    fn handle_stray(&mut self, input: &mut BytesMut) {
        let shown = printable(input.trim_ascii(), SHOWN_CHARS_MAX);
        let is_quiet = self.decoder.next(input).is_none() && input.is_empty();
        if !is_quiet {
            self.desk.notices.push_back(Notice::Stray(shown));
            let why = "wrote a response that nobody had asked for";
            self.break_off(Farewell::Abrupt, Failure::new(FailureKind::BrokeProtocol, why));
        }
    }

    /// Shows what was said to a caller who wants to see it.
    fn show<L: IntoIterator<Item = String>>(&mut self, lines: impl FnOnce() -> L) {
        if let CallingState::Asking(Asking { ticket, wants_events: true, .. }) = self.stage {
            for line in lines() {
                self.desk.downs.push(ticket, Down::Log(Json::from_trusted(line)));
            }
        }
    }

    fn handle_broken(&mut self, error: &FramingError) {
        if let Some(refused) = self.refused(None) {
            return self.break_with(refused);
        }
        self.show(|| [printed::error(error)]);
        let what = format!("{} at {}", error.code, error.offset);
        self.desk.notices.push_back(Notice::Broke(what));
        self.break_with(translate::broke(error));
    }

    /// What came is no response: the call fails, and nothing can follow.
    fn break_with(&mut self, failure: Failure) {
        if let CallingState::Asking(Asking { ticket, .. }) = self.stage {
            self.desk.done(ticket, Err(failure.clone()));
        }
        self.stage = CallingState::Free;
        self.break_off(Farewell::Abrupt, failure);
    }

    fn handle_said(&mut self, said: Said) {
        if let Said::Head(head) = &said
            && let Head { is_stream, message: Message::Response { err, .. }, .. } = &**head
            && let Some(refused) = self.refused(err.as_ref().filter(|_| !is_stream))
        {
            return self.break_with(refused);
        }
        if self.decoder.is_of_another_wire() {
            return self.break_with(translate::of_another_wire());
        }
        self.has_answered = true;
        let CallingState::Asking(asking) = &mut self.stage else { return };
        let ticket = asking.ticket;
        let is_told = asking.purpose == Purpose::Call && asking.failed.is_none();
        let down = match said {
            Said::Head(head) => {
                let Head { is_stream, message, .. } = *head;
                let Message::Response { res, err } = message else { return };
                let failed = err.as_ref().map(translate::failure);
                match (failed, is_stream) {
                    // What a peer announces is no promise of ours.
                    (None, true) => Down::Begin { head: res, parts: None },
                    (Some(failure), true) => {
                        asking.failed = Some(failure);
                        return;
                    }
                    (None, false) => {
                        let value = res.unwrap_or(Json::null());
                        return self.complete(Ok(Outcome::Value(value)));
                    }
                    (Some(failure), false) => {
                        // Who takes no call of ours says nothing of its methods.
                        if err.as_ref().is_some_and(translate::turns_away) {
                            asking.purpose = Purpose::Call;
                        }
                        let failure = self.told_of_credentials(failure);
                        return self.complete(Err(failure));
                    }
                }
            }
            Said::Value(value) => Down::Part(Part::Json(value)),
            Said::Piece(data) => Down::Part(piece(data, false)),
            Said::BlobEnd if is_told => return self.desk.downs.end_blob(ticket),
            Said::Tail(tail) => {
                let Tail { value, err, .. } = *tail;
                let failed = asking.failed.take();
                let failed = failed.or_else(|| err.as_ref().map(translate::failure));
                return self.complete(failed.map_or(Ok(Outcome::End(value)), Err));
            }
            Said::BlobBegin | Said::BlobEnd | Said::MethodMissing { .. } => return,
        };
        if is_told {
            self.desk.downs.push(ticket, down);
        }
    }

    /// The response is complete, and with it the call, whatever follows on the wire.
    fn complete(&mut self, outcome: Result<Outcome, Failure>) {
        let stage = std::mem::replace(&mut self.stage, CallingState::Free);
        let CallingState::Asking(Asking { ticket, purpose, input, .. }) = stage else { return };
        let outcome = match purpose {
            Purpose::Call => outcome,
            Purpose::List => {
                let answer = match &outcome {
                    Ok(Outcome::Value(answer)) => Some(answer),
                    _ => None,
                };
                self.has_learned = true;
                let bytes = answer.map_or(0, |answer| answer.as_bytes().len());
                let tools = self.methods.learn(answer);
                match too_many_tools(tools.len(), bytes) {
                    Some(failure) => Err(failure),
                    None => Ok(Outcome::Tools(tools)),
                }
            }
        };
        self.desk.done(ticket, outcome);
        let is_over = match (self.carriage, input) {
            (Carriage::Connection, Input::Whole) => return,
            (Carriage::Connection, Input::Coming { .. }) => self.writer.cut_short(&mut self.out),
            // Read to its end, the connection can be used again.
            (Carriage::Exchange { .. }, Input::Whole) => true,
            // A caller that is answered early closes.
            (Carriage::Exchange { .. }, Input::Coming { .. }) => false,
        };
        if is_over {
            self.stage = CallingState::Cutting { until: self.now + CUT_PATIENCE };
        } else {
            self.writer.reset();
            let why = "the connection was closed inside a stream that was no longer wanted";
            self.break_off(Farewell::Abrupt, Failure::new(FailureKind::Gone, why));
        }
    }

    fn flow(&self) -> Flow {
        match self.desk.readiness {
            Readiness::Broken(_) => Flow::Close,
            _ if self.desk.downs.is_full() => Flow::Pause,
            _ => Flow::More,
        }
    }

    /// When the call that is being asked, or the end of it, has taken long enough.
    fn give_up_at(&self) -> Option<Instant> {
        match &self.stage {
            CallingState::Free => None,
            CallingState::Asking(asking) => asking.deadline.instant(asking.moved),
            CallingState::Cutting { until } => Some(*until),
        }
    }
}

impl<C: Random> Machine for Client<C> {
    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.desk.expire(now);
        if self.give_up_at().is_none_or(|at| now < at) {
            return;
        }
        match &self.stage {
            CallingState::Free => {}
            CallingState::Asking(Asking { ticket, deadline, .. }) => {
                self.give_up(*ticket, deadline.missed());
            }
            CallingState::Cutting { .. } => {
                let why = "the end of a stream that was cut short could not be written in time";
                self.break_off(Farewell::Abrupt, Failure::new(FailureKind::Gone, why));
                self.stage = CallingState::Free;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.desk.queue.poll_timeout().into_iter().chain(self.give_up_at()).min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.desk.queue.weight() + self.out.len()
    }
}

impl<C: Random> Channel for Client<C> {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.now = now;
        let received = self.decoder.offset() + input.len() as u64;
        if self.received < received {
            let count = (received - self.received) as usize;
            self.received = received;
            let came = &input[input.len().saturating_sub(count)..];
            if let CallingState::Asking(asking) = &mut self.stage
                && self.decoder.is_progress(came)
            {
                asking.moved = now;
            }
        }
        while self.step(input) {}
        if !self.desk.is_open() {
            input.clear();
        }
        self.flow()
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        match self.handle_bytes(now, input) {
            Flow::More => {}
            flow => return flow,
        }
        match self.decoder.end(input) {
            Err(error) => self.handle_broken(&error),
            Ok(())
                if matches!(self.stage, CallingState::Asking(_))
                    && let Some(refused) = self.refused(None) =>
            {
                self.break_with(refused);
            }
            // The callers that still wait are told by `handle_lost`: the hands may know more, such as
            // how a process ended.
            Ok(()) => {
                let why = "the server closed the connection without an answer";
                let failure = Failure::new(FailureKind::Gone, why);
                self.break_off(Farewell::Patient, failure);
            }
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.start_next();
        out.append(&mut self.out);
    }

    fn heeds_sent(&self) -> bool {
        true
    }

    fn handle_sent(&mut self, now: Instant) {
        self.now = now;
        match &mut self.stage {
            CallingState::Asking(asking) => asking.moved = now,
            CallingState::Cutting { .. }
                if self.carriage == Carriage::Connection && self.out.is_empty() =>
            {
                self.stage = CallingState::Free;
            }
            CallingState::Cutting { .. } | CallingState::Free => {}
        }
    }

    /// A request ends with its call.
    fn is_finished(&self) -> bool {
        matches!(self.carriage, Carriage::Exchange { .. }) && self.is_said()
    }
}

impl<C: Random> Calling for Client<C> {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.now = now;
        if self.desk.is_broken() {
            let failure = Failure::new(FailureKind::Unavailable, "the connection is closed");
            return self.desk.done(ticket, Err(failure));
        }
        // A connection is opened for its calls: that takes of their time.
        let give_up = call.deadline.instant(call.deadline.asked);
        if let Err(failure) = self.desk.queue.push(ticket, call, give_up) {
            self.desk.done(ticket, Err(failure));
        }
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.now = now;
        match &self.stage {
            CallingState::Asking(asking) if asking.ticket == ticket => self.go_on(ticket, up),
            _ => {
                if let Some(failure) = self.desk.queue.up(ticket, up) {
                    self.desk.done(ticket, Err(failure));
                }
            }
        }
    }

    fn close(&mut self, now: Instant, _patience: Duration) -> Goodbye {
        let why = Failure::new(FailureKind::Unavailable, "the connection was closed");
        self.handle_lost(now, &Failure::cancelled());
        self.break_off(Farewell::Patient, why);
        Goodbye::Said
    }

    #[inline]
    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.desk.downs.pop()
    }

    fn readiness(&self) -> &Readiness {
        &self.desk.readiness
    }

    fn proof(&self) -> Proof {
        match &self.stage {
            _ if self.has_answered => Proof::Ready,
            CallingState::Asking(Asking { purpose: Purpose::List, .. }) => Proof::Awaited,
            _ => Proof::None,
        }
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        let unsent = self.desk.queue.take_unfollowed().into_iter();
        unsent.map(|Waiting { ticket, call, .. }| (ticket, call)).collect()
    }

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        self.now = now;
        if let CallingState::Asking(Asking { ticket, .. }) = self.stage {
            self.desk.done(ticket, Err(why.clone()));
        }
        self.stage = CallingState::Free;
        self.desk.lost(why);
        if self.desk.is_open() {
            self.break_off(Farewell::Abrupt, why.clone());
        }
    }
}
