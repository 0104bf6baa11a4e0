//! Who hears of changes where client and server are of different eras, and when a client that
//! listens is told that it does (`docs/protocols/mcp.md` 2.5).
//!
//! A legacy server tells all its changes and is subscribed to resources one by one; a modern one
//! is listened to, by one request of ours for all legacy sessions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::crossing::refused;
use super::own_listen::OwnListen;
use super::{MessageClient, Outgoing, Purpose, RequestId, Sent, params_of};
use crate::channel::Ticket;
use crate::json::{Kind, edit};
use crate::jsonrpc::{kind, string};
use crate::mcp::translate::with_last;
use crate::mcp::wire::{INVALID_PARAMS, Refusal, SUBSCRIPTION_KEY, put_member, quoted};
use crate::tool::{Call, CallerId, Deadline, Failure, Outcome};

/// How long a client that listens waits for the server to agree.
pub(super) const AGREED_WITHIN: Duration = Duration::from_secs(2);
/// How long a server may take for a subscription of ours.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How many resources one client may listen to.
pub(super) const RESOURCES_MAX: usize = 1024;

pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The lists that may change: what a client wants to hear of is called so, what a server can
/// change so, and it is told so.
pub(super) const LISTS: [(&str, &str, &str); 3] = [
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
    pub(super) own: Option<OwnListen>,
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

impl Listens {
    /// Is there nothing that has to be agreed to in time?
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.listeners.is_empty() && self.own.is_none()
    }

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

    pub(super) fn has(&self, capability: &str, what: &str) -> bool {
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
    pub(super) fn ask_own(
        &mut self,
        now: Instant,
        method: &'static str,
        params: String,
        timeout: Option<Duration>,
    ) -> Ticket {
        let ticket = self.own_ticket();
        let deadline = Deadline { quiet: timeout, ..Deadline::never(now) };
        let sent = Sent {
            id: 0,
            ticket,
            caller: CallerId(0),
            deadline,
            since: self.silence.since(),
            token: None,
            level: None,
            purpose: Purpose::Own,
            crossing: None,
        };
        let id = RequestId::Number(self.requests.ask(now, sent));
        let (method, params) = (Bytes::from_static(method.as_bytes()), Some(params.into()));
        self.outgoing.push_back(Outgoing::Request { id, method, params });
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

pub(super) fn text(text: &str) -> String {
    String::from_utf8(quoted(text)).expect("made of text")
}
