//! Calls of a modern server that needs input (`docs/protocols/mcp.md` 2.6).
//!
//! It answers a call by questions. Where a user can be asked, the call is held until all are
//! answered, and then made once more with the answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::MessageClient;
use crate::channel::{AskId, Down, Ticket};
use crate::json::{Json, edit};
use crate::mcp::wire::{self, put_member};
use crate::tool::{Call, Code, Failure, FailureKind, What};

/// How often a server may ask during one call.
const ROUNDS_MAX: u32 = 10;
/// How soon a server is asked again that only wanted to be asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// A call as it was made, should the server want it once more.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) call: Call,
    /// How often the server has asked before.
    pub(super) round: u32,
}

/// What a call carries that is made once more.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// The answers of the user, as an object.
    pub(super) answers: Option<Bytes>,
    /// What the server wants back, raw.
    pub(super) state: Option<Bytes>,
    pub(super) round: u32,
}

/// The calls whose questions are not all answered yet.
#[derive(Debug, Default)]
pub(super) struct HeldCalls(BTreeMap<Ticket, HeldCall>);

#[derive(Debug)]
pub(super) struct HeldCall {
    call: Call,
    round: u32,
    state: Option<Bytes>,
    questions: Vec<Question>,
    /// When the user has thought long enough.
    until: Instant,
    /// When it is made once more, if there is nothing to ask.
    again: Option<Instant>,
}

#[derive(Debug)]
struct Question {
    /// What the server calls it.
    key: String,
    ask: AskId,
    answer: Option<Bytes>,
}

impl HeldCalls {
    pub(super) fn waits(&self, ticket: Ticket) -> bool {
        self.0.contains_key(&ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<HeldCall> {
        self.0.remove(&ticket)
    }

    pub(super) fn take_all(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.0).into_keys().collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().map(|held| held.again.unwrap_or(held.until)).min()
    }
}

impl MessageClient {
    /// Holds a call whose `result` is that the server needs input; `false` if it is of a kind that
    /// a user cannot give.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        line: &Bytes,
        ticket: Ticket,
        again: &Again,
        result: &str,
    ) -> bool {
        if edit::text(result, "resultType").as_deref() != Some("input_required") {
            return false;
        }
        let requests = edit::member(result, "inputRequests").unwrap_or("{}");
        let can_be_asked = |request: &str| {
            edit::text(request, "method").as_deref() == Some("elicitation/create")
                && self.is_for_user("elicitation", edit::member(request, "params"))
        };
        if !edit::members(requests).all(|(_, request)| can_be_asked(request)) {
            return false;
        }
        let round = again.round + 1;
        if ROUNDS_MAX < round {
            let message = format!("the server asked for input more than {ROUNDS_MAX} times");
            let code = Some(Code::Word("input_required".to_owned()));
            let failure = Failure::new(FailureKind::Failed, message);
            self.done(ticket, Err(Failure { code, from_peer: true, ..failure }));
            return true;
        }
        let mut questions = Vec::new();
        for (key, request) in edit::members(requests) {
            let ask = self.asks.new_id();
            let asked = Json::from_trusted(wire::in_a_line(line, request));
            self.downs.push_back((ticket, Down::Ask(ask, asked)));
            questions.push(Question { key: key.into_owned(), ask, answer: None });
        }
        let call = again.call.clone();
        let total = call.deadline.total.map(|total| call.deadline.asked + total);
        let patience = now + self.settings.input_timeout;
        let until = total.map_or(patience, |total| total.min(patience));
        let state = edit::member(result, "requestState");
        let state = state.map(|raw| line.slice_ref(raw.as_bytes()));
        let again = questions.is_empty().then(|| now + PAUSE);
        let held = HeldCall { call, round, state, questions, until, again };
        self.held.0.insert(ticket, held);
        true
    }

    /// The user answers a question of a held call: `{"result":…}` or `{"error":…}`.
    pub(super) fn handle_input(&mut self, now: Instant, ticket: Ticket, ask: AskId, answer: &Json) {
        let Some(held) = self.held.0.get_mut(&ticket) else { return };
        let result = edit::member(answer.as_str(), "result");
        let result = result.unwrap_or(r#"{"action":"cancel"}"#).to_owned();
        if let Some(question) = held.questions.iter_mut().find(|question| question.ask == ask) {
            question.answer = Some(result.into());
        }
        if held.questions.iter().all(|question| question.answer.is_some()) {
            self.call_again(now, ticket);
        }
    }

    /// Time has passed for the calls that are held.
    pub(super) fn handle_held(&mut self, now: Instant) {
        let is_due = |held: &HeldCall| held.again.is_some_and(|again| again <= now);
        let due = self.held.0.iter().filter(|(_, held)| is_due(held));
        let due: Vec<_> = due.map(|(ticket, _)| *ticket).collect();
        due.into_iter().for_each(|ticket| self.call_again(now, ticket));
        let late: Vec<_> = self.held.0.extract_if(.., |_, held| held.until <= now).collect();
        for (ticket, _) in late {
            let message = "the questions of the server were not answered in time";
            self.done(ticket, Err(Failure::new(FailureKind::TimedOut, message)));
        }
    }

    fn call_again(&mut self, now: Instant, ticket: Ticket) {
        let Some(held) = self.held.remove(ticket) else { return };
        let HeldCall { call, round, state, questions, .. } = held;
        let What::Tool { name, args } = &call.what else { return };
        let mut answers = vec![b'{'];
        for Question { key, answer, .. } in &questions {
            put_member(&mut answers, key, answer.as_deref().unwrap_or(b"null"));
        }
        answers.push(b'}');
        let answers = (!questions.is_empty()).then(|| answers.into());
        let retry = Retry { answers, state, round };
        self.send_tool(ticket, &call, name.as_str(), args.as_ref(), retry);
        // While the user thought, the server was not quiet.
        if let Some(sent) = self.sent.get(&ticket) {
            self.outstanding.heard(now, sent.id);
        }
    }
}
