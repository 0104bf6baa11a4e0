//! What a server says, message by message, and what its answers mean.

use std::time::Instant;

use bytes::Bytes;

use super::crossing::failed;
use super::{Form, MessageClient, Page, Purpose, Sent, Then, glimpse};
use crate::channel::{Notice, Ticket};
use crate::frame::lines::{Glimpse, TooLong};
use crate::json::edit;
use crate::json::{Json, JsonError, Kind};
use crate::jsonrpc::{Id, Invalid, Message, Why, kind, string};
use crate::mcp::translate::{
    as_toolbus_means, failure_of_error, is_complete, may_be_typed, outcome, read_tool, text_of,
    typed,
};
use crate::mcp::wire::{self, INVALID_PARAMS, RULES, Revision};
use crate::printable::printable;
use crate::tool::{
    Call, CallerId, Code, Deadline, Failure, FailureKind, Outcome, TOOLS_MAX, ToolSpec, What,
    too_many_tools,
};

/// How much of a line is shown.
const LINE_SHOWN_MAX: usize = 200;
/// How many pages of a list are read.
const PAGES_MAX: usize = 100;

impl MessageClient {
    /// Takes a message that came on the stream of this request: what names no call is for that.
    pub(in crate::mcp) fn handle_message_for(&mut self, now: Instant, id: u64, message: &Bytes) {
        self.heard_for = Some(id);
        self.handle_message(now, message);
        self.heard_for = None;
    }

    /// Takes one message, or a batch of them where the revision has batches. Once the
    /// conversation is broken, what the server says means nothing.
    pub fn handle_message(&mut self, now: Instant, message: &Bytes) {
        self.latest = Some(now);
        if self.desk.is_broken() {
            return;
        }
        let is_batch = message.first() == Some(&b'[')
            && self.revision() == Some(Revision::V2025_03_26)
            && Json::parse(message.clone()).is_ok();
        if !is_batch {
            return self.handle_one(now, message);
        }
        for element in edit::elements(str::from_utf8(message).unwrap_or_default()) {
            self.handle_one(now, &message.slice_ref(element.as_bytes()));
        }
    }

    fn handle_one(&mut self, now: Instant, line: &Bytes) {
        match RULES.read(line) {
            Ok(Message::Response { id, result, error }) => {
                self.handle_response(now, line, &id, result, error);
            }
            Ok(Message::Request { id, method, params }) => {
                self.handle_question(now, line, id, &method, params);
            }
            Ok(Message::Notification { method, params }) => {
                self.handle_note(now, line, &method, params);
            }
            Err(invalid) => match nameless_error(line) {
                Some(error) => self.handle_nameless(now, line, error),
                None => self.handle_invalid(line, &invalid),
            },
        }
    }

    fn handle_response(
        &mut self,
        now: Instant,
        line: &Bytes,
        id: &Id,
        result: Option<&str>,
        error: Option<&str>,
    ) {
        let result = result.filter(|raw| kind(raw) != Kind::Null);
        let error = error.filter(|raw| kind(raw) != Kind::Null);
        // A text that spells one of our ids is taken for it: some servers write them so.
        let spelled = || string(id.to_json().as_str()).and_then(|text| text.parse().ok());
        let Some(number) = id.as_number().or_else(spelled) else {
            return self.ignore_response(id);
        };
        let answer = match (result, error) {
            (Some(result), None) => Ok(Ok(result)),
            (None, Some(error)) => Ok(Err(error)),
            (Some(_), Some(_)) => Err("answered with both result and error"),
            (None, None) => Err("answered with neither result nor error"),
        };
        if let Some(opening) = &mut self.opening {
            let answer = answer.unwrap_or(Err("{}"));
            let step = opening.answered(line, number, answer);
            return self.take_step(now, step);
        }
        // One that comes too late is a sign of life, too.
        if self.requests.was_asked(number) {
            self.silence.answered();
        }
        let Some(sent) = self.take_sent(number) else { return self.ignore_response(id) };
        match answer {
            Ok(answer) => self.handle_answer(now, line, sent, answer),
            Err(why) => self.done(sent.ticket, Err(Failure::new(FailureKind::BrokeProtocol, why))),
        }
    }

    fn ignore_response(&mut self, id: &Id) {
        self.desk.notice(Notice::Ignored(format!("response {}", id.to_json())));
    }

    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        line: &Bytes,
        mut sent: Sent,
        answer: Result<&str, &str>,
    ) {
        let ticket = sent.ticket;
        if let Some(crossing) = sent.crossing.take() {
            return self.answer_across(now, line, ticket, sent, *crossing, answer);
        }
        if let Ok(result) = answer
            && self.is_task(&sent.purpose, result)
        {
            return self.begin_task(now, line, ticket, sent, result);
        }
        match (sent.purpose, answer) {
            (Purpose::Pass | Purpose::Listen | Purpose::Own, Ok(result)) => {
                let result = line.slice_ref(result.as_bytes());
                self.done(ticket, Ok(Outcome::Native(result)));
            }
            (Purpose::Pass | Purpose::Listen | Purpose::Own, Err(error)) => {
                self.done(ticket, Err(failed(line, error)));
            }
            (Purpose::Tool { form: Form::Native, .. }, Ok(result)) if is_complete(result) => {
                self.done(ticket, Ok(Outcome::Native(wire::in_a_line(line, result))));
            }
            (Purpose::Task(task), Ok(result)) => {
                let sent = Sent { purpose: Purpose::Own, ..sent };
                self.heed_status(now, line, ticket, sent, task, result);
            }
            (Purpose::Task(_), Err(error)) => {
                self.done(ticket, Err(failure_of_error(line, error)));
            }
            (Purpose::Tool { name, form, user: Some(user), task }, Ok(result))
                if user.is_to_answer(result) =>
            {
                let purpose = Purpose::Tool { name, form, user: None, task };
                let result = wire::in_a_line(line, result);
                let result = str::from_utf8(&result).unwrap_or("{}");
                self.ask_round(now, ticket, Sent { purpose, ..sent }, *user, result);
            }
            (Purpose::Tool { name, form, .. }, Ok(result)) => match outcome(line, result) {
                Ok(outcome) if form == Form::Text => {
                    let text = text_of(result);
                    self.done(ticket, Ok(text.map_or(outcome, Outcome::Text)));
                }
                Ok(Outcome::Text(text)) if form == Form::Typed && may_be_typed(&text) => {
                    // It is the answer, whether or not there is a list: that is not waited for long.
                    let quiet = self.settings.probe_timeout;
                    let deadline = Deadline { asked: now, quiet: Some(quiet), ..sent.deadline };
                    let call = listing(sent.caller, deadline);
                    let then = Then::Read { name, text };
                    match self.tools.take() {
                        Some(tools) => self.listed(ticket, tools, then),
                        None => self.send_list(ticket, &call, None, Page::first(None, then)),
                    }
                }
                outcome => self.done(ticket, outcome),
            },
            (purpose @ Purpose::Tool { .. }, Err(error))
                if self.must_be_task(&purpose, &failure_of_error(line, error)) =>
            {
                self.call_as_task(now, ticket, Sent { purpose, ..sent });
            }
            (Purpose::Tool { name, .. }, Err(error)) => {
                let failure = failure_of_error(line, error);
                if failure.code != Some(Code::Number(INVALID_PARAMS)) {
                    return self.done(ticket, Err(failure));
                }
                let call = listing(sent.caller, sent.deadline);
                let then = Then::Judge { name, failure };
                match self.tools.take() {
                    Some(tools) => self.listed(ticket, tools, then),
                    None => self.send_list(ticket, &call, None, Page::first(None, then)),
                }
            }
            (Purpose::List(Page { mut tools, mut bytes, number, request, then }), Ok(result)) => {
                let listed = edit::member(result, "tools").unwrap_or("[]");
                self.tasks.learn(listed);
                // One more than there may be, so that it is seen.
                let name = edit::text(self.server_info(), "name");
                let is_toolbus = name.is_some_and(|name| name == "toolbus");
                let read = edit::elements(listed).filter_map(|raw| read_tool(line, raw));
                let read = read.map(|tool| if is_toolbus { as_toolbus_means(tool) } else { tool });
                tools.extend(read.take(TOOLS_MAX + 1));
                bytes += listed.len();
                if let Some(failure) = too_many_tools(tools.len(), bytes) {
                    return self.done(ticket, then.unlisted(failure));
                }
                let cursor = edit::member(result, "nextCursor").filter(|raw| string(raw).is_some());
                match cursor {
                    Some(_) if number == PAGES_MAX => {
                        let message = format!("its list of tools has more than {PAGES_MAX} pages");
                        let failure = Failure::new(FailureKind::TooLarge, message);
                        self.done(ticket, then.unlisted(failure));
                    }
                    Some(cursor) => {
                        let call = listing(sent.caller, sent.deadline);
                        let page = Page { tools, bytes, number: number + 1, request, then };
                        self.send_list(ticket, &call, Some(cursor), page);
                    }
                    None => self.listed(ticket, tools, then),
                }
            }
            (Purpose::List(Page { then, .. }), Err(error)) => {
                self.done(ticket, then.unlisted(failure_of_error(line, error)));
            }
        }
    }

    fn listed(&mut self, ticket: Ticket, tools: Vec<ToolSpec>, then: Then) {
        let outcome = match then {
            Then::Reply => Ok(Outcome::Tools(tools.clone().into())),
            Then::Judge { name, failure } => {
                let is_there = tools.iter().any(|tool| tool.name.as_str() == name);
                let kind = match is_there {
                    true => FailureKind::InvalidArguments,
                    false => FailureKind::UnknownTool,
                };
                Err(Failure { kind, ..failure })
            }
            Then::Read { name, text } => {
                let tool = tools.iter().find(|tool| tool.name.as_str() == name);
                Ok(typed(tool.and_then(|tool| tool.output.as_ref()), text))
            }
        };
        self.tools = Some(tools);
        self.done(ticket, outcome);
    }

    /// An error that names no request. If there is no doubt whose it is, it ends that call.
    fn handle_nameless(&mut self, now: Instant, line: &Bytes, error: &str) {
        let shown = printable(line, LINE_SHOWN_MAX);
        self.desk.notice(Notice::Ignored(format!("an error without an id: {shown}")));
        let calls = self.requests.iter().filter(|sent| !matches!(sent.purpose, Purpose::Own));
        let ids: Vec<_> = calls.map(|sent| sent.id).collect();
        if let [id] = ids[..]
            && let Some(sent) = self.take_sent(id)
        {
            self.handle_answer(now, line, sent, Err(error));
        }
    }

    /// A line too long to be kept; what is known of its ends.
    pub(in crate::mcp) fn handle_too_long(
        &mut self,
        too_long: &TooLong,
        glimpse: Option<&Glimpse>,
    ) {
        self.desk.notice(Notice::Stray(too_long.to_string()));
        if !self.desk.is_open() {
            return;
        }
        let seen = glimpse.and_then(|Glimpse { head, tail }| glimpse::id(head, tail));
        let message = format!("the server wrote a {too_long}");
        self.fail_seen(seen, Failure::new(FailureKind::TooLarge, message));
    }

    /// A line that is no message as it should be.
    fn handle_invalid(&mut self, line: &Bytes, invalid: &Invalid) {
        let shown = printable(line, LINE_SHOWN_MAX);
        let is_noise = invalid.why.is_parse_error() || line.first() != Some(&b'{');
        self.desk.notice(match is_noise {
            true => Notice::Stray(shown),
            false => Notice::Ignored(format!("{invalid}: {shown}")),
        });
        let failure = match invalid.why {
            Why::NotJson(JsonError::TooDeep) => FailureKind::TooLarge,
            Why::Version => FailureKind::BrokeProtocol,
            _ => return,
        };
        // The ids of its questions are its own.
        let is_question =
            str::from_utf8(line).is_ok_and(|text| edit::member(text, "method").is_some());
        if self.desk.is_open() && !is_question {
            let message = format!("the server's answer cannot be read: {invalid}");
            self.fail_seen(glimpse::id(line, line), Failure::new(failure, message));
        }
    }

    /// The caller of an answer of which no more than its id was seen gets no other.
    fn fail_seen(&mut self, id: Option<u64>, failure: Failure) {
        if let Some(sent) = id.and_then(|id| self.take_sent(id)) {
            self.end(sent, failure);
        }
    }
}

/// A list that we ask for on behalf of a call that waits.
fn listing(caller: CallerId, deadline: Deadline) -> Call {
    Call { caller, deadline, ..Call::of(deadline.asked, What::Tools) }
}

/// The error of a message that has no id, or `null` for one.
fn nameless_error(line: &Bytes) -> Option<&str> {
    let text = str::from_utf8(line).ok()?;
    Json::parse(line.clone()).ok()?;
    let is_nameless = edit::member(text, "id").is_none_or(|id| kind(id) == Kind::Null);
    let has_method = edit::member(text, "method").is_some();
    edit::member(text, "error")
        .filter(|error| is_nameless && !has_method && kind(error) == Kind::Object)
}
