//! What is asked of a server once more: because its stream broke, or it forgot the session.

use std::time::Instant;

use bytes::Bytes;

use super::gate::Verb;
use super::remote::{Purpose, Remote, Sent};
use crate::tool::{Failure, FailureKind};

/// How often a stream that broke is resumed.
const RESUMED_MAX: u32 = 3;

impl Remote {
    /// The answer broke off. It is asked for again if an event said how.
    pub(super) fn broken(&mut self, now: Instant, sent: Sent, id: u64, is_stream: bool) {
        if is_stream && sent.seen.is_some() && sent.resumed < RESUMED_MAX {
            return self.put_off(now, sent);
        }
        let message = "the answer broke off and cannot be resumed";
        self.client.fail(now, id, Failure::new(FailureKind::Gone, message));
    }

    pub(super) fn put_off(&mut self, now: Instant, sent: Sent) {
        if sent.resumed < RESUMED_MAX {
            self.resumes.push((now + sent.retry, sent));
        }
    }

    pub(super) fn resume(&mut self, sent: Sent) {
        let seen = sent.seen.clone().map(|seen| ("Last-Event-ID".to_owned(), seen));
        let exchange =
            self.request(Verb::Get, sent.purpose, Bytes::new(), seen.into_iter().collect());
        if let Some(again) = self.exchanges.get_mut(&exchange) {
            again.resumed = sent.resumed + 1;
            again.seen = sent.seen;
            again.retry = sent.retry;
        }
    }

    /// Does a 404 mean that the session is unknown, and may the request be made again?
    pub(super) fn has_forgotten(&self, sent: &Sent) -> bool {
        self.session.is_some() && !sent.is_repeated && !sent.body.is_empty()
    }

    /// The server has forgotten the session: the handshake, then what it did not take.
    pub(super) fn reopen(&mut self, sent: Sent) {
        self.repeated.push(Sent { is_repeated: true, ..sent });
        self.session = None;
        if let Some(greeting) = self.greeting.clone()
            && !self.exchanges.values().any(|sent| sent.purpose == Purpose::Reopen)
        {
            self.request(Verb::Post, Purpose::Reopen, greeting, Vec::new());
        }
    }

    pub(super) fn reopened(&mut self) {
        let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let initialized = Bytes::from_static(initialized);
        self.request(Verb::Post, Purpose::Initialized, initialized, Vec::new());
        for sent in std::mem::take(&mut self.repeated) {
            let exchange = self.request(Verb::Post, sent.purpose, sent.body, Vec::new());
            if let Some(again) = self.exchanges.get_mut(&exchange) {
                again.is_repeated = true;
            }
        }
    }
}
