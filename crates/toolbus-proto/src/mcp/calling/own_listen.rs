//! A modern server is listened to for the legacy sessions there are, by one request of ours
//! (`docs/protocols/mcp.md` 2.5).

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::crossing::{empty, refused};
use super::listens::{ACKNOWLEDGED, AGREED_WITHIN, LISTS, RESOURCES_MAX, text};
use super::{MessageClient, params_of};
use crate::channel::Ticket;
use crate::json::edit;
use crate::mcp::translate::with_last;
use crate::mcp::wire::{
    Era, INVALID_PARAMS, Refusal, SUBSCRIPTION_KEY, UNKNOWN_METHOD, put_member,
};
use crate::tool::{Call, Failure, Outcome};

/// How often a server may end our listening before we leave it.
const LOSSES_MAX: u32 = 10;
/// After how long that does not count.
const LASTED: Duration = Duration::from_secs(60);

/// Our own listening.
#[derive(Debug)]
pub(super) struct OwnListen {
    pub(super) ticket: Ticket,
    pub(super) wanted: String,
    /// Until when the server is waited for; none once it has agreed.
    pub(super) until: Option<Instant>,
    /// Calls that are answered when it has.
    pub(super) waiters: Vec<Ticket>,
    /// The one before, which is ended then.
    pub(super) old: Option<Ticket>,
    pub(super) since: Instant,
    pub(super) losses: u32,
}

impl MessageClient {
    /// A legacy session subscribes to a resource of a modern server, or no longer.
    pub(super) fn subscribe_across(
        &mut self,
        ticket: Ticket,
        call: &Call,
        method: &str,
        body: &Bytes,
    ) {
        let refuse = |code, message: String| Err(refused(&Refusal::new(code, message)));
        if !self.has("resources", "subscribe") {
            let message = format!("method not found: {method}");
            return self.done(ticket, refuse(UNKNOWN_METHOD, message));
        }
        let uri = params_of(body).and_then(|params| edit::text(params, "uri"));
        let Some(uri) = uri else {
            let message = format!("{method} needs uri, a string");
            return self.done(ticket, refuse(INVALID_PARAMS, message));
        };
        let Some(session) = self.sessions.get_mut(&call.caller) else {
            return self.done(ticket, empty());
        };
        session.uris.retain(|known| *known != uri);
        if method == "resources/subscribe" {
            if RESOURCES_MAX <= session.uris.len() {
                let message = format!("more than {RESOURCES_MAX} resources");
                return self.done(ticket, refuse(INVALID_PARAMS, message));
            }
            session.uris.push(uri.into_owned());
        }
        self.listen_for_sessions(self.now(call.deadline.asked), 0);
        match &mut self.listens.own {
            Some(own) if own.until.is_some() => own.waiters.push(ticket),
            _ => self.done(ticket, empty()),
        }
    }

    /// The client of a legacy session has said something: a modern server is listened to for it.
    pub(super) fn hear_session(&mut self, call: &Call) {
        let session = self.sessions.get_mut(&call.caller);
        if let Some(session) = session.filter(|session| !session.is_heard) {
            session.is_heard = true;
            self.listen_for_sessions(self.now(call.deadline.asked), 0);
        }
    }

    /// Listens to a modern server for the legacy sessions there are, to no more and no less.
    pub(super) fn listen_for_sessions(&mut self, now: Instant, losses: u32) {
        if self.greeting.as_ref().is_none_or(|greeting| greeting.era() == Era::Legacy) {
            return;
        }
        let wanted = self.wanted_by_sessions();
        let known = self.listens.own.as_ref();
        if known.map(|own| own.wanted.as_str()) == wanted.as_deref() {
            return;
        }
        let before = self.listens.own.take();
        let Some(wanted) = wanted else {
            if let Some(own) = before {
                own.old.into_iter().chain([own.ticket]).for_each(|old| self.stop_listening(old));
                own.waiters.into_iter().for_each(|waiter| self.done(waiter, empty()));
            }
            return;
        };
        let params = format!("{{\"_meta\":{},\"notifications\":{wanted}}}", self.modern_meta("{}"));
        let ticket = self.ask_own(now, "subscriptions/listen", params, None);
        let (mut old, mut waiters) = (None, Vec::new());
        if let Some(own) = before {
            // What was never agreed to need not be waited for.
            let (kept, gone) = match own.until {
                None => (Some(own.ticket), own.old),
                Some(_) => (own.old, Some(own.ticket)),
            };
            gone.into_iter().for_each(|gone| self.stop_listening(gone));
            (old, waiters) = (kept, own.waiters);
        }
        let until = Some(now + AGREED_WITHIN);
        self.listens.own =
            Some(OwnListen { ticket, wanted, until, waiters, old, since: now, losses });
    }

    /// All that the server offers, and the resources that sessions have subscribed to.
    fn wanted_by_sessions(&self) -> Option<String> {
        if !self.sessions.values().any(|session| session.is_heard) {
            return None;
        }
        let mut wanted = vec![b'{'];
        for (listened, list, _) in LISTS {
            if self.has(list, "listChanged") {
                put_member(&mut wanted, listened, "true");
            }
        }
        let mut uris: Vec<_> = self.sessions.values().flat_map(|session| &session.uris).collect();
        uris.sort_unstable();
        uris.dedup();
        if !uris.is_empty() {
            let uris: Vec<_> = uris.into_iter().map(|uri| text(uri)).collect();
            put_member(&mut wanted, "resourceSubscriptions", format!("[{}]", uris.join(",")));
        }
        wanted.push(b'}');
        String::from_utf8(wanted).ok().filter(|wanted| wanted != "{}")
    }

    /// What the server says to our own listening.
    pub(super) fn handle_own_note(&mut self, ticket: Ticket, method: &str, params: Option<&str>) {
        if method == ACKNOWLEDGED {
            return self.own_agreed(ticket);
        }
        let params = params.unwrap_or("{}");
        let meta = edit::without(edit::member(params, "_meta").unwrap_or("{}"), SUBSCRIPTION_KEY);
        let params = match meta == "{}" {
            true => edit::without(params, "_meta"),
            false => with_last(params, "_meta", meta),
        };
        let uri =
            edit::text(&params, "uri").filter(|_| method == "notifications/resources/updated");
        let wants =
            |uris: &[String]| uri.as_ref().is_none_or(|uri| uris.iter().any(|it| it == uri));
        let sessions = self.sessions.values().filter(|session| wants(&session.uris));
        let mut sessions: Vec<_> = sessions.map(|session| session.ticket).collect();
        sessions.sort_unstable();
        let params = Some(params.as_str()).filter(|params| *params != "{}");
        for session in sessions {
            self.tell(session, method, params);
        }
    }

    /// The server agrees to our own listening, or has taken too long to say so.
    pub(super) fn own_agreed(&mut self, ticket: Ticket) {
        let Some(own) = self.listens.own.as_mut().filter(|own| own.ticket == ticket) else {
            return;
        };
        if own.until.take().is_none() {
            return;
        }
        let (old, waiters) = (own.old.take(), std::mem::take(&mut own.waiters));
        old.into_iter().for_each(|old| self.stop_listening(old));
        waiters.into_iter().for_each(|waiter| self.done(waiter, empty()));
    }

    fn stop_listening(&mut self, ticket: Ticket) {
        if let Some(sent) = self.take_sent_of(ticket) {
            self.cancel(sent.id, None);
        }
    }

    /// The server has ended our own listening. It is asked anew if it had agreed, but not for ever.
    pub(super) fn own_lost(&mut self, outcome: Result<Outcome, Failure>) {
        let Some(own) = self.listens.own.take() else { return };
        own.old.into_iter().for_each(|old| self.stop_listening(old));
        let why = outcome.err();
        for waiter in own.waiters {
            self.done(waiter, why.clone().map_or_else(empty, Err));
        }
        let Some(now) = self.latest.filter(|_| own.until.is_none()) else { return };
        let has_lasted = own.since + LASTED <= now;
        if has_lasted || own.losses < LOSSES_MAX {
            self.listen_for_sessions(now, if has_lasted { 0 } else { own.losses + 1 });
        }
    }
}
