//! How a session of the old era begins, in order.
//!
//! Each message has a connection of its own and may overtake others. A server has to take
//! `notifications/initialized` before it is asked anything: some break the session off otherwise.
//! And what may be asked of a caller's client comes on the session's own stream, so that has to be
//! there before the call is: a question without a stream is lost.

use std::time::{Duration, Instant};

use super::{HttpClient, Outgoing, Purpose, Request};
use crate::json::edit;

/// How long the session's own stream is waited for where a caller may be asked something. Some
/// servers give it no status before they have something to tell.
const LISTEN_PATIENCE: Duration = Duration::from_secs(2);
/// The same where none can be: nothing is lost then, but a server may take a stream that comes late
/// for one that is to go on with a call.
const LISTEN_PATIENCE_UNASKED: Duration = Duration::from_millis(250);

/// What has to be over before anything else is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Nothing.
    Over,
    /// `notifications/initialized` is under way.
    Telling,
    /// The session's own stream has no status yet.
    Listening { until: Instant },
}

impl HttpClient {
    /// The server has taken `notifications/initialized`.
    pub(super) fn told_initialized(&mut self, now: Instant) {
        if self.pair.is_some() {
            // Its stream is there already.
            return self.begun();
        }
        self.listen();
        let patience = match self.may_be_asked() {
            true => LISTEN_PATIENCE,
            false => LISTEN_PATIENCE_UNASKED,
        };
        self.beginning = Beginning::Listening { until: now + patience };
    }

    /// The session's own stream is there, or there will be none.
    pub(super) fn listens(&mut self) {
        if let Beginning::Listening { .. } = self.beginning {
            self.begun();
        }
    }

    /// From now on requests may follow, first of all those that wait for a session.
    pub(super) fn begun(&mut self) {
        self.beginning = Beginning::Over;
        let is_reopening = |request: &Request| request.purpose == Purpose::Reopen;
        if !self.requests.values().any(is_reopening) {
            for request in std::mem::take(&mut self.repeated) {
                self.open(request);
            }
        }
    }

    /// Looks whether the session's own stream was waited for long enough.
    pub(super) fn expire_beginning(&mut self, now: Instant) {
        if self.poll_beginning().is_some_and(|until| until <= now) {
            self.begun();
        }
    }

    pub(super) fn poll_beginning(&self) -> Option<Instant> {
        match self.beginning {
            Beginning::Listening { until } => Some(until),
            Beginning::Over | Beginning::Telling => None,
        }
    }

    /// Have we said that servers may ask us something?
    fn may_be_asked(&self) -> bool {
        let params = self.greeting.as_ref().and_then(Outgoing::params);
        let capabilities = params.and_then(|params| edit::member(params, "capabilities"));
        let has = |name: &&str| capabilities.is_some_and(|all| edit::member(all, name).is_some());
        ["roots", "sampling", "elicitation"].iter().any(has)
    }

    fn listen(&mut self) {
        let is_listening = |request: &Request| request.purpose == Purpose::Listen;
        if !self.requests.values().any(is_listening) {
            self.open(Request::new(Purpose::Listen, None));
        }
    }
}
