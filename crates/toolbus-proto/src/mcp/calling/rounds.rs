//! Calls of legacy clients that a modern server asks about (`docs/protocols/mcp.md` 2.6).
//!
//! What it asks becomes requests to the client, all at once. When the last is answered, the call
//! is made once more with the answers.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::asks::{Whose, capability, is_of_url, takes, unanswered};
use super::crossing::{Crossing, LegacyCaller, refused};
use super::{MessageClient, Outgoing, Purpose, RequestId, Sent};
use crate::channel::{Down, Ticket};
use crate::json::{Json, edit};
use crate::mcp::translate::with_last;
use crate::mcp::wire::{INTERNAL_ERROR, MISSING_CAPABILITY, Refusal, put_member, quoted};
use crate::tool::{Deadline, Failure, FailureKind};

/// How often a server may ask about one call.
const ROUNDS_MAX: u32 = 10;
/// After how long a server that asks nothing, but wants to be called again, is.
const PAUSE: Duration = Duration::from_millis(100);

/// A call that waits until it can be made once more.
#[derive(Debug)]
pub(super) struct Round {
    sent: Sent,
    caller: LegacyCaller,
    questions: Vec<Question>,
    /// What the server wants to have back, raw.
    state: Option<String>,
    /// When it is made, if there is nothing to wait for.
    at: Option<Instant>,
}

#[derive(Debug)]
struct Question {
    key: String,
    method: String,
    /// Raw.
    answer: Option<String>,
}

impl Round {
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    pub(super) fn token(&self) -> Option<u64> {
        self.sent.token
    }
}

impl MessageClient {
    /// The server wants to know something of a legacy client before it answers.
    pub(super) fn begin_round(
        &mut self,
        now: Instant,
        ticket: Ticket,
        sent: Sent,
        crossing: Crossing,
        result: &str,
    ) {
        if let Crossing::Legacy(caller) = crossing {
            self.ask_round(now, ticket, sent, caller, result);
        }
    }

    /// The server wants to know something before it answers: `result` says what.
    pub(super) fn ask_round(
        &mut self,
        now: Instant,
        ticket: Ticket,
        sent: Sent,
        mut caller: LegacyCaller,
        result: &str,
    ) {
        caller.rounds += 1;
        let requests = edit::member(result, "inputRequests").unwrap_or("{}");
        let state = edit::member(result, "requestState").map(str::to_owned);
        let asked: Vec<_> = edit::members(requests).collect();
        if let Err(failure) = may_ask(&caller, &asked, state.is_some()) {
            return self.done(ticket, Err(failure));
        }
        let mut questions = Vec::new();
        for (index, (key, asked)) in asked.iter().enumerate() {
            let method = edit::text(asked, "method").unwrap_or_default().into_owned();
            let mut question = vec![b'{'];
            put_member(&mut question, "method", quoted(&method));
            if let Some(params) = edit::member(asked, "params") {
                put_member(&mut question, "params", self.legacy_question(&method, params));
            }
            question.push(b'}');
            let roots = self.user_roots().filter(|_| method == "roots/list");
            let answer = roots.map(|roots| roots.to_string());
            if answer.is_none() {
                let until = Some(now + self.settings.input_timeout);
                let ask = self.asks.begin(ticket, Whose::Round(index), until);
                self.desk.downs.push_back((ticket, Down::Ask(ask, Json::from_trusted(question))));
            }
            questions.push(Question { key: key.to_string(), method, answer });
        }
        let at = questions.is_empty().then(|| now + PAUSE);
        if let Some(token) = sent.token {
            self.tokens.insert(token, ticket);
        }
        let is_answered = !questions.is_empty();
        self.rounds.insert(ticket, Round { sent, caller, questions, state, at });
        if is_answered {
            self.finish_round(now, ticket);
        }
    }

    /// The parameters of a question as legacy clients take them.
    fn legacy_question(&mut self, method: &str, params: &str) -> String {
        if method == "elicitation/create" && is_of_url(Some(params)) {
            self.elicitations += 1;
            return with_last(params, "elicitationId", format!("\"tb{}\"", self.elicitations));
        }
        params.to_owned()
    }

    /// The client answers `{"result":…}` or `{"error":…}`.
    pub(super) fn answer_round(&mut self, now: Instant, ticket: Ticket, index: usize, raw: &str) {
        let Some(round) = self.rounds.get_mut(&ticket) else { return };
        let Some(question) = round.questions.get_mut(index) else { return };
        match edit::member(raw, "error") {
            Some(_) if question.method == "elicitation/create" => {
                question.answer = Some(CANCELLED.to_owned());
            }
            Some(error) => {
                let mut told = vec![b'{'];
                let code = edit::member(error, "code").unwrap_or("-32603");
                put_member(&mut told, "code", code);
                put_member(&mut told, "message", edit::member(error, "message").unwrap_or("\"\""));
                told.push(b'}');
                let told = Bytes::from(told);
                let failure = super::crossing::failed(&told, str::from_utf8(&told).unwrap_or("{}"));
                return self.fail_round(ticket, failure);
            }
            None => question.answer = edit::member(raw, "result").map(str::to_owned),
        }
        self.finish_round(now, ticket);
    }

    /// The client did not answer in time.
    pub(super) fn leave_round_unanswered(&mut self, now: Instant, ticket: Ticket, index: usize) {
        let Some(round) = self.rounds.get_mut(&ticket) else { return };
        let Some(question) = round.questions.get_mut(index) else { return };
        if question.method == "elicitation/create" {
            question.answer = Some(CANCELLED.to_owned());
            return self.finish_round(now, ticket);
        }
        let message = unanswered(self.settings.input_timeout);
        self.fail_round(ticket, refused(&Refusal::new(INTERNAL_ERROR, message)));
    }

    fn fail_round(&mut self, ticket: Ticket, failure: Failure) {
        if let Some(token) = self.rounds.remove(&ticket).and_then(|round| round.token()) {
            self.tokens.remove(&token);
        }
        self.done(ticket, Err(failure));
    }

    /// Makes the call once more, if all is answered.
    fn finish_round(&mut self, now: Instant, ticket: Ticket) {
        let is_answered = |question: &Question| question.answer.is_some();
        let is_whole = |round: &Round| round.questions.iter().all(is_answered);
        if self.rounds.get(&ticket).is_some_and(is_whole) {
            self.call_again(now, ticket);
        }
    }

    /// Makes the calls once more whose pause is over.
    pub(super) fn expire_rounds(&mut self, now: Instant) {
        let due = |round: &Round| round.at.is_some_and(|at| at <= now);
        let due = self.rounds.iter().filter(|(_, round)| due(round));
        let mut due: Vec<_> = due.map(|(ticket, _)| *ticket).collect();
        due.sort_unstable();
        due.into_iter().for_each(|ticket| self.call_again(now, ticket));
    }

    fn call_again(&mut self, now: Instant, ticket: Ticket) {
        let Some(Round { mut sent, caller, questions, state, .. }) = self.rounds.remove(&ticket)
        else {
            return;
        };
        let mut params = str::from_utf8(&caller.params).unwrap_or("{}").to_owned();
        if !questions.is_empty() {
            let mut responses = vec![b'{'];
            for Question { key, answer, .. } in questions {
                put_member(&mut responses, &key, answer.as_deref().unwrap_or("{}"));
            }
            responses.push(b'}');
            params = with_last(&params, "inputResponses", responses);
        }
        if let Some(state) = state {
            params = with_last(&params, "requestState", state);
        }
        let is_user = matches!(sent.purpose, Purpose::Tool { .. } | Purpose::Task(_));
        // The time that the client took is not the server's. A user has set all of the call's.
        if !is_user || sent.deadline.total.is_none() {
            sent.deadline = Deadline { asked: now, ..sent.deadline };
        }
        sent.since = self.silence.since();
        let (method, params) = (caller.method.clone(), Some(params.into()));
        match &mut sent.purpose {
            Purpose::Tool { user, .. } => *user = Some(Box::new(caller)),
            Purpose::Task(task) => task.caller = Some(caller),
            _ => sent.crossing = Some(Box::new(Crossing::Legacy(caller))),
        }
        let id = RequestId::Number(self.requests.ask(now, sent));
        self.outgoing.push_back(Outgoing::Request { id, method, params });
    }
}

impl LegacyCaller {
    /// Does the server want to know something that this caller can answer, or just to be asked
    /// again?
    pub(super) fn is_to_answer(&self, result: &str) -> bool {
        edit::text(result, "resultType").as_deref() == Some("input_required")
            && self.can_answer(result)
    }

    /// Can it answer all that is asked there?
    pub(super) fn can_answer(&self, result: &str) -> bool {
        let requests = edit::member(result, "inputRequests").unwrap_or("{}");
        edit::members(requests).all(|(_, asked)| {
            let method = edit::text(asked, "method").unwrap_or_default();
            let params = edit::member(asked, "params");
            let capability = capability(&method);
            capability.is_some_and(|capability| takes(&self.capabilities, capability, params))
        })
    }
}

/// What a server is told where the user gave no answer.
const CANCELLED: &str = r#"{"action":"cancel"}"#;

/// May the server ask this of the caller?
fn may_ask(
    caller: &LegacyCaller,
    asked: &[(std::borrow::Cow<'_, str>, &str)],
    has_state: bool,
) -> Result<(), Failure> {
    if ROUNDS_MAX < caller.rounds {
        let message = format!("the server asked for input more than {ROUNDS_MAX} times");
        return Err(refused(&Refusal::new(INTERNAL_ERROR, message)));
    }
    if asked.is_empty() && !has_state {
        let message = "the server asks for input, and does not say for which";
        return Err(Failure::new(FailureKind::BrokeProtocol, message));
    }
    let mut missing = vec![b'{'];
    let mut first = None;
    for (_, asked) in asked {
        let method = edit::text(asked, "method").unwrap_or_default();
        let Some(capability) = capability(&method) else {
            let message = format!("the server asks for `{method}`, which no client answers");
            return Err(Failure::new(FailureKind::BrokeProtocol, message));
        };
        let params = edit::member(asked, "params");
        let known = str::from_utf8(&missing).is_ok_and(|known| known.contains(capability));
        if !takes(&caller.capabilities, capability, params) && !known {
            let wanted = match capability == "elicitation" && is_of_url(params) {
                true => r#"{"url":{}}"#,
                false => "{}",
            };
            put_member(&mut missing, capability, wanted);
            first.get_or_insert(method);
        }
    }
    let Some(method) = first else { return Ok(()) };
    missing.push(b'}');
    let mut data = br#"{"requiredCapabilities":"#.to_vec();
    data.extend_from_slice(&missing);
    data.push(b'}');
    let message = format!("the caller does not take {method}");
    let data = Some(Json::from_trusted(data));
    Err(refused(&Refusal { data, ..Refusal::new(MISSING_CAPABILITY, message) }))
}
