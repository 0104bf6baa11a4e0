//! The server's end of one HTTP exchange: one call, and its response or a status (`docs/protocols/mediocre.md` §6).
//!
//! A single call is run only after its body has ended well, a stream call from its head on.
//! What is left of a request that is answered is the transport's to throw away.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;

use super::reply::{Replied, Reply};
use super::{Input, ServerSettings, call_of, element};
use crate::channel::{
    Asked, Channel, Down, Ended, Flow, Machine, Notice, Outbox, Serving, Ticket, Up,
};
use crate::http::{BYTES_A_SECOND_MIN, Pace, ResponseHead, Visit};
use crate::mediocre::decode::{Decoder, Direction};
use crate::mediocre::encode::Writer;
use crate::mediocre::event::{Event, FramingError, Head, Said};
use crate::mediocre::frames::Random;
use crate::mediocre::http::{AnswerHead, Refusal, Terms};
use crate::mediocre::queue::{Asking, Queue};
use crate::mediocre::translate;
use crate::tool::{Call, Deadline};

/// There is one call to an exchange.
const TICKET: Ticket = Ticket(0);

/// Our end of one exchange whose head was let in.
#[derive(Debug)]
pub struct Exchange<C> {
    settings: ServerSettings,
    terms: Terms,
    decoder: Decoder,
    writer: Writer<C>,
    stage: ExchangeState,
    /// For the time in which the call is not there yet.
    deadline: Deadline,
    /// When a byte arrived last, and how many lay there then.
    moved: Instant,
    waiting: usize,
    /// Does what is not whole yet come fast enough: the call, or an element of it?
    pace: Pace,
    /// The body broke off, or is about to.
    is_cut: bool,
    answer: AnswerHead,
    /// Why the request is refused, if it is, and the header field that goes with that.
    why: Option<String>,
    field: Option<(&'static str, String)>,
    /// The request, where it shows a token of a sign-in server.
    visit: Option<Arc<Visit>>,
    /// Something of the answer was handed out, and its head.
    has_written: bool,
    has_begun: bool,
    ups: Queue<Asking>,
    notices: VecDeque<Notice>,
    out: Outbox,
}

#[derive(Debug)]
enum ExchangeState {
    /// No call yet.
    Awaiting,
    /// A single call that waits for the end of its body.
    Held(Held),
    Answering {
        input: Input,
        reply: Reply,
    },
    Over {
        ended: Ended,
        is_complete: bool,
    },
}

#[derive(Debug)]
enum Held {
    Call(Box<Call>),
    MethodMissing,
}

impl<C: Random> Exchange<C> {
    /// A request whose body may follow.
    pub fn new(now: Instant, settings: ServerSettings, terms: Terms, chance: C) -> Exchange<C> {
        let total = terms.deadline;
        let quiet = total.is_none().then_some(settings.call_timeout);
        Exchange {
            settings,
            terms,
            decoder: Decoder::new(Direction::Call, settings.reading),
            writer: Writer::new(chance),
            stage: ExchangeState::Awaiting,
            deadline: Deadline { asked: now, quiet, total },
            moved: now,
            waiting: 0,
            pace: Pace::new(now, settings.call_timeout),
            is_cut: false,
            answer: AnswerHead { status: 200, single_len: None },
            why: None,
            field: None,
            visit: None,
            has_written: false,
            has_begun: false,
            ups: Queue::default(),
            notices: VecDeque::new(),
            out: Outbox::new(),
        }
    }

    /// The same that shows a token of a sign-in server.
    pub(super) fn visiting(self, visit: Option<Arc<Visit>>) -> Exchange<C> {
        Exchange { visit, ..self }
    }

    /// A request that was not let in.
    pub(super) fn refused(
        now: Instant,
        settings: ServerSettings,
        refusal: &Refusal,
        chance: C,
    ) -> Exchange<C> {
        let mut exchange = Exchange::new(now, settings, Terms::default(), chance);
        exchange.refuse(refusal);
        exchange
    }

    /// The client has left: whatever it asked is cancelled.
    pub(super) fn handle_gone(&mut self) -> Flow {
        if let ExchangeState::Answering { .. } = self.stage {
            self.ups.clear();
            self.ups.push(TICKET, Asking::Up(Up::Cancel(None)));
        }
        self.out = Outbox::new();
        self.stage = ExchangeState::Over { ended: Ended::Well, is_complete: false };
        Flow::Close
    }

    /// The head of the answer, once, as soon as it is known.
    pub(super) fn poll_answer(&mut self) -> Option<ResponseHead> {
        let is_known = self.has_written || !self.out.is_empty() || self.is_finished();
        if !is_known || std::mem::replace(&mut self.has_begun, is_known) {
            return None;
        }
        let mut head = ResponseHead { why: self.why.take(), ..self.answer.head() };
        if let Some((name, value)) = self.field.take() {
            head.headers.put(name, value);
        }
        Some(head)
    }

    /// The body of the request is cut short; its end is told next.
    pub fn handle_cut(&mut self) {
        self.is_cut = true;
    }

    /// The head of the answer. Known as soon as there is something to write.
    pub fn answer(&self) -> AnswerHead {
        self.answer
    }

    /// Is the answer whole? If not, its body must not end well.
    pub fn is_complete(&self) -> bool {
        matches!(self.stage, ExchangeState::Over { is_complete: true, .. })
    }

    /// Takes the next event, if there is one and it can be taken. Tells whether it did.
    fn step(&mut self, now: Instant, input: &mut BytesMut) -> bool {
        match &self.stage {
            ExchangeState::Awaiting => match self.read(input) {
                Some(Ok(event)) => self.handle_head(now, event.said),
                Some(Err(error)) => self.handle_broken(&error),
                None => return false,
            },
            ExchangeState::Answering { input: Input::Coming, .. } => {
                if !self.ups.takes_more() {
                    return false;
                }
                match self.read(input) {
                    Some(Ok(event)) => self.handle_element(event.said),
                    Some(Err(error)) => self.handle_broken(&error),
                    None => return false,
                }
            }
            // The call is whole: only blanks may follow.
            ExchangeState::Held(_) | ExchangeState::Answering { .. } => {
                let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
                if input.iter().all(is_blank) {
                    input.clear();
                    return false;
                }
                self.notices.push_back(Notice::Broke("bytes after the call".to_owned()));
                self.refuse(&Refusal::of_body("trailing_bytes", "bytes after the call"));
            }
            ExchangeState::Over { .. } => {
                input.clear();
                return false;
            }
        }
        true
    }

    fn read(&mut self, input: &mut BytesMut) -> Option<Result<Event, FramingError>> {
        let next = self.decoder.next(input)?;
        if let Ok(event) = &next {
            let notes = event.notes.iter().map(|note| Notice::Noted(note.code()));
            self.notices.extend(notes);
        }
        Some(next)
    }

    fn handle_head(&mut self, now: Instant, said: Said) {
        let held = match said {
            Said::Head(head) => {
                let is_stream = head.is_stream;
                let Some(call) = self.call(now, *head) else { return };
                if is_stream {
                    return self.run(Input::Coming, call);
                }
                Held::Call(Box::new(call))
            }
            Said::MethodMissing { is_stream: true } => return self.refuse_method(),
            Said::MethodMissing { is_stream: false } => Held::MethodMissing,
            // Between messages a decoder says nothing else.
            _ => return,
        };
        self.stage = ExchangeState::Held(held);
    }

    fn call(&mut self, now: Instant, head: Head) -> Option<Call> {
        let mut call = call_of(now, head, &self.settings)?;
        // What the head of the request says wins.
        if let Some(total) = self.terms.deadline {
            call.deadline = Deadline { total: Some(total), quiet: None, ..self.deadline };
        }
        call.trace = self.terms.trace.take().or(call.trace);
        Some(call)
    }

    fn run(&mut self, input: Input, call: Call) {
        self.ups.push(TICKET, Asking::Call(Box::new(call)));
        self.stage = ExchangeState::Answering { input, reply: Reply::Due };
    }

    fn handle_element(&mut self, said: Said) {
        if let (Said::Tail(_), ExchangeState::Answering { input, .. }) = (&said, &mut self.stage) {
            *input = Input::Whole;
        }
        element(&mut self.ups, TICKET, said);
    }

    fn handle_broken(&mut self, error: &FramingError) {
        let what = format!("{} at {}", error.code, error.offset);
        self.notices.push_back(Notice::Broke(what));
        let status = translate::http_status(error.code);
        self.refuse(&Refusal {
            status,
            error: translate::protocol_error(error, &self.settings.reading),
            field: None,
        });
    }

    /// A call without a method has a response like any other.
    fn refuse_method(&mut self) {
        let error = translate::method_missing();
        self.refuse(&Refusal { status: 200, error, field: None });
    }

    /// Ends the exchange with a status, or if the response has begun, without an end.
    fn refuse(&mut self, refusal: &Refusal) {
        let reply = match &self.stage {
            ExchangeState::Answering { reply, .. } => {
                self.ups.push(TICKET, Asking::Up(Up::Cancel(None)));
                *reply
            }
            _ => Reply::Due,
        };
        let is_complete = reply == Reply::Due;
        if is_complete {
            self.answer = refusal.write(&mut self.out);
            self.why = Some(refusal.error.msg.clone());
            self.field.clone_from(&refusal.field);
        }
        let ended = match refusal.status {
            200 => Ended::Well,
            _ => Ended::Broke(refusal.error.msg.clone()),
        };
        self.stage = ExchangeState::Over { ended, is_complete };
    }

    /// Did a byte arrive not so long ago that it has gone silent?
    fn is_going_on(&self, now: Instant) -> bool {
        now < self.moved + self.settings.call_timeout
    }

    pub(super) fn flow(&self) -> Flow {
        match &self.stage {
            ExchangeState::Over { .. } => Flow::Close,
            ExchangeState::Answering { input: Input::Coming, .. } if !self.ups.takes_more() => {
                Flow::Pause
            }
            _ => Flow::More,
        }
    }
}

impl<C: Random> Machine for Exchange<C> {
    /// A call that does not come in time is not run.
    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        let is_slow = self.pace.late_at() <= now && self.is_going_on(now);
        let message = match is_slow {
            false => "the call did not arrive in time".to_owned(),
            true => format!(
                "the call comes too slowly: at least {BYTES_A_SECOND_MIN} bytes a second are needed"
            ),
        };
        self.refuse(&Refusal::new(408, "deadline_exceeded", &message));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self.stage {
            ExchangeState::Awaiting | ExchangeState::Held(_) => {
                let late_at = self.pace.late_at();
                Some(self.deadline.instant(self.moved).map_or(late_at, |at| at.min(late_at)))
            }
            // The tool that answers keeps the deadline, which each byte puts off; but an element that was
            // begun has to come.
            ExchangeState::Answering { input: Input::Coming, .. }
                if 0 < self.waiting && self.ups.takes_more() =>
            {
                Some(self.pace.late_at())
            }
            ExchangeState::Answering { .. } | ExchangeState::Over { .. } => None,
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl<C: Random> Channel for Exchange<C> {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        if self.waiting < input.len() && self.decoder.is_progress(&input[self.waiting..]) {
            self.moved = now;
            self.pace.handle_bytes(input.len() - self.waiting);
        }
        let mut is_new = self.waiting == 0;
        while self.step(now, input) {
            is_new = true;
        }
        // Between elements a caller may take its time.
        if is_new && matches!(self.stage, ExchangeState::Answering { .. }) {
            self.pace = Pace::new(now, self.settings.call_timeout);
        }
        self.waiting = input.len();
        self.flow()
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        match self.handle_bytes(now, input) {
            Flow::More => {}
            flow => return flow,
        }
        let ended = self.decoder.end(input);
        match (std::mem::replace(&mut self.stage, ExchangeState::Awaiting), ended) {
            (ExchangeState::Awaiting, Ok(())) => {
                self.refuse(&Refusal::of_body("no_call", "the body holds no call"));
            }
            (ExchangeState::Awaiting, Err(error)) => self.handle_broken(&error),
            (ExchangeState::Held(_), _) if self.is_cut => {
                self.refuse(&Refusal::of_body("cut_short", "the body was cut short"));
            }
            (ExchangeState::Held(Held::Call(call)), _) => self.run(Input::Whole, *call),
            (ExchangeState::Held(Held::MethodMissing), _) => self.refuse_method(),
            (stage @ ExchangeState::Answering { input: Input::Coming, .. }, ended) => {
                self.stage = stage;
                if let Err(error) = ended {
                    self.handle_broken(&error);
                }
            }
            (stage, _) => self.stage = stage,
        }
        match self.flow() {
            // The answer is owed; the hands come back when it is there.
            Flow::More => Flow::Pause,
            flow => flow,
        }
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.has_written |= !self.out.is_empty();
        out.append(&mut self.out);
    }

    fn is_finished(&self) -> bool {
        matches!(self.stage, ExchangeState::Over { .. })
    }
}

impl<C: Random> Serving for Exchange<C> {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        let (ticket, asking) = self.ups.pop()?;
        let mut asked = asking.into();
        if let Asked::Call(call) = &mut asked {
            call.visit.clone_from(&self.visit);
        }
        Some((ticket, asked))
    }

    fn down(&mut self, _now: Instant, _ticket: Ticket, down: Down) -> Flow {
        let ExchangeState::Answering { input, mut reply } = self.stage else { return self.flow() };
        let lacking = self.visit.as_ref().and_then(|visit| visit.lacking());
        if let (Some(refusal), Reply::Due, Down::Done(Err(_))) = (lacking, reply, &down) {
            let refusal = Refusal::by_token(refusal);
            self.ups.clear();
            self.answer = refusal.write(&mut self.out);
            self.why = Some(refusal.error.msg);
            self.field = refusal.field;
            self.stage = ExchangeState::Over { ended: Ended::Well, is_complete: true };
            return self.flow();
        }
        let is_single = reply == Reply::Due;
        self.stage = match reply.write(&mut self.writer, &mut self.out, down) {
            Ok(Replied::SoFar) => ExchangeState::Answering { input, reply },
            Ok(Replied::Whole) => {
                self.ups.clear();
                // A reply of parts may begin and end at once, and is a stream all the same.
                let is_single = is_single && reply == Reply::Due;
                self.answer.single_len = is_single.then(|| self.out.len());
                ExchangeState::Over { ended: Ended::Well, is_complete: true }
            }
            // What was produced goes out, then the body breaks off.
            Ok(Replied::TooLate(failure)) => {
                self.ups.clear();
                self.notices.push_back(Notice::Ignored(format!("late failure: {failure}")));
                ExchangeState::Over { ended: Ended::Well, is_complete: false }
            }
            // Not a byte more: the source of the data could have closed the blob.
            Err(unwritable) => {
                self.out = Outbox::new();
                self.ups.clear();
                self.ups.push(TICKET, Asking::Up(Up::Cancel(None)));
                ExchangeState::Over {
                    ended: Ended::Broke(unwritable.to_string()),
                    is_complete: false,
                }
            }
        };
        self.flow()
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            ExchangeState::Over { ended, .. } => Some(ended),
            _ => None,
        }
    }
}
