//! Calls of modern clients that a legacy server asks about (`docs/protocols/mcp.md` 2.6).
//!
//! Such a call is held: the client is answered with the questions and a token, and the server's
//! request stays open. The client calls again with its answers and the token, and waits for what
//! the server says then. A token is good for one such call.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::asks::{Whose, unanswered};
use super::crossing::{Asked, Crossing, ModernCaller, refused};
use super::{MessageClient, params_of};
use crate::channel::{AskId, Down, Ticket};
use crate::json::{Json, Kind, edit};
use crate::jsonrpc::{Id, kind, string};
use crate::mcp::translate::input_required;
use crate::mcp::wire::{
    INTERNAL_ERROR, INVALID_PARAMS, Level, Refusal, UNKNOWN_METHOD, put_member, quoted,
};
use crate::tool::{Call, Failure, Outcome};

/// How many calls are held at a time.
const HELD_MAX: usize = 64;

/// The calls that no client waits for at the moment.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// By tickets of our own.
    calls: BTreeMap<Ticket, Hold>,
    by_token: HashMap<String, Ticket>,
    /// What the answers among them weigh.
    bytes: usize,
}

#[derive(Debug)]
struct Hold {
    token: String,
    until: Instant,
    request: Asked,
    /// What the server answered without waiting for the client.
    outcome: Option<Result<Outcome, Failure>>,
}

impl Holds {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.calls.values().map(|hold| hold.until).min()
    }

    pub(super) fn weight(&self) -> usize {
        self.bytes
    }

    fn take(&mut self, ticket: Ticket) -> Option<Hold> {
        let hold = self.calls.remove(&ticket)?;
        self.by_token.remove(&hold.token);
        self.bytes -= hold.weight();
        Some(hold)
    }
}

impl Hold {
    fn weight(&self) -> usize {
        match &self.outcome {
            Some(Ok(Outcome::Native(result))) => result.len(),
            _ => 0,
        }
    }
}

impl MessageClient {
    /// The server asks about the call of a modern client. What it asks in one breath is told
    /// together.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        ticket: Ticket,
        id: Id,
        asked: Json,
    ) -> Result<(), Refusal> {
        let is_held = self.holds.calls.contains_key(&ticket);
        if self.settings.tokens.is_none() {
            return Err(Refusal::new(UNKNOWN_METHOD, "the caller cannot be asked"));
        }
        let is_new = !is_held && !self.holding.iter().any(|(known, _)| *known == ticket);
        if is_new && HELD_MAX <= self.holds.calls.len() + self.holding.len() {
            let message = format!("more than {HELD_MAX} calls wait for answers of their callers");
            return Err(Refusal::new(INTERNAL_ERROR, message));
        }
        let Some(sent) = self.requests.of_mut(ticket) else { return Ok(()) };
        let id_of_request = sent.id;
        let Some(Crossing::Modern(caller)) = sent.crossing.as_deref_mut() else { return Ok(()) };
        caller.questions += 1;
        let key = caller.questions;
        self.requests.hold(id_of_request);
        self.asks.begin(ticket, Whose::Held { id, key, asked }, None);
        if is_new {
            self.holding.push_back((ticket, now));
        }
        Ok(())
    }

    /// Answers the next call that is to be held with the questions there are.
    pub(super) fn hold_next(&mut self) -> Option<(Ticket, Down)> {
        while let Some((ticket, since)) = self.holding.pop_front() {
            let mut requests = vec![b'{'];
            for (_, key, asked) in self.asks.held(ticket) {
                put_member(&mut requests, &format!("tb{key}"), asked.as_bytes());
            }
            requests.push(b'}');
            let requests = String::from_utf8(requests).unwrap_or_default();
            // The server may have taken them back, or answered without.
            if requests == "{}" {
                continue;
            }
            let Some(token) = self.settings.tokens.as_ref().map(super::Tokens::fresh) else {
                continue;
            };
            let own = self.own_ticket();
            let Some(request) = self.hand_over(ticket, own) else { continue };
            let result = input_required(&requests, Some(&token));
            let until = since + self.settings.input_timeout;
            self.holds.by_token.insert(token.clone(), own);
            self.holds.calls.insert(own, Hold { token, until, request, outcome: None });
            return Some((ticket, Down::Done(Ok(Outcome::Native(result.into())))));
        }
        None
    }

    /// A modern client calls once more, with the token `state`, raw.
    pub(super) fn resume_held(
        &mut self,
        ticket: Ticket,
        call: &Call,
        caller: ModernCaller,
        level: Option<Level>,
        state: &str,
    ) {
        let held = string(state).and_then(|token| self.holds.by_token.get(&*token).copied());
        let is_same = |own: &Ticket| {
            self.holds.calls.get(own).is_some_and(|hold| hold.request.is_same(&caller.request))
        };
        let Some(own) = held.filter(is_same) else {
            let refusal = Refusal::new(INVALID_PARAMS, "unknown requestState");
            return self.done(ticket, Err(refused(&refusal)));
        };
        let answers = match self.answers_in(own, &caller.request) {
            Ok(answers) => answers,
            Err(message) => {
                let refusal = Refusal::new(INVALID_PARAMS, message);
                return self.done(ticket, Err(refused(&refusal)));
            }
        };
        let Some(hold) = self.holds.take(own) else { return };
        if let Some(outcome) = hold.outcome {
            return self.done(ticket, outcome);
        }
        let now = super::counted_from(self.desk.opened, call.deadline.asked);
        for (ask, answer) in answers {
            let answer = Json::from_trusted(format!("{{\"result\":{answer}}}"));
            self.handle_answered(now, own, ask, &answer);
        }
        self.hand_over(own, ticket);
        let deadline = self.deadline(call);
        let Some(sent) = self.requests.of_mut(ticket) else { return };
        let id = sent.id;
        (sent.caller, sent.level, sent.deadline) = (call.caller, level, deadline);
        if let Some(Crossing::Modern(known)) = sent.crossing.as_deref_mut() {
            known.capabilities = caller.capabilities;
        }
        // The time that the client took is not the server's.
        match self.asks.waits(ticket) {
            true => {
                self.requests.hold(id);
                self.holding.push_back((ticket, now));
            }
            false => self.requests.heard(now, id),
        }
    }

    /// What a client answers to the questions that are open: nothing to some of them, perhaps.
    fn answers_in(&self, own: Ticket, request: &Asked) -> Result<Vec<(AskId, String)>, String> {
        let params = params_of(&request.params).unwrap_or("{}");
        let given = edit::member(params, "inputResponses").unwrap_or("{}");
        if kind(given) != Kind::Object {
            return Err("inputResponses must be an object".to_owned());
        }
        let mut answers = Vec::new();
        for (ask, key, _) in self.asks.held(own) {
            let Some(answer) = edit::member(given, &format!("tb{key}")) else { continue };
            if kind(answer) != Kind::Object {
                return Err(format!("the answer to tb{key} must be an object"));
            }
            answers.push((ask, answer.to_owned()));
        }
        Ok(answers)
    }

    /// The server's request belongs to another ticket from now on. Gives what was asked.
    fn hand_over(&mut self, from: Ticket, to: Ticket) -> Option<Asked> {
        let sent = self.requests.of_mut(from)?;
        sent.ticket = to;
        let (id, token) = (sent.id, sent.token);
        let request = match sent.crossing.as_deref() {
            Some(Crossing::Modern(caller)) => Some(caller.request.clone()),
            _ => None,
        };
        self.requests.hold(id);
        if let Some(token) = token {
            self.tokens.insert(token, to);
        }
        self.asks.hand_over(from, to);
        request
    }

    /// The server has answered a call that is held; its client will come for that.
    pub(super) fn held_done(&mut self, own: Ticket, outcome: Result<Outcome, Failure>) {
        if let Some(hold) = self.holds.calls.get_mut(&own) {
            hold.outcome = Some(outcome);
            self.holds.bytes += hold.weight();
        }
    }

    /// Gives up the calls whose clients did not come back.
    pub(super) fn expire_holds(&mut self, now: Instant) {
        let late = self.holds.calls.iter().filter(|(_, hold)| hold.until <= now);
        let late: Vec<_> = late.map(|(own, _)| *own).collect();
        let why = unanswered(self.settings.input_timeout);
        for own in late {
            self.holds.take(own);
            for refused in self.asks.give_up(own, &why) {
                self.answer(refused);
            }
            if let Some(sent) = self.take_sent_of(own) {
                self.cancel(sent.id, Some(&quoted(&why)));
            }
        }
    }
}
