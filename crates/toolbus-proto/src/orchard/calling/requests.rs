//! Requests that a provider has not answered yet: ids given out, who waits, until when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::channel::Ticket;
use crate::tool::ToolName;

/// What a provider was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Method {
    Describe,
    Configure,
    Execute {
        action: ToolName,
        /// How people know this call; the action's name if they have no other.
        label: Option<String>,
        gives_outputs: bool,
    },
    Shutdown,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Describe => f.write_str("`describe`"),
            Method::Configure => f.write_str("`configure`"),
            Method::Execute { action, label: None, .. } => write!(f, "`execute` of `{action}`"),
            Method::Execute { label: Some(label), .. } => write!(f, "`execute` of `{label}`"),
            Method::Shutdown => f.write_str("`shutdown`"),
        }
    }
}

/// A request without an answer.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    /// `None` once cancelled, and for what we ask of our own accord: the answer is awaited all
    /// the same.
    pub(super) ticket: Option<Ticket>,
    /// How long it may take, for people, and when that is over.
    pub(super) patience: Option<Duration>,
    pub(super) give_up: Option<Instant>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Requests {
    next_id: u64,
    waiting: BTreeMap<u64, Request>,
    executing: usize,
    /// No request is given up earlier. May be too early: then it is found anew.
    earliest: Option<Instant>,
}

impl Requests {
    /// Ids count from 1.
    pub(super) fn new() -> Requests {
        Requests { next_id: 1, waiting: BTreeMap::new(), executing: 0, earliest: None }
    }

    /// Gives out the next id.
    pub(super) fn ask(&mut self, request: Request) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.executing += usize::from(request.is_execute());
        self.earliest = self.earliest.into_iter().chain(request.give_up).min();
        self.waiting.insert(id, request);
        id
    }

    /// Was this id ever given out?
    pub(super) fn was_asked(&self, id: u64) -> bool {
        1 <= id && id < self.next_id
    }

    /// What waits for the answer to `id`.
    pub(super) fn get(&self, id: u64) -> Option<&Request> {
        self.waiting.get(&id)
    }

    /// The answer is here.
    pub(super) fn take(&mut self, id: u64) -> Option<Request> {
        let request = self.waiting.remove(&id)?;
        self.executing -= usize::from(request.is_execute());
        if self.waiting.is_empty() {
            self.earliest = None;
        }
        Some(request)
    }

    /// The caller behind `ticket` does not wait any more. Was there one?
    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let mut requests = self.waiting.values_mut();
        let found = requests.find(|request| request.ticket == Some(ticket));
        found.map(|request| request.ticket = None).is_some()
    }

    /// No caller waits any more; gives those who did, oldest first.
    pub(super) fn cancel_all(&mut self) -> Vec<Ticket> {
        self.waiting.values_mut().filter_map(|request| request.ticket.take()).collect()
    }

    /// Answers do not count any more: all requests, oldest first, but a `shutdown`.
    pub(super) fn take_all(&mut self) -> Vec<Request> {
        self.executing = 0;
        let is_call = |_: &u64, request: &mut Request| request.method != Method::Shutdown;
        let calls = self.waiting.extract_if(.., is_call).map(|(_, request)| request).collect();
        self.earliest = self.waiting.values().filter_map(|request| request.give_up).min();
        calls
    }

    /// How many calls run in the provider.
    pub(super) fn executing(&self) -> usize {
        self.executing
    }

    /// When the next one may have waited long enough.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.earliest
    }

    /// The oldest that has waited long enough by now.
    pub(super) fn expired(&mut self, now: Instant) -> Option<u64> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return None;
        }
        self.earliest = self.waiting.values().filter_map(|request| request.give_up).min();
        let is_over = |request: &Request| request.give_up.is_some_and(|give_up| give_up <= now);
        self.waiting.iter().find(|(_, request)| is_over(request)).map(|(id, _)| *id)
    }
}

impl Request {
    fn is_execute(&self) -> bool {
        matches!(self.method, Method::Execute { .. })
    }
}
