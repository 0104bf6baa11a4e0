//! One conversation with an MCP server over HTTP: makes the requests that it asks for, and
//! gives it what comes back.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use toolbus_proto::channel::{Down, Notice, Readiness, Ticket, Up};
use toolbus_proto::mcp::http::{ExchangeId, Remote, Request, mirrored};
use toolbus_proto::tool::{Call, Failure, FailureKind, Outcome, ToolSpec};

use super::{Options, Watchers};
use crate::bus::back::{causes, hinted};
use crate::engine;
use crate::engine::calls::{Answerer, Pressure, ReplyTo, RunningCall};
use crate::engine::drive::until;
use crate::engine::wake::Wake;
use crate::transport::http::{Body, CallError, HeaderMap, HeaderValue, Response, header};

/// How often one request may be sent elsewhere.
const REDIRECTS_MAX: u32 = 5;

pub(super) struct Talk {
    this: Weak<Talk>,
    options: Rc<Options>,
    watchers: Watchers,
    remote: RefCell<Remote>,
    slots: RefCell<HashMap<Ticket, ReplyTo>>,
    next_ticket: Cell<u64>,
    /// Callers who were given all that they can take for now.
    slow: RefCell<HashSet<Ticket>>,
    /// Told when one of them goes on.
    went_on: Notify,
    exchanges: RefCell<HashMap<ExchangeId, AbortHandle>>,
    /// Until when the server must have introduced itself.
    open_until: Instant,
    clock: RefCell<Option<AbortHandle>>,
    was_open: Cell<bool>,
    has_ended: Cell<bool>,
    /// When and why it ended without ever having been open, until somebody asks.
    failed_start: RefCell<Option<(Instant, Failure)>>,
    /// Rung when there may be another time to wake at, or fewer exchanges.
    wake: Wake,
    fewer: Notify,
}

impl Talk {
    /// Says nothing before it is asked. Must be called inside a `LocalSet`.
    pub(super) fn begin(options: Rc<Options>, watchers: Watchers) -> Rc<Talk> {
        let talk = Rc::new_cyclic(|this| Talk {
            this: this.clone(),
            remote: RefCell::new(Remote::new(options.settings.clone())),
            slots: RefCell::default(),
            next_ticket: Cell::new(0),
            slow: RefCell::default(),
            went_on: Notify::new(),
            exchanges: RefCell::default(),
            open_until: Instant::now() + options.start_timeout,
            clock: RefCell::default(),
            was_open: Cell::new(false),
            has_ended: Cell::new(false),
            failed_start: RefCell::default(),
            wake: Wake::default(),
            fewer: Notify::new(),
            options,
            watchers,
        });
        let kept = talk.clone();
        let clock = spawn_local(async move { kept.keep_time().await });
        talk.clock.replace(Some(clock.abort_handle()));
        talk
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// Has the server introduced itself?
    pub(super) fn was_open(&self) -> bool {
        self.was_open.get()
    }

    /// When and why it could not be begun; told once.
    pub(super) fn take_failed_start(&self) -> Option<(Instant, Failure)> {
        self.failed_start.take()
    }

    /// Asks, at once.
    pub(super) fn start(self: Rc<Talk>, call: Call, down: ReplyTo) -> RunningCall {
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        self.slots.borrow_mut().insert(ticket, down);
        self.remote.borrow_mut().call(Instant::now(), ticket, call);
        self.settle();
        RunningCall::new(self, ticket)
    }

    /// Ends the session, and waits until the server knows.
    pub(super) async fn close(&self) {
        self.fail_all(&super::leaving());
        // Nobody waits for what is under way, and the session's own stream ends with it.
        self.abort_all();
        self.remote.borrow_mut().close(Instant::now());
        self.settle();
        while !self.exchanges.borrow().is_empty() {
            self.fewer.notified().await;
        }
    }

    /// Ends everything at once.
    pub(super) fn end(&self, failure: &Failure) {
        if self.has_ended.replace(true) {
            return;
        }
        if !self.was_open.get() {
            self.failed_start.replace(Some((Instant::now(), failure.clone())));
        }
        self.abort_all();
        if let Some(clock) = self.clock.take() {
            clock.abort();
        }
        self.fail_all(failure);
    }

    fn abort_all(&self) {
        self.exchanges.take().into_values().for_each(|exchange| exchange.abort());
    }

    fn fail_all(&self, failure: &Failure) {
        let mut slots: Vec<_> = self.slots.take().into_iter().collect();
        slots.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (_, slot) in slots {
            let _ = slot.send(Down::Done(Err(failure.clone())));
        }
    }

    async fn keep_time(&self) {
        loop {
            let timeout = self.remote.borrow().poll_timeout();
            let opening = Some(self.open_until).filter(|_| self.is_opening());
            tokio::select! {
                () = self.wake.rung() => {}
                () = until(timeout) => {
                    self.remote.borrow_mut().handle_timeout(Instant::now());
                    self.settle();
                }
                () = until(opening) => {
                    let patience = self.options.start_timeout;
                    let message = format!("the server did not introduce itself within {patience:?}");
                    self.end(&Failure::new(FailureKind::Unavailable, message));
                }
            }
        }
    }

    fn is_opening(&self) -> bool {
        // Nobody is waited for before somebody has called.
        !self.slots.borrow().is_empty()
            && matches!(self.remote.borrow().readiness(), Readiness::Opening)
    }

    /// Does what the conversation wants; gives whom it filled. Nothing stays borrowed meanwhile:
    /// who receives something may call right back.
    fn settle(&self) -> Vec<Ticket> {
        let mut filled = Vec::new();
        loop {
            let down = self.remote.borrow_mut().poll_down();
            let Some((ticket, down)) = down else { break };
            if self.deliver(ticket, down) == Pressure::Full {
                filled.push(ticket);
            }
        }
        loop {
            let notice = self.remote.borrow_mut().poll_notice();
            let Some(notice) = notice else { break };
            engine::log(&self.options.settings.name, &notice);
            if notice == Notice::ToolsChanged {
                self.watchers.borrow().iter().for_each(|changed| changed());
            }
        }
        loop {
            let abort = self.remote.borrow_mut().poll_abort();
            let Some(exchange) = abort else { break };
            let running = self.exchanges.borrow_mut().remove(&exchange);
            running.into_iter().for_each(|running| running.abort());
        }
        loop {
            let request = self.remote.borrow_mut().poll_request();
            let Some((exchange, request)) = request else { break };
            self.make(exchange, request);
        }
        let broken = match self.remote.borrow().readiness() {
            Readiness::Broken(fault) => Some(fault.failure.clone()),
            Readiness::Open => {
                self.was_open.set(true);
                None
            }
            Readiness::Opening => None,
        };
        if let Some(failure) = broken {
            self.end(&failure);
        }
        self.wake.ring();
        filled
    }

    fn deliver(&self, ticket: Ticket, down: Down) -> Pressure {
        let down = match down {
            Down::Done(Ok(Outcome::Tools(tools))) => {
                Down::Done(Ok(Outcome::Tools(self.listed(&tools))))
            }
            down => down,
        };
        let slot = match &down {
            Down::Done(_) => {
                self.go_on(ticket);
                self.slots.borrow_mut().remove(&ticket)
            }
            _ => self.slots.borrow().get(&ticket).cloned(),
        };
        let is_done = matches!(down, Down::Done(_));
        let room = slot.map_or(Pressure::Ready, |slot| slot.send(down));
        if is_done || room == Pressure::Ready || !self.slots.borrow().contains_key(&ticket) {
            return Pressure::Ready;
        }
        self.slow.borrow_mut().insert(ticket);
        Pressure::Full
    }

    /// The tools that can be called over HTTP.
    fn listed(&self, tools: &[ToolSpec]) -> Arc<[ToolSpec]> {
        let is_fit = |tool: &&ToolSpec| match mirrored(tool.input.as_str()) {
            Ok(_) => true,
            Err(why) => {
                let peer = &self.options.settings.name;
                tracing::warn!(%peer, "tool `{}` is left out: {why}", tool.name);
                false
            }
        };
        tools.iter().filter(is_fit).cloned().collect()
    }

    fn make(&self, exchange: ExchangeId, request: Request) {
        let Some(this) = self.this.upgrade() else { return };
        let running = spawn_local(async move {
            this.exchange(exchange, request).await;
            this.exchanges.borrow_mut().remove(&exchange);
            this.fewer.notify_waiters();
        });
        self.exchanges.borrow_mut().insert(exchange, running.abort_handle());
    }

    /// Makes a request and hears the answer to its end.
    async fn exchange(&self, exchange: ExchangeId, request: Request) {
        let (head, mut body) = match self.ask(&request).await {
            Ok(response) => response.into_parts(),
            Err(error) => return self.unanswered(exchange, &error),
        };
        let headers = texts(&head.headers);
        self.remote.borrow_mut().handle_head(exchange, head.status.as_u16(), &headers);
        let mut input = BytesMut::new();
        // Cut or not: the conversation knows by itself whether something is missing.
        while let Ok(Some(chunk)) = body.next().await {
            input.extend_from_slice(&chunk);
            self.remote.borrow_mut().handle_body(Instant::now(), exchange, &mut input);
            let filled = self.settle();
            // Only whoever is slow waits: others have exchanges of their own.
            while filled.iter().any(|ticket| self.slow.borrow().contains(ticket)) {
                self.went_on.notified().await;
            }
        }
        self.remote.borrow_mut().handle_end(Instant::now(), exchange);
        self.settle();
    }

    /// Follows the server to another path of its own, and to nobody else.
    async fn ask(&self, request: &Request) -> Result<Response<Body>, CallError> {
        let mut path = self.options.path.clone();
        let mut redirects = 0;
        loop {
            let response = self.options.ask(&path, request).await?;
            let location = response.headers().get(header::LOCATION).map(HeaderValue::as_bytes);
            let location = location.and_then(|location| str::from_utf8(location).ok());
            let elsewhere = match response.status().as_u16() {
                307 | 308 if redirects < REDIRECTS_MAX => location,
                _ => None,
            };
            match elsewhere.and_then(|location| self.options.own_path(location)) {
                Some(own) => path = own,
                None => return Ok(response),
            }
            redirects += 1;
        }
    }

    fn unanswered(&self, exchange: ExchangeId, error: &CallError) {
        let message = causes(error);
        if self.is_opening() {
            // Whoever is not there need not be asked in another way.
            let failure = Failure::new(FailureKind::Unavailable, message);
            return self.end(&hinted(failure, error.hint()));
        }
        let kind = match error {
            // It had the request, and may have done what it asks.
            CallError::Closed { .. } => FailureKind::Gone,
            _ => FailureKind::Unavailable,
        };
        let failure = Failure::new(kind, message);
        self.remote.borrow_mut().handle_failed(Instant::now(), exchange, failure);
        self.settle();
    }

    /// The caller has read what it was given, or wants no more.
    fn go_on(&self, ticket: Ticket) {
        if self.slow.borrow_mut().remove(&ticket) {
            self.went_on.notify_waiters();
        }
    }
}

impl Answerer for Talk {
    fn send(&self, ticket: Ticket, up: Up) -> Pressure {
        if let Up::Cancel(_) = up {
            self.go_on(ticket);
            self.slots.borrow_mut().remove(&ticket);
        }
        if !self.has_ended() {
            self.remote.borrow_mut().up(Instant::now(), ticket, up);
            self.settle();
        }
        // Nothing but answers to questions goes up, and each is a request of its own.
        Pressure::Ready
    }

    fn resume(&self, ticket: Ticket) {
        self.go_on(ticket);
    }
}

/// The headers that are text; no other means anything here.
fn texts(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let text = |value| str::from_utf8(HeaderValue::as_bytes(value)).ok();
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), text(value)?))).collect()
}
