//! What was found out about tokens, for a while: a token that is known costs one sum.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;
use toolbus_proto::caller::{CallerName, Digest};
use toolbus_proto::http::Grant;
use toolbus_proto::oauth::claims::TokenFault;

/// How many tokens are known; of more the oldest are forgotten.
const KNOWN_MAX: usize = 10_000;

/// What is true of a token.
#[derive(Debug, Clone)]
pub(super) enum TokenVerdict {
    /// It is good.
    Good(Arc<Grant>),
    /// It is good, and has not the scopes that every request needs.
    Lacking,
    /// It is good, and no caller's.
    NoCaller,
    /// It is good, and of a caller for whom the front is not.
    NotHere(CallerName),
    /// It is not good.
    Bad(TokenFault),
}

#[derive(Default)]
pub(super) struct KnownTokens {
    by_token: HashMap<Digest, (TokenVerdict, Instant)>,
    in_order: VecDeque<Digest>,
}

impl KnownTokens {
    pub(super) fn get(&self, token: &Digest) -> Option<&TokenVerdict> {
        let (verdict, until) = self.by_token.get(token)?;
        (Instant::now() < *until).then_some(verdict)
    }

    /// Keeps what was found out until then.
    pub(super) fn keep(&mut self, token: Digest, verdict: TokenVerdict, until: Instant) {
        if self.by_token.insert(token, (verdict, until)).is_none() {
            self.in_order.push_back(token);
        }
        while KNOWN_MAX < self.by_token.len() {
            let Some(oldest) = self.in_order.pop_front() else { return };
            self.by_token.remove(&oldest);
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.by_token.clear();
        self.in_order.clear();
    }
}
