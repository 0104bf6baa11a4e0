//! What one request over HTTP asks for: which era, which session, which stream.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;

use super::super::entrance::{Answer, EVENT_STREAM, Verb, accepts};
use super::super::headers::Mirror;
use super::exchange::{Exchange, QUIET_FOR, Stage, event_stream, place_of};
use super::kept::read_event_id;
use super::session::{Kind, Session, Talk};
use super::{Endpoint, SESSION_HEADER, SESSIONS_MAX};
use crate::channel::StreamId;
use crate::http::RequestHead;
use crate::json::edit;
use crate::json::{Json, JsonError, Kind as JsonKind};
use crate::jsonrpc::{Id, Invalid, Why, string};
use crate::mcp::conversation::{Place, id_in_front, unsupported};
use crate::mcp::wire::{
    self, Era, HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, Meta, Revision,
};

impl Endpoint {
    pub(super) fn handle_post(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        body: &Bytes,
    ) -> Result<(), Answer> {
        let refuse = |why| {
            let id = if why == Why::NotJson(JsonError::TooDeep) { id_in_front(body) } else { None };
            let (code, message) = wire::said(&Invalid { why, id: None });
            Answer::refusal(400, &id.unwrap_or(Id::NULL), code, message)
        };
        let json = Json::parse(body.clone()).map_err(|error| refuse(Why::NotJson(error)))?;
        // Line breaks must not reach wires that are made of lines.
        let json = if has_line_breaks(json.as_bytes()) { json.compact() } else { json };
        let mirror = Mirror::read(head.headers.iter());
        let says = mirror.version().map(Revision::legacy);
        let posted = Posted::read(&json);
        if json.kind() == JsonKind::Array && says.is_none_or(|says| says.is_some()) {
            return self.handle_legacy(now, stream, head, &posted);
        }
        match json.kind() {
            JsonKind::Object => {}
            JsonKind::Array => return Err(refuse(Why::Batch)),
            _ => return Err(refuse(Why::NotAnObject)),
        }
        match says {
            Some(Some(legacy)) => {
                if let Some(version) = posted.meta().version {
                    let message = format!(
                        "MCP-Protocol-Version is `{legacy}`, the body says `{}`",
                        string(version).unwrap_or_default()
                    );
                    return Err(Answer::refusal(400, &posted.id(), HEADER_MISMATCH, message));
                }
                self.handle_legacy(now, stream, head, &posted)
            }
            None if posted.meta().era(&posted.method()) == Era::Legacy => {
                self.handle_legacy(now, stream, head, &posted)
            }
            Some(None) | None => {
                let tool = posted.params.and_then(|params| edit::text(params, "name"));
                let input = tool.and_then(|tool| self.inputs.of(&tool));
                let mirror = match self.inputs.was_listed() {
                    true => mirror.listed(input),
                    false => mirror.by_input(input),
                };
                self.handle_modern(now, stream, head, &posted, &mirror)
            }
        }
    }

    fn handle_modern(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        posted: &Posted<'_>,
        mirror: &Mirror,
    ) -> Result<(), Answer> {
        if posted.method.is_none() && posted.answers {
            let message = "no responses in 2026-07-28";
            return Err(Answer::refusal(400, &posted.id(), INVALID_REQUEST, message));
        }
        if posted.method.is_some() && posted.id.is_none() {
            return Err(Answer::empty(202));
        }
        // A legacy client of a version that we do not know, and told so: it never heard of the
        // members that it would otherwise be told to lack.
        if let Some(version) = mirror.version()
            && Revision::named(version).is_none()
            && posted.meta().version.is_none()
        {
            return Err(Answer::json(400, unsupported(version).answer(&posted.id()).take()));
        }
        let talk = self.begin_talk(now, Kind::Modern);
        self.begin_exchange(now, stream, talk, accepts(head, EVENT_STREAM), false);
        self.with(now, talk, |conversation| {
            let place = place_of(stream);
            conversation.handle_message(now, place, posted.json.as_bytes(), Some(mirror));
        });
        Ok(())
    }

    fn handle_legacy(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        posted: &Posted<'_>,
    ) -> Result<(), Answer> {
        let opens = posted.method() == "initialize" && posted.id.is_some();
        let talk = if opens {
            if !self.make_room() {
                let message = format!("more than {SESSIONS_MAX} sessions");
                return Err(Answer::refusal(503, &posted.id(), INTERNAL_ERROR, message));
            }
            self.begin_talk(now, Kind::Legacy(Session::new(now)))
        } else {
            self.session(now, head, &posted.id())?
        };
        let has_room = self.talks.get(&talk).is_some_and(|talk| talk.conversation.has_room());
        if !has_room {
            let message = "too many requests of this session wait for their answers";
            return Err(Answer::refusal(503, &posted.id(), INTERNAL_ERROR, message));
        }
        // Answers of a batch come together, as plain JSON.
        let takes_stream = posted.json.kind() != JsonKind::Array && accepts(head, EVENT_STREAM);
        self.begin_exchange(now, stream, talk, takes_stream, opens);
        let mut is_owed = false;
        self.with(now, talk, |conversation| {
            let body = posted.json.as_bytes();
            is_owed = conversation.handle_message(now, place_of(stream), body, None);
        });
        if !is_owed {
            self.exchanges.remove(&stream);
            self.answer(stream, Answer::empty(202));
        }
        Ok(())
    }

    /// The session that a request belongs to.
    fn session(&mut self, now: Instant, head: &RequestHead, id: &Id) -> Result<u64, Answer> {
        let refuse = |status, message| Answer::refusal(status, id, INVALID_REQUEST, message);
        let name = head.header(SESSION_HEADER);
        let name = name.ok_or_else(|| refuse(400, "Mcp-Session-Id is missing"))?;
        let talk = self.by_name.get(name).copied();
        let talk = talk.ok_or_else(|| refuse(404, "there is no such session"))?;
        if let Some(Talk { kind: Kind::Legacy(session), .. }) = self.talks.get_mut(&talk) {
            session.used = now;
        }
        Ok(talk)
    }

    /// `GET` opens or resumes a stream, `DELETE` ends a session; both are legacy.
    pub(super) fn handle_other(
        &mut self,
        now: Instant,
        stream: StreamId,
        head: &RequestHead,
        verb: Verb,
    ) -> Result<(), Answer> {
        let talk = self.session(now, head, &Id::NULL)?;
        if verb == Verb::Delete {
            self.end_talk(talk);
            return Err(Answer::empty(204));
        }
        let Some(Talk { conversation, kind: Kind::Legacy(session) }) = self.talks.get_mut(&talk)
        else {
            return Ok(());
        };
        let refuse = |status, message| Answer::refusal(status, &Id::NULL, INVALID_REQUEST, message);
        let mut left = None;
        let (number, events, ends) = if let Some(seen) = head.header("Last-Event-ID") {
            let unknown = || refuse(404, "there is no such event");
            let (number, seen) = read_event_id(seen).ok_or_else(unknown)?;
            let kept = session.stream(number).ok_or_else(unknown)?;
            let missed = kept.since(seen).ok_or_else(unknown)?;
            left = kept.reader;
            if !kept.has_ended {
                kept.resume(stream);
            }
            (number, missed, kept.has_ended)
        } else {
            if session.is_heard() {
                return Err(refuse(409, "this session has a stream already"));
            }
            let (number, first) = session.open(Place::SESSION, stream, conversation.revision());
            (number, vec![first], false)
        };
        if let Some(left) = left.filter(|left| *left != stream) {
            // Who resumes has given up the old connection.
            self.exchanges.remove(&left);
            self.finish(left);
        }
        self.begin(stream, event_stream());
        events.iter().for_each(|event| self.put(stream, event));
        if ends {
            self.finish(stream);
            return Ok(());
        }
        let comment_at = now + QUIET_FOR;
        let stage = Stage::Streaming { stream: Some(number), comment_at };
        let exchange = Exchange { talk, takes_stream: true, is_owed: false, opens: false, stage };
        self.exchanges.insert(stream, exchange);
        self.wake(comment_at);
        Ok(())
    }
}

pub(super) fn has_line_breaks(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_some()
}

/// A message that was posted, and what must be known of it before it is read: each
/// member raw.
struct Posted<'a> {
    json: &'a Json,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    answers: bool,
}

impl<'a> Posted<'a> {
    /// Of a batch nothing is known.
    fn read(json: &'a Json) -> Posted<'a> {
        let names = ["id", "method", "params", "result", "error"];
        let [id, method, params, result, error] = edit::pick(json.as_str(), names);
        Posted { json, id, method, params, answers: result.or(error).is_some() }
    }

    /// The id that a refusal carries.
    fn id(&self) -> Id {
        let id = self.id.and_then(|raw| Id::part_of(self.json.as_bytes(), raw));
        id.unwrap_or(Id::NULL)
    }

    fn method(&self) -> Cow<'a, str> {
        self.method.and_then(string).unwrap_or_default()
    }

    fn meta(&self) -> Meta<'a> {
        Meta::read(self.params)
    }
}
