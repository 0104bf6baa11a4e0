//! What a provider writes, judged line by line: answers matched to their requests, noise told,
//! broken frames refused.

use std::time::Instant;

use bytes::Bytes;

use super::requests::{Method, Request};
use super::{Broken, Client, Configured, Described, FIRST_ID, LINE_SHOWN_MAX, Shutdown, telling};
use crate::channel::{Notice, Readiness};
use crate::frame::lines::TooLong;
use crate::json::{Json, Kind};
use crate::jsonrpc::kind;
use crate::orchard::number;
use crate::orchard::schema::{Oddity, ProviderSchema};
use crate::orchard::translate::{self, tool};
use crate::orchard::wire::{self, Refusal, Response};
use crate::printable::printable;
use crate::tool::{Call, Failure, FailureKind, Outcome, What};

/// How many actions are named in a hint.
const ACTIONS_SHOWN_MAX: usize = 20;

/// An answer that keeps to the rules, as far as they are the same for all methods.
enum Answer<'a> {
    /// `result`, which may be a lone `null`.
    Result {
        response: Response<'a>,
        is_null: bool,
    },
    Error(Refusal<'a>),
}

impl Client {
    pub(super) fn handle_line(&mut self, now: Instant, line: Result<Bytes, TooLong>) {
        if self.desk.is_broken() {
            return self.handle_goodbye(line.ok());
        }
        let line = match line {
            Ok(line) => line,
            Err(TooLong { .. }) => {
                let glimpse = self.lines.take_glimpse().unwrap_or_default();
                return self.handle_too_long(&glimpse.head);
            }
        };
        let text = wire::without_return(&line);
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if text[0] != b'{' {
            return self.handle_noise(text);
        }
        match Response::read(text) {
            Ok(response) => self.handle_response(now, &line, response),
            Err(error) => {
                let is_bare = text.trim_ascii_end() == b"{";
                let hint = "looks like pretty-printed JSON, each frame must be one line";
                let what = format!("wrote a broken frame: {error}");
                self.break_off(Broken::Frame, &what, is_bare.then_some(hint));
            }
        }
    }

    /// What stands behind the last newline: a whole frame counts, and half a one is no fault of
    /// its own, since the provider died writing it.
    pub(super) fn handle_last_line(&mut self, now: Instant, line: &Bytes) {
        let text = wire::without_return(line);
        if !text.starts_with(b"{") || Response::read(text).is_ok() {
            self.handle_line(now, Ok(line.clone()));
        }
    }

    /// After the protocol was broken only the answer to the goodbye is of interest.
    fn handle_goodbye(&mut self, line: Option<Bytes>) {
        let response =
            line.as_ref().and_then(|line| Response::read(wire::without_return(line)).ok());
        let id = response.and_then(|response| response.id.and_then(number::integer));
        let id = id.and_then(|id| u64::try_from(id).ok());
        if let Some(id) = id
            && self.outstanding.remove(id).is_some_and(|request| request.method == Method::Shutdown)
        {
            self.shutdown = Shutdown::Over;
        }
    }

    fn handle_response(&mut self, now: Instant, line: &Bytes, response: Response<'_>) {
        let Some(id) = self.matched(response.id) else { return };
        let both_ways = |answered: &str| format!("answered request {id} with {answered}");
        let answer = match (response.result, response.error) {
            (Some(_), Some(error)) => {
                let message = Refusal::read(error).map(|refusal| format!(": {}", refusal.message));
                let what = both_ways("both `result` and `error`") + &message.unwrap_or_default();
                return self.break_off(Broken::Rule, &what, None);
            }
            (None, Some(error)) => match Refusal::read(error) {
                Some(refusal) => Answer::Error(refusal),
                None => {
                    let what =
                        "wrote a broken frame: `error` must be an object with a string `code`";
                    return self.break_off(Broken::Frame, what, None);
                }
            },
            (Some(_), None) => Answer::Result { response, is_null: false },
            (None, None) if response.result_is_null && !response.error_is_null => {
                Answer::Result { response, is_null: true }
            }
            (None, None) => {
                let what = both_ways("neither `result` nor `error`");
                return self.break_off(Broken::Rule, &what, None);
            }
        };
        let Some(request) = self.outstanding.get(id).cloned() else { return };
        match &request.method {
            Method::Describe => self.handle_described(line, id, answer),
            Method::Configure => self.handle_configured(now, id, &request, answer),
            Method::Execute { .. } => self.handle_executed(line, id, &request, answer),
            Method::Shutdown => {
                self.outstanding.remove(id);
                self.shutdown = Shutdown::Over;
            }
        }
    }

    /// The id of the request that waits for this answer. What is late or comes twice is told
    /// and dropped.
    fn matched(&mut self, raw: Option<&str>) -> Option<u64> {
        let is_number = raw.is_some_and(|raw| kind(raw) == Kind::Number);
        let id = raw.filter(|_| is_number).and_then(number::integer);
        let Some((raw, id)) = raw.zip(id) else {
            let hint = match raw.map(kind) {
                None | Some(Kind::Null) => None,
                Some(Kind::Number) => Some("`id` must be a whole number"),
                Some(_) => Some("`id` must be a number"),
            };
            self.break_off(Broken::Rule, "wrote an answer without an `id`", hint);
            return None;
        };
        let Some(id) =
            u64::try_from(id).ok().filter(|id| FIRST_ID <= *id && self.outstanding.was_asked(*id))
        else {
            let shown = printable(raw.as_bytes(), LINE_SHOWN_MAX);
            let what = format!("answered id {shown}, which was never asked");
            self.break_off(Broken::Rule, &what, None);
            return None;
        };
        if self.outstanding.get(id).is_none() {
            self.warn(&format!("answered request {id} once more, or too late"));
            return None;
        }
        Some(id)
    }

    fn handle_described(&mut self, line: &Bytes, id: u64, answer: Answer<'_>) {
        // Whatever it said: it listens, so it can be told goodbye.
        self.shutdown = Shutdown::Possible;
        self.outstanding.remove(id);
        let schema = match answer {
            Answer::Error(refusal) => {
                let Refusal { code, message, detail } = refusal;
                let what = format!("answered `describe` with an error: {code}: {message}");
                let message = telling::provider(&self.settings.name, &what);
                let detail = detail.map(|detail| Json::from_trusted(detail.to_owned()));
                let failure = Failure { detail, ..Failure::new(FailureKind::Unavailable, message) };
                return self.end(Broken::Rule, failure);
            }
            Answer::Result { response: Response { schema: Some(schema), .. }, .. } => {
                Json::part_of(line, schema)
            }
            Answer::Result { .. } => {
                let what = "answered `describe` without a `schema`";
                return self.break_off(Broken::Rule, what, None);
            }
        };
        match ProviderSchema::read(&schema) {
            Ok((schema, notes)) => {
                for note in notes.iter().filter(|note| note.oddity != Oddity::Extra) {
                    self.warn(&format!("has an odd schema: {note}"));
                }
                let written = schema.write();
                let bytes = written.as_bytes().len();
                self.desk.notice(Notice::Described(written));
                let tools = schema.actions.iter().map(|(name, action)| tool(name, action));
                let tools = tools.collect();
                self.described = Some(Described { schema, tools, bytes });
                self.desk.readiness = Readiness::Open;
            }
            Err(error) => {
                let message = error.told_of(&self.settings.name);
                let hint = error.hint();
                let failure =
                    telling::failure(FailureKind::BrokeProtocol, message, hint.as_deref());
                self.end(Broken::Rule, failure);
            }
        }
    }

    fn handle_configured(&mut self, now: Instant, id: u64, request: &Request, answer: Answer<'_>) {
        self.outstanding.remove(id);
        match answer {
            Answer::Result { .. } => {
                self.configured(now);
                if let Some(ticket) = request.ticket {
                    self.desk.done(ticket, Ok(Outcome::Native(Bytes::from_static(b"{}"))));
                }
            }
            Answer::Error(refusal) => {
                self.configured = Configured::No;
                self.refuse_configured(request, &translate::failure(&refusal));
            }
        }
    }

    /// Without its config nothing can be executed: who waits for that is told.
    pub(super) fn refuse_configured(&mut self, request: &Request, failure: &Failure) {
        if let Some(ticket) = request.ticket {
            return self.desk.done(ticket, Err(failure.clone()));
        }
        for waiting in self.desk.queue.take_asking(is_execute) {
            self.desk.done(waiting.ticket, Err(failure.clone()));
        }
    }

    fn handle_executed(&mut self, line: &Bytes, id: u64, request: &Request, answer: Answer<'_>) {
        let Method::Execute { gives_outputs, .. } = request.method else { return };
        let method = &request.method;
        let outcome = match answer {
            Answer::Error(refusal) => {
                let failure = translate::failure(&refusal);
                Err(match failure.kind {
                    FailureKind::UnknownTool => telling::hinted(failure, self.actions_shown()),
                    _ => failure,
                })
            }
            Answer::Result { is_null: true, .. } if gives_outputs => {
                let what = format!("answered {method} with `null`, though it has outputs");
                return self.break_off(Broken::Rule, &what, None);
            }
            Answer::Result { response, is_null } => {
                if !is_null && response.result.map(kind) != Some(Kind::Object) {
                    let what = format!("answered {method} with a result that is no object");
                    return self.break_off(Broken::Rule, &what, None);
                }
                let none = || Json::from_trusted("{}");
                let outputs = response.outputs.map(|outputs| Json::part_of(line, outputs));
                Ok(Outcome::Value(outputs.unwrap_or_else(none)))
            }
        };
        self.outstanding.remove(id);
        if let Some(ticket) = request.ticket {
            self.desk.done(ticket, outcome);
        }
    }

    fn actions_shown(&self) -> String {
        let names: Vec<_> =
            self.schema().into_iter().flat_map(|schema| schema.actions.keys()).collect();
        let shown: Vec<_> =
            names.iter().take(ACTIONS_SHOWN_MAX).map(|name| name.as_str()).collect();
        let more = if ACTIONS_SHOWN_MAX < names.len() { ", …" } else { "" };
        format!("its schema has these actions: {}{more}", shown.join(", "))
    }

    /// A request got no answer in time. There is no way to take it back: the provider has to go.
    pub(super) fn handle_late(&mut self, id: u64) {
        let Some(request) = self.outstanding.remove(id) else { return };
        let failure = telling::late(&self.settings.name, &request.method, request.patience);
        if request.method == Method::Shutdown {
            self.shutdown = Shutdown::Over;
            return self.desk.notice(Notice::Warning(failure.message));
        }
        if request.method == Method::Configure {
            self.refuse_configured(&request, &failure);
            return self.end(Broken::Frame, failure);
        }
        if let Some(ticket) = request.ticket {
            self.desk.done(ticket, Err(failure));
        }
        let message = telling::provider(
            &self.settings.name,
            "was stopped because a call got no answer in time",
        );
        self.end(Broken::Frame, Failure::new(FailureKind::Gone, message));
    }

    /// What is told to who waits for the answer to a request when the provider is lost.
    pub(super) fn lost(&self, method: &Method, why: &Failure) -> Failure {
        let name = &self.settings.name;
        let exit = why.last_words.as_ref().and_then(|words| words.exit);
        let message = match (why.kind, exit) {
            (FailureKind::TimedOut, _) if *method == Method::Describe => {
                telling::late(name, method, Some(self.settings.describe_timeout)).message
            }
            (FailureKind::Gone | FailureKind::Unavailable, Some(exit)) => {
                telling::provider(name, &format!("{} during {method}", telling::ended(exit)))
            }
            _ => return why.clone(),
        };
        Failure { message, ..why.clone() }
    }

    /// The same for those whose calls never left us.
    pub(super) fn lost_unasked(&self, why: &Failure) -> Failure {
        let exit = why.last_words.as_ref().and_then(|words| words.exit);
        match (why.kind, exit) {
            (FailureKind::Gone, Some(exit)) => {
                let message = telling::provider(&self.settings.name, &telling::ended(exit));
                Failure { message, ..why.clone() }
            }
            _ => why.clone(),
        }
    }
}

/// Does this call need a provider that is configured?
pub(super) fn is_execute(call: &Call) -> bool {
    match &call.what {
        What::Tool { .. } => true,
        What::Native { method, .. } => method == "execute",
        What::Tools => false,
    }
}
