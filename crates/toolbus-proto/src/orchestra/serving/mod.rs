//! Our answering end of a connection: a plugin's, or a hub's (`docs/protocols/orchestra.md` 2).
//!
//! A request is answered as soon as its frame is whole. Its stream is then read to its end,
//! within bounds, so that the caller gets it back. `streams.rs` is what happens on a stream,
//! `plugin.rs` what a plugin answers, `replies.rs` how replies become frames. A hub answers
//! nothing here: whatever it is asked goes to [`hub`](super::hub) as it is.

mod plugin;
mod replies;
mod streams;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::envelope::{Envelope, message_len, put_frame, response_body};
use super::fold::too_large;
use super::waiting::Waiting;
use super::wire::Response;
use super::{FRAME_BYTES_MAX, WIRE};
use crate::channel::{
    Asked, Down, Ended, Flow, Machine, Notice, Outbox, Serving, StreamId, Ticket, Up,
};
use crate::counted::{Counted, CountedSet};
use crate::frame::length::Lengths;
use crate::tool::{Call, CallOptions, CallerId, Deadline, ToolName, Trace, What};

/// Who answers behind the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The bus: its tools are those of a plugin.
    Plugin,
    /// A hub: every request is passed on as it is.
    Hub,
}

/// What can be set about a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Who answers.
    pub role: Role,
    /// Who asks, to the bus.
    pub caller: CallerId,
    /// How long a call may be quiet.
    pub call_timeout: Duration,
    /// What one message may weigh.
    pub frame_bytes_max: usize,
    /// What is read of a request behind its frame.
    pub drain_bytes_max: usize,
    /// How long that may take once it is answered.
    pub drain_timeout: Duration,
}

impl ServerSettings {
    /// With what holds if nothing is set.
    pub fn new(role: Role, caller: CallerId) -> ServerSettings {
        ServerSettings {
            role,
            caller,
            call_timeout: Duration::from_secs(60),
            frame_bytes_max: FRAME_BYTES_MAX,
            drain_bytes_max: 64 * 1024,
            drain_timeout: Duration::from_secs(5),
        }
    }
}

/// Our answering end of one connection.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    streams: Counted<u64, Answering>,
    /// Which stream waits for the reply to which call.
    tickets: Counted<Ticket, u64>,
    next_ticket: u64,
    /// Tools whose arguments are wrapped, once the tools are known.
    wrapped: Option<HashSet<ToolName>>,
    stage: PluginState,
    /// Streams that are answered and only read to their end, and until when.
    draining: VecDeque<(Instant, u64)>,
    /// Streams whose caller reads no more, until the hands are done with them.
    resets: CountedSet<u64>,
    /// What all streams keep.
    kept_bytes: usize,
    ups: VecDeque<(Ticket, Asked)>,
    ready: VecDeque<StreamId>,
    notices: VecDeque<Notice>,
}

#[derive(Debug)]
enum PluginState {
    Open,
    /// Calls that run may end; the stream, if any, then learns that we will.
    Stopping {
        until: Instant,
        asked_on: Option<u64>,
    },
    Over(Ended),
}

/// One request.
#[derive(Debug)]
struct Answering {
    frames: Lengths,
    request_id: String,
    job: Job,
    out: Outbox,
    /// Events that wait until those before them are written, where it is a subscription.
    events: Waiting,
    /// Something was handed out that is not known to be written.
    is_writing: bool,
    /// The caller has ended its side, or is not listened to any more.
    is_read: bool,
    /// So much has come behind the frame.
    behind: usize,
    /// What it weighed when that was counted last.
    weighed: usize,
}

impl Answering {
    /// Counts what it keeps anew, as a part of `all`.
    fn weigh(&mut self, all: &mut usize) {
        let collected = match &self.job {
            Job::Running { reply: replies::Reply::Whole { collector, .. }, .. } => {
                collector.weight()
            }
            _ => 0,
        };
        let weight = self.out.len() + self.events.weight() + collected;
        *all = *all - self.weighed + weight;
        self.weighed = weight;
    }
}

/// What a stream waits for.
#[derive(Debug)]
enum Job {
    /// The frame.
    Reading,
    /// The reply to a call.
    Running { ticket: Ticket, reply: replies::Reply },
    /// That the other calls end.
    Stopping,
    /// Nothing: all is said.
    Answered,
}

impl Server {
    /// Waits for requests.
    pub fn new(settings: ServerSettings) -> Server {
        Server {
            settings,
            streams: Counted::default(),
            tickets: Counted::default(),
            next_ticket: 0,
            wrapped: None,
            stage: PluginState::Open,
            draining: VecDeque::new(),
            kept_bytes: 0,
            resets: CountedSet::default(),
            ups: VecDeque::new(),
            ready: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    /// The hub or the user wants us gone: calls that run may end within this time.
    pub fn stop(&mut self, now: Instant, patience: Duration) {
        if let PluginState::Open = self.stage {
            self.stage = PluginState::Stopping { until: now + patience, asked_on: None };
            self.settle(now);
        }
    }

    /// The connection is gone, and with it the peer that wanted an answer.
    pub fn handle_disconnected(&mut self, _now: Instant) {
        self.cancel_all();
        self.streams.clear();
        self.kept_bytes = 0;
        self.stage = PluginState::Over(Ended::Well);
    }

    fn cancel_all(&mut self) {
        let mut tickets: Vec<_> = self.tickets.drain().map(|(ticket, _)| ticket).collect();
        tickets.sort_unstable();
        let cancel = |ticket| (ticket, Asked::Up(Up::Cancel(None)));
        self.ups.extend(tickets.into_iter().map(cancel));
    }

    /// Goes on once the last call has ended, or they have had their time.
    fn settle(&mut self, now: Instant) {
        let PluginState::Stopping { until, asked_on } = self.stage else { return };
        if !self.tickets.is_empty() && now < until {
            return;
        }
        self.cancel_all();
        self.stage = PluginState::Over(Ended::Well);
        if let Some(number) = asked_on {
            self.say_goodbye(now, number);
        }
    }

    /// Asks the bus for something; the reply belongs to this stream.
    fn ask(&mut self, now: Instant, number: u64, what: What, more: Asking, reply: replies::Reply) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        stream.job = Job::Running { ticket, reply };
        self.tickets.insert(ticket, number);
        let quiet = Some(self.settings.call_timeout);
        let call = Call {
            caller: self.settings.caller,
            deadline: Deadline { asked: now, quiet, total: None },
            trace: more.trace,
            options: CallOptions {
                progress: more.progress,
                native: more.native.then_some(WIRE),
                ..CallOptions::default()
            },
            ..Call::of(now, what)
        };
        self.ups.push_back((ticket, Asked::Call(call)));
    }

    /// Asks for something whose reply nobody waits for.
    fn ask_aside(&mut self, now: Instant, method: &'static str, body: Bytes) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let method = Bytes::from_static(method.as_bytes());
        let what = What::Native { wire: WIRE, method, body };
        let call = Call { caller: self.settings.caller, ..Call::of(now, what) };
        self.ups.push_back((ticket, Asked::Call(call)));
    }

    /// Appends one frame.
    fn put(&mut self, number: u64, body: &Bytes) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        put_frame(&mut stream.out, &stream.request_id, body);
        stream.weigh(&mut self.kept_bytes);
        self.ready.push_back(StreamId::Theirs(number));
    }

    /// The last frame, and the end.
    fn answer(&mut self, now: Instant, number: u64, response: impl Into<Response>) {
        self.answer_body(now, number, &response_body(response));
    }

    fn answer_body(&mut self, now: Instant, number: u64, body: &Bytes) {
        let Some(stream) = self.streams.get(&number) else { return };
        match message_len(&stream.request_id, body) <= self.settings.frame_bytes_max {
            true => self.put(number, body),
            false => self.put(number, &response_body(too_large())),
        }
        self.finish(now, number);
    }

    /// Nothing more will be said on this stream. It is read to its end, for a while.
    fn finish(&mut self, now: Instant, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.job = Job::Answered;
        stream.weigh(&mut self.kept_bytes);
        stream.is_read |= self.settings.drain_bytes_max < stream.behind;
        self.draining.push_back((now + self.settings.drain_timeout, number));
        self.ready.push_back(StreamId::Theirs(number));
    }

    /// A whole request.
    fn handle_request(&mut self, now: Instant, number: u64, envelope: &Envelope) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.request_id.clone_from(&envelope.request_id);
        match self.settings.role {
            Role::Hub => self.pass_on(now, number, envelope),
            Role::Plugin => match envelope.request() {
                Ok(request) => self.handle_asked(now, number, request),
                Err(malformed) => self.refuse(now, number, &malformed.to_string()),
            },
        }
    }

    /// A request that cannot be read is not answered; the connection goes on.
    fn refuse(&mut self, now: Instant, number: u64, why: &str) {
        self.notices.push_back(Notice::Broke(format!("a request cannot be read: {why}")));
        self.finish(now, number);
    }
}

/// What a call carries besides what is asked.
#[derive(Debug, Default)]
struct Asking {
    trace: Option<Trace>,
    progress: bool,
    native: bool,
}

impl Machine for Server {
    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(_, number)) = self.draining.front().filter(|(until, _)| *until <= now) {
            self.draining.pop_front();
            if let Some(stream) = self.streams.get_mut(&number)
                && !stream.is_read
            {
                stream.is_read = true;
                self.ready.push_back(StreamId::Theirs(number));
            }
            self.forget(number);
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let drained = self.draining.front().map(|(until, _)| *until);
        let stopped = match self.stage {
            PluginState::Stopping { until, .. } => Some(until),
            _ => None,
        };
        [drained, stopped].into_iter().flatten().min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.kept_bytes
    }
}

impl Serving for Server {
    fn poll_up(&mut self) -> Option<(Ticket, Asked)> {
        self.ups.pop_front()
    }

    fn down(&mut self, now: Instant, ticket: Ticket, down: Down) -> Flow {
        if let Some(&number) = self.tickets.get(&ticket) {
            if let Down::Done(_) = down {
                self.tickets.remove(&ticket);
            }
            self.handle_down(now, number, down);
            self.settle(now);
        }
        match self.stage {
            PluginState::Over(_) => Flow::Close,
            _ => Flow::More,
        }
    }

    fn tell(&mut self, _now: Instant, notice: &Notice) {
        if let Notice::ToolsChanged = notice {
            self.wrapped = None;
        }
    }

    fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            PluginState::Over(ended) => Some(ended),
            _ => None,
        }
    }
}
