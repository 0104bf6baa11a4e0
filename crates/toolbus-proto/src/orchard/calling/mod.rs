//! The host: our end when we execute the actions of a provider.
//!
//! It lives as long as one process of the provider: `describe` at once, `configure` before the
//! first call, then `execute`, one at a time unless the provider can do more, and `shutdown` as
//! the goodbye. Who starts, signals and replaces processes is elsewhere.

mod answers;
mod requests;
mod sending;
mod telling;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use super::schema::ProviderSchema;
use super::wire;
use crate::channel::{
    Calling, Channel, Down, Farewell, Flow, Goodbye, Machine, Notice, Outbox, Readiness, Ticket, Up,
};
use crate::frame::lines::Lines;
use crate::json::Json;
use crate::outstanding::{Desk, Outstanding, WaitQueue, Waiting};
use crate::printable::printable;
use crate::tool::{Call, Failure, FailureKind, ToolSpec, What};
use requests::{Method, Request};
pub(super) use telling::ended;

/// Ids count from here.
const FIRST_ID: u64 = 1;
/// Calls that wait for their turn.
const WAITING_MAX: usize = 1024;
/// Lines that are no frames are shown up to this count, and then only counted.
const NOISE_SHOWN_MAX: u64 = 20;
/// How much of such a line is shown.
const LINE_SHOWN_MAX: usize = 200;

/// What can be set about one provider.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What people call it.
    pub name: String,
    /// What `configure` gets before the first call, defaults excepted.
    pub config: Option<Json>,
    /// The longest frame, without its newline.
    pub frame_bytes_max: usize,
    /// How long it may take to describe itself. The hands, who started it, keep the time.
    pub describe_timeout: Duration,
    /// How long `configure` may take.
    pub configure_timeout: Duration,
    /// Lines that are no frames end the conversation.
    pub is_strict: bool,
}

impl Settings {
    /// As the protocol has it.
    pub fn new(name: impl Into<String>) -> Settings {
        Settings {
            name: name.into(),
            config: None,
            frame_bytes_max: 16 << 20,
            describe_timeout: Duration::from_secs(5),
            configure_timeout: Duration::from_secs(30),
            is_strict: false,
        }
    }
}

/// Our end of one conversation with a provider.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    lines: Lines,
    desk: Desk,
    described: Option<Described>,
    configured: Configured,
    shutdown: Shutdown,
    outstanding: Outstanding<Request>,
    /// Calls whose input comes in parts and is not complete.
    collecting: WaitQueue,
    noise: u64,
    /// The latest instant we were told.
    now: Option<Instant>,
    out: Outbox,
}

#[derive(Debug)]
struct Described {
    schema: ProviderSchema,
    tools: Arc<[ToolSpec]>,
    /// What the schema takes on the wire.
    bytes: usize,
}

/// How far `configure` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Configured {
    No,
    Asked,
    Yes,
}

/// How far `shutdown` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    /// It has not described itself: it would not understand.
    Impossible,
    Possible,
    Asked,
    /// It was answered, or waited for long enough.
    Over,
}

impl Client {
    /// Asks the provider to describe itself, as soon as it is asked what to write.
    pub fn new(settings: Settings) -> Client {
        let mut outstanding = Outstanding::new(FIRST_ID, usize::MAX);
        let mut out = Outbox::new();
        let id = outstanding.insert(None, Request::own(Method::Describe));
        wire::write_request(&mut out, id, "describe", &Bytes::from_static(b"{}"));
        Client {
            lines: Lines::new(settings.frame_bytes_max),
            settings,
            desk: Desk::new(WAITING_MAX, "this provider"),
            described: None,
            configured: Configured::No,
            shutdown: Shutdown::Impossible,
            outstanding,
            collecting: WaitQueue::new(WAITING_MAX, "the rest of their input"),
            noise: 0,
            now: None,
            out,
        }
    }

    /// How the provider described itself, once it has.
    pub fn schema(&self) -> Option<&ProviderSchema> {
        self.described.as_ref().map(|described| &described.schema)
    }

    fn warn(&mut self, what: &str) {
        self.desk.notice(Notice::Warning(telling::provider(&self.settings.name, what)));
    }

    /// A line that is no frame.
    fn handle_noise(&mut self, line: &[u8]) {
        let shown = printable(line, LINE_SHOWN_MAX);
        if self.settings.is_strict {
            let what = format!("wrote a line that is no frame: {shown}");
            return self.break_off(Broken::Rule, &what, Some("write logs to standard error"));
        }
        self.noise += 1;
        if self.noise <= NOISE_SHOWN_MAX {
            self.warn(&format!("wrote a line that is no frame: {shown}"));
        }
    }

    /// Lines that were only counted are told once, at the end.
    fn tell_noise(&mut self) {
        let untold = self.noise.saturating_sub(NOISE_SHOWN_MAX);
        if untold > 0 {
            self.warn(&format!("wrote {untold} more lines that are no frames"));
        }
        self.noise = 0;
    }

    /// A line over the limit: what may have been a frame cannot be matched to a request.
    fn handle_too_long(&mut self, head: &[u8]) {
        if !head.starts_with(b"{") {
            return self.handle_noise(head);
        }
        let what = format!("wrote a line longer than {} bytes", self.settings.frame_bytes_max);
        self.break_off(Broken::Frame, &what, None);
    }

    /// The provider broke the protocol.
    fn break_off(&mut self, broken: Broken, what: &str, hint: Option<&str>) {
        let message = telling::provider(&self.settings.name, what);
        let failure = telling::failure(FailureKind::BrokeProtocol, message, hint);
        self.end(broken, failure);
    }

    /// The conversation cannot go on: who waits for an answer is told why at once. Calls that
    /// have not left us stay: another process may take them.
    fn end(&mut self, broken: Broken, failure: Failure) {
        let may_part = broken == Broken::Rule && self.shutdown != Shutdown::Impossible;
        let farewell = if may_part { Farewell::Goodbye } else { Farewell::Abrupt };
        if !may_part {
            self.shutdown.lose();
        }
        for ticket in self.take_requests().filter_map(|request| request.ticket) {
            self.desk.done(ticket, Err(failure.clone()));
        }
        if !self.desk.is_broken() {
            self.desk.break_off(farewell, failure);
        }
    }

    /// Calls can go out from now on.
    fn configured(&mut self, now: Instant) {
        self.configured = Configured::Yes;
        self.desk.open(now, |call| call.deadline);
        self.collecting.reckon(|call| self.desk.give_up(&call.deadline));
    }

    /// Answers do not count any more: all requests, oldest first, but a `shutdown`.
    fn take_requests(&mut self) -> impl Iterator<Item = Request> + use<> {
        let taken = self.outstanding.take_if(|request| request.method != Method::Shutdown);
        taken.into_iter().map(|(_, request)| request)
    }

    /// The callers whose calls have not left us, and never will.
    fn take_waiting(&mut self) -> Vec<Ticket> {
        let waiting = self.desk.queue.take_all().into_iter().chain(self.collecting.take_all());
        waiting.map(|waiting| waiting.ticket).collect()
    }
}

impl Shutdown {
    /// It will not be answered any more.
    fn lose(&mut self) {
        *self = match self {
            Shutdown::Asked | Shutdown::Over => Shutdown::Over,
            Shutdown::Impossible | Shutdown::Possible => Shutdown::Impossible,
        };
    }
}

/// How the protocol was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// What it writes cannot be read: it has lost the right to a goodbye.
    Frame,
    /// It can be read, and should not have been said.
    Rule,
}

impl Machine for Client {
    fn handle_timeout(&mut self, now: Instant) {
        self.now = Some(now);
        self.desk.expire(now);
        for Waiting { ticket, call, .. } in self.collecting.expire(now) {
            self.desk.done(ticket, Err(call.deadline.missed()));
        }
        while let Some(id) = self.outstanding.late(now) {
            self.handle_late(id);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waiting = [self.desk.queue.poll_timeout(), self.collecting.poll_timeout()];
        waiting.into_iter().flatten().chain(self.outstanding.poll_timeout()).min()
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.desk.notices.pop_front()
    }

    fn weight(&self) -> usize {
        self.desk.queue.weight() + self.collecting.weight() + self.out.len()
    }
}

impl Channel for Client {
    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.now = Some(now);
        while let Some(line) = self.lines.next(input) {
            self.handle_line(now, line);
        }
        // It is not waited for that such a line ends.
        if !self.desk.is_broken()
            && let Some(head) = self.lines.skipped()
            && head.starts_with(b"{")
        {
            self.handle_too_long(b"{");
        }
        Flow::More
    }

    fn handle_eof(&mut self, now: Instant, input: &mut BytesMut) -> Flow {
        self.now = Some(now);
        if let Some(Ok(line)) = self.lines.last(input) {
            self.handle_last_line(now, &line);
        }
        self.tell_noise();
        if self.shutdown == Shutdown::Asked {
            self.shutdown = Shutdown::Over;
        }
        Flow::Close
    }

    fn poll_transmit(&mut self, out: &mut Outbox) {
        self.send_next();
        out.append(&mut self.out);
    }

    fn is_finished(&self) -> bool {
        self.shutdown == Shutdown::Over
    }
}

impl Calling for Client {
    fn call(&mut self, now: Instant, ticket: Ticket, call: Call) {
        self.now = Some(now);
        let give_up = self.desk.give_up(&call.deadline);
        let queue = match &call.what {
            What::Tool { .. } if call.options.sends_parts => &mut self.collecting,
            _ => &mut self.desk.queue,
        };
        if let Err(failure) = queue.push(ticket, call, give_up) {
            self.desk.done(ticket, Err(failure));
        }
    }

    fn up(&mut self, now: Instant, ticket: Ticket, up: Up) {
        self.now = Some(now);
        match up {
            Up::Cancel(_) => self.cancel(ticket),
            Up::End(_) => self.collected(ticket, up),
            up => {
                if let Some(failure) = self.collecting.up(ticket, up) {
                    self.desk.done(ticket, Err(failure));
                }
            }
        }
    }

    fn close(&mut self, now: Instant, patience: Duration) -> Goodbye {
        self.now = Some(now);
        let is_parting = self.desk.is_broken() && self.shutdown == Shutdown::Possible;
        if !is_parting {
            let asked = self.outstanding.iter_mut();
            let asked = asked.filter_map(|(id, request)| Some((id, request.ticket.take()?)));
            // Oldest first.
            let asked: BTreeMap<_, _> = asked.collect();
            for ticket in asked.into_values().chain(self.take_waiting()) {
                self.desk.done(ticket, Err(Failure::cancelled()));
            }
        }
        if self.shutdown == Shutdown::Possible {
            let shutdown = Request { patience: Some(patience), ..Request::own(Method::Shutdown) };
            let id = self.outstanding.insert(now.checked_add(patience), shutdown);
            wire::write_request(&mut self.out, id, "shutdown", &Bytes::from_static(b"{}"));
            self.shutdown = Shutdown::Asked;
        }
        match self.shutdown {
            Shutdown::Asked => Goodbye::Asked,
            _ => Goodbye::Said,
        }
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

    fn handle_lost(&mut self, now: Instant, why: &Failure) {
        self.now = Some(now);
        self.shutdown.lose();
        self.tell_noise();
        for request in self.take_requests() {
            if let Some(ticket) = request.ticket {
                let failure = self.lost(&request.method, why);
                self.desk.done(ticket, Err(failure));
            }
        }
        let failure = match self.desk.readiness {
            Readiness::Opening => self.lost(&Method::Describe, why),
            _ => self.lost_unasked(why),
        };
        for ticket in self.take_waiting() {
            self.desk.done(ticket, Err(failure.clone()));
        }
    }
}
