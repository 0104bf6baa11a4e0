//! The server: our end of a connection on which others call our tools (`docs/protocols/mediocre.md` §5).
//!
//! Calls are answered one at a time and in their order, since nothing on the wire names them.
//! Behind a call that is complete one event is read ahead, so that a broken peer is noticed;
//! the rest stays where it was read to.

mod exchange;
mod http;
mod reply;
mod settings;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use self::reply::{Replied, Reply};
use super::decode::{Decoder, Direction};
use super::encode::{self, Writer};
use super::event::{Event, FramingError, Head, Message, Said};
use super::frames::Random;
use super::queue::{Asking, Queue, piece};
use super::translate::{self, TOOLS};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::tool::{Call, Part, ToolName, What};

pub use exchange::Exchange;
pub use http::HttpServer;
pub use settings::ServerSettings;

/// How long, and how far, is read on after our last byte: an answer under way must not be
/// destroyed by a reset.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: u64 = 1 << 20;
/// While so much waits to be written no further call is taken: a peer that asks and does not read
/// must not fill our memory with answers.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// Our end of one connection.
#[derive(Debug)]
pub struct Server<C> {
    settings: ServerSettings,
    decoder: Decoder,
    writer: Writer<C>,
    stage: ServingState,
    /// What was read behind a call that is not answered yet.
    ahead: Option<Result<Event, FramingError>>,
    /// So many bytes have arrived.
    received: u64,
    /// So many of them were thrown away unread.
    discarded: u64,
    next_ticket: u64,
    ups: Queue<Asking>,
    notices: VecDeque<Notice>,
    out: Outbox,
    /// So many bytes were handed out and may not have been written.
    unsent: usize,
}

#[derive(Debug)]
enum ServingState {
    /// A call may come.
    Listening {
        since: Instant,
    },
    Answering(Answering),
    /// The answer is out and the rest of the call is not in; bounded once it is written.
    Draining {
        bound: Option<Bound>,
    },
    /// Nothing more is written, and what comes is thrown away.
    Lingering {
        bound: Bound,
        ended: Ended,
    },
    Over(Ended),
}

#[derive(Debug)]
struct Answering {
    ticket: Ticket,
    input: Input,
    reply: Reply,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Coming,
    Whole,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    until: Instant,
    received_max: u64,
}

impl<C: Random> Server<C> {
    /// A connection that was just accepted.
    pub fn new(now: Instant, settings: ServerSettings, chance: C) -> Server<C> {
        Server {
            settings,
            decoder: Decoder::new(Direction::Call, settings.reading),
            writer: Writer::new(chance),
            stage: ServingState::Listening { since: now },
            ahead: None,
            received: 0,
            discarded: 0,
            next_ticket: 0,
            ups: Queue::default(),
            notices: VecDeque::new(),
            out: Outbox::new(),
            unsent: 0,
        }
    }

    /// Takes the next event, if there is one and it can be taken. Tells whether it did.
    fn step(&mut self, now: Instant, input: &mut BytesMut) -> bool {
        match self.stage {
            ServingState::Listening { .. } if self.is_behind() => return false,
            ServingState::Listening { .. } => {
                match self.ahead.take().or_else(|| self.read(input)) {
                    Some(next) => self.handle_message(now, next),
                    None => return false,
                }
            }
            ServingState::Answering(Answering { ticket, input: Input::Coming, reply }) => {
                if !self.ups.takes_more() {
                    return false;
                }
                match self.read(input) {
                    Some(Ok(event)) => self.handle_element(ticket, event.said),
                    Some(Err(error)) => self.handle_broken_input(now, ticket, reply, &error),
                    None => return false,
                }
            }
            ServingState::Answering(_) => {
                if self.ahead.is_none() {
                    self.ahead = self.read(input);
                }
                return false;
            }
            ServingState::Draining { .. } => match self.read(input) {
                Some(next) => self.handle_drained(now, next),
                None if self.decoder.is_between() => {
                    self.stage = ServingState::Listening { since: now }
                }
                None => return false,
            },
            ServingState::Lingering { .. } | ServingState::Over(_) => {
                self.discarded += input.len() as u64;
                input.clear();
                return false;
            }
        }
        true
    }

    fn read(&mut self, input: &mut BytesMut) -> Option<Result<Event, FramingError>> {
        let next = self.decoder.next(input)?;
        match &next {
            Ok(event) if event.notes.is_empty() => {}
            Ok(event) => {
                let notes = event.notes.iter().map(|note| Notice::Noted(note.code()));
                self.notices.extend(notes);
            }
            Err(error) => self.notice_broken(error),
        }
        Some(next)
    }

    fn notice_broken(&mut self, error: &FramingError) {
        let what = format!("{} at {}", error.code, error.offset);
        self.notices.push_back(Notice::Broke(what));
    }

    fn handle_message(&mut self, now: Instant, next: Result<Event, FramingError>) {
        match next.map(|event| event.said) {
            Ok(Said::Head(head)) => self.handle_head(now, *head),
            Ok(Said::MethodMissing { is_stream }) => {
                let missing = translate::method_missing();
                encode::failure(&mut self.out, &missing);
                self.notices.push_back(Notice::Refused(missing.msg));
                let input = if is_stream { Input::Coming } else { Input::Whole };
                self.end_call(now, input);
            }
            // Between messages a decoder says nothing else.
            Ok(_) => {}
            Err(error) => {
                encode::failure(
                    &mut self.out,
                    &translate::protocol_error(&error, &self.settings.reading),
                );
                self.finish(now, Ended::Broke(error.to_string()));
            }
        }
    }

    fn handle_head(&mut self, now: Instant, head: Head) {
        let input = if head.is_stream { Input::Coming } else { Input::Whole };
        let Some(call) = call_of(now, head, &self.settings) else { return };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.ups.push(ticket, Asking::Call(Box::new(call)));
        self.stage = ServingState::Answering(Answering { ticket, input, reply: Reply::Due });
    }

    fn handle_element(&mut self, ticket: Ticket, said: Said) {
        if let (Said::Tail(_), ServingState::Answering(answering)) = (&said, &mut self.stage) {
            answering.input = Input::Whole;
        }
        element(&mut self.ups, ticket, said);
    }

    fn handle_broken_input(
        &mut self,
        now: Instant,
        ticket: Ticket,
        reply: Reply,
        error: &FramingError,
    ) {
        self.ups.push(ticket, Asking::Up(Up::Cancel(None)));
        if reply == Reply::Due {
            encode::failure(
                &mut self.out,
                &translate::protocol_error(error, &self.settings.reading),
            );
        }
        self.finish(now, Ended::Broke(error.to_string()));
    }

    fn handle_drained(&mut self, now: Instant, next: Result<Event, FramingError>) {
        match next {
            Ok(Event { said: Said::Tail(_), .. }) => {
                self.stage = ServingState::Listening { since: now }
            }
            // Behind a stream that was passed over without a word.
            Ok(event @ Event { said: Said::Head(_) | Said::MethodMissing { .. }, .. }) => {
                self.stage = ServingState::Listening { since: now };
                self.ahead = Some(Ok(event));
            }
            Ok(_) => {}
            Err(error) => self.finish(now, Ended::Broke(error.to_string())),
        }
    }

    /// The response is complete.
    fn end_call(&mut self, now: Instant, input: Input) {
        self.stage = match input {
            Input::Coming => {
                self.decoder.drain();
                ServingState::Draining { bound: None }
            }
            Input::Whole => ServingState::Listening { since: now },
        };
    }

    /// Nothing more is written; what was, must arrive.
    fn finish(&mut self, now: Instant, ended: Ended) {
        let bound = Bound { until: now + LINGER, received_max: self.received + LINGER_BYTES_MAX };
        self.ahead = None;
        self.stage = ServingState::Lingering { bound, ended };
    }

    /// The bytes end where no call is whole, or between calls.
    fn end_inside(&mut self, input: &BytesMut) {
        let ended = match self.decoder.end(input) {
            Ok(()) => Ended::Well,
            Err(error) => {
                self.notice_broken(&error);
                Ended::Broke(error.to_string())
            }
        };
        self.stage = ServingState::Over(ended);
    }

    fn is_behind(&self) -> bool {
        UNSENT_BYTES_MAX <= self.unsent + self.out.len()
    }

    fn flow(&self, input: &BytesMut) -> Flow {
        match &self.stage {
            ServingState::Over(_) => Flow::Close,
            ServingState::Listening { .. } if self.is_behind() => Flow::Pause,
            ServingState::Answering(Answering { input: Input::Coming, .. })
                if !self.ups.takes_more() =>
            {
                Flow::Pause
            }
            ServingState::Answering(Answering { input: Input::Whole, .. })
                if self.settings.ahead_bytes_max <= input.len() =>
            {
                Flow::Pause
            }
            _ => Flow::More,
        }
    }

    fn bound(&self) -> Option<Bound> {
        match &self.stage {
            ServingState::Draining { bound } => *bound,
            ServingState::Lingering { bound, .. } => Some(*bound),
            ServingState::Listening { .. } | ServingState::Answering(_) | ServingState::Over(_) => {
                None
            }
        }
    }

    /// Too much came, or it took too long.
    fn pass_bound(&mut self, now: Instant) {
        match &self.stage {
            ServingState::Draining { .. } => self.finish(now, Ended::Well),
            ServingState::Lingering { ended, .. } => self.stage = ServingState::Over(ended.clone()),
            ServingState::Listening { .. } | ServingState::Answering(_) | ServingState::Over(_) => {
            }
        }
    }
}

/// The call that a head asks for.
fn call_of(now: Instant, head: Head, settings: &ServerSettings) -> Option<Call> {
    let Message::Call { method, args } = head.message else { return None };
    let what = match &*method {
        TOOLS => What::Tools,
        _ => What::Tool { name: ToolName::new(method), args },
    };
    let mut call = Call::of(now, what);
    call.deadline.quiet = Some(settings.call_timeout);
    call.trace = head.debug.as_ref().and_then(translate::trace);
    call.debug = head.debug.map(Box::new);
    call.options.sends_parts = head.is_stream;
    Some(call)
}

/// Passes on what was said in the stream of a call.
fn element(ups: &mut Queue<Asking>, ticket: Ticket, said: Said) {
    let up = match said {
        Said::Value(value) => Up::Part(Part::Json(value)),
        Said::Piece(data) => Up::Part(piece(data, false)),
        Said::BlobEnd => return ups.end_blob(ticket),
        Said::Tail(tail) => Up::End(tail.value),
        // A blob is told of with its first piece.
        Said::BlobBegin | Said::Head(_) | Said::MethodMissing { .. } => return,
    };
    ups.push(ticket, Asking::Up(up));
}

impl<C: Random> Machine for Server<C> {
    fn handle_timeout(&mut self, now: Instant) {
        match &self.stage {
            ServingState::Listening { since } if *since + self.settings.idle_timeout <= now => {
                self.stage = ServingState::Over(Ended::Well);
            }
            _ if self.bound().is_some_and(|bound| bound.until <= now) => self.pass_bound(now),
            _ => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.stage {
            ServingState::Listening { since } => Some(*since + self.settings.idle_timeout),
            _ => self.bound().map(|bound| bound.until),
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl<C: Random> Channel for Server<C> {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        let received = self.decoder.offset() + self.discarded + input.len() as u64;
        if self.received < received {
            self.received = received;
            if let ServingState::Listening { since } = &mut self.stage {
                *since = now;
            }
        }
        while self.step(now, input) {}
        if self.bound().is_some_and(|bound| bound.received_max < self.received) {
            self.pass_bound(now);
        }
        self.flow(input)
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if let Flow::Pause = self.handle_bytes(now, input) {
            return Flow::Pause;
        }
        match &self.stage {
            // What came before the end is answered first; the hands come back when it is.
            ServingState::Answering(Answering { input: Input::Whole, .. }) => return Flow::Pause,
            ServingState::Answering(Answering { ticket, .. }) => {
                // The caller is gone: nothing is written for it.
                self.ups.push(*ticket, Asking::Up(Up::Cancel(None)));
                self.end_inside(input);
            }
            ServingState::Listening { .. } => self.end_inside(input),
            ServingState::Draining { .. } => self.stage = ServingState::Over(Ended::Well),
            ServingState::Lingering { ended, .. } => self.stage = ServingState::Over(ended.clone()),
            ServingState::Over(_) => {}
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.unsent += self.out.len();
        out.append(&mut self.out);
    }

    fn heeds_sent(&self) -> bool {
        true
    }

    fn handle_sent(&mut self, now: Instant) {
        self.unsent = 0;
        if let ServingState::Draining { bound: bound @ None } = &mut self.stage
            && self.out.is_empty()
        {
            let until = now + self.settings.drain_timeout;
            let received_max = self.received + self.settings.drain_bytes_max;
            *bound = Some(Bound { until, received_max });
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.stage, ServingState::Lingering { .. } | ServingState::Over(_))
    }
}

impl<C: Random> Serving for Server<C> {
    #[inline]
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop().map(|(ticket, asking)| (ticket, asking.into()))
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        let ServingState::Answering(answering) = &mut self.stage else {
            return self.flow(&BytesMut::new());
        };
        if answering.ticket != ticket {
            return Flow::More;
        }
        let input = answering.input;
        match answering.reply.write(&mut self.writer, &mut self.out, down) {
            Ok(Replied::SoFar) => {}
            Ok(Replied::Whole) => {
                self.ups.clear();
                self.end_call(now, input);
            }
            // What was produced goes out, then the connection ends without a tail.
            Ok(Replied::TooLate(failure)) => {
                self.ups.clear();
                self.notices.push_back(Notice::Ignored(format!("late failure: {failure}")));
                self.finish(now, Ended::Well);
            }
            // Not a byte more: the source of the data could have closed the blob.
            Err(unwritable) => {
                self.out = Outbox::new();
                self.ups.clear();
                self.ups.push(ticket, Asking::Up(Up::Cancel(None)));
                self.stage = ServingState::Over(Ended::Broke(unwritable.to_string()));
            }
        }
        self.flow(&BytesMut::new())
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            ServingState::Over(ended) => Some(ended),
            _ => None,
        }
    }
}
