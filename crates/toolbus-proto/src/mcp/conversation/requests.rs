//! What one message asks for, and whether it may be asked now (`docs/protocols/mcp.md` 2.1, 2.2).

use std::time::Instant;

use bytes::Bytes;

use super::session::Session;
use super::{Behind, Conversation, Origin, Waiting, modern};
use crate::channel::{Asked, Up};
use crate::json::edit;
use crate::json::{Json, JsonError, Kind};
use crate::jsonrpc::{Id, Invalid, Members, Message, Why, kind};
use crate::mcp::http::Mirror;
use crate::mcp::wire::{
    self, Era, INVALID_PARAMS, INVALID_REQUEST, Level, Meta, RULES, Refusal, Revision,
    UNKNOWN_METHOD,
};

/// A line that was looked through once, and what was found in it for those who have to know
/// before the message is handled, and who handle it.
#[derive(Debug)]
pub(in crate::mcp) struct Read<'a> {
    pub(in crate::mcp) line: &'a Bytes,
    pub(in crate::mcp) members: Members<'a>,
    pub(in crate::mcp) meta: Meta<'a>,
    /// The tool or prompt it names, raw.
    pub(in crate::mcp) name: Option<&'a str>,
    /// What that is to be called with, raw.
    pub(super) arguments: Option<&'a str>,
    /// It is known to have no line breaks.
    is_one_line: bool,
}

impl<'a> Read<'a> {
    /// Reads a line of a pipe, which may have carriage returns.
    pub(super) fn of(line: &'a Bytes) -> Result<Read<'a>, Why> {
        let (members, [meta, name, arguments]) =
            Members::read(line, ["_meta", "name", "arguments"])?;
        let (meta, is_one_line) = (Meta::of(meta), false);
        Ok(Read { line, members, meta, name, arguments, is_one_line })
    }

    /// Reads what has no line breaks.
    pub(in crate::mcp) fn of_one_line(line: &'a Bytes) -> Result<Read<'a>, Why> {
        Ok(Read { is_one_line: true, ..Read::of(line)? })
    }

    pub(in crate::mcp) fn message(&self) -> Result<Message<'a>, Invalid> {
        RULES.message(self.line, &self.members)
    }

    /// A part of it, as it may stand in a line.
    pub(super) fn in_a_line(&self, part: &str) -> Bytes {
        match self.is_one_line {
            true => self.line.slice_ref(part.as_bytes()),
            false => wire::in_a_line(self.line, part),
        }
    }
}

/// One request, borrowing from its line.
pub(super) struct Request<'a> {
    pub(super) origin: Origin,
    pub(super) id: Id,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a str>,
    pub(super) read: &'a Read<'a>,
}

impl Request<'_> {
    /// The name by which its caller hears of its progress, raw.
    pub(super) fn token(&self) -> Option<Bytes> {
        let token = self.read.meta.progress_token;
        token.map(|raw| self.read.line.slice_ref(raw.as_bytes()))
    }

    /// From which level on its caller hears log messages, if it says so itself.
    pub(super) fn level(&self) -> Option<Level> {
        self.read.meta.log_level.and_then(|raw| Level::read("", Some(raw)).ok())
    }
}

impl Conversation {
    /// Takes one message; tells whether an answer will follow.
    pub(super) fn handle_one(&mut self, now: Instant, origin: Origin, line: &Bytes) -> bool {
        match Read::of(line) {
            Ok(read) => self.handle(now, origin, &read, None),
            Err(why) => {
                self.batches.owe(origin.batch);
                self.refuse_invalid(origin, line, Invalid { why, id: None });
                true
            }
        }
    }

    pub(super) fn handle(
        &mut self,
        now: Instant,
        origin: Origin,
        read: &Read<'_>,
        mirror: Option<&Mirror>,
    ) -> bool {
        let line = read.line;
        match read.message() {
            Ok(Message::Request { id, method, params }) => {
                self.batches.owe(origin.batch);
                let request = Request { origin, id, method: &method, params, read };
                if self.is_in_flight(&request.id) {
                    let message = format!("id {} is already in flight", request.id.to_json());
                    self.refuse(origin, &request.id, &Refusal::new(INVALID_REQUEST, message));
                } else {
                    self.handle_request(now, &request, mirror);
                }
                true
            }
            Ok(Message::Notification { method, params }) => {
                self.handle_notification(now, read, &method, params);
                false
            }
            Ok(Message::Response { id, result: None, error: None }) => {
                self.batches.owe(origin.batch);
                let invalid = Invalid { why: Why::Neither, id: Some(id) };
                self.refuse_invalid(origin, line, invalid);
                true
            }
            Ok(Message::Response { id, result, error }) => {
                self.handle_answer(&id, result, error);
                false
            }
            // A notification, though a malformed one: it cannot be answered.
            Err(Invalid { why: Why::Params, id: None }) => {
                self.ignore("a notification whose params are no object");
                false
            }
            Err(invalid) => {
                self.batches.owe(origin.batch);
                self.refuse_invalid(origin, line, invalid);
                true
            }
        }
    }

    fn refuse_invalid(&mut self, origin: Origin, line: &Bytes, invalid: Invalid) {
        let (code, message) = wire::said(&invalid);
        let id = match invalid.why {
            Why::NotJson(JsonError::TooDeep) => id_in_front(line),
            _ => invalid.id,
        };
        self.refuse(origin, &id.unwrap_or(Id::NULL), &Refusal::new(code, message));
    }

    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        mirror: Option<&Mirror>,
    ) {
        // A request that came with its headers is modern whatever else it says.
        let era = mirror.map_or(request.read.meta.era(request.method), |_| Era::Modern);
        let handled = match era {
            Era::Modern => self.handle_modern(now, request, mirror),
            Era::Legacy => self.handle_legacy(now, request),
        };
        if let Err(refusal) = handled {
            self.refuse(request.origin, &request.id, &refusal);
        }
    }

    fn handle_legacy(&mut self, now: Instant, request: &Request<'_>) -> Result<(), Refusal> {
        match request.method {
            "ping" => {
                let pong = wire::result(&request.id, &Bytes::from_static(b"{}"));
                self.answer(request.origin, pong);
                return Ok(());
            }
            "initialize" => return self.initialize(now, request),
            _ => {}
        }
        if self.opening.is_some() {
            let (origin, id, line) =
                (request.origin, request.id.clone(), request.read.line.clone());
            self.waiting.push_back(Waiting { origin, id, line });
            return Ok(());
        }
        let Some(session) = &self.session else {
            let key = wire::VERSION_KEY;
            let message = format!("not initialized: send initialize, or put {key} into _meta");
            return Err(Refusal::new(INVALID_REQUEST, message));
        };
        let revision = session.revision;
        self.serve(now, request, revision)
    }

    fn handle_modern(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        mirror: Option<&Mirror>,
    ) -> Result<(), Refusal> {
        let is_known = match self.settings.behind {
            Behind::Hub => modern::is_of_tools(request.method),
            Behind::Several | Behind::Server => !modern::is_gone(request.method),
        };
        modern::check(request, is_known, mirror, self.tools.as_deref())?;
        if let Some(mirror) = mirror.filter(|mirror| self.must_list(request, mirror)) {
            self.list_first(now, request, mirror);
            return Ok(());
        }
        match (request.method, self.settings.behind) {
            ("server/discover", _) => {
                self.discover(now, request);
                Ok(())
            }
            ("subscriptions/listen", Behind::Hub) => self.listen(request),
            _ => self.serve(now, request, Revision::MODERN),
        }
    }

    fn serve(
        &mut self,
        now: Instant,
        request: &Request<'_>,
        revision: Revision,
    ) -> Result<(), Refusal> {
        match (self.settings.behind, request.method) {
            // With an id it is no notification, and no request either.
            (_, method) if method.starts_with("notifications/") => Err(unknown_method(method)),
            (Behind::Hub | Behind::Several, "tools/list") => {
                self.list_tools(now, request, revision)
            }
            (Behind::Hub | Behind::Several, "tools/call") => self.call_tool(now, request, revision),
            (Behind::Hub, method) => Err(unknown_method(method)),
            (_, "logging/setLevel") => {
                let raw = request.params.and_then(|params| edit::member(params, "level"));
                match Level::read("level", raw) {
                    Ok(level) => self.set_level(level),
                    // Where there is no log, that is what is wrong, and who is behind says so.
                    Err(message) if self.has_log() => {
                        return Err(Refusal::new(INVALID_PARAMS, message));
                    }
                    Err(_) => {}
                }
                self.pass(now, request, revision);
                Ok(())
            }
            _ => {
                self.pass(now, request, revision);
                Ok(())
            }
        }
    }

    /// Looks at the requests that came behind `initialize`.
    pub(super) fn release(&mut self, now: Instant) {
        for Waiting { origin, line, .. } in std::mem::take(&mut self.waiting) {
            let Ok(read) = Read::of(&line) else { continue };
            if let Ok(Message::Request { id, method, params }) = read.message() {
                let request = Request { origin, id, method: &method, params, read: &read };
                self.handle_request(now, &request, None);
            }
        }
    }

    fn handle_notification(
        &mut self,
        now: Instant,
        read: &Read<'_>,
        method: &str,
        params: Option<&str>,
    ) {
        match (method, params, self.settings.behind) {
            // A server of the other era is listened to from now on.
            ("notifications/initialized", _, Behind::Server)
                if self.session.as_ref().is_some_and(Session::is_crossed) =>
            {
                self.pass_notification(now, read, method, params);
            }
            ("notifications/initialized", ..) => {}
            ("notifications/cancelled", Some(params), _) => {
                self.handle_cancelled(read.line, params);
            }
            (
                "notifications/roots/list_changed" | "notifications/progress",
                _,
                Behind::Several | Behind::Server,
            ) if self.session.is_some() => {
                self.pass_notification(now, read, method, params);
            }
            _ => self.ignore(format!("notification {method}")),
        }
    }

    fn handle_cancelled(&mut self, line: &Bytes, params: &str) {
        let id = edit::member(params, "requestId").and_then(|raw| Id::part_of(line, raw));
        let Some(id) = id else { return self.ignore("a cancellation that names no request") };
        self.listens.retain(|listen| listen.id != id);
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
            if let Some(waiting) = self.waiting.remove(at) {
                self.leave_unanswered(waiting.origin);
            }
            return;
        }
        let Some(ticket) = self.calls.named(&id) else { return };
        // An initialize is never cancelled: requests may wait for it.
        if self.opening.as_ref().is_some_and(|opening| opening.ticket == ticket) {
            return;
        }
        if let Some(call) = self.forget(ticket) {
            let reason = edit::member(params, "reason").map(|raw| Json::part_of(line, raw));
            self.ups.push_back((ticket, Asked::Up(Up::Cancel(reason))));
            self.leave_unanswered(call.origin);
        }
    }

    /// The client answers one of our questions, or nothing we know of.
    fn handle_answer(&mut self, id: &Id, result: Option<&str>, error: Option<&str>) {
        let asked = id.as_number().and_then(|id| self.questions.remove(&id));
        let Some((ticket, ask)) = asked else {
            return self.ignore(format!("response {}", id.to_json()));
        };
        let error = error.filter(|raw| kind(raw) != Kind::Null);
        let (member, value) = match (result, error) {
            (_, Some(error)) => ("error", error),
            (result, None) => ("result", result.unwrap_or("{}")),
        };
        let answer = Json::from_trusted(format!("{{\"{member}\":{value}}}"));
        self.ups.push_back((ticket, Asked::Up(Up::Answer(ask, answer))));
    }
}

pub(super) fn unknown_method(method: &str) -> Refusal {
    Refusal::new(UNKNOWN_METHOD, format!("method not found: {method}"))
}

/// The id of a message that is too deep to be read whole, if it stands before the depths.
pub(in crate::mcp) fn id_in_front(line: &Bytes) -> Option<Id> {
    let text = str::from_utf8(line).ok()?;
    edit::member(text, "id").and_then(|raw| Id::part_of(line, raw))
}
