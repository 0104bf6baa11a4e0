//! Our asking end of a connection: one stream a request (`docs/protocols/orchestra.md` 2).
//!
//! A frame and its end are handed out together, the answer is taken as soon as it is whole, and
//! the stream is read to its end behind it. `streams.rs` is what happens on a stream,
//! `answers.rs` what an answer means to its call, `requests.rs` how a call becomes a request.

mod answers;
mod requests;
mod settings;
mod streams;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::envelope::{put_frame, request_body};
use super::fold::Fold;
use super::ids::Ids;
use super::wire::StreamCancel;
use crate::channel::{
    Calling, Down, Farewell, Goodbye, Machine, Notice, Outbox, Readiness, StreamId, Ticket, Up,
};
use crate::counted::Counted;
use crate::frame::length::Lengths;
use crate::outstanding::{Desk, Outstanding};
use crate::tool::{Call, Deadline, Failure, FailureKind};

pub use settings::ClientSettings;

/// Our asking end of one connection.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
    ids: Ids,
    desk: Desk,
    /// Whose answer comes on which stream, and by when.
    outstanding: Outstanding,
    /// The streams that are not over.
    asks: Counted<u64, Ask>,
    /// Streams that the hands have not been told to open.
    to_open: VecDeque<u64>,
    /// Streams that are not open yet, and since when; some behind the first may be by now.
    unopened: VecDeque<(Instant, u64)>,
    /// Streams that are only read to their end, and until when.
    draining: VecDeque<(Instant, u64)>,
    /// How many requests are sent and not answered.
    unanswered: usize,
    /// Since when there are fewer of them than there may be.
    has_room_since: Option<Instant>,
    is_starved: bool,
    /// What all requests keep.
    kept_bytes: usize,
    plain: Plain,
    ready: VecDeque<StreamId>,
}

/// What was learned of this peer's streams: it is asked plainly where they would be in vain.
#[derive(Debug, Default)]
struct Plain {
    /// It knows no streams at all.
    all: bool,
    /// Tools that do not stream.
    tools: HashSet<String>,
}

/// Stands for the client itself: requests of its own, for which no caller waits.
const OURSELVES: Ticket = Ticket(u64::MAX);

/// One request.
#[derive(Debug)]
struct Ask {
    ticket: Ticket,
    request_id: String,
    deadline: Deadline,
    purpose: Purpose,
    stage: ConnectionState,
    frames: Lengths,
}

impl Ask {
    /// What it keeps: the request until it is sent, and of an answer in chunks what has come.
    fn weight(&self) -> usize {
        let request = match &self.stage {
            ConnectionState::Unopened { frame, .. } => frame.len(),
            ConnectionState::Sent | ConnectionState::Draining { .. } => 0,
        };
        match &self.purpose {
            Purpose::Progress(progress) => {
                request + progress.plainly.len() + progress.fold.weight()
            }
            _ => request,
        }
    }
}

/// What a request is for, and with that what its answer means.
#[derive(Debug)]
enum Purpose {
    /// The tools there are.
    Tools,
    /// A tool; the answer is wanted as this wire writes it, or as the bus does.
    Tool { is_native: bool },
    /// Anything, passed through; some have no answer but the end of their stream.
    Native { is_unanswered: bool },
    /// A stream, passed through.
    Chunks { stream_id: String },
    /// Events, until the subscriber wants no more of them.
    Events,
    /// A tool that is asked by a stream, so that it can say how far it is.
    Progress(Box<Progress>),
}

#[derive(Debug)]
struct Progress {
    tool: String,
    stream_id: String,
    fold: Fold,
    is_native: bool,
    /// How to ask if the tool does not stream.
    plainly: bytes::Bytes,
}

#[derive(Debug)]
enum ConnectionState {
    /// The stream is not open: nothing has been written.
    Unopened { frame: Outbox, call: Option<Box<Call>> },
    /// The request is written, the answer is to come.
    Sent,
    /// The answer was here; so much came behind it.
    Draining { bytes: usize },
}

impl Client {
    /// Waits for calls on a connection that is open.
    pub fn new(settings: ClientSettings, ids: Ids) -> Client {
        Client {
            outstanding: Outstanding::new(0, settings.in_flight_max),
            settings,
            ids,
            // No call waits for its turn: each has a stream of its own.
            desk: Desk::ready(0, "a stream"),
            asks: Counted::default(),
            to_open: VecDeque::new(),
            unopened: VecDeque::new(),
            draining: VecDeque::new(),
            unanswered: 0,
            has_room_since: None,
            is_starved: false,
            kept_bytes: 0,
            plain: Plain::default(),
            ready: VecDeque::new(),
        }
    }

    /// Streams can no longer be opened here, though few are in use: the peer has lost count of
    /// them. Calls belong on another connection, and this one is to be closed once
    /// [`Client::is_idle`].
    pub fn is_starved(&self) -> bool {
        self.is_starved
    }

    /// Does no call wait for its answer?
    pub fn is_idle(&self) -> bool {
        self.unanswered == 0 && self.to_open.is_empty() && self.oldest_unopened().is_none()
    }

    fn oldest_unopened(&self) -> Option<Instant> {
        self.unopened.front().map(|(since, _)| *since)
    }

    /// The oldest stream that counts as unopened shall be so.
    fn forget_opened(&mut self) {
        while let Some((_, number)) = self.unopened.front()
            && !matches!(
                self.asks.get(number),
                Some(Ask { stage: ConnectionState::Unopened { .. }, .. })
            )
        {
            self.unopened.pop_front();
        }
    }

    /// When the connection counts as starved, unless a stream is opened before.
    fn starves_at(&self) -> Option<Instant> {
        if self.is_starved || self.settings.unanswered_max <= self.unanswered {
            return None;
        }
        let since = self.oldest_unopened()?;
        let since = self.has_room_since.map_or(since, |room| room.max(since));
        Some(since + self.settings.credit_timeout)
    }

    /// Asks by a stream of its own.
    fn open(&mut self, now: Instant, ask: NewAsk) {
        let NewAsk { ticket, request_id, deadline, purpose, body, call } = ask;
        let number = self.outstanding.ask(ticket, deadline);
        let mut frame = Outbox::new();
        put_frame(&mut frame, &request_id, &body);
        let stage = ConnectionState::Unopened { frame, call: call.map(Box::new) };
        let frames = Lengths::new(self.settings.frame_bytes_max);
        let ask = Ask { ticket, request_id, deadline, purpose, stage, frames };
        self.kept_bytes += ask.weight();
        self.asks.insert(number, ask);
        self.to_open.push_back(number);
        self.unopened.push_back((now, number));
        self.ready.push_back(StreamId::Ours(number));
    }

    fn remove(&mut self, number: u64) -> Option<Ask> {
        let ask = self.asks.remove(&number)?;
        self.kept_bytes -= ask.weight();
        self.forget_opened();
        Some(ask)
    }

    /// The call is over.
    fn done(&mut self, ticket: Ticket, outcome: Result<crate::tool::Outcome, Failure>) {
        if ticket != OURSELVES {
            self.desk.done(ticket, outcome);
        }
    }

    /// Streams that have ended by themselves need no alarm.
    fn forget_drained(&mut self) {
        while let Some((_, number)) = self.draining.front()
            && !self.asks.contains_key(number)
        {
            self.draining.pop_front();
        }
    }

    /// The request is answered or given up: no caller waits on this stream any more.
    fn settle(&mut self, now: Instant, number: u64) {
        self.outstanding.take(number);
        let Some(ask) = self.asks.get(&number) else { return };
        if let ConnectionState::Sent = ask.stage {
            if self.unanswered == self.settings.unanswered_max {
                self.has_room_since = Some(now);
            }
            self.unanswered -= 1;
        }
    }

    /// No caller wants the answer on this stream any more: it is stopped, and where chunks come
    /// the peer is told so.
    fn give_up(&mut self, now: Instant, number: u64) {
        self.settle(now, number);
        let Some(ask) = self.remove(number) else { return };
        self.ready.push_back(StreamId::Ours(number));
        let ConnectionState::Sent = ask.stage else { return };
        let stream_id = match ask.purpose {
            Purpose::Chunks { stream_id } => stream_id,
            Purpose::Progress(progress) => progress.stream_id,
            _ => return,
        };
        let body = request_body(StreamCancel { stream_id, ..StreamCancel::default() });
        self.open(
            now,
            NewAsk {
                ticket: OURSELVES,
                request_id: ask.request_id,
                deadline: Deadline {
                    asked: now,
                    quiet: Some(self.settings.drain_timeout),
                    total: None,
                },
                purpose: Purpose::Native { is_unanswered: true },
                body,
                call: None,
            },
        );
    }
}

/// A request that is to be sent.
struct NewAsk {
    ticket: Ticket,
    request_id: String,
    deadline: Deadline,
    purpose: Purpose,
    body: bytes::Bytes,
    /// Kept until the request is sent, for another connection to take over.
    call: Option<Call>,
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        for (number, ticket) in self.outstanding.expire(now) {
            let missed = self.asks.get(&number).map(|ask| ask.deadline.missed());
            // Looked up again by `settle`, which counts.
            self.give_up(now, number);
            self.done(ticket, Err(missed.unwrap_or_else(|| Deadline::never(now).missed())));
        }
        while let Some(&(until, number)) = self.draining.front().filter(|(until, _)| *until <= now)
        {
            debug_assert!(until <= now);
            self.draining.pop_front();
            if self.remove(number).is_some() {
                self.ready.push_back(StreamId::Ours(number));
            }
        }
        if self.starves_at().is_some_and(|starves_at| starves_at <= now) {
            self.is_starved = true;
            self.desk.notice(Notice::Noted("stream_credit_lost"));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let drained = self.draining.front().map(|(until, _)| *until);
        [self.outstanding.poll_timeout(), drained, self.starves_at()].into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept_bytes
    }
}

impl Calling for Client {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        let refused = match &self.desk.readiness {
            Readiness::Broken(fault) => Some(fault.failure.clone()),
            _ if !self.outstanding.has_room() => {
                let limit = self.settings.in_flight_max;
                let message = format!("too many calls in flight (limit {limit})");
                Some(Failure::new(FailureKind::Unavailable, message))
            }
            _ => None,
        };
        match refused.map_or_else(|| self.request(ticket, call), Err) {
            Ok(ask) => self.open(now, ask),
            Err(failure) => self.done(ticket, Err(failure)),
        }
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        // There are no questions on this wire, and no input behind the arguments.
        let Up::Cancel(_) = up else { return };
        let Some(number) = self.outstanding.id(ticket) else { return };
        self.give_up(now, number);
        self.done(ticket, Err(Failure::new(FailureKind::Cancelled, "cancelled")));
    }

    fn close(&mut self, _now: Instant, _patience: Duration) -> Goodbye {
        let failure = Failure::new(FailureKind::Unavailable, "the connection is being closed");
        self.desk.break_off(Farewell::Patient, failure);
        Goodbye::Said
    }

    fn poll_down(&mut self) -> Option<(Ticket, Down)> {
        self.desk.downs.pop_front()
    }

    fn readiness(&self) -> &Readiness {
        &self.desk.readiness
    }

    fn take_unsent(&mut self) -> Vec<(Ticket, Call)> {
        let mut unsent = Vec::new();
        for (_, number) in std::mem::take(&mut self.unopened) {
            let Some(Ask { stage: ConnectionState::Unopened { call, .. }, ticket, .. }) =
                self.asks.get_mut(&number)
            else {
                continue;
            };
            let Some(call) = call.take() else { continue };
            unsent.push((*ticket, *call));
            self.outstanding.take(number);
            self.remove(number);
            self.ready.push_back(StreamId::Ours(number));
        }
        self.to_open.retain(|number| self.asks.contains_key(number));
        unsent
    }

    fn handle_lost(&mut self, _now: Instant, why: &Failure) {
        let message = format!("connection lost: {}", why.message);
        let failure = Failure { message, ..why.clone() };
        for ticket in self.outstanding.take_all() {
            self.done(ticket, Err(failure.clone()));
        }
        self.asks.clear();
        self.kept_bytes = 0;
        self.to_open.clear();
        self.unopened.clear();
        self.draining.clear();
        self.unanswered = 0;
        self.desk.break_off(Farewell::Abrupt, failure);
    }
}
