//! Questions of a server to its caller (`docs/protocols/mcp.md` 2.5, 2.6).
//!
//! A legacy server does not say which call its question belongs to. It goes to a call of the
//! one caller who can answer it; where there is doubt, no caller is asked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::settings::Introduction;
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
    /// As the server knows it.
    id: Id,
    until: Instant,
}

impl Asks {
    fn begin(&mut self, ticket: Ticket, id: Id, until: Instant) -> AskId {
        let ask = self.new_id();
        self.open.insert(ask.0, Ask { ticket, id, until });
        ask
    }

    /// What callers call a question.
    pub(super) fn new_id(&mut self) -> AskId {
        self.next += 1;
        AskId(self.next - 1)
    }

    /// Does this call wait for an answer of its caller?
    pub(super) fn waits(&self, ticket: Ticket) -> bool {
        self.open.values().any(|ask| ask.ticket == ticket)
    }

    /// The caller answers: `{"result":…}` or `{"error":…}`, raw.
    pub(super) fn answer(&mut self, ticket: Ticket, ask: AskId, answer: &Json) -> Option<Outbox> {
        if self.open.get(&ask.0)?.ticket != ticket {
            return None;
        }
        let Ask { id, .. } = self.open.remove(&ask.0)?;
        let raw = |raw: &str| answer.as_bytes().slice_ref(raw.as_bytes());
        Some(match edit::member(answer.as_str(), "error") {
            Some(error) => wire::error(&id, &raw(error)),
            None => wire::result(&id, &raw(edit::member(answer.as_str(), "result")?)),
        })
    }

    /// The server takes back the question it knows as `id`.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<(Ticket, AskId)> {
        let (&ask, _) = self.open.iter().find(|(_, ask)| ask.id == *id)?;
        self.open.remove(&ask).map(|withdrawn| (withdrawn.ticket, AskId(ask)))
    }

    /// The call is over: what to tell the server about its questions.
    pub(super) fn give_up(&mut self, ticket: Ticket, why: &'static str) -> Vec<Outbox> {
        let over = self.open.extract_if(.., |_, ask| ask.ticket == ticket);
        over.map(|(_, ask)| Refusal::new(INTERNAL_ERROR, why).answer(&ask.id)).collect()
    }

    /// Questions that no client answered in time, with what to tell the server.
    pub(super) fn expire(&mut self, now: Instant, patience: Duration) -> Vec<(Ticket, Outbox)> {
        let late = self.open.extract_if(.., |_, ask| ask.until <= now);
        let message = format!("nobody answered within {} s", patience.as_secs());
        let refusal = Refusal::new(INTERNAL_ERROR, message);
        late.map(|(_, ask)| (ask.ticket, refusal.answer(&ask.id))).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.open.values().map(|ask| ask.until).min()
    }
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
        let is_legacy = self.revision().is_some_and(|revision| revision.era() == Era::Legacy);
        let capability = match method {
            "ping" => return self.answer(wire::result(&id, &Bytes::from_static(b"{}"))),
            "roots/list" => "roots",
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            _ => "",
        };
        if capability.is_empty() || !is_legacy {
            let message = format!("method not found: {method}");
            return self.answer(Refusal::new(UNKNOWN_METHOD, message).answer(&id));
        }
        let takes = |capabilities: &Json| takes(capabilities, capability, params);
        if ASKS_MAX <= self.asks.open.len() {
            let message = format!("more than {ASKS_MAX} questions at a time");
            return self.answer(Refusal::new(INTERNAL_ERROR, message).answer(&id));
        }
        let whom = match self.whom(|session| takes(&session.capabilities)) {
            Whom::None if self.is_for_user(capability, params) => self.only_tool_call(),
            found => found,
        };
        match whom {
            Whom::One(ticket) => {
                self.silence.answered();
                let mut asked = vec![b'{'];
                put_member(&mut asked, "method", quoted(method));
                if let Some(params) = params {
                    put_member(&mut asked, "params", wire::in_a_line(line, params));
                }
                asked.push(b'}');
                let ask = self.asks.begin(ticket, id, now + self.settings.input_timeout);
                // While the user thinks about the answer, the call is not late.
                if let Some(sent) = self.sent.get(&ticket) {
                    self.outstanding.hold(sent.id);
                }
                self.downs.push_back((ticket, Down::Ask(ask, Json::from_trusted(asked))));
            }
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
}

impl MessageClient {
    /// Can a user at a terminal answer it?
    pub(super) fn is_for_user(&self, capability: &str, params: Option<&str>) -> bool {
        let mode = params.and_then(|params| edit::text(params, "mode"));
        matches!(self.settings.introduction, Introduction::AsUser)
            && capability == "elicitation"
            && mode.is_none_or(|mode| mode == "form")
    }

    fn only_tool_call(&self) -> Whom {
        let is_tool = |sent: &Sent| matches!(sent.purpose, Purpose::Tool { .. });
        let mut calls = self.sent.iter().filter(|(_, sent)| is_tool(sent));
        match (calls.next(), calls.next()) {
            (Some((ticket, _)), None) => Whom::One(*ticket),
            (Some(_), Some(_)) => Whom::Many,
            (None, _) => Whom::None,
        }
    }
}

/// Does a caller with these capabilities take this question?
fn takes(capabilities: &Json, capability: &str, params: Option<&str>) -> bool {
    let Some(declared) = edit::member(capabilities.as_str(), capability) else { return false };
    if capability != "elicitation" {
        return true;
    }
    let mode = params.and_then(|params| edit::text(params, "mode"));
    let has = |mode: &str| edit::member(declared, mode).is_some();
    match mode.as_deref() {
        Some("url") => has("url"),
        // Before there were modes, to declare it was to take forms.
        _ => has("form") || !has("url"),
    }
}

/// For which calls something is that a server says without naming one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    One(Ticket),
    Many,
    None,
}
