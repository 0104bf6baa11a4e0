//! The asking end: a stream for each call.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use toolbus_proto::channel::{
    Calling, Down, Farewell, Fault, Flow, Goodbye, Machine, Notice, Outbox, Readiness, StreamId,
    StreamLost, Streams, Ticket, Up, Writing,
};
use toolbus_proto::frame::lines::Lines;
use toolbus_proto::printable::printable;
use toolbus_proto::tool::{Call, Deadline, Failure, FailureKind};

use super::{BROKE, CALL, CANCELLED, Limits, NEWS, NO_STREAM, OK, TOOLS_CHANGED, told};
use crate::plain::SHOWN_CHARS_MAX;
use crate::plain::wire::{self, SaysDown, SaysUp};

/// The asking end.
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    readiness: Readiness,
    streams: BTreeMap<StreamId, Stream>,
    next: u64,
    opening: VecDeque<StreamId>,
    ready: VecDeque<StreamId>,
    downs: VecDeque<(Ticket, Down)>,
    notices: VecDeque<Notice>,
}

#[derive(Debug)]
struct Stream {
    /// Whose call it carries, until that is over; `None` for news.
    asked: Option<(Ticket, Deadline)>,
    heard: Instant,
    lines: Lines,
    out: Outbox,
    has_answer: bool,
    writing: Writing,
    /// The peer reads no more.
    is_stopped: bool,
}

impl Client {
    /// Asks whenever it is called.
    pub fn new(limits: Limits) -> Client {
        Client {
            limits,
            readiness: Readiness::Open,
            streams: BTreeMap::new(),
            next: 0,
            opening: VecDeque::new(),
            ready: VecDeque::new(),
            downs: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    fn stream(&self, now: Instant, asked: Option<(Ticket, Deadline)>) -> Stream {
        Stream {
            asked,
            heard: now,
            lines: Lines::new(self.limits.line_bytes_max),
            out: Outbox::new(),
            has_answer: false,
            writing: Writing::Open,
            is_stopped: false,
        }
    }

    /// Ends the call of a stream, if it has one that is not over, and the stream with it.
    fn end(&mut self, id: StreamId, writing: Writing, failure: Failure) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.writing = writing;
        self.ready.push_back(id);
        if let Some((ticket, _)) = stream.asked.take() {
            self.downs.push_back((ticket, Down::Done(Err(failure))));
        }
    }

    fn of(&self, ticket: Ticket) -> Option<StreamId> {
        let is_it = |stream: &Stream| stream.asked.is_some_and(|(asked, _)| asked == ticket);
        self.streams.iter().find(|(_, stream)| is_it(stream)).map(|(id, _)| *id)
    }

    fn handle_line(&mut self, now: Instant, id: StreamId, line: &Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.heard = now;
        let shown = || printable(line, SHOWN_CHARS_MAX);
        let Some((ticket, _)) = stream.asked else {
            let notice = match line == TOOLS_CHANGED {
                true => Notice::ToolsChanged,
                false => Notice::Stray(shown()),
            };
            return self.notices.push_back(notice);
        };
        let Some(down) = wire::read::<SaysDown>(line).and_then(SaysDown::into_down) else {
            let failure = Failure::new(FailureKind::BrokeProtocol, format!("wrote `{}`", shown()));
            return self.end(id, Writing::Reset(BROKE), failure);
        };
        if let Down::Done(_) = down {
            stream.asked = None;
            stream.writing = Writing::Finish;
        }
        self.downs.push_back((ticket, down));
    }

    fn flow(&self, id: StreamId) -> Flow {
        match self.streams.get(&id) {
            Some(stream) if stream.writing == Writing::Open => {
                match self.limits.queue_max <= self.downs.len() {
                    true => Flow::Pause,
                    false => Flow::More,
                }
            }
            // News are read to their end.
            Some(Stream { asked: None, writing: Writing::Finish, .. })
                if matches!(id, StreamId::Theirs(_)) =>
            {
                Flow::More
            }
            _ => Flow::Close,
        }
    }
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        let is_late = |stream: &Stream| {
            let at = stream.asked.and_then(|(_, deadline)| deadline.instant(stream.heard));
            at.is_some_and(|at| at <= now)
        };
        let late = self.streams.iter().filter(|(_, stream)| is_late(stream));
        let late: Vec<_> = late.map(|(id, _)| *id).collect();
        for id in late {
            let failure = Failure::new(FailureKind::TimedOut, "no answer in time");
            self.end(id, Writing::Reset(CANCELLED), failure);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self.streams.values().filter_map(|stream| {
            stream.asked.and_then(|(_, deadline)| deadline.instant(stream.heard))
        });
        deadlines.min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }
}

impl Streams for Client {
    type Opening = String;
    type Answer = String;

    fn handle_opened(&mut self, now: Instant, id: StreamId, head: String) -> Flow {
        let mut stream = self.stream(now, None);
        (stream.writing, stream.has_answer) = match head == NEWS {
            true => (Writing::Finish, true),
            false => (Writing::Reset(BROKE), false),
        };
        self.streams.insert(id, stream);
        self.flow(id)
    }

    fn handle_answered(&mut self, _now: Instant, id: StreamId, head: String) -> Flow {
        if head != OK {
            let failure = Failure::new(FailureKind::BrokeProtocol, format!("answered `{head}`"));
            self.end(id, Writing::Reset(BROKE), failure);
        }
        self.flow(id)
    }

    fn handle_bytes(&mut self, now: Instant, id: StreamId, input: &mut BytesMut) -> Flow {
        while self.flow(id) == Flow::More
            && let Some(stream) = self.streams.get_mut(&id)
        {
            match stream.lines.next(input) {
                Some(Ok(line)) => self.handle_line(now, id, &line),
                Some(Err(too_long)) => {
                    let failure = Failure::new(FailureKind::TooLarge, too_long.to_string());
                    self.end(id, Writing::Reset(BROKE), failure);
                }
                None => break,
            }
        }
        self.flow(id)
    }

    fn handle_eof(&mut self, now: Instant, id: StreamId, input: &mut BytesMut) -> Flow {
        match self.handle_bytes(now, id, input) {
            Flow::More => {}
            flow => return flow,
        }
        if let Some(stream) = self.streams.get(&id)
            && stream.asked.is_some()
        {
            let failure = Failure::new(FailureKind::Gone, "finished without an answer");
            self.end(id, Writing::Reset(CANCELLED), failure);
        }
        Flow::Close
    }

    fn handle_lost(&mut self, _now: Instant, id: StreamId, why: StreamLost) {
        let failure = Failure::new(why.failure.kind, told(&why));
        self.end(id, NO_STREAM, failure);
    }

    fn handle_stopped(&mut self, _now: Instant, id: StreamId, _code: Option<u64>) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_stopped = true;
            stream.out = Outbox::new();
        }
    }

    fn handle_closed(&mut self, _now: Instant, id: StreamId) {
        let failure = Failure::new(FailureKind::Gone, "the stream was closed");
        self.end(id, NO_STREAM, failure);
        self.streams.remove(&id);
    }

    fn poll_open(&mut self) -> Option<(StreamId, String)> {
        Some((self.opening.pop_front()?, CALL.to_owned()))
    }

    fn poll_ready(&mut self) -> Option<StreamId> {
        self.ready.pop_front()
    }

    fn poll_answer(&mut self, id: StreamId) -> Option<String> {
        let stream = self.streams.get_mut(&id)?;
        std::mem::take(&mut stream.has_answer).then(|| OK.to_owned())
    }

    fn poll_transmit(&mut self, id: StreamId, out: &mut Outbox) {
        if let Some(stream) = self.streams.get_mut(&id) {
            out.append(&mut stream.out);
        }
    }

    fn writing(&self, id: StreamId) -> Writing {
        self.streams.get(&id).map_or(NO_STREAM, |stream| stream.writing)
    }
}

impl Calling for Client {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        let says = match (&self.readiness, SaysUp::of_call(&call)) {
            (Readiness::Broken(fault), _) => Err(fault.failure.clone()),
            (_, Ok(_)) if self.limits.calls_max <= self.streams.len() => {
                let why = format!("more than {} calls at a time", self.limits.calls_max);
                Err(Failure::new(FailureKind::Unavailable, why))
            }
            (_, says) => says,
        };
        let says = match says {
            Ok(says) => says,
            Err(failure) => return self.downs.push_back((ticket, Down::Done(Err(failure)))),
        };
        let id = StreamId::Ours(self.next);
        self.next += 1;
        let mut stream = self.stream(now, Some((ticket, call.deadline)));
        wire::write(&mut stream.out, &says);
        self.streams.insert(id, stream);
        self.opening.push_back(id);
    }

    fn up(&mut self, _now: Instant, ticket: Ticket, up: Up) {
        let Some(id) = self.of(ticket) else { return };
        if let Up::Cancel(_) = up {
            let failure = Failure::new(FailureKind::Cancelled, "the caller changed its mind");
            return self.end(id, Writing::Reset(CANCELLED), failure);
        }
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.is_stopped
        {
            wire::write(&mut stream.out, &SaysUp::of_up(&up));
            self.ready.push_back(id);
        }
    }

    fn close(&mut self, now: Instant, _patience: Duration) -> Goodbye {
        let why = Failure::new(FailureKind::Unavailable, "the conversation was ended");
        Calling::handle_lost(self, now, &why);
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        Vec::new()
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        let (failure, farewell) = (why.clone(), Farewell::Abrupt);
        self.readiness = Readiness::Broken(Fault { failure, farewell });
        let all: Vec<_> = self.streams.keys().copied().collect();
        all.into_iter().for_each(|id| self.end(id, Writing::Reset(CANCELLED), why.clone()));
    }
}
