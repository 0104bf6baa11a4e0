//! Questions of a server to its caller (`docs/protocols/mcp.md` 2.5, 2.6).
//!
//! A legacy server does not say which call its question belongs to. It goes to a call of the
//! one caller who can answer it; where there is doubt, no caller is asked. A legacy caller is
//! asked at once, a modern one by the answer to its call ([`holds`](super::holds)), and what a
//! modern server asks becomes questions of this kind, too ([`rounds`](super::rounds)).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::crossing::Crossing;
use super::{MessageClient, Purpose, Sent};
use crate::channel::{AskId, Down, Outbox, Ticket};
use crate::json::Json;
use crate::json::edit;
use crate::jsonrpc::Id;
use crate::mcp::wire::{self, Era, INTERNAL_ERROR, Refusal, UNKNOWN_METHOD, put_member, quoted};

/// How many questions of one server may be open.
const ASKS_MAX: usize = 1024;

/// The questions that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Asks {
    next: u64,
    /// In the order they were asked.
    open: BTreeMap<u64, Ask>,
}

#[derive(Debug)]
struct Ask {
    ticket: Ticket,
    whose: Whose,
    /// When it has waited long enough; a call that is held has a time of its own.
    until: Option<Instant>,
}

/// Who wants to know.
#[derive(Debug)]
pub(super) enum Whose {
    /// The server, by an id of its own.
    Server(Id),
    /// The server; a modern caller is told it as `tb<key>` of a result: `{"method":…,"params":…}`.
    Held { id: Id, key: u64, asked: Json },
    /// We, so that a call can be made once more: which of its questions it is.
    Round(usize),
}

/// What becomes of an answer, or of a question without one.
pub(super) enum Answered {
    /// The server is told this.
    ToServer(Outbox),
    /// The round learns it.
    OfRound(usize),
}

impl Asks {
    pub(super) fn begin(&mut self, ticket: Ticket, whose: Whose, until: Option<Instant>) -> AskId {
        let ask = self.next;
        self.next += 1;
        self.open.insert(ask, Ask { ticket, whose, until });
        AskId(ask)
    }

    /// Does this call wait for an answer of its caller?
    pub(super) fn waits(&self, ticket: Ticket) -> bool {
        self.open.values().any(|ask| ask.ticket == ticket)
    }

    /// The caller answers: `{"result":…}` or `{"error":…}`, raw.
    pub(super) fn answer(&mut self, ticket: Ticket, ask: AskId, answer: &Json) -> Option<Answered> {
        if self.open.get(&ask.0)?.ticket != ticket {
            return None;
        }
        let id = match self.open.remove(&ask.0)?.whose {
            Whose::Round(index) => return Some(Answered::OfRound(index)),
            Whose::Server(id) | Whose::Held { id, .. } => id,
        };
        let raw = |raw: &str| answer.as_bytes().slice_ref(raw.as_bytes());
        Some(Answered::ToServer(match edit::member(answer.as_str(), "error") {
            Some(error) => wire::error(&id, &raw(error)),
            None => wire::result(&id, &raw(edit::member(answer.as_str(), "result")?)),
        }))
    }

    /// The server takes back the question it knows as `id`.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<(Ticket, AskId)> {
        let is_it = |ask: &Ask| match &ask.whose {
            Whose::Server(known) | Whose::Held { id: known, .. } => known == id,
            Whose::Round(_) => false,
        };
        let (&ask, _) = self.open.iter().find(|(_, ask)| is_it(ask))?;
        self.open.remove(&ask).map(|withdrawn| (withdrawn.ticket, AskId(ask)))
    }

    /// The call is over: what to tell the server about its questions.
    pub(super) fn give_up(&mut self, ticket: Ticket, why: &str) -> Vec<Outbox> {
        if self.is_empty() {
            return Vec::new();
        }
        let over = self.open.extract_if(.., |_, ask| ask.ticket == ticket);
        let refusal = Refusal::new(INTERNAL_ERROR, why.to_owned());
        over.filter_map(|(_, ask)| match ask.whose {
            Whose::Server(id) | Whose::Held { id, .. } => Some(refusal.answer(&id)),
            Whose::Round(_) => None,
        })
        .collect()
    }

    /// Questions that no client answered in time, with what to tell the server.
    pub(super) fn expire(&mut self, now: Instant, patience: Duration) -> Vec<(Ticket, Answered)> {
        let is_late = |ask: &mut Ask| ask.until.is_some_and(|until| until <= now);
        let late = self.open.extract_if(.., |_, ask| is_late(ask));
        let refusal = Refusal::new(INTERNAL_ERROR, unanswered(patience));
        late.map(|(_, ask)| match ask.whose {
            Whose::Server(id) | Whose::Held { id, .. } => {
                (ask.ticket, Answered::ToServer(refusal.answer(&id)))
            }
            Whose::Round(index) => (ask.ticket, Answered::OfRound(index)),
        })
        .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.open.values().filter_map(|ask| ask.until).min()
    }

    /// The questions of a call that is or will be held: by which id they are answered, how the
    /// caller knows them, and what they are.
    pub(super) fn held(&self, ticket: Ticket) -> impl Iterator<Item = (AskId, u64, &Json)> {
        self.open.iter().filter_map(move |(ask, open)| match &open.whose {
            Whose::Held { key, asked, .. } if open.ticket == ticket => {
                Some((AskId(*ask), *key, asked))
            }
            _ => None,
        })
    }

    /// The call has another ticket from now on.
    pub(super) fn hand_over(&mut self, from: Ticket, to: Ticket) {
        let its = self.open.values_mut().filter(|ask| ask.ticket == from);
        its.for_each(|ask| ask.ticket = to);
    }
}

/// What a server is told whose question stayed open.
pub(super) fn unanswered(patience: Duration) -> String {
    format!("nobody answered within {} s", patience.as_secs())
}

impl MessageClient {
    pub(super) fn handle_question(
        &mut self,
        now: Instant,
        line: &Bytes,
        id: Id,
        method: &str,
        params: Option<&str>,
    ) {
        if method == "ping" {
            return self.answer(wire::result(&id, &Bytes::from_static(b"{}")));
        }
        let is_legacy = self.revision().is_some_and(|revision| revision.era() == Era::Legacy);
        let Some(capability) = capability(method).filter(|_| is_legacy) else {
            let message = format!("method not found: {method}");
            return self.answer(Refusal::new(UNKNOWN_METHOD, message).answer(&id));
        };
        if ASKS_MAX <= self.asks.open.len() {
            let message = format!("more than {ASKS_MAX} questions at a time");
            return self.answer(Refusal::new(INTERNAL_ERROR, message).answer(&id));
        }
        let takes = |capabilities: &Json| takes(capabilities, capability, params);
        if let (Some(roots), "roots") = (self.user_roots(), capability) {
            return self.answer(wire::result(&id, roots.as_bytes()));
        }
        let whom = match self.whom_able(takes) {
            Whom::None if self.is_for_user(capability, params) => self.only_call_of_user(),
            found => found,
        };
        match whom {
            Whom::One(ticket) => self.put_question(now, line, ticket, id, method, params),
            Whom::Many => {
                let name = &self.settings.name;
                let message = format!(
                    "cannot tell which caller this is for; set share = \"session\" for back {name}"
                );
                self.answer(Refusal::new(INTERNAL_ERROR, message).answer(&id));
            }
            Whom::None => {
                let message = format!("the caller does not take {method}");
                self.answer(Refusal::new(UNKNOWN_METHOD, message).answer(&id));
            }
        }
    }

    /// Asks the caller of this call.
    fn put_question(
        &mut self,
        now: Instant,
        line: &Bytes,
        ticket: Ticket,
        id: Id,
        method: &str,
        params: Option<&str>,
    ) {
        self.silence.answered();
        let crossing = self.requests.of(ticket).and_then(|sent| sent.crossing.as_deref());
        let is_modern = matches!(crossing, Some(Crossing::Modern(_)));
        let mut asked = vec![b'{'];
        put_member(&mut asked, "method", quoted(method));
        match params {
            Some(params) => put_member(&mut asked, "params", wire::in_a_line(line, params)),
            // Where it stands among others it has some, if empty ones.
            None if is_modern => put_member(&mut asked, "params", "{}"),
            None => {}
        }
        asked.push(b'}');
        let asked = Json::from_trusted(asked);
        if is_modern {
            if let Err(refusal) = self.hold(now, ticket, id.clone(), asked) {
                self.answer(refusal.answer(&id));
            }
            return;
        }
        let until = now + self.settings.input_timeout;
        let ask = self.asks.begin(ticket, Whose::Server(id), Some(until));
        // While the user thinks about the answer, the call is not late.
        if let Some(id) = self.requests.of(ticket).map(|sent| sent.id) {
            self.requests.hold(id);
        }
        self.desk.downs.push_back((ticket, Down::Ask(ask, asked)));
    }

    /// A caller has answered.
    pub(super) fn handle_answered(
        &mut self,
        now: Instant,
        ticket: Ticket,
        ask: AskId,
        answer: &Json,
    ) {
        match self.asks.answer(ticket, ask, answer) {
            Some(Answered::ToServer(text)) => self.answer(text),
            Some(Answered::OfRound(index)) => {
                return self.answer_round(now, ticket, index, answer.as_str());
            }
            None => {}
        }
        if let Some(id) = self.requests.of(ticket).map(|sent| sent.id)
            && !self.asks.waits(ticket)
        {
            self.requests.heard(now, id);
        }
    }

    /// Looks for questions that have waited long enough.
    pub(super) fn expire_asks(&mut self, now: Instant) {
        let patience = self.settings.input_timeout;
        for (ticket, unanswered) in self.asks.expire(now, patience) {
            match unanswered {
                Answered::ToServer(text) => {
                    self.answer(text);
                    if let Some(id) = self.requests.of(ticket).map(|sent| sent.id) {
                        self.requests.heard(now, id);
                    }
                }
                Answered::OfRound(index) => self.leave_round_unanswered(now, ticket, index),
            }
        }
    }

    /// Can a user of the command line answer it?
    pub(super) fn is_for_user(&self, capability: &str, params: Option<&str>) -> bool {
        self.user().is_some_and(|user| takes(&user.capabilities(), capability, params))
    }

    /// The folders that the user lets the server work in, as the result of `roots/list`.
    pub(super) fn user_roots(&self) -> Option<Json> {
        self.user().and_then(|user| user.roots.clone())
    }

    fn only_call_of_user(&self) -> Whom {
        let is_call = |sent: &Sent| {
            matches!(sent.purpose, Purpose::Tool { .. } | Purpose::Pass | Purpose::Task(_))
        };
        let sent = self.requests.iter().filter(|sent| is_call(sent)).map(|sent| sent.ticket);
        let mut calls = sent.chain(self.tasks.tickets());
        match (calls.next(), calls.next()) {
            (Some(ticket), None) => Whom::One(ticket),
            (Some(_), Some(_)) => Whom::Many,
            (None, _) => Whom::None,
        }
    }
}

/// What a caller must have declared to be asked this; `None` if no caller is ever asked it.
pub(super) fn capability(method: &str) -> Option<&'static str> {
    match method {
        "roots/list" => Some("roots"),
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        _ => None,
    }
}

/// Does a caller with these capabilities take this question?
pub(super) fn takes(capabilities: &Json, capability: &str, params: Option<&str>) -> bool {
    let Some(declared) = edit::member(capabilities.as_str(), capability) else { return false };
    if capability != "elicitation" {
        return true;
    }
    let has = |mode: &str| edit::member(declared, mode).is_some();
    match is_of_url(params) {
        true => has("url"),
        // Before there were modes, to declare it was to take forms.
        false => has("form") || !has("url"),
    }
}

/// Does a question of this kind send the user to a web page?
pub(super) fn is_of_url(params: Option<&str>) -> bool {
    params.and_then(|params| edit::text(params, "mode")).as_deref() == Some("url")
}

/// For which calls something is that a server says without naming one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    One(Ticket),
    Many,
    None,
}
