//! Who hears of changes where client and server are of different eras, and when a client that
//! listens is told that it does (`docs/protocols/mcp.md` 2.5).
//!
//! A legacy server tells all its changes and is subscribed to resources one by one; a modern one
//! is listened to, by one request of ours for all legacy sessions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::crossing::{empty, refused};
use super::{MessageClient, Outgoing, Purpose, RequestId, Sent, params_of};
use crate::channel::Ticket;
use crate::json::{Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::mcp::translate::with_last;
use crate::mcp::wire::{
    Era, INVALID_PARAMS, Refusal, SUBSCRIPTION_KEY, UNKNOWN_METHOD, put_member, quoted,
};
use crate::tool::{Call, CallerId, Deadline, Failure, Outcome};

/// How long a client that listens waits for the server to agree.
const AGREED_WITHIN: Duration = Duration::from_secs(2);
/// How long a server may take for a subscription of ours.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many resources one client may listen to.
const RESOURCES_MAX: usize = 1024;
/// How often a server may end our listening before we leave it.
const LOSSES_MAX: u32 = 10;

pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The lists that may change: what a client wants to hear of is called so, what a server can
/// change so, and it is told so.
const LISTS: [(&str, &str, &str); 3] = [
    ("toolsListChanged", "tools", "notifications/tools/list_changed"),
    ("promptsListChanged", "prompts", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "resources", "notifications/resources/list_changed"),
];

/// All who listen.
#[derive(Debug, Default)]
pub(super) struct Listens {
    /// Modern clients of a modern server, which have not been told that they listen.
    pending: BTreeMap<Ticket, Pending>,
    /// Modern clients of a legacy server.
    listeners: BTreeMap<Ticket, Listener>,
    /// The resources that the server tells us of because they listen, with the request that waits.
    subscribed: BTreeMap<String, Option<Ticket>>,
    /// Our own listening to a modern server.
    own: Option<OwnListen>,
}

#[derive(Debug)]
struct Pending {
    wanted: String,
    /// None once we said so ourselves: the server need not say it any more.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Listener {
    wanted: String,
    uris: Vec<String>,
    refused: Vec<String>,
    /// Until when it waits to be told that it listens; none once it was.
    until: Option<Instant>,
}

#[derive(Debug)]
struct OwnListen {
    ticket: Ticket,
    wanted: String,
    /// Until when the server is waited for; none once it has agreed.
    until: Option<Instant>,
    /// Calls that are answered when it has.
    waiters: Vec<Ticket>,
    /// The one before, which is ended then.
    old: Option<Ticket>,
    losses: u32,
}

impl Listens {
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let pending = self.pending.values().filter_map(|pending| pending.until);
        let listeners = self.listeners.values().filter_map(|listener| listener.until);
        pending.chain(listeners).chain(self.own.as_ref().and_then(|own| own.until)).min()
    }

    /// The call is over.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
    }

    /// The server is gone: whose listening is over with it.
    pub(super) fn take_all(&mut self) -> Vec<Ticket> {
        let listens = std::mem::take(self);
        let waiters = listens.own.into_iter().flat_map(|own| own.waiters);
        listens.listeners.into_keys().chain(waiters).collect()
    }

    /// Is this our own listening, or the one before it?
    pub(super) fn is_own(&self, ticket: Ticket) -> bool {
        let is_it = |own: &OwnListen| own.ticket == ticket || own.old == Some(ticket);
        self.own.as_ref().is_some_and(is_it)
    }
}

impl MessageClient {
    /// A modern client listens to a modern server, which is to agree soon.
    pub(super) fn expect_agreement(&mut self, now: Instant, ticket: Ticket, body: &Bytes) {
        let wanted = wanted_in(body).unwrap_or("{}").to_owned();
        let until = Some(now + AGREED_WITHIN);
        self.listens.pending.insert(ticket, Pending { wanted, until });
    }

    /// The server agrees to be listened to; tells whether its client still has to be told.
    pub(super) fn handle_agreement(&mut self, ticket: Ticket) -> bool {
        let pending = self.listens.pending.remove(&ticket);
        pending.is_none_or(|pending| pending.until.is_some())
    }

    /// A modern client listens to a legacy server.
    pub(super) fn listen_across(&mut self, ticket: Ticket, call: &Call, body: &Bytes) {
        let refuse = |message: String| Err(refused(&Refusal::new(INVALID_PARAMS, message)));
        let Some(wanted) = wanted_in(body).map(str::to_owned) else {
            let message = "subscriptions/listen needs notifications, an object".to_owned();
            return self.done(ticket, refuse(message));
        };
        let mut uris: Vec<String> = Vec::new();
        if self.has("resources", "subscribe") {
            let listed = edit::member(&wanted, "resourceSubscriptions").unwrap_or("[]");
            for uri in edit::elements(listed).filter_map(string) {
                if !uris.iter().any(|known| *known == uri) {
                    uris.push(uri.into_owned());
                }
                if RESOURCES_MAX < uris.len() {
                    let message = format!("more than {RESOURCES_MAX} resources");
                    return self.done(ticket, refuse(message));
                }
            }
        }
        let now = self.now(call.deadline.asked);
        for uri in &uris {
            if !self.listens.subscribed.contains_key(uri) {
                let asked = self.ask_own(now, "resources/subscribe", of_uri(uri), Some(TIMEOUT));
                self.listens.subscribed.insert(uri.clone(), Some(asked));
            }
        }
        let until = Some(now + AGREED_WITHIN);
        let listener = Listener { wanted, uris, refused: Vec::new(), until };
        self.listens.listeners.insert(ticket, listener);
        self.agree(ticket, false);
    }

    /// Tells a client that it listens, once the server has agreed to all it was asked; at once,
    /// if that has taken too long.
    fn agree(&mut self, ticket: Ticket, is_late: bool) {
        let Some(listener) = self.listens.listeners.get_mut(&ticket) else { return };
        let subscribed = &self.listens.subscribed;
        let is_asked = |uri: &String| subscribed.get(uri).is_some_and(Option::is_some);
        if listener.until.is_none() || (!is_late && listener.uris.iter().any(is_asked)) {
            return;
        }
        listener.until = None;
        let (wanted, without) = (listener.wanted.clone(), listener.refused.clone());
        self.tell_agreed(ticket, &wanted, &without);
    }

    /// Tells a client that it listens; what it is not told of is named by `without`.
    fn tell_agreed(&mut self, ticket: Ticket, wanted: &str, without: &[String]) {
        let agreed = self.agreed(wanted, without);
        let params = format!("{{\"_meta\":{},\"notifications\":{agreed}}}", tag());
        self.tell(ticket, ACKNOWLEDGED, Some(&params));
    }

    /// The part of what is wanted that the server's capabilities cover.
    fn agreed(&self, wanted: &str, without: &[String]) -> String {
        let mut agreed = vec![b'{'];
        for (name, value) in edit::members(wanted) {
            let is_list = |(listened, list, _): &(&str, &str, &str)| {
                *listened == name && value == "true" && self.has(list, "listChanged")
            };
            if LISTS.iter().any(is_list) {
                put_member(&mut agreed, &name, value);
            } else if name == "resourceSubscriptions" && self.has("resources", "subscribe") {
                let is_kept = |raw: &&str| {
                    string(raw).is_some_and(|uri| !without.iter().any(|refused| *refused == uri))
                };
                let kept: Vec<_> = edit::elements(value).filter(is_kept).collect();
                put_member(&mut agreed, &name, format!("[{}]", kept.join(",")));
            }
        }
        agreed.push(b'}');
        String::from_utf8(agreed).expect("made of text")
    }

    fn has(&self, capability: &str, what: &str) -> bool {
        let capability = edit::member(self.server_capabilities(), capability);
        capability.and_then(|capability| edit::member(capability, what)) == Some("true")
    }

    /// A legacy server tells of a change: the modern clients that want to know are told.
    pub(super) fn tell_listeners(&mut self, method: &str, params: Option<&str>) {
        let uri = params.and_then(|params| edit::text(params, "uri"));
        let list = LISTS.iter().find(|(_, _, told)| *told == method).map(|(name, ..)| *name);
        let wants = |listener: &Listener| match (list, &uri) {
            (Some(list), _) => edit::member(&listener.wanted, list) == Some("true"),
            (None, Some(uri)) if method == "notifications/resources/updated" => {
                listener.uris.iter().any(|wanted| wanted == uri)
            }
            _ => false,
        };
        // Before it was told that it listens, a client hears nothing.
        let listeners = self.listens.listeners.iter();
        let told = listeners.filter(|(_, it)| it.until.is_none() && wants(it));
        let told: Vec<_> = told.map(|(ticket, _)| *ticket).collect();
        let params = params.unwrap_or("{}");
        let meta = with_last(edit::member(params, "_meta").unwrap_or("{}"), SUBSCRIPTION_KEY, "0");
        let tagged = with_last(params, "_meta", meta);
        for ticket in told {
            self.tell(ticket, method, Some(&tagged));
        }
    }

    /// A client listens no more; tells whether it did.
    pub(super) fn leave_listening(&mut self, ticket: Ticket) -> bool {
        let Some(listener) = self.listens.listeners.remove(&ticket) else { return false };
        for uri in listener.uris {
            if !self.is_wanted(&uri) && self.listens.subscribed.remove(&uri).is_some() {
                let Some(now) = self.latest else { continue };
                self.ask_own(now, "resources/unsubscribe", of_uri(&uri), Some(TIMEOUT));
            }
        }
        true
    }

    /// Does some client want to hear of this resource?
    fn is_wanted(&self, uri: &str) -> bool {
        let has = |uris: &[String]| uris.iter().any(|known| known == uri);
        self.listens.listeners.values().any(|listener| has(&listener.uris))
            || self.sessions.values().any(|session| has(&session.uris))
    }

    /// A legacy session subscribes at a legacy server, or no longer. Tells whether the server must
    /// not hear of it, because another client still wants to know.
    pub(super) fn keeps_subscription(
        &mut self,
        caller: CallerId,
        method: &str,
        body: &Bytes,
    ) -> bool {
        let uri = params_of(body).and_then(|params| edit::text(params, "uri"));
        let (Some(uri), Some(session)) = (uri, self.sessions.get_mut(&caller)) else {
            return false;
        };
        session.uris.retain(|known| *known != uri);
        if method == "resources/subscribe" {
            if session.uris.len() < RESOURCES_MAX {
                session.uris.push(uri.into_owned());
            }
            return false;
        }
        self.is_wanted(&uri)
    }

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
        self.listens.own = Some(OwnListen { ticket, wanted, until, waiters, old, losses });
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
    fn own_agreed(&mut self, ticket: Ticket) {
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
        if let Some(sent) = self.forget(ticket) {
            self.cancel(sent.id, None);
        }
    }

    /// A request of our own is over.
    pub(super) fn own_done(&mut self, ticket: Ticket, outcome: Result<Outcome, Failure>) {
        let subscribed = &mut self.listens.subscribed;
        let asked = subscribed.iter().find(|(_, asked)| **asked == Some(ticket));
        if let Some(uri) = asked.map(|(uri, _)| uri.clone()) {
            subscribed.insert(uri.clone(), None);
            if outcome.is_err() {
                subscribed.remove(&uri);
                for listener in self.listens.listeners.values_mut() {
                    if listener.uris.contains(&uri) {
                        listener.refused.push(uri.clone());
                    }
                }
            }
            let listeners: Vec<_> = self.listens.listeners.keys().copied().collect();
            return listeners.into_iter().for_each(|listener| self.agree(listener, false));
        }
        if self.listens.own.as_ref().is_some_and(|own| own.ticket == ticket) {
            return self.own_lost(outcome);
        }
        self.held_done(ticket, outcome);
    }

    /// The server has ended our own listening. It is asked anew if it had agreed, but not for ever.
    fn own_lost(&mut self, outcome: Result<Outcome, Failure>) {
        let Some(own) = self.listens.own.take() else { return };
        own.old.into_iter().for_each(|old| self.stop_listening(old));
        let why = outcome.err();
        for waiter in own.waiters {
            self.done(waiter, why.clone().map_or_else(empty, Err));
        }
        if let Some(now) = self.latest.filter(|_| own.until.is_none() && own.losses < LOSSES_MAX) {
            self.listen_for_sessions(now, own.losses + 1);
        }
    }

    /// Tells those who have waited long enough that they listen.
    pub(super) fn expire_listens(&mut self, now: Instant) {
        let is_late = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let pending = self.listens.pending.iter().filter(|(_, pending)| is_late(pending.until));
        let pending: Vec<_> =
            pending.map(|(ticket, pending)| (*ticket, pending.wanted.clone())).collect();
        for (ticket, wanted) in pending {
            if let Some(pending) = self.listens.pending.get_mut(&ticket) {
                pending.until = None;
            }
            self.tell_agreed(ticket, &wanted, &[]);
        }
        let listeners = self.listens.listeners.iter().filter(|(_, it)| is_late(it.until));
        let listeners: Vec<_> = listeners.map(|(ticket, _)| *ticket).collect();
        listeners.into_iter().for_each(|listener| self.agree(listener, true));
        let own = self.listens.own.as_ref().filter(|own| is_late(own.until));
        if let Some(ticket) = own.map(|own| own.ticket) {
            self.own_agreed(ticket);
        }
    }

    /// Asks the server something for ourselves.
    fn ask_own(
        &mut self,
        now: Instant,
        method: &'static str,
        params: String,
        timeout: Option<Duration>,
    ) -> Ticket {
        let ticket = self.own_ticket();
        let deadline = Deadline { quiet: timeout, ..Deadline::never(now) };
        let id = self.outstanding.ask(ticket, deadline);
        let method = Bytes::from_static(method.as_bytes());
        let (number, params) = (RequestId::Number(id), Some(params.into()));
        self.outgoing.push_back(Outgoing::Request { id: number, method, params });
        let sent = Sent {
            id,
            caller: CallerId(0),
            deadline,
            since: self.silence.since(),
            token: None,
            level: None,
            purpose: Purpose::Own,
            crossing: None,
        };
        self.sent.insert(ticket, sent);
        ticket
    }
}

/// What a client wants to hear of, if it says so as it should.
fn wanted_in(body: &Bytes) -> Option<&str> {
    let wanted = edit::member(params_of(body)?, "notifications")?;
    (kind(wanted) == Kind::Object).then_some(wanted)
}

/// Stands for the id of the client's request, which the front puts there.
fn tag() -> String {
    format!("{{\"{SUBSCRIPTION_KEY}\":0}}")
}

fn of_uri(uri: &str) -> String {
    format!("{{\"uri\":{}}}", text(uri))
}

fn text(text: &str) -> String {
    String::from_utf8(quoted(text)).expect("made of text")
}
